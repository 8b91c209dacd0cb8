"""Pieces that one connection alone can read: each end by its own reader, in turn, and the first error ends all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from anabranch.contracts import Bounds
from anabranch.errors import SourceError
from anabranch.model.ids import TableId
from anabranch.verify.alone import Alone
from anabranch.verify.digest import PieceReading, Shared
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
