"""What the parts say of themselves while they work."""

from __future__ import annotations

import os
from pathlib import Path

from anabranch.job.watching import SPARK_STARTS, LoadWatcher
from anabranch.model.condition import Waiting
from anabranch.model.ids import TableId
from anabranch.state.store import StateStore

ITEM = TableId("shop", "item")


def test_a_load_says_that_spark_starts_until_rows_come(tmp_path: Path) -> None:
    state = StateStore(tmp_path)
    state.part("load", os.getpid(), os.uname().nodename)
    watcher = LoadWatcher(state)

    def told() -> tuple[str, str]:
        found = state.snapshot()
        return found["phase"], found["detail"]

    watcher.progress(ITEM, 0, 100)
    assert told() == ("loading", SPARK_STARTS)
    watcher.waiting("for a lock", Waiting.OTHERS)
    watcher.progress(ITEM, 0, 100)
    assert told() == ("loading", SPARK_STARTS)
    watcher.progress(ITEM, 10, 100)
    assert told() == ("loading", "")
    watcher.waiting("for a lock", Waiting.OTHERS)
    assert told() == ("waiting", "for a lock")
    watcher.progress(ITEM, 10, 100)
    assert told() == ("loading", "")
