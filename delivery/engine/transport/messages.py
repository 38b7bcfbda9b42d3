"""The plain data of a transfer: what goes out (`Request`), under which bounds (`TransferConfig`), what came back.

No libcurl and no database here. Requests hold secrets and results hold response heads: both are stored, never logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from delivery.policy.outcomes import Failure
from kernel.network.openings import OPERATORS, Openings


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """PEM, for receivers that ask for one (mutual TLS). Certificate and key may be one and the same text."""

    certificate: bytes
    key: bytes = field(repr=False)
    key_password: str = field(default="", repr=False)


@dataclass(slots=True)
class Request:
    """One request, ready to go. `headers` are whole lines, "name: value"; `key` is handed back untouched.

    `ca_certificates` (PEM) are trusted instead of the configured bundle, for this request only. `subscriber` is whose
    endpoint it is for: not everybody may be sent to every private network.
    """

    url: str = field(repr=False)
    headers: list[str] = field(default_factory=list, repr=False)
    body: bytes = field(default=b"", repr=False)
    method: str = "POST"
    timeout_ms: int = 15_000
    key: Any = None
    client_certificate: ClientCertificate | None = field(default=None, repr=False)
    ca_certificates: bytes = field(default=b"", repr=False)
    subscriber: str = OPERATORS


@dataclass(frozen=True, slots=True)
class TransferConfig:
    """`head_bytes` of a body are kept, and after `read_bytes` (both after decompression) the connection is cut.

    `max_waiting` more may be in the air that have waited for a second or more (see `engine.shares`).
    `ca_file` replaces certifi's bundle. `proxy_url` sends everything through CONNECT; the proxy is then given the
    address that the guard has passed, or the name where `proxy_by_name` (the proxy then resolves it by itself).
    """

    max_in_flight: int = 200
    max_waiting: int = 0
    allowed_networks: Openings = ()
    head_bytes: int = 16 * 1024
    read_bytes: int = 64 * 1024
    max_idle_connections: int = 512
    ca_file: str = ""
    proxy_url: str = field(default="", repr=False)
    proxy_by_name: bool = False


@dataclass(slots=True)
class TransferResult:
    """One ended transfer. `failure` is None where the answer came through its last byte or up to our own cap.

    `status` may be set beside a failure (the answer broke off after its first line). `head` is the first part of the
    body after decompression; `truncated` says that there was more. `address` is the one really dialled (the one that an
    egress proxy was given), or the one that was refused, with `rule` naming the guard's rule. `request_sent`: the
    receiver may have it. `flaw` is what was
    wrong with the wrapping of an answer whose status came; not `is_whole` where that ended its body early. Times are
    milliseconds; connect and TLS are 0 on a reused connection; `first_byte_ms` runs from the sent request to the
    answer's first byte, `total_ms` from `add` on.
    """

    request: Request
    status: int = 0
    failure: Failure | None = None
    detail: str = ""
    rule: str = ""
    address: str = ""
    raw_headers: list[bytes] = field(default_factory=list)
    head: bytes = b""
    truncated: bool = False
    reused: bool = False
    request_sent: bool = False
    dns_ms: float = 0.0
    connect_ms: float = 0.0
    tls_ms: float = 0.0
    first_byte_ms: float = 0.0
    total_ms: float = 0.0
    flaw: str = ""
    is_whole: bool = True

    def header(self, name: str) -> str:
        """The last value of a response header of the final answer, or "". `name` in lower case."""
        wanted = name.encode() + b":"
        for line in reversed(self.raw_headers):
            if line[: len(wanted)].lower() == wanted:
                return line[len(wanted) :].strip().decode("latin-1")
            if line.startswith(b"HTTP/"):
                break
        return ""
