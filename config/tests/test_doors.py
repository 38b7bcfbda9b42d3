"""The providers' door answers with the same headers as every other, and refuses the same hosts."""

import pytest

from config.asgi import application
from config.tests.served import exchange, served

pytestmark = pytest.mark.django_db(transaction=True)
OF_EACH_REQUEST = {"date", "x-correlation-id", "content-length", "content-type", "allow", "vary"}


def _asked(address, path, host="localhost"):
    head = exchange(address, f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    first, *lines = head.partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines)


def test_its_answers_have_the_headers_of_all_others():
    with served(application) as address:
        status, door = _asked(address, "/webhooks/nobody/")
        _, other = _asked(address, "/api/v1/nothing/")
    assert status == 404 and "content-length" in door and "x-correlation-id" in door
    kept = [{k: v for k, v in told.items() if k not in OF_EACH_REQUEST} for told in (door, other)]
    assert kept[0] == kept[1] and {"x-frame-options", "referrer-policy", "content-security-policy"} <= kept[0].keys()


def test_a_strange_host_is_refused_there_too():
    with served(application) as address:
        assert _asked(address, "/webhooks/sandbox/", host="evil.example")[0] == 400
