"""A stranger's Retry-After: seconds or a date, within a day, and never an error."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.network.retry_after import seconds_to_wait

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("86400", 86_400),
        ("99999999", 86_400),
        ("99999999999999", 86_400),
        ("9" * 5_000, 86_400),
        ("0" * 5_000 + "7", 7),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("7\0", None),
        ("\xb2", None),
        ("Fri, 01 May 2026 12:00:30 GMT" + " " * 200 + ".", None),
        ("Fri May  1 12:00:30 2026", 30),
        ("-5", None),
        ("1.5", None),
        ("١٢", None),
        ("", None),
        ("soon", None),
        ("Fri, 01 May 2026 12:00:30 GMT", 30),
        ("Friday, 01-May-26 12:00:30 GMT", 30),
        ("Fri, 01 May 2026 11:00:00 GMT", 0),
        ("Fri, 01 May 2036 11:00:00 GMT", 86_400),
        ("Fri, 99 Foo 2026 11:00:00 GMT", None),
    ],
)
def test_retry_after(value, seconds):
    assert seconds_to_wait(value, NOW) == seconds


@given(st.text(max_size=40))
def test_no_retry_after_raises_or_leaves_its_bounds(value):
    seconds = seconds_to_wait(value, NOW)
    assert seconds is None or 0 <= seconds <= 86_400


@given(st.integers(-10_000, 200_000))
def test_retry_after_as_a_date(seconds):
    value = format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)
    assert seconds_to_wait(value, NOW) == min(max(seconds, 0), 86_400)


@pytest.mark.parametrize(
    ("date", "seconds"),
    [
        ("Fri, 01 May 2026 12:00:20 GMT", 10),  # their clock is ahead of ours
        ("Friday, 01-May-26 11:59:30 GMT", 60),
        ("Fri May  1 12:00:30 2026", 0),
        ("yesterday", 30),
        ("", 30),
        (None, 30),
    ],
)
def test_a_moment_is_counted_from_the_clock_of_whoever_named_it(date, seconds):
    assert seconds_to_wait("Fri, 01 May 2026 12:00:30 GMT", NOW, date) == seconds


def test_a_number_of_seconds_asks_no_clock():
    assert seconds_to_wait("7", NOW, "Fri, 01 May 2020 12:00:20 GMT") == 7
