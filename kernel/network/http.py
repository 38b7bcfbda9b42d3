"""The one guarded HTTP client for provider APIs: `provider_session()`.

A `requests` session with one deadline through the last body byte, a cap on the decompressed body, TLS always
verified, the address guard at connect, and nothing taken from the environment (no proxy, no .netrc). It never
follows a redirect and never repeats a request: a start call that was cut off may have started a job, so its error
says `maybe_sent` and the caller decides. Outbound deliveries do not come here; they go through libcurl.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests  # noqa: TID251 - the guarded client
from requests.adapters import HTTPAdapter  # noqa: TID251 - the guarded client
from urllib3.connection import HTTPConnection, HTTPSConnection  # noqa: TID251 - the guarded client
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool  # noqa: TID251 - the guarded client
from urllib3.exceptions import DecodeError  # noqa: TID251 - the guarded client

from kernel.network.addresses import AddressRefused, judge, split_url
from kernel.network.lookup import LookupFailed, NameNotFound, within
from kernel.network.openings import Openings

CHUNK_BYTES = 64 * 1024
MAX_BODY_BYTES = 32 * 1024 * 1024  # of a provider's answer, decompressed


class CallFailed(requests.RequestException):
    """A provider call without a usable answer. `maybe_sent`: the provider may have received and obeyed it.

    CallFailed ─┬─ DeadlineExceeded   not done through the last byte in time
                ├─ AddressBlocked     the guard refused the URL or every address of its name
                ├─ NameUnresolved     no such name, or no answer from the name service
                ├─ ConnectionFailed   refused, reset, closed before the answer was complete
                ├─ TlsFailed          the certificate or the handshake is not acceptable
                └─ BodyTooLarge       the decompressed body is larger than the cap
    """

    code = "call_failed"

    def __init__(self, detail: str, *, maybe_sent: bool) -> None:
        super().__init__(detail)
        self.detail = detail
        self.maybe_sent = maybe_sent


class DeadlineExceeded(CallFailed):
    code = "timeout"


class AddressBlocked(CallFailed):
    code = "blocked"


class NameUnresolved(CallFailed):
    code = "dns"


class ConnectionFailed(CallFailed):
    code = "connection"


class TlsFailed(CallFailed):
    code = "tls"


class BodyTooLarge(CallFailed):
    code = "too_large"


class _Call:
    """One request on its way: its deadline, the sockets to cut when it strikes, and whether bytes have left."""

    def __init__(self, seconds: float, allowed: Openings) -> None:
        self.seconds = seconds
        self.allowed = allowed
        self.sent = False
        self.failure: CallFailed | None = None
        self.expired = False
        self._ends = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._expire)
        self._timer.daemon = True

    def __enter__(self) -> _Call:
        self._timer.start()
        _current.call = self
        return self

    def __exit__(self, *_: object) -> None:
        _current.call = None
        self._timer.cancel()
        with self._lock:
            for watched in self._sockets:
                watched.close()
            self._sockets.clear()

    def remaining(self) -> float:
        return max(0.001, self._ends - time.monotonic())

    def watch(self, sock: socket.socket) -> None:
        # A duplicate, because the TLS wrapper takes the descriptor away from this object, and because shutdown()
        # ends a read in the other thread where close() would not.
        with self._lock:
            duplicate = socket.socket(fileno=socket.dup(sock.fileno()))
            self._sockets.append(duplicate)
            if self.expired:
                _cut(duplicate)

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            for watched in self._sockets:
                _cut(watched)

    def fail(self, failure: CallFailed) -> CallFailed:
        """Remember the real cause: urllib3 wraps what is raised below it into something vaguer."""
        self.failure = failure
        return failure


class _Current(threading.local):
    call: _Call | None = None


_current = _Current()


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _call() -> _Call:
    if _current.call is None:
        raise RuntimeError("guarded connections are opened by provider_session() only")
    return _current.call


def _connect(host: str, port: int) -> socket.socket:
    call = _call()
    try:
        found = within(host, call.remaining())
    except (NameNotFound, LookupFailed) as error:
        raise call.fail(NameUnresolved(f"{host}: {error}", maybe_sent=False)) from error
    verdicts = {address: judge(address, call.allowed, port=port) for address in found}
    good = [address for address, verdict in verdicts.items() if verdict.allowed]
    if not good:
        explanation = verdicts[found[0]].explanation if found else "The name has no address."
        raise call.fail(AddressBlocked(f"{host} may not be called. {explanation}", maybe_sent=False))
    return _dial(call, host, port, good)


def _dial(call: _Call, host: str, port: int, addresses: list[str]) -> socket.socket:
    problem: OSError | None = None
    addresses = addresses[:4]
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        try:  # a share of the time each, so that one dead address does not eat it all
            sock = socket.create_connection((address, port), timeout=call.remaining() / left)
        except OSError as error:
            problem = error
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(call.remaining())
        call.watch(sock)
        return sock
    reason = problem.strerror or type(problem).__name__ if problem else "no address"
    raise call.fail(ConnectionFailed(f"No connection to {host}: {reason}.", maybe_sent=False))


class _Connection(HTTPConnection):
    """Where sockets come from, and which ones the deadline can cut."""

    def _new_conn(self) -> socket.socket:
        return _connect(self._dns_host, self.port or 80)

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        call = _call()
        if not call.sent:
            call.watch(self.sock)  # also where the connection is a reused one
            call.sent = True
        super().send(data)


class _TlsConnection(_Connection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}


class ProviderSession(requests.Session):
    """`timeout=` of a request is the whole call's, in seconds. Raises CallFailed or returns a full response."""

    def __init__(self, *, allowed_networks: Openings, total_seconds: float, max_body_bytes: int) -> None:
        super().__init__()
        self.allowed_networks = allowed_networks
        self.total_seconds = total_seconds
        self.max_body_bytes = max_body_bytes
        self.trust_env = False
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        for prefix in ("https://", "http://"):
            self.mount(prefix, _Adapter(max_retries=0, pool_maxsize=16))

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        seconds = kwargs.pop("timeout", None) or self.total_seconds
        kwargs |= {"allow_redirects": False, "stream": True, "verify": self.verify or True, "proxies": {}}
        try:
            split_url(request.url or "")
        except AddressRefused as error:
            raise AddressBlocked(error.detail, maybe_sent=False) from error
        with _Call(float(seconds), self.allowed_networks) as call:
            try:
                response = super().send(request, timeout=call.remaining(), **kwargs)
                return _read_whole(response, self.max_body_bytes, call)
            except Exception as error:
                raise _typed(error, call) from error


