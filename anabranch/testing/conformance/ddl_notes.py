"""Conformance of a Writer: what became of changes of definitions is noted with the epoch, once for a transaction and table."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial

from anabranch.apply.abilities import MergeWriter
from anabranch.contracts import Conflict
from anabranch.model.ddl_changes import PARKS, DdlChange, DdlRule, Outcome
from anabranch.model.ids import TableId
from anabranch.testing.conformance.epochs import JOB, Epochs, Target, make, table
from anabranch.testing.conformance.subject import refuses

STATEMENT = "ALTER TABLE `a` ADD n VARCHAR(9) DEFAULT 'it''s %s \\\\ 😀'"
ADDS = DdlRule("[ddl] add_column", "apply")


def rule_17_changes_of_definitions_are_noted_with_the_epoch(target: Target) -> None:
    of = make(target, table("altered"))
    first = DdlChange(
        *(1 << 40, "7@log.1:5", 1_700_000_000_000_001, of.source, of.target, STATEMENT, ADDS, Outcome.ALTERED),
        version=2,
        digest="0123456789abcdef" * 2,
        by="ann@here",
    )
    other = replace(
        first,
        source=TableId("shop", 'odd "t".x'),
        statement="",
        rule=PARKS,
        outcome=Outcome.PARKED,
        why="it's so",
        version=0,
    )
    known = replace(other, sequence=8, position="", commit_time=0, source_user="root@%")

    def breaks(writer: MergeWriter) -> None:
        writer.note_ddl(JOB, first)
        raise Conflict(of.source, "made by the suite")

    with Epochs(target) as epochs, closing(target.connector.store()) as store:
        refuses(Conflict, lambda: epochs.do(breaks))
        assert store.journal.ddl_changes(JOB) == []
        for one in (first, other, known):
            epochs.do(partial(_note, one))
        found = store.journal.ddl_changes(JOB)
        assert [_given(one) for one in found] == [first, other, known]
        assert found[0].number < found[1].number < found[2].number and all(one.noted_at > 0 for one in found)
        assert store.journal.ddl_changes(JOB, other.source) == found[1:] and store.journal.ddl_changes("another") == []
        again = replace(first, outcome=Outcome.PARKED, why="taken back, and done again")
        epochs.do(partial(_note, again))
        then = store.journal.ddl_changes(JOB)
        assert _given(then[0]) == again and then[0].number == found[0].number and then[1:] == found[1:]


def _note(change: DdlChange, writer: MergeWriter) -> None:
    writer.note_ddl(JOB, change)


def _given(change: DdlChange) -> DdlChange:
    """The change without what the target gives it."""
    return replace(change, number=0, noted_at=0)


CHECKS = (rule_17_changes_of_definitions_are_noted_with_the_epoch,)
