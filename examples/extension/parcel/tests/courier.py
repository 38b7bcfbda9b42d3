"""A small server that answers as the provider does: no adapter is tested against a mock of itself."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

KEY = "key-of-the-tests"


class Courier(ThreadingHTTPServer):
    """Every job is done as soon as it is asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.jobs: dict[str, str] = {}  # id → reference
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Courier

    def log_message(self, *_args) -> None:
        pass

    def do_GET(self) -> None:
        if self._may_come_in():
            self._tell()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if not self._may_come_in():
            return
        if self.path == "/jobs":
            self._begin(json.loads(body))
        else:
            self._tell()

    def _may_come_in(self) -> bool:
        is_known = self.headers["authorization"] == f"Bearer {KEY}"
        if not is_known:
            self._answer(401, {})
        return is_known

    def _begin(self, asked) -> None:
        if "grams" not in asked["input"]:
            return self._answer(422, {})
        job_id = f"job {len(self.server.jobs)}"
        self.server.jobs[job_id] = asked["reference"]
        self._answer(200, {"id": job_id, "status": "waiting"})

    def _tell(self) -> None:
        parts = urlsplit(self.path)
        reference = parse_qs(parts.query).get("reference")
        words = [unquote(word) for word in parts.path.split("/")[2:]]
        known = {job_id for job_id, one in self.server.jobs.items() if reference == [one] or words[:1] == [job_id]}
        for job_id in known:
            done = {"cents": 1290} if words[1:] == ["result"] else {"id": job_id, "status": "done"}
            return self._answer(200, done)
        self._answer(404, {})

    def _answer(self, status: int, content) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
