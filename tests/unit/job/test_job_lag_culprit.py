"""Who or what holds a stream up, by name; of several the one that has to be seen to first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.job.lag import Oldest
from anabranch.job.lag_culprit import KINDS, LARGE, Seen, culprit
from anabranch.job.states import Condition
from anabranch.model.condition import STATES as STATES_OF_JOBS
from anabranch.model.position import Position
from anabranch.model.status import TableStatus, UndecidedStatus

AT = "2026-03-01T10:00:00.000Z"
STREAMS = Condition("streaming", "working", "", AT)
LARGER = Oldest(Position(7, "bin.1:4711"), 1, 4_000_000, 9)
TABLE = TableStatus("shop.a", "public.a", "streaming", "", 0, 0)
LOCK = {
    "part": "apply",
    "text": "for a lock on public.a, held by process 4711 (user app), idle in transaction at db:5432",
    "since": AT,
}


def named(condition: Condition = STREAMS, lag: float | None = 9.0, **more: Any) -> dict[str, Any]:
    found = culprit(Seen(condition, lag, **more))
    assert found is not None and found["text"], "it is named"
    return found


@pytest.mark.parametrize(
    ("condition", "kind", "words"),
    [
        (Condition("died", "gone", "apply (process 9 on h) ended without giving a reason"), "part", "process 9"),
        (Condition("failed", "target", "no rights"), "part", "no rights"),
        (Condition("stopped", "in_order"), "part", "anabranch run JOB starts it"),
        (Condition("stopping", "in_order"), "part", "asked to stop"),
        (Condition("starting", "parts"), "part", "starting"),
        (Condition("waiting", "part", "for capture, which is not running"), "part", "capture"),
        (Condition("waiting", "source", "for the source: gone"), "end_away", "see to the source"),
        (Condition("waiting", "target", "for the target: gone"), "end_away", "see to the target"),
        (Condition("waiting", "room", "disk full: /d"), "room", "once there is room"),
        (Condition("waiting", "others", "for the target: busy"), "lock", "tried again"),
        (Condition("waiting", "cutover", "for the cut-over"), "cutover", "cut-over"),
        (Condition("waiting", "verification", "for a verification"), "verification", "seconds"),
        (Condition("waiting", "load", "for the load to begin"), "load", "for the load to begin"),
        (Condition("loading", "rows"), "load", "initial load"),
    ],
)
def test_the_state_of_the_job_names_it(condition: Condition, kind: str, words: str) -> None:
    found = named(condition, oldest=LARGER)
    assert found["kind"] == kind and words in found["text"]


@pytest.mark.parametrize("state", list(STATES_OF_JOBS))
def test_every_state_of_a_job_has_a_kind_or_nothing(state: str) -> None:
    for sub_state in STATES_OF_JOBS[state]:
        found = culprit(Seen(Condition(state, sub_state, "for it"), 9.0))
        assert (found is None) is (state == "streaming") and (found or {"kind": "part"})["kind"] in KINDS


def test_a_lock_is_named_with_its_table_and_who_has_it() -> None:
    other = {"part": "capture", "text": "for the end of transaction 745", "since": "2026-01-01T00:00:00Z"}
    found = named(Condition("waiting", "others", "…", AT), waits=[other, LOCK], tables=[TABLE])
    assert (found["kind"], found["part"], found["since"]) == ("lock", "apply", AT), "apply's is the stream's"
    assert (found["waits_for"], found["table"]) == ("a lock on public.a", "public.a")
    assert found["held_by"] == "process 4711 (user app), idle in transaction" and "db:5432" in found["text"]
    assert named(waits=[other])["held_by"] is None
    assert named(waits=[LOCK], tables=[replace(TABLE, target="public.ab")])["table"] is None


def test_a_load_is_named_with_the_table_that_is_the_furthest_from_its_end() -> None:
    tables = [replace(TABLE, source=f"shop.{name}", state=state) for name, state in zip("abc", STATES, strict=True)]
    progress = {"shop.a": {"done": 10, "total": 10}, "shop.b": {"done": 33, "total": 100}}
    found = named(Condition("loading", "rows"), tables=tables[:2], progress=progress)
    assert (found["table"], found["percent"], found["tables"]) == ("shop.b", 33, 1)
    found = named(Condition("loading", "rows"), tables=tables, progress=progress)
    assert (found["table"], found["percent"], found["tables"]) == ("shop.c", None, 2) and "and 1 more" in found["text"]


STATES = ("streaming", "loading", "pending")


def test_a_large_transaction_is_named_where_it_is() -> None:
    found = named(inside=LARGE)
    assert (found["kind"], found["where"], found["changes"]) == ("large_transaction", "source", LARGE)
    found = named(oldest=LARGER, begun=AT)
    assert (found["where"], found["row_images"], found["position"]) == ("apply", 4_000_000, "7@bin.1:4711")
    assert found["since"] == AT and "4,000,000 row images" in found["text"]
    assert named(oldest=LARGER)["where"] == "trail"
    assert culprit(Seen(STREAMS, 9.0, oldest=replace(LARGER, images=LARGE - 1), inside=LARGE - 1)) is None


def test_an_epoch_that_goes_row_by_row_says_why() -> None:
    slow = {"at": "2026-03-01T10:00:09.000Z", "reason": "shop.a: duplicate key"}
    assert named(slow=slow, begun=AT)["reason"] == "shop.a: duplicate key"
    assert culprit(Seen(STREAMS, 9.0, slow=slow, begun="2026-03-01T10:00:10.000Z")) is None, "an earlier epoch did"


def test_a_change_of_a_definition_is_named_and_what_it_waits_for() -> None:
    building = {"kind": "building", "names": ["shop.a", "shop.b", "shop.c", "shop.d"], "since": AT}
    found = named(oldest=replace(LARGER, images=0), begun=AT, altered=["shop.e"], building=building)
    assert (found["kind"], found["tables"], found["position"]) == ("change", ["shop.e"], "7@bin.1:4711")
    found = named(oldest=LARGER, begun=AT, altered=["shop.d", "shop.e"], building=building)
    assert (found["kind"], found["tables"]) == ("building", building["names"]) and "waits for it" in found["text"]
    assert "shop.a, shop.b, shop.c and 1 more" in named(building=building)["text"]
    assert named(oldest=LARGER, building=building)["kind"] == "large_transaction"
    assert named(lag=0.0, building=building)["kind"] == "idle_source", "nothing waits for it"


def test_pitfall_96_where_nothing_is_left_an_idle_source_is_no_lag() -> None:
    """However old the last transaction is. A parked table holds nobody up, one that waits for a person is named."""
    found = named(lag=0.0, last=AT, tables=[replace(TABLE, state="parked")])
    assert found["kind"] == "idle_source" and AT in found["text"]
    asked = UndecidedStatus(3, "shop.b", "ALTER TABLE b", AT)
    found = named(lag=0.0, tables=[TABLE, replace(TABLE, state="parked", undecided=asked)])
    assert (found["kind"], found["table"], found["number"]) == ("decision", "shop.b", 3)
    assert culprit(Seen(STREAMS, 9.0, tables=[replace(TABLE, state="parked", undecided=asked)])) is None


def test_what_is_not_known_is_not_named() -> None:
    assert culprit(Seen(STREAMS, 9.0)) is None and culprit(Seen(STREAMS, None)) is None
