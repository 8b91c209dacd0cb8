"""Conformance of a target where it is not as a change expects (K28), and where a person says what is left out: rows that are
looked at, rows that are newer, what is noted and kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from anabranch.apply.abilities import MergeWriter
from anabranch.contracts import Conflict, OlderRow, PairWriter, RowAgain
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import DeletedRow, PairNotes, StandingRow
from anabranch.model.state import Skipped
from anabranch.rows.conflict import Age, FoundRow, NotedConflict, OnConflict
from anabranch.rows.net import DELETE, UPDATE, TableNet, Updates
from anabranch.testing.conformance.epochs import JOB, RULES, Epochs, Target, arrow, keys, make, rows, table
from anabranch.testing.conformance.subject import refuses

AGES = [("1", "5", "a"), ("2", None, "b"), ("3", "7", "c")]  # `parent` says how new a row is


def a_row_is_found_with_its_age(target: Target) -> None:
    of = make(target, table("aged"), AGES)
    asked = {("1", "4"): True, ("1", "5"): False, ("1", "6"): False, ("1", None): True, ("2", "0"): False}
    with Epochs(target) as epochs:
        for (number, value), is_newer in {**asked, ("2", None): False}.items():
            found = epochs.do(
                lambda writer, n=number, v=value: writer.row(of, {"id": n}, Age("parent", v))  # type: ignore[misc]  # mypy knows no types of bound defaults
            )
            values = dict(zip(of.columns, AGES[int(number) - 1], strict=True))
            assert found == FoundRow(values, is_newer)
        assert epochs.do(lambda writer: writer.row(of, {"id": "4"}, None)) is None
        assert epochs.do(lambda writer: writer.row(of, {"id": "3"}, None)) == FoundRow(
            {"id": "3", "parent": "7", "word": "c"}
        )


def rule_28_a_newer_row_is_a_conflict(target: Target) -> None:
    """Meet newer rows in deletes, updates and contending updates, staged by executors or not."""
    of = make(target, table("newer"), AGES)

    def net(*ages: int | None, **parts: Any) -> TableNet:
        found = pa.chunked_array([pa.array(ages, pa.int32())])
        updates = tuple(replace(one, ages=found) for one in parts.get("updates", ()))
        deletes = parts.get("deletes")
        return TableNet(of, deletes, updates, newest_by="parent", ages=found if deletes else None)

    word = Updates(keys(1, 3), arrow(("x",), ("y",), names=("word",)))
    with Epochs(target) as epochs:
        for refused in (
            net(4, deletes=keys(1)),
            net(None, deletes=keys(3)),
            net(5, 6, updates=(word,)),
            net(5, 6, updates=(replace(word, contends=True),)),
        ):
            refuses(Conflict, partial(epochs.merge, refused))
            with closing(target.connector.stager(RULES)) as stager:
                staged = list(stager.stage(JOB, [refused]))
            refuses(Conflict, lambda staged=staged: epochs.do(lambda writer: writer.merge_staged(staged[0])))  # type: ignore[misc]  # mypy knows no types of bound defaults
        assert rows(target, of) == AGES
        epochs.merge(net(5, 7, updates=(word,)))
        epochs.merge(net(None, deletes=keys(2)))
        epochs.merge(net(9, deletes=keys(3)))
    assert rows(target, of) == [("1", "5", "x")]


def conflicts_are_noted_with_the_epoch(target: Target) -> None:
    of = make(target, table("noted"))
    first = NotedConflict(
        *(7, "7@log.1:5", 1_700_000_000_000_001, of.source, of.target, {"id": "1"}),
        operation=UPDATE,
        kind="missing",
        policy=OnConflict.SOURCE_WINS,
        decision="source",
        before={"id": "1", "word": "tab\tund\nnul\0"},
        after={"word": None},
    )
    second = replace(first, source=TableId("shop", "other"), before=None, found={"word": "\\x00"})

    def breaks(writer: MergeWriter) -> None:
        writer.note(JOB, first)
        raise Conflict(of.source, "made by the suite")

    with Epochs(target) as epochs, closing(target.connector.store()) as store:
        before = len(store.journal.conflicts(JOB))
        refuses(Conflict, lambda: epochs.do(breaks))
        assert len(store.journal.conflicts(JOB)) == before
        for one in (first, second):
            epochs.do(lambda writer, one=one: writer.note(JOB, one))  # type: ignore[misc]  # mypy knows no types of bound defaults
        found = store.journal.conflicts(JOB)[before:]
        assert found == [first, second] and found[0].number < found[1].number and found[0].noted_at > 0
        assert store.journal.conflicts(JOB, of.source)[-1] == first and store.journal.conflicts("another") == []
        assert store.journal.conflicts(JOB, after=found[0].number) == [second]
        assert store.journal.conflicts(JOB, after=found[0].number - 1, limit=1) == [first]
        assert store.journal.forget_conflicts("another", found[1].number) == 0
        assert store.journal.forget_conflicts(JOB, found[0].number) == before + 1 and store.journal.conflicts(JOB) == [
            second
        ]


def rule_23_deletes_of_a_pair_are_noted_and_cleared(target: Target) -> None:
    """Notes come and go with the epoch; rows that are not newer go, in a transaction that is no epoch, once. A note without an
    age removes its row however new it is."""
    of = make(target, table("deleted"), AGES)
    noted = [DeletedRow(f"{number:032x}", of.target, {"id": str(number)}, "6") for number in range(1, 4)]

    def breaks(writer: MergeWriter) -> None:
        _in_pair(writer).note_deleted(JOB, noted[2])
        raise Conflict(of.source, "made by the suite")

    with Epochs(target) as epochs, closing(target.connector.store()) as store:
        writer, before = _in_pair(epochs.writer), len(store.journal.conflicts(JOB))
        for one in noted[:2]:
            epochs.do(lambda writer, one=one: _in_pair(writer).note_deleted(JOB, one))  # type: ignore[misc]  # as above
        refuses(Conflict, lambda: epochs.do(breaks))
        assert writer.pair_notes(JOB) == PairNotes(tuple(noted[:2])) and writer.pair_notes("another") == PairNotes()
        conflict = NotedConflict(
            *(7, "7@log.1:5", 1, of.source, of.target, {"id": "1"}, DELETE, "differs", OnConflict.NEWEST, "source")
        )
        older = [OlderRow(one, of, one.key, "parent", conflict) for one in (noted[0], noted[2])]
        assert [writer.remove_older(JOB, older) for _ in range(2)] == [1, 0]
        assert rows(target, of) == AGES[1:]
        found = store.journal.conflicts(JOB)[before:]
        assert found == [replace(conflict, found=dict(zip(of.columns, AGES[0], strict=True)))]
        assert writer.pair_notes(JOB) == PairNotes(tuple(noted[:2]), (noted[0].id, noted[2].id))
        ageless = replace(noted[2], id=f"{4:032x}", age=None)
        epochs.do(lambda writer: _in_pair(writer).note_deleted(JOB, ageless))
        assert writer.pair_notes(JOB).deleted == (*noted[:2], ageless)
        assert [writer.remove_older(JOB, [replace(older[1], deleted=ageless)]) for _ in range(2)] == [1, 0]
        assert rows(target, of) == AGES[1:2]
        writer.forget_notes(JOB, [ageless.id], [ageless.id])
        writer.forget_notes(JOB, [noted[0].id], [noted[2].id, "of nobody"])
        assert writer.pair_notes(JOB) == PairNotes((noted[1],), (noted[0].id,))
        epochs.do(lambda writer: writer.row(of, {"id": "3"}, None))  # the next epoch is at its place
        writer.forget_notes(JOB, [noted[1].id], [noted[0].id])


def rule_23_rows_of_the_site_that_wins_are_written_again(target: Target) -> None:
    """Notes come with the epoch, and go with the write, which is no epoch: a row that is not newer gets the next version, one
    that is newer or gone stays so."""
    of = make(target, table("standing"), AGES)
    key, first = {"id": str(AGES[0][0])}, dict(zip(of.columns, AGES[0], strict=True))
    gone = {**first, "id": "99"}
    notes = [
        StandingRow(f"{number:032x}", of.target, *rest)
        for number, rest in enumerate(
            ((key, "6", {}), (key, "6", {}), ({"id": "99"}, "6", gone), ({"id": "98"}, "6", {}))
        )
    ]

    def breaks(writer: MergeWriter) -> None:
        _in_pair(writer).note_standing(JOB, notes[0])
        raise Conflict(of.source, "made by the suite")

    with Epochs(target) as epochs:
        writer = _in_pair(epochs.writer)
        refuses(Conflict, lambda: epochs.do(breaks))
        assert writer.standing(JOB, 9) == ()
        for one in notes:
            epochs.do(lambda writer, one=one: _in_pair(writer).note_standing(JOB, one))  # type: ignore[misc]  # as above
        assert writer.standing(JOB, 9) == tuple(notes) and writer.standing(JOB, 1, notes[0].id) == (notes[1],)
        assert writer.standing("another", 9) == () and writer.pair_notes(JOB) == PairNotes()
        again = [RowAgain(one, of, "parent", "7") for one in notes]
        assert [writer.write_again(JOB, again) for _ in range(2)] == [2, 1]  # the other one is newer now
        assert rows(target, of) == [tuple({**first, "parent": "7"}[name] for name in of.columns), *AGES[1:]]
        assert writer.standing(JOB, 9) == ()
        epochs.do(lambda writer: writer.row(of, key, None))  # the next epoch is at its place


def _in_pair(writer: MergeWriter) -> PairWriter:
    assert isinstance(writer, PairWriter)
    return writer


def transactions_to_leave_out_are_kept(target: Target) -> None:
    one, other = Skipped(12, "12@log.1:7", 5, {"shop.a": 2, "shop.b": 1}), Skipped(3, "3@log.1:2", 0, {})
    with closing(target.connector.store()) as store:
        for each in (one, other, replace(one, changes={})):
            store.journal.skip(JOB, each)
        found = store.journal.skipped(JOB)
        assert [replace(each, asked_at=0) for each in found] == [other, one] and found[0].asked_at > 0
        assert store.journal.skipped("another") == []
        assert (
            store.journal.unskip(JOB, 3)
            and not store.journal.unskip(JOB, 3)
            and not store.journal.unskip("another", 12)
        )
        assert [each.sequence for each in store.journal.skipped(JOB)] == [12]


CHECKS: tuple[Callable[[Target], None], ...] = (
    a_row_is_found_with_its_age,
    rule_28_a_newer_row_is_a_conflict,
    conflicts_are_noted_with_the_epoch,
    rule_23_deletes_of_a_pair_are_noted_and_cleared,
    rule_23_rows_of_the_site_that_wins_are_written_again,
    transactions_to_leave_out_are_kept,
)
