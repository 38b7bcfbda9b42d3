"""A job provider as a process of its own: it knows every job, and says of each fiftieth that it is done.

It speaks the sandbox's listing and its single jobs, keeps connections alive, and counts its calls at `/_calls`.
"""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

DRIFTED_EACH = 50  # 2 %
_counts = {"calls": 0}
_lock = Lock()


def job(job_id: str) -> dict[str, str]:
    """Ids end in their number."""
    is_done = int(job_id.rpartition("-")[2]) % DRIFTED_EACH == 0
    return {"job_id": job_id, "status": "completed" if is_done else "processing"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        if address.path == "/_calls":
            return self._say(dict(_counts))
        with _lock:
            _counts["calls"] += 1
        if address.path == "/v1/jobs":
            ids = parse_qs(address.query).get("ids", [""])[0].split(",")
            return self._say({"jobs": [job(one) for one in ids if one]})
        return self._say(job(address.path.rpartition("/")[2]))

    def _say(self, said: Any) -> None:
        body = json.dumps(said).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
