"""What a request meets before Django, in which order."""

from config.asgi import application
from kernel.web.forwarded import ForwardedByProxies


def test_a_strangers_forwarded_headers_are_taken_off_before_anything_reads_them():
    assert isinstance(application, ForwardedByProxies)
