"""What each policy makes of each disagreement: decided on the twin's rows, one change at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from anabranch import connectors
from anabranch.apply.conflict import IN_PART, KEYS_ACT, Decider, Verdict
from anabranch.connectors.memory.database import database, forget
from anabranch.contracts import Bounds, Conflict, ValueRules, Writer
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import Position
from anabranch.rows.conflict import ConflictPolicy
from anabranch.rows.lines import escaped_line
from anabranch.rows.net import RowChange, TargetTable
from rigs.chunks import INT, TEXT, followed, schema

TABLE = followed(schema("t", {"id": INT, "age": INT, "v": TEXT}, ["id"])).table
HEAP = followed(schema("heap", {"id": INT, "age": INT, "v": TEXT}, [])).table
THERE = {"1": "5 ours", "2": "6 ours"}  # by id: age, v
POLICIES = {
    "source_wins": ConflictPolicy("source_wins"),
    "target_wins": ConflictPolicy("target_wins"),
    "ignore_missing": ConflictPolicy("ignore_missing"),
    "newest": ConflictPolicy("newest", "age"),
}


def row(text: str) -> dict[str, str | None]:
    return dict(zip(TABLE.columns, text.split(), strict=True))


def change(text: str, table: TargetTable = TABLE) -> RowChange:
    """`insert 1 5 x`, `delete 1 5 x`, `update 1 5 x to 1 6 y`."""
    operation, _, rest = text.partition(" ")
    before, _, after = rest.partition(" to ")
    old = row(before) if operation != "insert" else {}
    new = row(after or before) if operation != "delete" else {}
    if not table.key:
        return RowChange(table, operation, {}, new, old_values=old)
    return RowChange(table, operation, {"id": old["id"]} if old else {}, new, before=old)


@pytest.fixture
def writer() -> Iterator[Writer]:
    target = connectors.target(Endpoint("memory", "", 0, "", "", "conflict"))
    with closing(target.loader(ValueRules())) as loader:
        for table in (TABLE, HEAP):
            loader.create_table(schema(table.source.name, {}, ()), table, ValueRules(), False)
            loader.begin_generation("job", table, 1, [Bounds()], False)
            lines = [escaped_line([key, *rest.split()]) for key, rest in THERE.items()]
            loader.load_chunk("job", table, 1, 0, ("{}", "{}"), lines)
    with closing(target.store()) as store:
        store.create_checkpoint("job", Position(0, ""), 0)
    ours = target.writer(ValueRules(), False)
    now = ours.claim("job", "me")
    assert ours.begin(now, type(now)("me", 1, Position(1, ""))) == "open"
    yield ours
    ours.close()
    forget()


def carry_out(writer: Writer, verdict: Verdict) -> None:
    for one in verdict.changes:
        writer.change(one)


def rows(writer: Writer, table: TargetTable = TABLE) -> dict[str, str]:
    relation = writer._relation(table)  # type: ignore[attr-defined]  # of the twin
    found = [relation.texts(one) for one in relation.rows.values()]
    return {str(one["id"]): f"{one['age']} {one['v']}" for one in found}


# change, policy -> kind and decision ("" for none, a Conflict for a stop), then the rows
SAME, GONE = THERE, {"2": "6 ours"}
CASES = [
    # a row is there already
    ("insert 1 4 x", "source_wins", "exists source", {**THERE, "1": "4 x"}),
    ("insert 1 4 x", "target_wins", "exists target", SAME),
    ("insert 1 4 x", "ignore_missing", "stop", SAME),
    ("insert 1 4 x", "newest", "exists target", SAME),
    ("insert 1 5 x", "newest", "exists source", {**THERE, "1": "5 x"}),
    ("insert 1 6 x", "newest", "exists source", {**THERE, "1": "6 x"}),
    *((f"insert 3 1 {name}", name, "", {**THERE, "3": f"1 {name}"}) for name in POLICIES),
    # the row is missing
    *(("delete 3 1 x", name, "missing ignored", SAME) for name in POLICIES),
    ("update 3 1 x to 3 2 y", "source_wins", "missing source", {**THERE, "3": "2 y"}),
    ("update 3 1 x to 3 2 y", "newest", "missing source", {**THERE, "3": "2 y"}),
    ("update 3 1 x to 3 2 y", "target_wins", "missing ignored", SAME),
    ("update 3 1 x to 3 2 y", "ignore_missing", "missing ignored", SAME),
    # it is there, and perhaps newer
    *((f"update 1 4 x to 1 5 {name}", name, "", {**THERE, "1": f"5 {name}"}) for name in POLICIES),
    ("update 1 3 x to 1 4 y", "newest", "newer target", SAME),
    ("update 1 3 x to 1 4 y", "target_wins", "", {**THERE, "1": "4 y"}),
    ("delete 1 4 x", "newest", "newer target", SAME),
    ("delete 1 5 x", "newest", "", GONE),
    ("delete 1 4 x", "source_wins", "", GONE),
    # a row moves to where another one is
    ("update 1 5 x to 2 5 y", "source_wins", "exists source", {"2": "5 y"}),
    ("update 1 5 x to 2 5 y", "target_wins", "exists target", GONE),
    ("update 1 5 x to 2 5 y", "newest", "exists target", GONE),
    ("update 1 5 x to 2 7 y", "newest", "exists source", {"2": "7 y"}),
    ("update 1 5 x to 2 5 y", "ignore_missing", "stop", SAME),
    ("update 1 4 x to 2 4 y", "newest", "newer target", SAME),
    ("update 1 4 x to 9 4 y", "newest", "newer target", SAME),
    ("update 3 1 x to 2 9 y", "source_wins", "exists source", {**THERE, "2": "9 y"}),
    ("update 3 1 x to 2 9 y", "target_wins", "exists target", SAME),
    ("update 1 5 x to 3 5 y", "newest", "", {"2": "6 ours", "3": "5 y"}),
    ("update 3 1 x to 4 2 y", "source_wins", "missing source", {**THERE, "4": "2 y"}),
]


@pytest.mark.parametrize(("text", "policy", "expected", "left"), CASES)
def test_rule_28_a_policy_decides(writer: Writer, text: str, policy: str, expected: str, left: dict[str, str]) -> None:
    if expected == "stop":
        with pytest.raises(Conflict, match="there already"):
            Decider(writer).decide(change(text), POLICIES[policy])
    else:
        verdict = Decider(writer).decide(change(text), POLICIES[policy])
        carry_out(writer, verdict)
        assert f"{verdict.kind} {verdict.decision}".strip() == expected
        is_kept = expected == "newer target" or (expected == "exists target" and text.startswith("insert"))
        assert verdict.stands is not is_kept
    assert rows(writer) == left


def test_what_the_target_had_is_told(writer: Writer) -> None:
    verdict = Decider(writer).decide(change("insert 1 4 x"), POLICIES["target_wins"])
    assert verdict.found == {"id": "1", "age": "5", "v": "ours"}


def test_a_row_that_the_log_has_in_part_is_not_written_anew(writer: Writer) -> None:
    partial = RowChange(TABLE, "update", {"id": "3"}, {"v": "y"}, before={"id": "3"})
    with pytest.raises(Conflict, match=IN_PART[:30]) as stopped:
        Decider(writer).decide(partial, POLICIES["source_wins"])
    assert stopped.value.key == {"id": "3"}
    moving = RowChange(TABLE, "update", {"id": "3"}, {"id": "2", "v": "y"}, before={"id": "3"})
    with pytest.raises(Conflict, match=IN_PART[:30]):
        Decider(writer).decide(moving, POLICIES["source_wins"])
    with pytest.raises(Conflict, match="lacks age"):
        Decider(writer).decide(partial, POLICIES["newest"])


def test_rule_07_where_keys_act_no_row_makes_room_for_another(writer: Writer) -> None:
    with pytest.raises(Conflict, match=KEYS_ACT[:30]):
        Decider(writer, keys_act=True).decide(change("update 1 5 x to 2 9 y"), POLICIES["source_wins"])


KEYLESS = [
    ("delete 1 5 ours", "target_wins", "", GONE),
    ("delete 1 5 other", "target_wins", "missing ignored", SAME),
    ("update 1 5 other to 1 6 y", "ignore_missing", "missing ignored", SAME),
    ("update 9 5 other to 9 6 y", "source_wins", "missing source", {**THERE, "9": "6 y"}),
    ("update 1 5 ours to 1 6 y", "source_wins", "", {"2": "6 ours", "1": "6 y"}),
    ("insert 9 1 x", "source_wins", "", {**THERE, "9": "1 x"}),
]


@pytest.mark.parametrize(("text", "policy", "expected", "left"), KEYLESS)
def test_rule_28_rows_without_a_key_can_only_be_missing(
    writer: Writer, text: str, policy: str, expected: str, left: dict[str, str]
) -> None:
    verdict = Decider(writer).decide(change(text, HEAP), POLICIES[policy])
    carry_out(writer, verdict)
    assert f"{verdict.kind} {verdict.decision}".strip() == expected
    assert rows(writer, HEAP) == left


def test_the_twin_is_left_alone(writer: Writer) -> None:
    """What was done above is rolled back with the epoch."""
    carry_out(writer, Decider(writer).decide(change("delete 1 5 x"), POLICIES["source_wins"]))
    writer.rollback()
    kept: Any = database("conflict").tables[TABLE.target]
    assert len(kept.rows) == 2
