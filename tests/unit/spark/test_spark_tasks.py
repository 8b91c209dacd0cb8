"""Which pieces share a task."""

from __future__ import annotations

from anabranch.spark.pieces import MOST_TOGETHER, _shared


def test_small_pieces_share_tasks_and_keep_their_order() -> None:
    assert _shared("abcdef", [5.0, 1.0, 0.6, 0.5, 0.2, 0.1]) == [["a"], ["b"], ["c"], ["d", "e", "f"]]
    many = _shared(range(100), [0.0] * 100)
    assert [len(task) for task in many] == [MOST_TOGETHER] * 3 + [100 - 3 * MOST_TOGETHER]
    assert _shared([], []) == []
