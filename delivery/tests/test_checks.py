"""System checks: silent when all is well, and each says what to do when not."""

import pytest

from delivery import checks
from kernel.network.openings import parse_openings
from kernel.tests import hostile


@pytest.mark.parametrize(
    ("check", "setting", "bad", "good", "found"),
    [
        (checks.allowed_networks_are_narrow, "DELIVERY_ALLOWED_NETWORKS", ["0.0.0.0/0"], ["127.0.0.0/8"], "W001"),
        (checks.ca_file_can_be_read, "DELIVERY_CA_FILE", "/nowhere/ca.pem", "", "E001"),
        (checks.proxy_is_a_proxy, "DELIVERY_PROXY_URL", "socks5://x", "http://proxy:3128", "E002"),
        (checks.retention_makes_sense, "DEAD_LETTER_RETENTION_DAYS", 14, 90, "W002"),
    ],
)
def test_checks(settings, check, setting, bad, good, found):
    for value, expected in ((good, []), (bad, [f"delivery.{found}"])):
        networks = isinstance(value, list)
        setattr(settings, setting, parse_openings(value) if networks else value)
        messages = check()
        assert [message.id for message in messages] == expected
        assert all(message.hint for message in messages)


@pytest.mark.parametrize("setting", ["DELIVERY_ALLOWED_NETWORKS", "PROVIDER_ALLOWED_NETWORKS"])
def test_a_network_without_ports_is_named_in_production(settings, setting):
    settings.PRODUCTION = True
    settings.DELIVERY_ALLOWED_NETWORKS = settings.PROVIDER_ALLOWED_NETWORKS = parse_openings("10.0.0.0/8:443")
    assert checks.allowed_networks_name_ports() == []
    setattr(settings, setting, parse_openings("10.20.0.0/16, 10.0.0.0/8:443"))
    (message,) = checks.allowed_networks_name_ports()
    assert (message.id, "10.20.0.0/16" in message.msg, "10.0.0.0/8" in message.msg) == ("delivery.W003", True, False)
    settings.PRODUCTION = False
    assert checks.allowed_networks_name_ports() == []


def test_a_ca_file_must_hold_certificates(settings, tmp_path):
    junk, secret, good = tmp_path / "junk.pem", tmp_path / "folder", hostile.Certificates(tmp_path).ca_file
    junk.write_text("no certificate at all")
    secret.mkdir()
    settings.DELIVERY_CA_FILE = str(good)
    assert checks.ca_file_can_be_read() == []
    for path, words in (
        (junk, "no bundle of certificates"),
        (secret, "cannot be read"),
        (tmp_path / "x", "cannot be read"),
    ):
        settings.DELIVERY_CA_FILE = str(path)
        (message,) = checks.ca_file_can_be_read()
        assert words in message.msg and str(path) in message.msg
