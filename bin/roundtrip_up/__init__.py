"""What bin/up, bin/test and bin/bench do once a Python is found: venv, servers, supervision.

Standard library only, because it runs before the venv stands; it never imports the product. `bench` and the tests
import it.
"""
