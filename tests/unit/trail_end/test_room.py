"""Room for a load in a trail: it waits while others have to take what is there, and for nobody who takes nothing."""

from __future__ import annotations

import pickle
from pathlib import Path

from anabranch.trail import load_readers, retention
from anabranch.trail.load_readers import Note, Taken
from anabranch.trail_end import room
from anabranch.trail_end.room import LoadRoom
from rigs.trail_loads import TABLE, a_load

ONE = "apply@one.1"


def said(trail: Path, limit: int) -> str:
    room._looks.clear()
    found: LoadRoom = pickle.loads(pickle.dumps(LoadRoom(trail, limit)))
    return found()


def test_a_load_waits_for_those_who_take_it(tmp_path: Path) -> None:
    assert said(tmp_path, 1) == ""
    under_way = tmp_path / "load" / "shop.large" / "1"
    under_way.mkdir(parents=True)
    (under_way / "000000.arrow").write_bytes(b"x" * 100)
    assert said(tmp_path, 50) == ""  # it needs all of itself before anybody can take it
    a_load(tmp_path)
    assert said(tmp_path, 108) == ""
    assert said(tmp_path, 107) == (
        "load_limit_gb: 1.08e-07 GB of the load are in the trail, of 1.07e-07 that may wait there;"
        " no job applies the trail yet, start one: anabranch run JOB"
    )
    retention.register(tmp_path, ONE, 0)
    assert said(tmp_path, 107).endswith("it waits for apply@one.1 (1 tables)")
    load_readers.save(tmp_path, ONE, Note({TABLE: Taken(1, 1, True)}))
    assert said(tmp_path, 50) == "" and not list((tmp_path / "load" / TABLE).rglob("*.arrow"))


def test_what_nobody_takes_by_itself_is_not_waited_for(tmp_path: Path) -> None:
    a_load(tmp_path)
    retention.register(tmp_path, ONE, 0)
    load_readers.save(tmp_path, ONE, Note({TABLE: Taken(1, is_left=True)}))
    assert said(tmp_path, 1) == ""
    a_load(tmp_path, table="shop.items")
    assert said(tmp_path, 7).startswith("load_limit_gb: 8e-09 GB")
    assert said(tmp_path, 8) == ""


def test_a_look_that_took_long_is_not_taken_again_at_once(tmp_path: Path) -> None:
    here = LoadRoom(tmp_path, 1)
    room._looks[here] = float("inf"), "full"
    try:
        assert here() == "full"
    finally:
        room._looks.clear()
