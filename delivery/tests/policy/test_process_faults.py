"""Whose fault it is when our own code fails: the row's where others pass, the process's where none does."""

from delivery.policy.process_faults import PAUSE_MOST_SECONDS, Blame, ProcessFaults, Stage


def fails(stage: Stage, endpoint: int, now: float = 0.0, how: str = "KeyError", event: str = "", **more: bool) -> Blame:
    return stage.failed(how, endpoint, event or f"e{endpoint}", now, **({"others_passed": False} | more))


def test_a_row_that_fails_where_others_pass_is_to_blame():
    stage = Stage()
    stage.passed()
    assert fails(stage, 1, others_passed=True) is Blame.ROW
    assert fails(stage, 2, others_passed=True) is Blame.ROW
    assert fails(stage, 1) is Blame.ROW
    assert stage.until == 0.0


def test_endpoints_that_fail_the_same_way_and_none_passes_are_the_processs_fault():
    stage = Stage()
    stage.passed()
    assert [fails(stage, pk) for pk in (1, 2, 3)] == [Blame.ROW, Blame.PROCESS, Blame.PROCESS]
    assert stage.until == 1.0


def test_one_event_that_fails_at_all_its_endpoints_is_to_blame_itself():
    stage = Stage()
    stage.passed()
    assert [fails(stage, pk, event="bad") for pk in (1, 2, 3)] == [Blame.ROW] * 3
    assert stage.until == 0.0


def test_failures_of_different_ways_are_not_the_processs():
    stage = Stage()
    stage.passed()
    assert [fails(stage, 1, how="KeyError"), fails(stage, 2, how="ValueError")] == [Blame.ROW, Blame.ROW]


def test_one_endpoint_alone_is_not_blamed_before_anything_has_passed():
    stage = Stage()
    assert [fails(stage, 1), fails(stage, 1)] == [Blame.UNKNOWN, Blame.UNKNOWN]
    assert stage.until == 0.0


def test_the_pauses_grow_up_to_the_most_and_end_when_something_passes():
    faults, now, pauses = ProcessFaults(), 0.0, []
    for _ in range(8):
        fails(faults.building, 1, now), fails(faults.building, 2, now)
        pauses.append(faults.until - now)
        now = faults.until
    assert pauses[:5] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert pauses[-1] == PAUSE_MOST_SECONDS and faults.is_trying
    faults.building.passed()
    assert faults.until == 0.0 and not faults.is_trying
