"""The same with the library `standardwebhooks` (`pip install standardwebhooks`), which verifies `v1`.

WEBHOOK_SECRET=whsec_… python3 receiver_standardwebhooks.py
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

VERIFIERS = [Webhook(secret) for secret in os.environ["WEBHOOK_SECRET"].split()]
PORT = int(os.environ.get("PORT", "9000"))
MAX_BYTES = 32 * 1024 * 1024
seen: set[str] = set()  # yours belongs in a database, in one transaction with what you write


def is_genuine(headers, body: bytes) -> bool:
    for verifier in VERIFIERS:
        try:
            verifier.verify(body, dict(headers))
        except (WebhookVerificationError, ValueError):  # ValueError: a signature that is no base64, or no text
            continue
        return True
    return False


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length) if length <= MAX_BYTES else b""
        if not is_genuine(self.headers, body):
            self.answer(401)
            return
        webhook_id = self.headers["webhook-id"]
        if webhook_id not in seen:
            event = json.loads(body)
            print("handled", event["type"], json.dumps(event["data"]), flush=True)
            seen.add(webhook_id)
        self.answer(204)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Receiver)
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
