"""Run by bin/up in the venv before the processes start: migrate, then make the demo operator, key and endpoints.

Both are harmless to repeat. The demo is made only where the settings say `demo`.
"""

import os
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent.parent)


def main() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", interactive=False, verbosity=0)
    if os.environ.get("ROUNDTRIP_ENV") == "demo":
        call_command("bootstrap_demo")


if __name__ == "__main__":
    main()
