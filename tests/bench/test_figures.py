"""Percentiles, ratios and rates are what they claim to be."""

import itertools
import math
import os

import pytest

from bench.harness import measure, report
from bench.harness.load import moments


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([7], 0.99, 7),
        ([1, 2, 3, 4], 0.5, 2),
        (list(range(1, 101)), 0.95, 95),
        (list(range(1, 101)), 0.99, 99),
        (list(range(100, 0, -1)), 0.5, 50),
    ],
)
def test_percentiles_are_by_nearest_rank(values, share, expected):
    assert report.percentile(values, share) == expected


def test_no_values_have_no_percentile():
    assert math.isnan(report.percentile([], 0.5))


def test_a_ratio_needs_something_to_compare_with():
    assert report.ratio(12_000, 1_000) == 12
    assert report.ratio(1, 0) is None
    assert report.ratio(1, math.nan) is None


@pytest.mark.parametrize("per_second", [1, 20, 50, 200, 333, 2_500])
def test_an_offer_keeps_its_rate(per_second):
    ticks = list(moments(per_second, 10.0))
    assert sum(count for _, count in ticks) == per_second * 10
    assert all(early[0] < late[0] < 10.0 for early, late in itertools.pairwise(ticks))
    first_half = sum(count for at, count in ticks if at < 5.0)
    assert abs(first_half - per_second * 5) <= per_second * 0.02 + 1


def test_what_a_process_costs_is_read_from_proc():
    before = measure.cpu_seconds([os.getpid()])
    until = before + 0.03
    while measure.cpu_seconds([os.getpid()]) < until:
        sum(range(10_000))
    assert measure.peak_rss_mb(os.getpid()) > 10
    assert measure.cpu_seconds([2**22 + 1]) == 0.0


def test_a_target_says_whether_it_was_met(capsys):
    report.verdicts([("a", 2.0, "<=", 2), ("b", 1.0, ">=", 2), ("c", None, ">=", 2)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("a ", "b ", "c "))]
    assert [line[-1] for line in lines] == ["yes", "NO", "measured"]
