"""Conformance of an Appender: every change once, in the log's order, with the position and the time of its transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from anabranch.contracts import Appender, AppendTarget, Begun, ValueRules
from anabranch.errors import Fenced, StateError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.appended import Appended, ChangeBatch, Committed, Emptied, TableChanges
from anabranch.rows.chunk import Op
from anabranch.rows.net import TargetTable
from anabranch.testing.conformance.subject import refuses

JOB, OWNER, RULES = "conformance", "owner-1", ValueRules()
TYPES = (LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=100))
Line = tuple[Op, int, int, int, str | None]  # operation, sequence, ordinal, id, word


@dataclass(frozen=True)
class AppendSubject:
    """An empty target; `prepare()` was called. `appended`: what a reader of committed changes finds, oldest first."""

    connector: AppendTarget
    appended: Callable[[], Sequence[Appended]]


def table(name: str) -> TargetTable:
    return TargetTable(TableId("shop", name), TableId("public", name), ("id", "word"), TYPES, ("id",), ("id", "word"))


def changes(of: TargetTable, *lines: Line, carries: tuple[bool, bool] = (True, True)) -> TableChanges:
    op, sequence, ordinal, id_, word = (list(column) for column in zip(*lines, strict=True))
    rows = pa.table({"id": pa.array(id_, pa.int64()), "word": pa.array(word, pa.string())})
    numbers = (np.array(op, np.int8), np.array(sequence, np.int64), np.array(ordinal, np.int64))
    return TableChanges(of, *numbers, np.zeros(len(lines), np.int16), np.array([carries]), rows)


def transaction(sequence: int, origin: str | None = None) -> Committed:
    return Committed(sequence, f"log.1:{sequence * 100}", 1_700_000_000_000_000 + sequence, f"gtid-{sequence}", origin)


class Epochs:
    """A claimed appender that makes one epoch after another."""

    def __init__(self, subject: AppendSubject, owner: str = OWNER) -> None:
        with closing(subject.connector.store()) as store:
            store.jobs.create_checkpoint(JOB, Position(0, "start"), 1)
        self.appender: Appender = subject.connector.appender(RULES)
        self.now = self.appender.claim(JOB, owner)

    def next(self, batch: ChangeBatch) -> Checkpoint:
        last = batch.transactions[-1]
        return Checkpoint(self.now.owner, self.now.epoch + 1, Position(last.sequence, last.position), last.commit_time)

    def do(self, *batches: ChangeBatch) -> None:
        then = self.next(batches[-1])
        assert self.appender.begin(self.now, then) is Begun.OPEN
        for batch in batches:
            self.appender.append(batch)
        self.appender.commit()
        self.now = then


@contextmanager
def epochs(subject: AppendSubject, owner: str = OWNER) -> Iterator[Epochs]:
    made = Epochs(subject, owner)
    with closing(made.appender):
        yield made


def words(found: Sequence[Appended]) -> list[tuple[int, int, str]]:
    return [(one.transaction.sequence, one.ordinal, str((one.after or one.before or {}).get("word"))) for one in found]


def every_change_has_the_place_and_the_time_of_its_transaction(subject: AppendSubject) -> None:
    of = table("a")
    one, two = transaction(1), transaction(2, "north")
    lines = ((Op.INSERT, 1, 0, 7, "a"), (Op.BEFORE, 2, 0, 7, "a"), (Op.AFTER, 2, 1, 7, "b"), (Op.DELETE, 2, 2, 7, "b"))
    with epochs(subject) as made:
        made.do(ChangeBatch((one, two), [changes(of, *lines)]))
    inserted, updated, deleted = subject.appended()
    assert (inserted.transaction, updated.transaction, deleted.transaction) == (one, two, two)
    assert (inserted.before, inserted.after) == (None, {"id": 7, "word": "a"})
    assert (updated.before, updated.after) == ({"id": 7, "word": "a"}, {"id": 7, "word": "b"})
    assert (deleted.before, deleted.after) == ({"id": 7, "word": "b"}, None)


def changes_of_several_tables_come_in_the_order_of_the_log(subject: AppendSubject) -> None:
    a, b = table("a"), table("b")
    with epochs(subject) as made:
        of_a = changes(a, (Op.INSERT, 1, 0, 1, "1.0"), (Op.INSERT, 1, 2, 2, "1.2"), (Op.INSERT, 2, 1, 3, "2.1"))
        of_b = changes(b, (Op.INSERT, 1, 1, 1, "1.1"), (Op.INSERT, 2, 0, 2, "2.0"))
        made.do(ChangeBatch((transaction(1), transaction(2)), [of_a, of_b], [Emptied(b, 2, 2)]))
    found = subject.appended()
    assert words(found[:-1]) == [(1, 0, "1.0"), (1, 1, "1.1"), (1, 2, "1.2"), (2, 0, "2.0"), (2, 1, "2.1")]
    assert (found[-1].table.source, found[-1].before, found[-1].after) == (b.source, None, None)


def what_an_image_does_not_carry_is_not_told(subject: AppendSubject) -> None:
    with epochs(subject) as made:
        made.do(
            ChangeBatch((transaction(1),), [changes(table("a"), (Op.DELETE, 1, 0, 1, None), carries=(True, False))])
        )
    assert [one.before for one in subject.appended()] == [{"id": 1}]


def a_row_that_changes_often_is_as_many_changes(subject: AppendSubject) -> None:
    of = table("a")
    with epochs(subject) as made:
        made.do(*(ChangeBatch((transaction(n),), [changes(of, (Op.AFTER, n, 0, 1, str(n)))]) for n in range(1, 5)))
    assert words(subject.appended()) == [(n, 0, str(n)) for n in range(1, 5)]


def a_transaction_may_come_in_several_batches(subject: AppendSubject) -> None:
    of, large = table("a"), transaction(5)
    with epochs(subject) as made:
        made.do(*(ChangeBatch((large,), [changes(of, (Op.INSERT, 5, n, n, str(n)))]) for n in range(3)))
    assert {one.transaction for one in subject.appended()} == {large} and len(subject.appended()) == 3


def rule_09_what_is_rolled_back_is_never_read_and_comes_once_after_all(subject: AppendSubject) -> None:
    batch = ChangeBatch((transaction(1),), [changes(table("a"), (Op.INSERT, 1, 0, 1, "x"))])
    with epochs(subject) as made:
        then = made.next(batch)
        assert made.appender.begin(made.now, then) is Begun.OPEN
        made.appender.append(batch)
        made.appender.rollback()
        assert list(subject.appended()) == []
        refuses(StateError, lambda: made.appender.append(batch))
        before = made.now
        made.do(batch)
        assert made.appender.begin(before, then) is Begun.APPLIED
        assert made.appender.begin(before, replace(then, epoch=9, position=Position(9, "far"))) is Begun.REPLAN
    assert words(subject.appended()) == [(1, 0, "x")]
    with closing(subject.connector.store()) as store:
        assert store.jobs.checkpoint(JOB) == then


def rule_09_a_fenced_owner_appends_nothing(subject: AppendSubject) -> None:
    batch = ChangeBatch((transaction(1),), [changes(table("a"), (Op.INSERT, 1, 0, 1, "x"))])
    with epochs(subject) as old:
        then = old.next(batch)
        assert old.appender.begin(old.now, then) is Begun.OPEN
        old.appender.append(batch)
        with epochs(subject, "owner-2") as new:
            refuses(Fenced, old.appender.commit)
            new.do(batch)
        refuses(Fenced, lambda: old.appender.begin(old.now, then))
    assert words(subject.appended()) == [(1, 0, "x")]


CHECKS: tuple[Callable[[AppendSubject], None], ...] = (
    every_change_has_the_place_and_the_time_of_its_transaction,
    changes_of_several_tables_come_in_the_order_of_the_log,
    what_an_image_does_not_carry_is_not_told,
    a_row_that_changes_often_is_as_many_changes,
    a_transaction_may_come_in_several_batches,
    rule_09_what_is_rolled_back_is_never_read_and_comes_once_after_all,
    rule_09_a_fenced_owner_appends_nothing,
)
