"""Which buckets and keys are looked at again beside a running job, until all are decided or time is over; what the
result says then. No server, no Spark."""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch import pace
from anabranch.connectors.memory.source.capture import MemoryOrder, mark
from anabranch.errors import SourceUnavailable, TargetError, ValueRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.testing.in_time import PATIENCE
from anabranch.verify import again
from anabranch.verify.again import Again, Bracket, Settled
from anabranch.verify.beside import Undecided, settle
from anabranch.verify.both_ends import RECONNECTS, Beside
from anabranch.verify.compare import Comparison, Found
from anabranch.verify.digest import bucket_of, key_of
from anabranch.verify.display import silent
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import Parked, TableResult, Verification
from anabranch.verify.run import _result, _Sides

INT = LogicalType(Kind.INT64)
ID = TableId("shop", "t")


def table(key: tuple[str, ...] = ("id",), **facts: Any) -> VerifyTable:
    schema = TableSchema(ID, (Column("id", INT, "bigint", nullable=False), Column("a", INT, "bigint")), key)
    return VerifyTable(schema, TargetTable(ID, ID, ("id", "a"), (INT, INT), key, ("id", "a")), **facts)


@dataclass
class Ends:
    """What both ends have, and what a look says: those keys that `wrong` names differ, those that `moving` names never rest."""

    source: list[bytes]
    target: list[bytes]
    wrong: set[bytes] = field(default_factory=set)
    moving: set[bytes] = field(default_factory=set)
    finds: bool = True
    quiet: bool = False
    rounds: int = 0
    most: int = 10
    looked: list[list[bytes]] = field(default_factory=list)

    def begin(self, one: VerifyTable) -> Bracket:
        return Bracket(0, 0, 1)

    def is_quiet(self, one: VerifyTable, began: Bracket) -> bool:
        return self.quiet

    def can_find(self, one: VerifyTable) -> bool:
        return self.finds

    def settle(self, one: VerifyTable, keys: Sequence[bytes], enough: int) -> Settled:
        self.looked.append(list(keys))
        found = Settled(pending=[key for key in keys if key in self.moving], why=again.CHANGING)
        found.source += [row for row in self.source if key_of(one.table)(row) in self.wrong & set(keys)]
        found.target += [row for row in self.target if key_of(one.table)(row) in self.wrong & set(keys)]
        return found

    def rest(self, seconds: float) -> None: ...

    def extend(self, seconds: float) -> None: ...

    @property
    def is_over(self) -> bool:
        return self.rounds >= self.most

    is_stopped = False

    def differences(self, buckets: Any, how: Comparison) -> dict[TableId, list[Found]]:
        self.rounds += 1
        found = []
        for bucket in sorted(buckets[ID]):
            rows = [
                [row for row in end if bucket_of(key_of(how.tables[ID])(row)) == bucket]
                for end in (self.source, self.target)
            ]
            (outcome,) = how.bucket(
                ((ID, bucket), [cast(Any, (not n, row)) for n, end in enumerate(rows) for row in end])
            )
            found.append(outcome.value)
        return {ID: found}

    def verify(self, one: VerifyTable, limit_rows: int = 100) -> TableResult:
        sums = _Sides(0, (len(self.source), len(self.target)), dict.fromkeys(self._buckets(one), 1))
        open_ = Undecided(one, dict(sums.differing))
        assert settle(cast(Again, self), [open_], Comparison({ID: one.table}, 100, False), self.differences, limit_rows)
        return _result(open_, sums, 100, True)

    def _buckets(self, one: VerifyTable) -> set[int]:
        return {bucket_of(key_of(one.table)(row)) for row in differing(self.source, self.target)}


def differing(source: list[bytes], target: list[bytes]) -> Counter[bytes]:
    there, here = Counter(source), Counter(target)
    return (there - here) + (here - there)


def rows(*keys: int, a: int = 0) -> list[bytes]:
    return [b"%d\t%d" % (key, a) for key in keys]


def test_what_differed_and_does_not_any_more_is_equal() -> None:
    found = Ends(rows(1, 2, 3), rows(1)).verify(table())
    assert found.identical and not found.pending and str(found).startswith("identical")


