"""Pieces that one connection alone can read: each end by its own reader, in turn, and the first error ends all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.contracts import Bounds
from anabranch.errors import SourceError, TargetBusy, TargetError
from anabranch.model.ids import TableId
from anabranch.spark.work import Outcome
from anabranch.verify.alone import Alone
from anabranch.verify.digest import GONE, PieceReading, Shared, Summing
from anabranch.verify.exact import OnePosition
from anabranch.verify.plan import VerifyPiece
from anabranch.verify.report import NO_TIME, TableResult

THERE = [VerifyPiece(cast(Any, None), bounds=Bounds((str(n),))) for n in range(3)]
HERE = [VerifyPiece(cast(Any, None), place=str(n)) for n in range(2)]


@dataclass(frozen=True)
class Naming(PieceReading):
    """The outcome of a piece is the reader that read it."""

    @contextmanager
    def read(self, piece: VerifyPiece) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        assert self.kept is not None
        (reader,) = self.kept.values()
        if reader == "lost":
            self.kept.clear()
            raise SourceError("the connection is lost")
        yield reader.encode(), iter(())

    def finish(self, piece: VerifyPiece, header: bytes, blocks: Iterator[bytes]) -> Any:
        return header.decode()


def work() -> Naming:
    return Naming(*cast(tuple[Any, Any, Any], (None, None, None)))


def read(alone: Alone) -> list[tuple[Any, Any]]:
    found = list[tuple[Any, Any]]()
    with alone.reading(work(), [*THERE, *HERE], lambda one: found.append((one.piece, one.value)), alone.failed.is_set):
        pass
    return found


def test_each_end_is_read_by_its_own_reader_in_turn() -> None:
    found = read(Alone({"source": "there", "target": "here"}))
    assert [piece for piece, reader in found if reader == "there"] == THERE
    assert [piece for piece, reader in found if reader == "here"] == HERE


def test_what_tasks_can_read_is_left_to_them() -> None:
    alone = Alone({"target": "here"})
    assert alone.others([*THERE, *HERE]) == THERE and [piece for piece, _ in read(alone)] == HERE
    assert Alone().others([*THERE, *HERE]) == [*THERE, *HERE] and read(Alone()) == []


def test_the_first_error_ends_all_and_is_raised() -> None:
    alone = Alone({"source": "lost", "target": "here"})
    with pytest.raises(SourceError, match="is lost"):
        read(alone)
    assert alone.failed.is_set()


class Reader:
    """Reads in a snapshot, which the piece's table is in no more. `stands`: the snapshot itself is still there."""

    def __init__(self, stands: bool) -> None:
        self.stands, self.is_open = stands, True

    def lines(self, *_: object) -> Iterator[bytes]:
        raise TargetBusy("the table was altered")

    def release(self) -> None:
        if not self.stands:
            raise TargetError("the connection is lost")

    def close(self) -> None:
        self.is_open = False


@pytest.mark.parametrize("stands", [True, False])
def test_an_error_that_the_snapshot_outlasts_is_of_the_table_alone(stands: bool) -> None:
    """Else nothing more is read over that connection, which would be in another snapshot."""
    reader, found = Reader(stands), list[Outcome]()
    alone = Alone({"target": reader})
    one = cast(Any, SimpleNamespace(table=None))
    pieces = [VerifyPiece(one, place=str(n)) for n in range(2)]
    work = Summing(*cast(tuple[Any, Any, Any], (None, None, None)), shared=Shared("here", "", "5@here"))
    with ExitStack() as stack:
        if not stands:
            stack.enter_context(pytest.raises(TargetBusy))
        with alone.reading(work, pieces, found.append, alone.failed.is_set):
            pass
    assert [outcome.failure.message for outcome in found if outcome.failure] == ["the table was altered"] * 2 * stands
    assert reader.is_open is stands and alone.failed.is_set() is not stands


def test_tables_that_a_snapshot_did_not_keep_are_left_and_all_of_them_are_no_position() -> None:
    tables = [cast(Any, SimpleNamespace(table=SimpleNamespace(source=TableId("a", name)))) for name in ("one", "other")]
    some, every = (OnePosition(Shared("", "", "5@here")) for _ in range(2))
    some.passed(tables, {TableId("a", "one"): "it was altered"})
    assert [some.is_left(one) for one in tables] == [True, False] and some.left[
        TableId("a", "one")
    ] == f"{GONE}: it was altered"
    every.passed(tables, dict.fromkeys((one.table.source for one in tables), GONE))
    assert every.shared is None and every.why == GONE and all(map(every.is_left, tables))


def test_an_error_of_the_tasks_ends_what_is_read_alone() -> None:
    alone = Alone({"target": "here"})
    with (
        pytest.raises(ValueError, match="of a task"),
        alone.reading(work(), HERE, lambda _: None, alone.failed.is_set),
    ):
        raise ValueError("of a task")
    assert alone.failed.is_set()


def test_a_table_says_where_it_was_read_or_why_not() -> None:
    one = OnePosition(Shared("", "", "5@here"), left={TableId("a", "filtered"): "it is filtered"})
    told = [one.told_of(TableResult(f"a.{name}", "b", 1, 1, True)) for name in ("plain", "filtered")]
    assert [(result.exact, result.not_exact) for result in told] == [("5@here", ""), ("", "it is filtered")]
    assert told[0].when == "; exact at 5@here"
    late = TableResult("a.plain", "b", 0, 0, False, pending=1, why=NO_TIME)
    assert one.told_of(late) == late, "nobody has read it"
    assert OnePosition(why="no time").told_of(TableResult("a.plain", "b", 1, 1, True)).not_exact == "no time"
