"""A batch's tasks are read in parts by their bytes, in order, each once."""

from typing import Any

from tasks.kinds import rows
from tasks.states import State


def test_long_results_are_read_a_few_at_a_time(
    make_batch: Any, monkeypatch: Any, django_assert_num_queries: Any
) -> None:
    batch = make_batch(*[State.SUCCEEDED] * 7)
    for task in batch.tasks.all():
        task.result = {"x": "y" * (5_000 if task.position == 3 else 300)}
        task.save()
    monkeypatch.setattr(rows, "BYTES_AT_ONCE", 1_100)  # three short ones
    with django_assert_num_queries(1 + 3):  # 0 1 2, 3 alone, 4 5 6
        found = list(rows.with_bodies(batch.tasks.all(), "position"))
    assert [task.position for task in found] == list(range(7))
    monkeypatch.setattr(rows, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(rows, "BYTES_AT_ONCE", 1 << 20)
    with django_assert_num_queries(1 + 4):
        assert len([task.result for task in rows.with_bodies(batch.tasks.all(), "position")]) == 7
