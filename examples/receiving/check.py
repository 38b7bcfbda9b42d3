"""Sends a receiver what it must take and what it must refuse, and tells what it answered.

    WEBHOOK_SECRET=whsec_… python3 check.py http://127.0.0.1:9000/

Nothing but Python's standard library (3.9 or later). The exit status is 0 if every answer is right. Whether it
acted once on the event that came twice, its own log or database must say.
"""

import base64
import hashlib
import hmac
import os
import secrets
import sys
import time
import urllib.error
import urllib.request

KEYS = [one for one in os.environ.get("WEBHOOK_SECRET", "").split() if one.startswith("whsec_")]
SECRET = base64.b64decode(KEYS[-1].removeprefix("whsec_")) if KEYS else b""
BODY = b'{"type":"endpoint.test","timestamp":"2026-01-01T00:00:00Z","data":{"message":"A check."}}'


def signature(key: bytes, webhook_id: str, moment: int, body: bytes) -> str:
    signed = f"{webhook_id}.{moment}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def send(url: str, webhook_id: str, moment: int, signatures: str, body: bytes) -> int:
    """The status of its answer; 0 if there was none."""
    names = {"webhook-id": webhook_id, "webhook-timestamp": str(moment), "webhook-signature": signatures}
    headers = {name: value for name, value in names.items() if value}
    request = urllib.request.Request(url, body, {"content-type": "application/json", **headers})
    try:
        return urllib.request.urlopen(request, timeout=15).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        print(f"No answer from {url} ({error}). Start the receiver, or correct the address.")
        return 0


def cases() -> "list[tuple[str, bool, str, int, str, bytes]]":
    """What it is, whether it must be taken, and what is sent: id, time, signatures, body."""
    now, one, two = int(time.time()), f"check_{secrets.token_hex(8)}", f"check_{secrets.token_hex(8)}"
    right, other = signature(SECRET, one, now, BODY), signature(b"another", two, now, BODY)
    either = f"{signature(b'another', one, now, BODY)} {right}"
    old, ahead = now - 600, now + 600
    return [
        ("signed with its secret", True, one, now, right, BODY),
        ("the same once more", True, one, now, right, BODY),
        ("two signatures, the second is right", True, one, now, either, BODY),
        ("a changed byte", False, two, now, signature(SECRET, two, now, BODY), BODY.replace(b"check", b"chock")),
        ("another id than was signed", False, two, now, right, BODY),
        ("signed with another secret", False, two, now, other, BODY),
        ("no signature", False, two, now, "", BODY),
        ("ten minutes old", False, two, old, signature(SECRET, two, old, BODY), BODY),
        ("ten minutes ahead", False, two, ahead, signature(SECRET, two, ahead, BODY), BODY),
    ]


def main() -> int:
    if len(sys.argv) != 2 or not SECRET:
        print(
            "Give the receiver's address, such as http://127.0.0.1:9000/, and its secret (whsec_…) in WEBHOOK_SECRET."
        )
        return 2
    wrong = 0
    for what, must_take, webhook_id, moment, signatures, body in cases():
        status = send(sys.argv[1], webhook_id, moment, signatures, body)
        if not status:
            return 2
        is_right = 200 <= status < 300 if must_take else 400 <= status < 500
        wrong += not is_right
        expected = "" if is_right else f", and must be {'2xx' if must_take else '4xx'}"
        print(f"{'ok   ' if is_right else 'WRONG'} {what}: {status}{expected}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