def test_what_differs_at_one_position_is_different_and_what_cannot_be_told_is_pending() -> None:
    ends = Ends(rows(1, 2, 3), rows(1, 2, a=5), wrong={b"2", b"3"}, moving={b"1"}, most=1)
    found = ends.verify(table())
    assert (found.missing, found.different, found.extra, found.pending) == (1, 1, 0, 1)
    assert [one.key for one in found.sample] == [{"id": "2"}, {"id": "3"}] and found.differs
    assert "1 missing, 1 different, 1 pending" in str(found)


def test_pitfall_75_keys_beyond_the_first_ones_are_looked_at_in_further_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a bucket only so many keys are told at once: the first of many are not all."""
    monkeypatch.setattr("anabranch.verify.beside.KEYS", 3)
    monkeypatch.setattr("anabranch.verify.digest.BUCKETS", 1)
    ends = Ends(rows(*range(8)), rows(*range(8), a=7), moving={b"7"})

    def then_equal(one: VerifyTable, keys: Sequence[bytes], enough: int) -> Settled:
        settled = Ends.settle(ends, one, keys, enough)
        ends.target[:] = [row for row in ends.target if key_of(one.table)(row) not in keys]
        ends.target += [row for row in ends.source if key_of(one.table)(row) in keys]
        return settled

    ends.settle = then_equal  # type: ignore[method-assign]  # this look alone is played
    found = ends.verify(table())
    assert [len(keys) for keys in ends.looked] == [3, 3, 2] and found.pending == 1
    ends = Ends(rows(*range(8)), rows(*range(8), a=7), most=1)
    found = ends.verify(table())
    assert not found.identical and not found.is_complete and found.pending == 1 and found.is_undecided
    assert found.why == again.LATE


def test_buckets_that_were_not_read_are_pending() -> None:
    found = Ends(rows(*range(9)), [], most=1).verify(table(), limit_rows=1)
    assert not found.identical and found.pending and "at least 1 pending" in str(found)
    assert Ends(rows(*range(9)), [], most=20).verify(table(), limit_rows=1).identical


def test_a_table_that_nobody_wrote_to_is_decided_as_it_is() -> None:
    ends = Ends(rows(1, 2), rows(2, 3), quiet=True)
    found = ends.verify(table())
    assert (found.missing, found.extra, ends.looked) == (1, 1, [])


def test_a_table_without_keys_waits_for_a_moment_without_writes() -> None:
    ends = Ends(rows(1, 1), rows(1), finds=False, most=3)
    found = ends.verify(table(key=()))
    assert (found.missing, found.pending, found.why, ends.rounds) == (0, 1, again.NO_KEYS, 3)
    ends.quiet, ends.most = True, 9
    found = ends.verify(table(key=()))
    assert (found.missing, found.pending) == (1, 0)


def test_rows_of_other_jobs_are_not_looked_at() -> None:
    ends = Ends(rows(1), rows(2, 3))
    found = ends.verify(table(is_shared=True))
    assert found.identical and found.others == 2 and ends.looked == [[b"1"]]


def test_a_result_with_pending_rows_is_not_equal_and_not_different() -> None:
    pending = TableResult("s.t", "p.t", 5, 5, False, pending=2, why="rows changed")
    equal, other = TableResult("s.u", "p.u", 5, 5, True), TableResult("s.v", "p.v", 5, 4, False, missing=1)
    found = Verification((pending, equal), positions=("1@a", "2@b"))
    assert (found.exit_code, found.identical) == (9, False)
    assert Verification((pending, other)).exit_code == 4
    assert Verification((pending,), parked=(Parked("s.w", "why"),)).exit_code == 8
    text = io.StringIO()
    found.write(text)
    assert "PENDING    s.t -> p.t: 2 pending; rows changed\n" in text.getvalue()
    assert "from 1@a to 2@b" in text.getvalue() and "identical: 1 of 2 tables, 1 pending" in text.getvalue()
    told = json.loads(json.dumps(found.to_json()))
    assert told["positions"] == {"from": "1@a", "to": "2@b"}
    assert (told["tables"][0]["pending"], told["tables"][0]["why"]) == (2, "rows changed")


# --- looks that fail --------------------------------------------------------------------------------------------------


def looking(*outcomes: Any) -> Again:
    """Of these looks, one after the other: a list of keys that are left, or an error."""
    made, left = object.__new__(Again), list(outcomes)
    made._stop, made._until, made._places, made._tell = lambda: False, float("inf"), cast(Any, Settled()), silent
    made._beside, made._connect = Beside("job", Path("trail")), lambda: None  # type: ignore[method-assign]  # nothing to connect
    made._open = ExitStack()

    def look(one: VerifyTable, keys: Sequence[bytes], found: Settled) -> list[bytes]:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return cast(list[bytes], outcome)

    made._look = look  # type: ignore[method-assign]  # this look alone is played
    return made


def over_at_once(made: Again, error: Exception) -> Any:
    def look(*_: Any) -> list[bytes]:
        made.until(0.0)
        raise error

    return look


def test_pitfall_75_a_look_that_fails_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table was emptied in between: it is looked at again. So it is behind a line that broke. One that stays broken, or
    an error that stays, is told; where time is over it is pending."""
    error = TargetError("the table was redefined")
    assert looking(error, error, [b"1"], error, []).settle(table(), [b"1", b"2"], 9).pending == []
    monkeypatch.setattr(pace, "current", replace(pace.current, verify_lost=0.001))
    broken = SourceUnavailable("the line broke")
    assert looking(broken, broken, []).settle(table(), [b"1"], 9).pending == []
    with pytest.raises(SourceUnavailable):
        looking(*RECONNECTS * [broken]).settle(table(), [b"1"], 9)
    late = looking(broken)
    late.until(time.monotonic() + PATIENCE)
    late._look = over_at_once(late, broken)  # type: ignore[method-assign]  # this look alone is played
    found = late.settle(table(), [b"1"], 9)
    assert (found.pending, found.why) == ([b"1"], "the line broke")


