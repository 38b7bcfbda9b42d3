"""libcurl's error numbers read as our failures. Pure."""

from __future__ import annotations

import pycurl  # noqa: TID251 - libcurl's numbers

from delivery.policy.outcomes import Failure
from delivery.policy.own_faults import Kind

_TLS = {
    pycurl.E_SSL_CONNECT_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION,
    pycurl.E_SSL_CIPHER,
    pycurl.E_USE_SSL_FAILED,
    pycurl.E_SSL_SHUTDOWN_FAILED,
    pycurl.E_SSL_ISSUER_ERROR,
    pycurl.E_SSL_PINNEDPUBKEYNOTMATCH,
    pycurl.E_SSL_INVALIDCERTSTATUS,
}
_OURS = {
    pycurl.E_FAILED_INIT,
    pycurl.E_NOT_BUILT_IN,
    pycurl.E_COULDNT_RESOLVE_PROXY,
    pycurl.E_OUT_OF_MEMORY,
    pycurl.E_BAD_FUNCTION_ARGUMENT,
    pycurl.E_UNKNOWN_OPTION,
    pycurl.E_SSL_CACERT_BADFILE,
    pycurl.E_SSL_CERTPROBLEM,  # the client certificate that *we* were given
    pycurl.E_SSL_CRL_BADFILE,
    pycurl.E_SSL_ENGINE_NOTFOUND,
    pycurl.E_SSL_ENGINE_SETFAILED,
    97,  # CURLE_PROXY: the handshake with our own egress proxy
}
# A proxy says so when it could not reach the receiver; whatever else it refuses is between it and us.
_PROXY_BLAMES_RECEIVER = {502, 504}


def failure_of(
    number: int, *, cut_by_us: bool = False, refused: bool = False, own_fault: bool = False
) -> Failure | None:
    """libcurl's error as our failure; None where the answer was as complete as we wanted it."""
    if number == pycurl.E_WRITE_ERROR and cut_by_us:
        return None
    if own_fault or number in _OURS:
        return Failure.OWN_FAULT
    if refused and number == pycurl.E_COULDNT_CONNECT:
        return Failure.BLOCKED
    if number == pycurl.E_OPERATION_TIMEDOUT:
        return Failure.TIMEOUT
    if number == pycurl.E_COULDNT_RESOLVE_HOST:
        return Failure.DNS
    return Failure.TLS if number in _TLS else Failure.CONNECTION


def flaw_of(number: int, message: str) -> str:
    """What is wrong with the wrapping of an answer whose status has come, or "" where the answer broke off.

    A header or length that cannot be read, broken chunks, a body that cannot be unpacked: the receiver has said what it
    did with the request, and asking again would not mend its wrapping.
    """
    if number in (pycurl.E_FTP_WEIRD_SERVER_REPLY, pycurl.E_BAD_CONTENT_ENCODING):  # 8 is HTTP's too
        return message
    return message if number == pycurl.E_RECV_ERROR and "chunk" in message else ""


def asks_for_http2(number: int, message: str) -> bool:
    """The receiver took none of the protocols that we offered by ALPN (RFC 7301 §3.2): it speaks HTTP/2 alone."""
    return number == pycurl.E_SSL_CONNECT_ERROR and "no application protocol" in message


def is_not_http1(number: int, message: str) -> bool:
    """What came does not begin like an answer of HTTP/1.1; libcurl calls that HTTP/0.9."""
    return number == pycurl.E_UNSUPPORTED_PROTOCOL and "HTTP/0.9" in message


def own_fault_kind(number: int, *, own_ca: bool, own_certificate: bool) -> Kind:
    """Which of our things it is, for an error of ours. `own_…`: the endpoint brings its CA, its client certificate."""
    # A key that does not belong to its certificate is a bad argument to libcurl (seen with 8.x and OpenSSL).
    if number == pycurl.E_SSL_CERTPROBLEM or (own_certificate and number == pycurl.E_BAD_FUNCTION_ARGUMENT):
        return Kind.CLIENT_CERTIFICATE
    if number == pycurl.E_SSL_CACERT_BADFILE:
        return Kind.CA_CERTIFICATE if own_ca else Kind.CA_FILE
    return Kind.PROXY if number in (pycurl.E_COULDNT_RESOLVE_PROXY, 97) else Kind.OTHER


def proxy_is_at_fault(number: int, connect_code: int, connected: bool) -> bool:
    """With an egress proxy set: did the transfer end at the proxy, for a reason that is not the receiver's?"""
    if connect_code and not 200 <= connect_code < 300:
        return connect_code not in _PROXY_BLAMES_RECEIVER
    return number == pycurl.E_COULDNT_CONNECT and not connected
