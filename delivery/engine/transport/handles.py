"""One reusable libcurl handle with its small state.

Options that never change are set once; a transfer sets only what differs. A handle is never closed while the multi
handle lives, because open connections call back into the handle that opened them.

libcurl repeats a request by itself, up to five times, when a used connection dies before the first byte of the answer
(`Curl_retry_request`). The receiver may have it by then, and an attempt is one request: `_on_ready`, which it asks
before every sending, allows one.

pycurl takes a text as ASCII. What may hold more (files of ours, the proxy with its password) is given as bytes; URL,
host and header lines are ASCII by then, or are refused (`split_url`, `checked_lines`).
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

import certifi
import pycurl  # noqa: TID251 - the guarded transport

from delivery.engine.transport.connections import Ends, KeptConnections
from delivery.engine.transport.messages import ClientCertificate, Request, TransferConfig, TransferResult
from delivery.engine.transport.results import (
    asks_for_http2,
    failure_of,
    flaw_of,
    is_not_http1,
    own_fault_kind,
    proxy_is_at_fault,
)
from delivery.policy.outcomes import Failure
from delivery.policy.own_faults import Kind
from kernel.counting import size
from kernel.network.addresses import Ruling, Target, judge

MAX_HEADER_BYTES = 64 * 1024
KEPT_BODY_BYTES = 64 * 1024
# No "Expect: 100-continue" before large bodies: it costs a round trip, and hostile receivers play with it.
_FIXED_HEADERS = ["Expect:"]
_DROPPED = "The connection ended before a whole answer came."
_BLANK = (b"\r\n", b"\n")


class Handle:
    """A libcurl handle and what the transfer it carries has brought so far."""

    def __init__(self, config: TransferConfig, kept: KeptConnections) -> None:
        self.config = config
        self._kept = kept
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
        self._origin = ""
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
        curl.setopt(pycurl.CAINFO, os.fsencode(config.ca_file or certifi.where()))
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._on_open)
        curl.setopt(pycurl.SOCKOPTFUNCTION, self._on_socket)
        curl.setopt(pycurl.PREREQFUNCTION, self._on_ready)
        curl.setopt(
            pycurl.PROXY, config.proxy_url.encode(errors="surrogateescape")
        )  # "" also shuts out http_proxy and friends
        curl.setopt(pycurl.NOPROXY, "")
        if config.proxy_url:
            curl.setopt(pycurl.HTTPPROXYTUNNEL, 1)
            curl.setopt(pycurl.PROXY_CAINFO, os.fsencode(certifi.where()))

    def _begin(self) -> None:
        self.headers: list[bytes] = []
        self._header_bytes = 0
        self._head: bytes | bytearray = b""
        self._body_bytes = 0
        self.truncated = False
        self.own_fault: Kind | None = None
        self.rule = ""
        self.detail = ""
        self.flaw = ""
        self.is_sent = False
        self.is_stale = False
        self._offers_http2 = False
        self._opened: tuple[int, ...] = ()
        self._ends: Ends | None = None
        self._received_before = -1
        self._dialled = ""
        self._waited = 0.0

    def prepare(
        self, request: Request, target: Target, waited: float, pin: list[str] | None, addresses: tuple[str, ...]
    ) -> None:
        """Set the handle up for this request. Raises ValueError or pycurl.error where it cannot be sent."""
        curl = self.curl
        self.request = request
        self._waited = waited
        if target.origin != self._origin:
            curl.setopt(pycurl.URL, target.origin)
            self._origin = target.origin
        # Not as part of the URL: libcurl would rewrite percent escapes in it.
        curl.setopt(pycurl.REQUEST_TARGET, target.path_and_query)
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
        self._as_learnt(target.origin)
        if self.config.proxy_url and not self.config.proxy_by_name:
            self._dialled = addresses[0] if addresses else target.host  # by the proxy, whose own address is no news
            if addresses:
                self._connect_to(target, addresses[0])
        if request.client_certificate is not None:
            self._use(request.client_certificate)
        if request.ca_certificates:
            self._is_special = True
            curl.setopt(pycurl.CAINFO_BLOB, request.ca_certificates)

    def _as_learnt(self, origin: str) -> None:
        """What earlier transfers have found out about this receiver."""
        if not self._kept.trusts(origin):
            self.insist_on_a_fresh_connection()
            self.curl.setopt(pycurl.FORBID_REUSE, 1)
        if self._kept.speaks_http2(origin):
            self._offer_http2()

    def insist_on_a_fresh_connection(self) -> None:
        """For this transfer only. Also sets a transfer that found its connection stale back to its start."""
        self._is_special = True
        self.is_stale = False
        self.curl.setopt(pycurl.FRESH_CONNECT, 1)

    def _offer_http2(self) -> None:
        self._is_special = self._offers_http2 = True
        self.curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)

    def starts_again_with_http2(self, number: int, message: str) -> bool:
        """Did the receiver end the TLS handshake because we did not offer HTTP/2? Then the handle is set to do so."""
        if self.is_sent or self._offers_http2 or not asks_for_http2(number, message):
            return False
        self._kept.learn_http2(self._origin, speaks=True)
        self._offer_http2()
        left = self._timeout_ms - self.curl.getinfo(pycurl.TOTAL_TIME_T) // 1000
        self.curl.setopt(pycurl.TIMEOUT_MS, max(1, left))
        return True

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
            self.curl.setopt(pycurl.KEYPASSWD, certificate.key_password.encode())

    def ended(self, number: int, message: str) -> TransferResult:
        """The result after libcurl reported this error number (0: none)."""
        if number == 0:
            # libcurl is content with a head that the end of the connection cuts off.
            return self.result(None, "") if self._has_whole_head() else self.result(Failure.CONNECTION, _DROPPED)
        info = self.curl.getinfo
        if self.is_sent and number in (pycurl.E_ABORTED_BY_CALLBACK, pycurl.E_COULDNT_CONNECT):
            number, message = pycurl.E_GOT_NOTHING, _DROPPED  # it wanted to repeat the request, and was not allowed to
        if is_not_http1(number, message):
            message = self._no_http1()
        elif self.is_sent and info(pycurl.RESPONSE_CODE) >= 200 and (flaw := flaw_of(number, message)):
            result = self.result(None, "")
            result.flaw, result.is_whole = flaw, False
            return result
        failure = failure_of(number, cut_by_us=self.truncated, refused=bool(self.rule), own_fault=bool(self.own_fault))
        if failure is not None and self.config.proxy_url:
            code, connected = info(pycurl.HTTP_CONNECTCODE), info(pycurl.CONNECT_TIME_T) > 0
            if proxy_is_at_fault(number, code, connected):
                self.rule = Kind.PROXY
                return self.result(Failure.OWN_FAULT, f"Our egress proxy: {message}")
        if failure is Failure.OWN_FAULT and self.request is not None:
            self.rule = self.own_fault or own_fault_kind(
                number,
                own_ca=bool(self.request.ca_certificates),
                own_certificate=self.request.client_certificate is not None,
            )
        return self.result(failure, self.detail or message)

    def _no_http1(self) -> str:
        """What to say where the answer is no HTTP/1.1; behind TLS the next try offers HTTP/2."""
        if not self._origin.startswith("https"):
            return "The answer is not HTTP/1.1. If it is HTTP/2, which is agreed upon by TLS, use an https:// URL."
        self._kept.learn_http2(self._origin, speaks=not self._offers_http2)
        return "The answer is not HTTP/1.1; the next try offers HTTP/2."

    def _has_whole_head(self) -> bool:
        for line in reversed(self.headers):
            if line in _BLANK:
                return True
            if line.startswith(b"HTTP/"):
                return False
        return False

    def result(self, failure: Failure | None, detail: str) -> TransferResult:
        """What stands in the handle now, as a result; with a failure also what is known of the broken rest."""
        assert self.request is not None
        info = self.curl.getinfo
        dns_ms = self._waited * 1000
        before = info(pycurl.PRETRANSFER_TIME_T)
        reused = self.is_sent and not self._opened
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
            self.is_sent,
            dns_ms,
            max(0, connect - info(pycurl.NAMELOOKUP_TIME_T)) / 1000 if connect else 0.0,
            max(0, tls - connect) / 1000 if tls else 0.0,
            max(0, first - before) / 1000 if first else 0.0,
            dns_ms + info(pycurl.TOTAL_TIME_T) / 1000,
            self.flaw if failure is None else "",
        )

    def release(self) -> bool:
        """Forget the transfer. False where the handle must be configured anew before the next one."""
        if self.request is not None and len(self.request.body) > KEPT_BODY_BYTES:
            self.curl.setopt(pycurl.POSTFIELDS, b"")  # it would be held until the handle is used again
        self.request = None
        self._begin()
        return not self._is_special

    # --- called by libcurl: what is raised here would come out of the one call that moves everybody's transfers ---

    def _fail(self, error: Exception) -> None:
        """Something of ours broke in this transfer; the others in the air go on."""
        self.own_fault = Kind.OTHER
        self.detail = f"Looking after the transfer failed: {type(error).__name__}."

    def _on_header(self, line: bytes) -> int | None:
        try:
            if self._received_before >= 0 and self._is_anothers_answer():
                return 0
        except Exception as error:  # noqa: BLE001 - see above
            self._fail(error)
            return 0
        self._header_bytes += len(line)
        if self._header_bytes <= MAX_HEADER_BYTES or line in _BLANK:
            self.headers.append(line)
        else:  # libcurl ends them at 300 KB
            self.flaw = f"The answer's headers are larger than {size(MAX_HEADER_BYTES)}; the rest was not kept."
        return None

    def _is_anothers_answer(self) -> bool:
        """Asked once a transfer: was this in a buffer before the request went out?"""
        before, self._received_before = self._received_before, -1
        if self._ends is None or self._kept.has_read_since(self._ends, before):
            return False
        self._kept.distrust(self._origin)
        self.detail = "What the receiver had sent unasked came in place of an answer."
        return True

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
        if self.is_sent:
            return pycurl.SOCKET_BAD  # see _on_ready: what this connection is for will not be allowed
        family, kind, protocol, where = address
        if not self.config.proxy_url:
            self._dialled = where[0].decode() if isinstance(where[0], bytes) else where[0]
            try:
                verdict = self._judge(self._dialled, where[1])
            except Exception as error:  # noqa: BLE001 - see above; an address that nobody judged is not dialled
                self._fail(error)
                return pycurl.SOCKET_BAD
            if not verdict.allowed:
                self.rule, self.detail = verdict.rule, verdict.explanation
                return pycurl.SOCKET_BAD
        try:
            return socket.socket(family, kind, protocol)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                self.own_fault = Kind.SOCKETS
            self.detail = f"No socket could be opened: {error.strerror}."
            return pycurl.SOCKET_BAD

    def _judge(self, address: str, port: int) -> Ruling:
        assert self.request is not None
        return judge(address, self.config.allowed_networks, port=port, subscriber=self.request.subscriber)

    def _on_socket(self, descriptor: int, _purpose: int) -> int:
        self._opened += (descriptor,)
        return pycurl.SOCKOPT_OK

    def _on_ready(self, *ends: Any) -> int:
        """The connection stands and the request is about to go out. Once: an attempt is one request on the wire."""
        try:
            if self.is_sent or not self._is_fit(ends):
                return pycurl.PREREQFUNC_ABORT
        except Exception as error:  # noqa: BLE001 - see above
            self._fail(error)
            return pycurl.PREREQFUNC_ABORT
        self.is_sent = True
        return pycurl.PREREQFUNC_OK

    def _is_fit(self, ends: Any) -> bool:
        """May the request go out on this connection? If not, it is begun again on a fresh one."""
        if self._opened:
            self._kept.note(ends, self._opened, self._origin)
        elif not self.config.proxy_url and not self._judge(ends[0], ends[2]).allowed:
            self.is_stale = True  # it leads where somebody else may be sent to; this request gets one of its own
        elif self._offers_http2:
            pass  # its connections talk of themselves, and libcurl listens
        elif not self._kept.is_silent(ends):
            self.is_stale = True
        elif self._origin.startswith("https"):
            self._ends, self._received_before = ends, self._kept.received(ends)
        return not self.is_stale


def checked_lines(lines: list[str]) -> list[str]:
    """The header lines, if not one of them can carry a second header. Raises ValueError."""
    joined = "".join(lines)
    if joined and not (joined.isascii() and joined.isprintable()):
        raise ValueError("a header holds a control or non-ASCII character")
    return lines
