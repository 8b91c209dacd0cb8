"""Tells what has become of a table's partitions since they were known: the log has rows by the whole, and nothing of partitions
that come and go, but which of them rows were in.

What does not live here: reading partitions (definitions.py), partitions that the log names (relations.py), what becomes of a
table for it (capture).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import psycopg

from anabranch import log
from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.errors import describe
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.source.definitions import Attached
from anabranch.connectors.postgresql.source.seen import is_seen
from anabranch.contracts import Divided, Drift, RowsWent, Undecided
from anabranch.model.schema import Partition, TableSchema

RANGES = 140_000  # from here on a range of places in a table is read alone
SLICE = 16_384  # pages that are read at once: 128 MB
SECONDS = 2.0  # of a look, in which slices are read; the next look goes on behind them

# Whether the user may read the partition itself, and which rows of the whole are in it: a DEFAULT that is the only partition
# has no bound. https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-CATALOG
_HOW_READ = """
SELECT n.nspname::text, c.relname::text,
       has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT') AND NOT row_security_active(c.oid),
       coalesce(pg_catalog.pg_get_partition_constraintdef(c.oid), 'true')
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid = %s AND c.relispartition
"""
# The pages of the longest file, and which files they are.
_PAGES = """
SELECT coalesce(max(pg_catalog.pg_relation_size(t.relid)) / current_setting('block_size')::bigint, 0)::bigint,
       coalesce(string_agg(pg_catalog.pg_relation_filenode(t.relid)::text, ' ' ORDER BY t.relid), '')
  FROM pg_catalog.pg_partition_tree(%s::oid) AS t
"""
_HAS_ROWS_BEFORE = """
SELECT EXISTS (SELECT FROM {read} WHERE ({bound}) AND xmin = '{joined}'::xid AND cmin::text::bigint < {command}
                  AND ctid >= '({first},0)'::tid AND ctid < '({end},0)'::tid)
"""

Scanned = dict[tuple[int, int], tuple[str, int]]
"""Partitions, by their number and what joined them -> their files, and the page behind those that no such rows are in."""


@dataclass(frozen=True)
class Look:
    """A look at the partitions of the source. `unseen`: transactions that the log has, and that nobody sees yet; `scanned`:
    what the looks before have read; `undecided`: numbers of partitions of which it is not known yet whether rows came with
    them, and why."""

    connection: Connection
    attached: Attached
    unseen: frozenset[int]
    scanned: Scanned = field(default_factory=dict)
    undecided: dict[int, Undecided] = field(default_factory=dict)


def unseen(connection: Connection, tables: Sequence[TableSchema]) -> frozenset[int]:
    """Return the transactions, of those that only the log has told of, whose work is not seen by now: a commit is in the log
    before it is seen. Asked before the catalogue. Driver errors pass."""
    told = {part.told_by for schema in tables for part in schema.partitions if part.told_by}
    return frozenset(xid for xid in told if not is_seen(connection, xid))


def why_came(then: TableSchema, now: TableSchema, look: Look) -> str:
    """Say which partition rows came with that the log has not; "" where none did, or it is not known yet: that is noted in the
    look. Driver errors pass where they end the session."""
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
    are known. Partitions that are undecided are as they were."""
    absent = [part for part in then.partitions if not any(map(part.is_same, now.partitions))]
    gone = tuple(part for part in absent if part.told_by not in look.unseen)
    if gone and is_followed:
        return RowsWent(then, gone)
    if gone:
        first = min(part.name for part in gone)
        return f"the partition {first} was detached or dropped: its rows went without the log"
    undecided = [part for part in now.partitions if part.oid in look.undecided]
    kept = [part for part in then.partitions if any(map(part.is_same, undecided))]
    latest = (*(part for part in now.partitions if part not in undecided), *kept, *absent)
    if {_known_by(part) for part in latest} != {_known_by(part) for part in then.partitions}:
        return Divided(replace(then, partitions=latest))
    reasons = [look.undecided[part.oid] for part in undecided]
    return next((one for one in reasons if one.has_failed), reasons[0] if reasons else None)


def _known_by(part: Partition) -> tuple[object, ...]:
    return part.oid, part.joined, part.told_by, part.table


def _has_rows_before(whole: TableSchema, part: Partition, look: Look) -> bool:
    """Return whether a partition has rows of the transaction that made and attached it, from before that: not those of a
    savepoint of its own in between. False as well where the look does not tell, which it notes."""
    try:
        return _finds_rows_before(whole, part, look)
    except psycopg.Error as error:
        if look.connection.closed:
            raise
        reason = describe(error)
        log.get().warning("partition_not_read", table=str(whole.id), partition=part.name, reason=reason)
        look.undecided[part.oid] = Undecided(
            f"the partition {part.name} cannot be looked at: {reason}", has_failed=True
        )
        return False


def _finds_rows_before(whole: TableSchema, part: Partition, look: Look) -> bool:
    """Read a partition slice by slice, for as long as a look may take. Driver errors pass."""
    found = look.connection.execute(_HOW_READ, [part.oid]).fetchone()
    if found is None:  # it is gone by now
        return False
    schema, name, is_open, bound = found
    read, bound = (f"{quote(schema)}.{quote(name)}", "true") if is_open else (qualified(whole.id), bound)
    pages, files = look.connection.execute(_PAGES, [part.oid]).fetchall()[0]
    known, first = look.scanned.get((part.oid, part.joined), ("", 0))
    first = first if known == files else 0
    size = SLICE if look.connection.info.server_version >= RANGES else max(pages, 1)
    until, where = time.monotonic() + SECONDS, {"read": read, "bound": bound, "joined": part.joined}
    while first < pages:
        end = min(first + size, pages)
        query = _HAS_ROWS_BEFORE.format(**where, command=look.attached.at_once[part.oid], first=first, end=end)
        if one(look.connection, query):
            return True
        look.scanned[part.oid, part.joined] = files, end
        first = end
        if first < pages and time.monotonic() >= until:
            look.undecided[part.oid] = Undecided(f"the partition {part.name} is read up to page {first} of {pages}")
            break
    return False
