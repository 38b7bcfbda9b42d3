"""The package `django-webhook` (PyPI), as it comes: a small site of its own, in a venv of its own, never in ours."""
