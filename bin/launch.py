"""The door from the shell scripts into `roundtrip_up`. Standard library only: it runs before the venv stands."""

import sys

from roundtrip_up.commands import main

sys.exit(main(sys.argv[1:]))
