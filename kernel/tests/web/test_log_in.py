"""Guessing passwords is slow and seen, and holds nothing that others need."""

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password
from django.db import connection
from django.test import Client
from structlog.testing import capture_logs

from kernel.web import log_in
from kernel.web.log_in import DEMO_EMAIL, MOST_PER_ACCOUNT, MOST_PER_ADDRESS, Attempts

RIGHT = "a right password"
seen_connections = []


class QuickHasher(PBKDF2PasswordHasher):
    """Few rounds, and it tells whether its thread holds a connection."""

    iterations = 1

    def encode(self, password, salt, iterations=None):
        seen_connections.append(connection.connection)
        return super().encode(password, salt, iterations)


@pytest.fixture(autouse=True)
def quick(settings):
    settings.PASSWORD_HASHERS = [f"{__name__}.QuickHasher"]
    log_in.attempts.clear()
    yield
    log_in.attempts.clear()


def make_user(name="ada", **values):
    password = make_password(RIGHT)
    return get_user_model().objects.create(username=name, password=password, is_staff=True, **values)


def post(username, password, address="203.0.113.7"):
    form = {"username": username, "password": password}
    return Client().post("/admin/login/?next=/", form, REMOTE_ADDR=address)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["ada", "nobody"])
def test_no_connection_is_held_while_a_password_is_hashed(name):
    make_user()
    seen_connections.clear()
    assert authenticate(None, username=name, password="wrong") is None
    assert seen_connections and set(seen_connections) == {None}


@pytest.mark.django_db
def test_the_right_password_opens_and_a_wrong_one_is_logged_with_its_address():
    user = make_user()
    assert post("ada", RIGHT).status_code == 302
    with capture_logs() as lines:
        assert post("ada", "wrong").status_code == 200
        post("my secret in the wrong field", "wrong")
    failed = [line for line in lines if line["event"] == "log_in_failed"]
    assert [(line["user"], line["address"]) for line in failed] == [
        (f"user:{user.pk}:ada", "203.0.113.7"),
        ("(unknown)", "203.0.113.7"),
    ]


@pytest.mark.django_db
def test_an_account_that_is_guessed_at_is_closed_for_a_while_and_says_so():
    make_user()
    for number in range(MOST_PER_ACCOUNT):
        post("ada", "wrong", f"203.0.113.{number}")
    seen_connections.clear()
    answer = post(" ADA", RIGHT, "203.0.113.99")
    assert (answer.status_code, answer["Retry-After"]) == (429, "900")
    assert "Too many attempts" in answer.content.decode()
    assert "Try again in 15 min." in answer.content.decode()
    assert not seen_connections


@pytest.mark.django_db
def test_guessing_does_not_lock_a_user_out_of_an_address_that_has_been_right_before():
    make_user()
    assert post("ada", RIGHT, "198.51.100.1").status_code == 302
    for number in range(MOST_PER_ACCOUNT):
        post("ada", "wrong", f"203.0.113.{number}")
    assert "Too many attempts" in post("ada", RIGHT, "203.0.113.99").content.decode()
    assert post("ada", RIGHT, "198.51.100.1").status_code == 302


@pytest.mark.django_db
def test_whoever_logged_in_finds_the_console_with_every_page():
    make_user(is_superuser=True)
    client = Client()
    client.post("/admin/login/?next=/", {"username": "ada", "password": RIGHT})
    assert client.get("/admin/").status_code == 200
    assert client.get("/admin/kernel/apikey/").status_code == 200


def test_an_address_may_not_try_account_after_account():
    kept = Attempts()
    waits = [kept.begin(f"user{number}", "203.0.113.7", 0.0) for number in range(MOST_PER_ADDRESS + 1)]
    assert waits == [0.0] * MOST_PER_ADDRESS + [900.0]
    assert kept.begin("other", "203.0.113.8", 0.0) == 0.0


def test_a_window_passes_and_refused_attempts_do_not_lengthen_it():
    kept = Attempts()
    for second in range(MOST_PER_ACCOUNT):
        assert kept.begin("ada", f"a{second}", float(second)) == 0.0
    assert kept.begin("ada", "b", 100.0) == 800.0
    assert kept.begin("ada", "b", 900.0) == 0.0
    assert kept.begin("ada", "b", 900.5) == 0.5


def test_success_clears_and_memory_has_an_end():
    kept = Attempts(remembered=4)
    for _ in range(MOST_PER_ACCOUNT - 1):
        kept.begin("ada", "a", 0.0)
    kept.succeeded("ada", "a")
    assert kept.begin("ada", "a", 0.0) == 0.0
    for number in range(100):
        kept.begin(f"u{number}", f"a{number}", 0.0)
    assert len(kept._times) <= 4


@pytest.mark.django_db
def test_the_demos_account_is_not_let_into_production_nor_is_a_session_that_it_left(settings):
    make_user(is_superuser=True, email=DEMO_EMAIL)
    client = Client()
    client.post("/admin/login/?next=/", {"username": "ada", "password": RIGHT})
    assert client.get("/admin/").status_code == 200
    settings.PRODUCTION = True
    assert client.get("/admin/").status_code == 302
    with capture_logs() as lines:
        assert post("ada", RIGHT).status_code == 200
    assert [(line["event"], line["reason"]) for line in lines if line["event"] == "log_in_failed"] == [
        ("log_in_failed", "demo_account")
    ]
