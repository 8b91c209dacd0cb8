"""Many source transactions over one connection, each committed by itself, many in one packet (`mode = "transaction"`).

Each is the compare-and-set of the checkpoint, its row changes, and a COMMIT. Behind each statement stands a guard, which fails
where it has hit another number of rows than one, or where the server took a value otherwise than it was given; a packet ends
at its first error. So what has been committed is always a beginning of what was sent, and the checkpoint row says which
(K9). https://dev.mysql.com/doc/c-api/8.0/en/c-api-multiple-queries.html ·
https://dev.mysql.com/doc/refman/8.0/en/information-functions.html#function_row-count
What does not live here: whose turn it is, what an error means (`apply.py`): a transaction that is refused is done again alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pymysql

from anabranch.connectors.mysql.target.literals import comparable
from anabranch.connectors.mysql.target.ownership import MOVE, TARGET
from anabranch.connectors.mysql.target.session import bound
from anabranch.connectors.mysql.target.single_rows import Statements
from anabranch.connectors.mysql.target.staging import StagingTables
from anabranch.model.state import Checkpoint
from anabranch.rows.net import DELETE, INSERT, ChangeShape, TargetTable
from anabranch.rows.small import SmallTransactions, Values

BATCH = 100  # transactions in one packet
# EXP(1000) is no DOUBLE, which is an error everywhere; a subquery of too many rows would begin by forgetting the warnings.
GUARD = "SET @anabranch = IF(ROW_COUNT() = 1 AND @@warning_count = 0, 1, EXP(1000))"
Parts = list[str]


class CannotSay(Exception):
    """A change that no literal can tell: it goes the usual way."""


def carry_out(
    stages: StagingTables,
    job: str,
    now: Checkpoint,
    transactions: SmallTransactions,
    nul: str,
    altered: Callable[[TargetTable], str] = lambda table: "",
) -> None:
    """Carry out transactions up to the first one that is refused, or whose table is `altered`. The checkpoint row says
    afterwards how far it came. Nothing is open, before and afterwards. Driver errors pass where the line is lost."""
    connection = stages.connection
    try:
        for packet in _packets(stages, job, now, transactions, nul, altered):
            connection.together(packet)
    except CannotSay:
        connection.rollback()
    except pymysql.err.Error:
        if not connection.open:
            raise
        connection.rollback()
    finally:
        stages.known.ended()


def _packets(
    stages: StagingTables,
    job: str,
    now: Checkpoint,
    transactions: SmallTransactions,
    nul: str,
    altered: Callable[[TargetTable], str],
) -> Iterator[Parts]:
    """Yield statements to be sent together. What comes before a transaction that cannot be said is sent before the error."""
    tables: dict[ChangeShape, Statements] = {}
    epoch, sequence = now.epoch, now.position.sequence
    for first in range(0, len(transactions), BATCH):
        some = transactions.part(first, first + BATCH)
        packet: Parts = []
        heads = zip(some.sequences, some.natives, some.commit_times, strict=True)
        for (at, native, commit_time), changes in zip(heads, some.each(), strict=True):
            place = (epoch + 1, at, native, commit_time, job, TARGET, now.owner, epoch, sequence)
            parts = [bound(stages.connection, MOVE, place)]
            try:
                parts += [statement(stages, tables, shape, values, nul, altered) for shape, values in changes]
            except CannotSay:
                yield packet
                raise
            packet += [part for statement in parts for part in (statement, GUARD)]
            packet += stages.connection.committing
            epoch, sequence = epoch + 1, at
        yield packet
        ended(stages, tables)


def ended(stages: StagingTables, tables: dict[ChangeShape, Statements]) -> None:
    """Note the end of a transaction: others may alter tables again, so those are looked at anew whose values are written for
    columns as they were (decision 100)."""
    stages.known.ended()
    for shape in [shape for shape, one in tables.items() if one.depends_on_definition]:
        del tables[shape]


def statement(
    stages: StagingTables,
    tables: dict[ChangeShape, Statements],
    shape: ChangeShape,
    values: Values,
    nul: str,
    altered: Callable[[TargetTable], str],
) -> str:
    """Return the statement for one change; `tables` keeps what is known. Raises CannotSay."""
    if shape not in tables:
        if altered(shape.table):
            raise CannotSay
        tables[shape] = Statements(stages, shape.table, nul)
        if shape.operation != INSERT and not comparable(tables[shape].known, shape.table):
            raise CannotSay
    try:
        texts: Sequence[str | None] = [None if value is None else value.decode() for value in values]
    except UnicodeDecodeError:
        raise CannotSay from None
    sets, here = texts[: len(shape.sets)], texts[len(shape.sets) :]
    if shape.operation == INSERT:
        return tables[shape].insert(shape.sets, [sets])
    if shape.operation == DELETE:
        return tables[shape].delete(here)
    return tables[shape].update(shape.sets, sets, here)
