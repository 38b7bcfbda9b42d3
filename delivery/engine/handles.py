"""One reusable libcurl handle with its small state.

Options that never change are set once; a transfer sets only what differs. A handle is never closed while the multi
handle lives, because open connections call back into the handle that opened them.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

import certifi
import pycurl

from delivery.engine.messages import ClientCertificate, Request, TransferConfig, TransferResult
from delivery.engine.results import failure_of, own_fault_kind, proxy_is_at_fault
from delivery.policy.outcomes import Failure
from delivery.policy.own_faults import Kind
from kernel.addresses import Target, judge

MAX_HEADER_BYTES = 64 * 1024
# No "Expect: 100-continue" before large bodies: it costs a round trip, and hostile receivers play with it.
_FIXED_HEADERS = ["Expect:"]


class Handle:
    """A libcurl handle and what the transfer it carries has brought so far."""

    def __init__(self, config: TransferConfig) -> None:
        self.config = config
        self.curl = pycurl.Curl()
        self.request: Request | None = None
        self.configure()
        self._begin()

    def configure(self) -> None:
        """All options from nothing. Also brings a handle back that carried a client certificate."""
        curl, config = self.curl, self.config
        curl.reset()
        self._timeout_ms = -1
        self._method = ""
        self._is_special = False
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.HTTP09_ALLOWED, 0)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.USERAGENT, "")  # pycurl would name itself; ours is among the headers
        # Asks for no compression, and makes libcurl unpack what a receiver packs regardless, so the caps count.
        curl.setopt(pycurl.ENCODING, "identity")
        curl.setopt(pycurl.SSL_VERIFYPEER, 1)
        curl.setopt(pycurl.SSL_VERIFYHOST, 2)
        curl.setopt(pycurl.CAINFO, config.ca_file or certifi.where())
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_open)
        curl.setopt(pycurl.PROXY, config.proxy_url)  # "" also shuts out http_proxy and friends
        curl.setopt(pycurl.NOPROXY, "")
        if config.proxy_url:
            curl.setopt(pycurl.HTTPPROXYTUNNEL, 1)
            curl.setopt(pycurl.PROXY_CAINFO, certifi.where())

    def _begin(self) -> None:
        self.headers: list[bytes] = []
        self._header_bytes = 0
        self._head: bytes | bytearray = b""
        self._body_bytes = 0
        self.truncated = False
        self.own_fault = False
        self.rule = ""
        self.detail = ""
        self._dialled = ""
        self._waited = 0.0

    def prepare(
        self, request: Request, target: Target, waited: float, pin: list[str] | None, addresses: tuple[str, ...]
    ) -> None:
        """Set the handle up for this request. Raises ValueError or pycurl.error where it cannot be sent."""
        curl = self.curl
        self.request = request
        self._waited = waited
        curl.setopt(pycurl.URL, target.url)
        if request.method != "GET":
            curl.setopt(pycurl.POSTFIELDS, request.body)
        if request.method != self._method:
            self._switch_method(request.method)
        curl.setopt(pycurl.HTTPHEADER, checked_lines(request.headers) + _FIXED_HEADERS)
        timeout_ms = max(1, request.timeout_ms - int(waited * 1000))
        if timeout_ms != self._timeout_ms:
            curl.setopt(pycurl.TIMEOUT_MS, timeout_ms)
            curl.setopt(pycurl.CONNECTTIMEOUT_MS, timeout_ms)
            self._timeout_ms = timeout_ms
        if pin is not None:
            curl.setopt(pycurl.RESOLVE, pin)
        if self.config.proxy_url and not self.config.proxy_by_name and addresses:
            self._connect_to(target, addresses[0])
        if request.client_certificate is not None:
            self._use(request.client_certificate)
        if request.ca_certificates:
            self._is_special = True
            curl.setopt(pycurl.CAINFO_BLOB, request.ca_certificates)

    def _switch_method(self, method: str) -> None:
        if method == "GET":
            self.curl.setopt(pycurl.HTTPGET, 1)
        elif method not in ("POST", "PUT"):
            raise ValueError(f"the method {method!r} is not supported, use POST, PUT or GET")
        if method == "PUT":
            self.curl.setopt(pycurl.CUSTOMREQUEST, "PUT")
        elif self._method == "PUT":
            self.curl.unsetopt(pycurl.CUSTOMREQUEST)
        self._method = method

    def _connect_to(self, target: Target, address: str) -> None:
        shown = f"[{address}]" if ":" in address else address
        self.curl.setopt(pycurl.CONNECT_TO, [f"{target.host}:{target.port}:{shown}:{target.port}"])

    def _use(self, certificate: ClientCertificate) -> None:
        self._is_special = True
        self.curl.setopt(pycurl.SSLCERTTYPE, "PEM")
        self.curl.setopt(pycurl.SSLKEYTYPE, "PEM")
        self.curl.setopt(pycurl.SSLCERT_BLOB, certificate.certificate)
        self.curl.setopt(pycurl.SSLKEY_BLOB, certificate.key)
        if certificate.key_password:
            self.curl.setopt(pycurl.KEYPASSWD, certificate.key_password)

    def ended(self, number: int, message: str) -> TransferResult:
        """The result after libcurl reported this error number (0: none)."""
        if number == 0:
            return self.result(None, "")
        info = self.curl.getinfo
        failure = failure_of(number, cut_by_us=self.truncated, refused=bool(self.rule), own_fault=self.own_fault)
        if failure is not None and self.config.proxy_url:
            code, connected = info(pycurl.HTTP_CONNECTCODE), info(pycurl.CONNECT_TIME_T) > 0
            if proxy_is_at_fault(number, code, connected):
                self.rule = Kind.PROXY
                return self.result(Failure.OWN_FAULT, f"Our egress proxy: {message}")
        if failure is Failure.OWN_FAULT and self.request is not None:
            self.rule = own_fault_kind(
                number,
                socket_failed=self.own_fault,
                own_ca=bool(self.request.ca_certificates),
                own_certificate=self.request.client_certificate is not None,
            )
        return self.result(failure, self.detail or message)

    def result(self, failure: Failure | None, detail: str) -> TransferResult:
        """What stands in the handle now, as a result; with a failure also what is known of the broken rest."""
        assert self.request is not None
        info = self.curl.getinfo
        dns_ms = self._waited * 1000
        before = info(pycurl.PRETRANSFER_TIME_T)
        reused = info(pycurl.NUM_CONNECTS) == 0 and before > 0
        connect = 0 if reused else info(pycurl.CONNECT_TIME_T)
        tls = 0 if reused else info(pycurl.APPCONNECT_TIME_T)
        first = info(pycurl.STARTTRANSFER_TIME_T)
        # Positional, in the order of the fields: this runs once per transfer, and keywords are a tenth of it.
        return TransferResult(
            self.request,
            info(pycurl.RESPONSE_CODE),
            failure,
            detail,
            self.rule,
            self._dialled or info(pycurl.PRIMARY_IP),
            self.headers,
            bytes(self._head),
            self.truncated,
            reused,
            failure is None or info(pycurl.REQUEST_SIZE) > 0,
            dns_ms,
            max(0, connect - info(pycurl.NAMELOOKUP_TIME_T)) / 1000 if connect else 0.0,
            max(0, tls - connect) / 1000 if tls else 0.0,
            max(0, first - before) / 1000 if first else 0.0,
            dns_ms + info(pycurl.TOTAL_TIME_T) / 1000,
        )

    def release(self) -> bool:
        """Forget the transfer. False where the handle must be configured anew before the next one."""
        self.request = None
        self._begin()
        return not self._is_special

    # --- called by libcurl ------------------------------------------------------------------------------------

    def _on_header(self, line: bytes) -> int | None:
        self._header_bytes += len(line)
        if self._header_bytes > MAX_HEADER_BYTES:
            self.detail = "The answer's headers are endless."
            return 0
        self.headers.append(line)
        return None

    def _on_body(self, chunk: bytes) -> int | None:
        self._body_bytes += len(chunk)
        room = self.config.head_bytes - len(self._head)
        if not self._head:
            self._head = chunk[:room]
        elif room > 0:
            self._head = bytearray(self._head) + chunk[:room]
        if self._body_bytes > self.config.head_bytes:
            self.truncated = True
            if self._body_bytes > self.config.read_bytes:
                return 0
        return None

    def _on_open(self, _purpose: int, address: Any) -> Any:
        """The guard's second line: the address about to be dialled, whoever resolved it."""
        family, kind, protocol, where = address
        dialled = where[0].decode() if isinstance(where[0], bytes) else where[0]
        if not self.config.proxy_url:
            self._dialled = dialled
            verdict = judge(dialled, self.config.allowed_networks)
            if not verdict.allowed:
                self.rule, self.detail = verdict.rule, verdict.explanation
                return pycurl.SOCKET_BAD
        try:
            return socket.socket(family, kind, protocol)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                self.own_fault = True
            self.detail = f"No socket could be opened: {error.strerror}."
            return pycurl.SOCKET_BAD


def checked_lines(lines: list[str]) -> list[str]:
    """The header lines, if not one of them can carry a second header. Raises ValueError."""
    joined = "".join(lines)
    if joined and not (joined.isascii() and joined.isprintable()):
        raise ValueError("a header holds a control or non-ASCII character")
    return lines
