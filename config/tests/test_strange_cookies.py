"""What a browser, or whoever plays one, may send as a cookie: no session, so the log-in page; never a fault of ours."""

import pytest

from config.asgi import application
from config.tests.served import exchange, served

pytestmark = pytest.mark.django_db(transaction=True)  # the server's threads ask for the session

VALUES = {
    "a NUL, quoted": rb'"\000bcdefghijklmn"',
    "half a character, quoted": rb'"\355\240\200abcdefgh"',
    "over-long": b"a" * 20_000,
    "bytes that are no ASCII": b"\xff\xfe\xe9abcdefgh",
    "UTF-8": "sitzungsschlüssel".encode(),
    "many quotes": b'"' * 500,
    "a key that is none": b"abcdefghijklmnopqrstuvwxyz012345",
    "empty": b"",
}


def ask(address, path, cookie, method=b"GET"):
    raw = b"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\nCookie: %s\r\n\r\n"
    head = exchange(address, raw % (method, path.encode(), cookie)).partition(b"\r\n\r\n")[0].decode("latin-1")
    lines = head.split("\r\n")
    location = next((line.partition(": ")[2] for line in lines if line.lower().startswith("location:")), "")
    return int(lines[0].split()[1]), location


def test_a_strange_session_is_no_session_and_leads_to_the_log_in():
    with served(application) as address:
        found = {
            (name, path): ask(address, path, b"sessionid=" + value)
            for name, value in VALUES.items()
            for path in ("/", "/admin/", "/dead-letters/")
        }
    assert len(found) == 3 * len(VALUES)
    assert {(path, answer) for (_name, path), answer in found.items()} == {
        (path, (302, f"/admin/login/?next={path}")) for path in ("/", "/admin/", "/dead-letters/")
    }


def test_the_api_takes_it_for_nobody():
    with served(application) as address:
        found = {name: ask(address, "/api/v1/stats/", b"sessionid=" + value)[0] for name, value in VALUES.items()}
    assert found == dict.fromkeys(VALUES, 401)


def test_the_log_in_page_opens_whatever_the_other_cookies_hold_and_takes_no_form_with_them():
    with served(application) as address:
        for cookie in (b"csrftoken=", b"messages="):
            for name, value in VALUES.items():
                seen = [ask(address, "/admin/login/", cookie + value, method)[0] for method in (b"GET", b"POST")]
                assert seen == [200, 403], (cookie, name)
