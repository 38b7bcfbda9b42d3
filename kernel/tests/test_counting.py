"""Amounts in words are exact: what is no whole number of a unit is told in the next smaller one."""

import pytest

from kernel.counting import size


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"), (1023, "1,023 bytes"), (1024, "1 KiB"), (1025, "1,025 bytes"), (65_536, "64 KiB"),
        (1088 * 1024, "1,088 KiB"), (1024**2, "1 MiB"), (5 * 1024**2, "5 MiB"), (3 * 1024**3, "3 GiB"),
    ],
)  # fmt: skip
def test_bytes_in_words(count, said):
    assert size(count) == said