def _read_whole(response: requests.Response, limit: int, call: _Call) -> requests.Response:
    said = response.headers.get("content-length", "")
    if said.isascii() and said.isdigit() and (len(said) > 15 or int(said) > limit):  # compressed, it is larger still
        raise _too_large(response, limit, call, f"says that it has {said[:15]} bytes")
    body = bytearray()
    for chunk in response.raw.stream(CHUNK_BYTES, decode_content=True):
        body += chunk
        if len(body) > limit:
            raise _too_large(response, limit, call, "goes on")
    if call.expired:  # a body without a length ends silently when the watchdog cuts the socket
        raise DeadlineExceeded("", maybe_sent=True)
    response._content = bytes(body)
    response._content_consumed = True  # type: ignore[attr-defined]
    return response


def _too_large(response: requests.Response, limit: int, call: _Call, how: str) -> CallFailed:
    response.raw.close()
    return call.fail(BodyTooLarge(f"The answer is larger than the {limit:,} bytes we take: it {how}.", maybe_sent=True))


def _typed(error: Exception, call: _Call) -> CallFailed:
    if call.expired and not isinstance(call.failure, BodyTooLarge):
        return DeadlineExceeded(f"Not finished within {call.seconds:g} s.", maybe_sent=call.sent)
    if call.failure is not None:
        return call.failure
    if isinstance(error, requests.exceptions.SSLError):
        return TlsFailed(f"TLS failed: {cause_of(error)}", maybe_sent=call.sent)
    if isinstance(error, requests.exceptions.Timeout | TimeoutError):
        return DeadlineExceeded(f"Not finished within {call.seconds:g} s.", maybe_sent=call.sent)
    if isinstance(error, DecodeError):
        return ConnectionFailed("The answer's content-encoding is broken.", maybe_sent=True)
    return ConnectionFailed(f"The connection broke ({cause_of(error)}).", maybe_sent=call.sent)


def cause_of(error: BaseException) -> str:
    """The innermost cause, named without URL or host: requests' own texts carry the whole URL."""
    seen = error
    for _ in range(8):
        inner = seen.__cause__ or seen.__context__ or getattr(seen, "reason", None)
        if not isinstance(inner, BaseException):
            break
        seen = inner
    return getattr(seen, "verify_message", "") or getattr(seen, "strerror", "") or type(seen).__name__


def provider_session(
    *,
    allowed_networks: Openings = (),
    total_seconds: float = 30.0,
    max_body_bytes: int = MAX_BODY_BYTES,
    ca_file: str | None = None,
    headers: dict[str, str] | None = None,
) -> ProviderSession:
    """A new guarded session. Keep one per thread; it reuses connections.

    `total_seconds` is the default for a whole call (`timeout=` overrides it for one), `ca_file` replaces certifi's.
    """
    session = ProviderSession(
        allowed_networks=allowed_networks, total_seconds=total_seconds, max_body_bytes=max_body_bytes
    )
    session.headers["accept-encoding"] = "gzip, identity;q=0.5"
    session.headers.update(headers or {})
    if ca_file:
        session.verify = ca_file
    return session
