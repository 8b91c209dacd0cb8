"""A status becomes JSON in the order of its fields; what has nothing to say is left out."""

from __future__ import annotations

from dataclasses import replace

from anabranch.model.status import (
    LagStatus,
    PhaseStatus,
    PlaceStatus,
    PositionsStatus,
    SeveralStatus,
    StateStatus,
    Status,
    TableStatus,
    TargetStatus,
    UndecidedStatus,
    as_json,
)

STATE = StateStatus("streaming", "idle", "", "2026-01-01T00:00:00Z", True, None)
TABLE = TableStatus("shop.a", "public.a", "streaming", "", 3, 0, set_aside=0, conflicts=2, not_built=[])


def test_what_has_nothing_to_say_is_left_out_and_what_is_unknown_is_null() -> None:
    assert as_json(TABLE) == {
        "source": "shop.a",
        "target": "public.a",
        "state": "streaming",
        "reason": "",
        "rows_loaded": 3,
        "changes_applied": 0,
        "conflicts": 2,
    }
    asked = UndecidedStatus(3, "shop.a", "ALTER TABLE a DROP x", None)
    told = {"number": 3, "table": "shop.a", "statement": "ALTER TABLE a DROP x", "since": None}
    assert as_json(replace(TABLE, undecided=asked))["undecided"] == told
    target = TargetStatus("memory:///b", None, None, LagStatus(None, 0), [], None)
    assert as_json(target) == {
        "name": "memory:///b",
        "applied": None,
        "lag": {"seconds": None, "bytes": 0, "stages": [], "culprit": None, "eta": None},
        "tables": [],
        "counters": None,
    }


def test_state_and_phase_stand_beside_the_other_keys_and_keep_their_place() -> None:
    several = SeveralStatus("memory:///b", "streaming", "", None)
    place = PlaceStatus("1@a:4", None)
    target = TargetStatus("north", several, place, LagStatus(0.0, 0), [TABLE], None, state=STATE)
    status = Status(
        version=1,
        software_version="0",
        at=None,
        job="shop",
        state=STATE,
        phase=PhaseStatus("streaming", ""),
        parts=[],
        positions=PositionsStatus(None, place, None),
        counters=None,
        targets=[target],
        waits=[],
        last_error=None,
        unreachable=["south"],
    )
    state = ["state", "sub_state", "state_detail", "since", "active", "error"]
    found = as_json(status)
    assert list(found) == [
        *("version", "software_version", "at", "job"),
        *(*state, "phase", "detail", "parts", "positions", "counters", "targets", "waits", "last_error", "unreachable"),
    ]
    keys = ["name", "url", "phase", "detail", "last_error", "applied", "lag", "tables", "counters", *state]
    assert list(found["targets"][0]) == keys
