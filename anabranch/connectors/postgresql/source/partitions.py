"""Tells what has become of a table's partitions since they were known: the log has rows by the whole, and nothing of partitions
that come and go, but which of them rows were in.

What does not live here: reading partitions (definitions.py), partitions that the log names (relations.py), what becomes of a
table for it (capture).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.quoting import qualified
from anabranch.connectors.postgresql.source.definitions import Attached
from anabranch.connectors.postgresql.source.seen import is_seen
from anabranch.contracts import Divided, Drift, RowsWent
from anabranch.model.schema import Partition, TableSchema

_BOUND = "SELECT pg_catalog.pg_get_partition_constraintdef(%s::oid)"
# By the whole, which the job's user may read; by the bound no more than the partition is read.
_HAS_ROWS_BEFORE = (
    "SELECT EXISTS (SELECT FROM {whole} WHERE ({bound}) AND xmin = '{joined}'::xid AND cmin::text::bigint < {command})"
)


@dataclass(frozen=True)
class Look:
    """A look at the partitions of the source. `unseen`: transactions that the log has, and that nobody sees yet."""

    connection: Connection
    attached: Attached
    unseen: frozenset[int]


def unseen(connection: Connection, tables: Sequence[TableSchema]) -> frozenset[int]:
    """Return the transactions, of those that only the log has told of, whose work is not seen by now: a commit is in the log
    before it is seen. Asked before the catalogue. Driver errors pass."""
    told = {part.told_by for schema in tables for part in schema.partitions if part.told_by}
    return frozenset(xid for xid in told if not is_seen(connection, xid))


def why_came(then: TableSchema, now: TableSchema, look: Look) -> str:
    """Say which partition rows came with that the log has not; "" where none did. Driver errors pass."""
    for part in now.partitions:
        known = next((one for one in then.partitions if one.is_same(part)), None)
        if known is not None and known.joined and known.joined != part.joined:
            return (
                f"the partition {part.name} was detached and attached again: rows may have come or gone without the log"
            )
        if known is None or known.told_by:
            if part.oid in look.attached.before:
                return f"the table {part.name} was attached as a partition: its rows came without the log"
            if part.oid in look.attached.at_once and _has_rows_before(now, part, look):
                return f"the table {part.name} was attached as a partition with rows, which came without the log"
    return ""


def what_went(then: TableSchema, now: TableSchema, is_followed: bool, look: Look) -> Drift | None:
    """Return what there is to tell of partitions that went, and of those that came without rows; None where they are as they
    are known."""
    absent = [part for part in then.partitions if not any(map(part.is_same, now.partitions))]
    gone = tuple(part for part in absent if part.told_by not in look.unseen)
    if gone and is_followed:
        return RowsWent(then, gone)
    if gone:
        first = min(part.name for part in gone)
        return f"the partition {first} was detached or dropped: its rows went without the log"
    latest = (*now.partitions, *absent)
    if {_known_by(part) for part in latest} == {_known_by(part) for part in then.partitions}:
        return None
    return Divided(replace(then, partitions=latest))


def _known_by(part: Partition) -> tuple[object, ...]:
    return part.oid, part.joined, part.told_by, part.table


def _has_rows_before(whole: TableSchema, part: Partition, look: Look) -> bool:
    """Return whether a partition has rows of the transaction that made and attached it, from before that: not those of a
    savepoint of its own in between."""
    bound = one(look.connection, _BOUND, [part.oid])
    if not bound:  # it is gone by now
        return False
    command = look.attached.at_once[part.oid]
    query = _HAS_ROWS_BEFORE.format(whole=qualified(whole.id), bound=bound, joined=part.joined, command=command)
    return bool(one(look.connection, query))
