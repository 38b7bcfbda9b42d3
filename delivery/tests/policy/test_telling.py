"""What a key is told: nothing of where a name leads inside, and nothing of what answers there."""

import pytest

from delivery.policy.telling import BLOCKED, address_for_keys, answer_for_keys, error_for_keys


@pytest.mark.parametrize(
    "error",
    [
        "private: shop.example leads to 10.0.0.7, which may not be called. 10.0.0.7 is not a public address: it is a …",
        "127.0.0.1 is not a public address: it is this machine itself.",
        "shop.example leads to 10.0.0.7",
        "",
    ],
)
def test_a_blocked_address_is_not_told(error):
    assert error_for_keys("blocked", error) == BLOCKED


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        ("blocked", "The event has no data.click_id, which the postback needs."),
        ("blocked", "too_large: The rendered body would be larger than 9 bytes. Shorten its template, or what the "
         "event carries."),
        ("blocked", "blocked_port: No web server answers at port 25: other protocols live there. Choose another port."),
        ("server_error", "HTTP 500"),
        ("dns", "shop.example: there is no such name."),
    ],
)  # fmt: skip
def test_whatever_else_went_wrong_is_told(outcome, error):
    assert error_for_keys(outcome, error) == error


def test_answers_and_addresses_of_private_networks_are_not_told():
    for address in ("10.0.0.7", "127.0.0.1", "::1", "::ffff:10.0.0.7", "169.254.169.254"):
        assert (answer_for_keys(address), address_for_keys(address)) == (False, "")
    for address in ("8.8.8.8", "2606:4700::1111", ""):
        assert (answer_for_keys(address), address_for_keys(address)) == (True, address)
