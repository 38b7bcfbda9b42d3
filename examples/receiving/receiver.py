"""A receiver of Roundtrip's events, with nothing but Python's standard library (3.9 or later).

    WEBHOOK_SECRET=whsec_… python3 receiver.py            # listens on 127.0.0.1:9000

While a secret is being rotated, give both, with a space between. What came is remembered in `received.sqlite3`.
"""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRETS = [base64.b64decode(one.removeprefix("whsec_")) for one in os.environ["WEBHOOK_SECRET"].split()]
PORT = int(os.environ.get("PORT", "9000"))
DATABASE = os.environ.get("DATABASE", "received.sqlite3")
TOLERANCE_SECONDS = 300
MAX_BYTES = 32 * 1024 * 1024


def is_genuine(headers, body: bytes) -> bool:
    """Whether one of our secrets signed exactly these bytes, at most five minutes ago."""
    sent_at = headers.get("webhook-timestamp", "")
    if not (sent_at.isascii() and sent_at.isdigit()) or abs(time.time() - int(sent_at)) > TOLERANCE_SECONDS:
        return False
    signed = f"{headers.get('webhook-id', '')}.{sent_at}.".encode() + body  # the raw body, not parsed and written again
    ours = ["v1," + base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode() for secret in SECRETS]
    theirs = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(one.encode(), other.encode()) for one in ours for other in theirs)


def handle(event: dict) -> None:
    """What you do with an event. If this raises, the answer is 500, and the event comes again later."""
    print("handled", event["type"], json.dumps(event["data"]), flush=True)


def receive(webhook_id: str, body: bytes) -> None:
    """Handle each id once: the id and what you write for it belong in one transaction."""
    with sqlite3.connect(DATABASE) as database:
        database.execute("CREATE TABLE IF NOT EXISTS received (id TEXT PRIMARY KEY)")
        fresh = database.execute("INSERT OR IGNORE INTO received VALUES (?)", [webhook_id]).rowcount
        if fresh:
            handle(json.loads(body))


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        if length > MAX_BYTES:
            self.answer(413)
            return
        body = self.rfile.read(length)
        if not is_genuine(self.headers, body):
            self.answer(401)
            return
        try:
            receive(self.headers["webhook-id"], body)
        except Exception as error:
            print("failed", repr(error), flush=True)
            self.answer(500)
        else:
            self.answer(204)  # also for what we had already

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