def test_places_of_two_servers_are_not_compared() -> None:
    """Snapshots alone are checked for which server they are of; the log's end is asked over a connection of its own, which a
    proxy may lead elsewhere."""
    made = looking()
    made._source, made._server = cast(Any, SimpleNamespace(order=MemoryOrder())), ""
    assert made._of_one_server(mark("one", 3)) == mark("one", 3) and made._of_one_server(mark("one", 4)) == mark(
        "one", 4
    )
    with pytest.raises(SourceUnavailable, match="lead to two servers, one and other"):
        made._of_one_server(mark("other", 4))
    made.rest = lambda seconds: None  # type: ignore[method-assign]  # nobody waits for it
    made._reconnect(0, SourceUnavailable("the line broke"))
    assert made._of_one_server(mark("other", 4)) == mark("other", 4)


def test_a_row_that_an_end_does_not_give_is_pending_and_no_other() -> None:
    """Halves are tried, down to the row itself."""
    error = ValueRefused("no date")
    found = looking(*3 * [error], [], *3 * [ValueError("no value of the type")]).settle(table(), [b"1", b"2"], 9)
    assert (found.pending, found.why) == ([b"2"], "no value of the type")


def test_of_many_that_differ_so_many_are_looked_at_as_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each at once a second time, so that those are told of which the first batch has enough."""
    monkeypatch.setattr(again, "AT_ONCE", 2)
    made = looking()

    def look(one: VerifyTable, keys: Sequence[bytes], found: Settled) -> list[bytes]:
        return [key for key in keys if not again.is_judged(found, key, [key + b"\t1"], [])]

    made._look = look  # type: ignore[method-assign]  # this look alone is played
    found = made.settle(table(), [b"%d" % key for key in range(9)], 3)
    assert found.source == [b"0\t1", b"1\t1", b"2\t1", b"3\t1"] and found.is_cut and found.pending == []
    found = made.settle(table(), [b"1", b"2"], 9)
    assert (found.different, found.is_cut, found.pending) == (2, False, [])


def test_where_an_origin_is_left_out_nothing_that_differs_is_told() -> None:
    made = looking()
    made._beside = Beside("job", Path("trail"), tells_all=False)
    found = made.settle(table(), [b"1"], 9)
    assert (found.pending, found.why) == ([b"1"], again.LEFT_OUT)
    assert not made.is_quiet(table(), Bracket(0, 0, 1))


def test_a_difference_is_one_that_two_looks_tell() -> None:
    found = Settled()
    assert not again.is_judged(found, b"1", [b"1\t5"], [b"1\t6"]) and found.source == []
    assert not again.is_judged(found, b"1", None, [b"1\t6"])
    assert again.is_judged(found, b"1", [b"1\t5"], []) and (found.source, found.target) == ([b"1\t5"], [])
    found = Settled(suspects={b"2"})
    assert again.is_judged(found, b"2", [b"2\t5"], [b"2\t5"]) and not found.suspects and found.source == []
