"""What a person does with accounts at job providers: verbs, the rules that judge what is given, and the check.

Admin, API and command call these; each verb is one transaction, guarded, on record, and asked twice it changes nothing
the second time.
"""

from tasks.accounting.asking import ask, check
from tasks.accounting.credentials import end_previous_secret, rotate_key, rotate_secret
from tasks.accounting.verbs import create, find, pause, resume, retire, update

__all__ = [
    "ask",
    "check",
    "create",
    "end_previous_secret",
    "find",
    "pause",
    "resume",
    "retire",
    "rotate_key",
    "rotate_secret",
    "update",
]
