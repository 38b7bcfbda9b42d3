"""What a worker does when it starts."""

import structlog

from config.celery import say_what_is_wrong


def test_a_worker_that_starts_says_what_is_misconfigured(settings, tmp_path):
    settings.DELIVERY_CA_FILE = str(tmp_path / "none.pem")
    with structlog.testing.capture_logs() as lines:
        say_what_is_wrong()
    (line,) = [line for line in lines if line["event"] == "misconfigured"]
    assert (line["check"], line["log_level"]) == ("delivery.E001", "error")
    assert "none.pem" in line["detail"] and line["hint"]
