"""Times as the APIs write and read them."""

from __future__ import annotations

import pytest

from sandbox.times import iso, lower_bound


@pytest.mark.parametrize("moment", [0.0, 1795958856.7205171, 1795958856.9999999, 1e9 + 1 / 3])
def test_what_was_shown_is_found_again(moment: float) -> None:
    assert 0 <= moment - lower_bound(iso(moment)) < 5e-6


@pytest.mark.parametrize(
    "text", ["2026-11-29T13:27:36Z", "2026-11-29T14:27:36+01:00", "2026-11-29T14:27:36 01:00", "1795958856"]
)
def test_either_form_is_read(text: str) -> None:
    assert lower_bound(text) == pytest.approx(1795958856, abs=1e-5)


def test_junk_is_not() -> None:
    with pytest.raises(ValueError, match="soon"):
        lower_bound("soon")
    assert iso(None) is None
