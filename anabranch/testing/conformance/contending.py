"""Conformance of a Writer: keys and unique values that rows take from each other (K8).

What does not live here: the list of what is checked, and in which order (`writer.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from anabranch.contracts import Conflict
from anabranch.model.schema import Index
from anabranch.rows.keys import UniqueKey
from anabranch.rows.net import TableNet, TargetTable, Updates
from anabranch.testing.conformance.epochs import (
    JOB,
    NUMBER,
    RULES,
    Epochs,
    Line,
    Target,
    arrow,
    keys,
    make,
    rows,
    schema,
    table,
)
from anabranch.testing.conformance.subject import refuses


def unique(target: Target, lines: Sequence[Line], *indexes: tuple[str, ...]) -> TargetTable:
    """The table with these unique keys beside the primary, as the source's own are built."""
    of = make(target, table("a"), lines)
    keys = tuple(Index(f"key_{number}", columns, unique=True) for number, columns in enumerate(indexes))
    with closing(target.connector.tables(RULES)) as tables, closing(target.connector.catalog()) as catalog:
        assert tables.build(JOB, replace(schema(of), indexes=keys), of, lambda table: None) == []
        assert catalog.unique_keys([of]) == {of.source: frozenset(UniqueKey(frozenset(columns)) for columns in indexes)}
    return of


def together(numbers: Sequence[int], *lines: Line, names: Sequence[str], moves: bool = False) -> Updates:
    return Updates(keys(*numbers), arrow(*lines, names=names), moves, contends=True)


def rule_08_pitfall_11_unique_values_are_swapped_and_rotated(target: Target) -> None:
    """Two unique keys at once, NULL among the values; alone each update would be refused."""
    of = unique(target, [("1", "10", "a"), ("2", "20", "b"), ("3", None, "c")], ("parent",), ("word",))
    turn = together((1, 2, 3), ("20", "b"), (None, "c"), ("10", "a"), names=("parent", "word"))
    with Epochs(target) as epochs:
        refuses(Conflict, lambda: epochs.merge(TableNet(of, updates=(replace(turn, contends=False),))))
        epochs.merge(TableNet(of, updates=(turn,)))
    assert rows(target, of) == [("1", "20", "b"), ("2", None, "c"), ("3", "10", "a")]


def rule_08_rows_that_set_other_columns_contend_with_each_other(target: Target) -> None:
    """Partial images: of each row its own columns stay."""
    of = unique(target, [("1", "10", "a"), ("2", "20", "b")], ("parent",))
    one, other = (
        together((1,), ("20",), names=("parent",)),
        together((2,), ("10", "new"), names=("parent", "word")),
    )
    with Epochs(target) as epochs:
        epochs.merge(TableNet(of, updates=(one, other)))
    assert rows(target, of) == [("1", "20", "a"), ("2", "10", "new")]


def rule_08_pitfall_11_unique_values_of_deleted_rows_are_taken_over(target: Target) -> None:
    """Let an updated row take a deleted row's value, an inserted one, and an inserted one that of an updated row."""
    of = unique(
        target, [("1", "10", "a"), ("2", "20", "b"), ("3", "30", "c"), ("4", "40", "d")], ("parent",), ("word",)
    )
    with Epochs(target) as epochs:
        epochs.merge(
            TableNet(
                of,
                deletes=keys(1, 2),
                updates=(together((3, 4), ("10", "d"), ("30", "e"), names=("parent", "word")),),
                inserts=arrow(("5", "20", "b"), ("6", "40", "c")),
            )
        )
    assert rows(target, of) == [("3", "10", "d"), ("4", "30", "e"), ("5", "20", "b"), ("6", "40", "c")]


def rule_08_pitfall_10_keys_are_shifted_with_what_the_job_does_not_write(target: Target) -> None:
    """Shift keys, swap a unique value alone, and move a row to a value that was free."""
    whole = unique(target, [("1", "1", "a"), ("2", "2", "b"), ("3", "3", "c"), ("9", "9", "z")], ("parent",))
    of = replace(whole, columns=("id", "parent"), types=(NUMBER, NUMBER), source_columns=("id", "parent"))
    shifted = together((1, 2), ("2", "2"), ("3", "1"), names=("id", "parent"), moves=True)
    back, stays = together((3,), ("1",), names=("id",), moves=True), together((9,), ("8",), names=("parent",))
    with Epochs(target) as epochs:
        epochs.merge(TableNet(of, updates=(shifted, back, stays)))
    assert rows(target, whole) == [("1", "3", "c"), ("2", "2", "a"), ("3", "1", "b"), ("9", "8", "z")]


def rule_08_rows_that_contend_are_counted(target: Target) -> None:
    of = unique(target, [("1", "10", "a"), ("2", "20", "b")], ("parent",))
    with Epochs(target) as epochs:
        missing = together((1, 77), ("20",), ("10",), names=("parent",))
        refuses(Conflict, lambda: epochs.merge(TableNet(of, updates=(missing,))))
        equal = together((1, 2), ("30",), ("30",), names=("parent",))
        refuses(Conflict, lambda: epochs.merge(TableNet(of, updates=(equal,))))
    assert rows(target, of) == [("1", "10", "a"), ("2", "20", "b")]


def rule_08_staged_rows_contend_over_several_pieces(target: Target) -> None:
    of = unique(target, [(str(n), str(n), None) for n in range(300)], ("parent",), ("id", "word"))
    half = [
        together(range(150), *((str((n + 1) % 300),) for n in range(150)), names=("parent",)),
        together(range(150, 300), *((str((n + 1) % 300), "x") for n in range(150, 300)), names=("parent", "word")),
    ]
    back = together(range(300), *((str(n),) for n in range(300)), names=("parent",))
    nets = [TableNet(of, updates=tuple(half)), TableNet(of, updates=(back,))]
    with Epochs(target) as epochs, closing(target.connector.stager(RULES)) as stager:
        turned, returned = stager.stage(JOB, nets)
        epochs.do(lambda writer: writer.merge_staged(turned))
        assert rows(target, of) == sorted(
            [(str(n), str((n + 1) % 300), "x" if n >= 150 else None) for n in range(300)], key=str
        )
        epochs.do(lambda writer: writer.merge_staged(returned))
    assert rows(target, of) == sorted([(str(n), str(n), "x" if n >= 150 else None) for n in range(300)], key=str)
