"""Asking the source's site for a table's rows: whoever shares another one's request is not left behind by it."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from anabranch.errors import ValueRefused
from anabranch.lifecycle.asking import ask_for_load
from anabranch.model.ids import TableId
from anabranch.testing.in_time import PATIENCE, until
from anabranch.trail import requests
from anabranch.trail.requests import LOADS

TABLE = TableId("shop", "orders")


def test_the_other_one_that_asked_is_stopped_and_this_one_is_answered(tmp_path: Path) -> None:
    """Take a shared request away from who waits for its answer: that one asks for itself, and does not wait for ever."""
    job: Any = SimpleNamespace(trail=tmp_path, config=SimpleNamespace(name="south"))
    waits, said = list[str](), list[bool]()
    watcher: Any = SimpleNamespace(waiting=lambda text, on: waits.append(text))
    north = requests.Asking(tmp_path, TABLE, LOADS)
    why = ValueRefused("the trail has no rows of it", table=str(TABLE))
    over = threading.Event()
    south = threading.Thread(
        target=lambda: said.append(ask_for_load(job, TABLE, why, over.is_set, watcher)), daemon=True
    )
    south.start()
    try:
        until(lambda: waits, "the second one waits")
        north.withdraw()
        until(lambda: requests.pending(tmp_path, LOADS), "the second one asks for itself")
        requests.done(tmp_path, TABLE, 3, LOADS)
        south.join(PATIENCE)
        assert said == [True]
    finally:
        over.set()
