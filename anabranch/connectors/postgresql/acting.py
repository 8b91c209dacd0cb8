"""Read what acts on rows of a PostgreSQL's tables: triggers, those that are off, and constraints that some rows may break.

https://www.postgresql.org/docs/current/catalog-pg-trigger.html · https://www.postgresql.org/docs/current/catalog-pg-constraint.html
Everybody may read these catalogues. What does not live here: triggers that would fire for replicated rows
(target/preflight_acting.py). Errors of the driver pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import LiteralString

from anabranch.connectors.postgresql import fence_names
from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.contracts import Acting, Trigger, Unproven
from anabranch.model.ids import TableId

OWN = ["anabranch", fence_names.SCHEMA]  # schemas of the functions that triggers of ours run
TREES_SINCE = 120_000  # pg_partition_tree
# The tables that were asked for, with the place of each: itself, or a partition of it.
_PLACES: LiteralString = """
  FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p')
  CROSS JOIN LATERAL ({parts}) AS part (oid)
  JOIN pg_catalog.pg_class pc ON pc.oid = part.oid
  JOIN pg_catalog.pg_namespace pn ON pn.oid = pc.relnamespace
"""
_ITSELF: LiteralString = "SELECT c.oid"
_TREE: LiteralString = "SELECT c.oid UNION SELECT relid::oid FROM pg_catalog.pg_partition_tree(c.oid)"
_COLUMNS: LiteralString = "SELECT DISTINCT w.schema, w.name, pn.nspname::text, pc.relname::text, "
# tgenabled: O and A fire for ordinary sessions, R for a replica's only, D never.
_TRIGGERS: LiteralString = """
  JOIN pg_catalog.pg_trigger t ON t.tgrelid = pc.oid AND NOT t.tgisinternal
  JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid
  JOIN pg_catalog.pg_namespace fn ON fn.oid = f.pronamespace AND fn.nspname <> ALL(%s)
 ORDER BY 1, 2, 3, 4, 5
"""
# DISABLE TRIGGER ALL takes a constraint's own triggers along: the key stands, and is asked by nobody.
_SWITCHED_OFF: LiteralString = """
  JOIN pg_catalog.pg_trigger t ON t.tgrelid = pc.oid AND t.tgisinternal AND t.tgenabled IN ('D', 'R')
  JOIN pg_catalog.pg_constraint k ON k.oid = t.tgconstraint
 ORDER BY 1, 2, 3, 4, 5
"""
# Those of a partition that come from its parent are validated with it. conenforced: since PostgreSQL 18, as are 'n' that are
# not valid. https://www.postgresql.org/docs/18/sql-altertable.html
_NOT_VALID: LiteralString = """
  JOIN pg_catalog.pg_constraint k
    ON k.conrelid = pc.oid AND NOT k.convalidated AND k.contype IN ('f', 'c', 'n') AND k.coninhcount = 0
 ORDER BY 1, 2, 3, 4, 5
"""
_ENFORCED: LiteralString = "coalesce(to_jsonb(k) ->> 'conenforced', 'true') = 'true'"
KINDS = {"f": "foreign key", "c": "check", "n": "NOT NULL", "u": "unique key", "p": "primary key", "x": "exclusion"}


def acting(connection: Connection, tables: Sequence[TableId]) -> Acting:
    names = [table.schema for table in tables], [table.name for table in tables]
    places = _PLACES.format(parts=_TREE if connection.info.server_version >= TREES_SINCE else _ITSELF)
    triggers = f"{_COLUMNS} t.tgname::text, t.tgenabled IN ('O', 'A') {places} {_TRIGGERS}".encode()
    made = _triggers(connection.execute(triggers, [*names, OWN]).fetchall())
    return Acting(tuple(made), (*_not_valid(connection, places, names), *_switched_off(connection, places, names)))


def _triggers(rows: Sequence[tuple[str, ...]]) -> Iterator[Trigger]:
    """Yield each once. A partition has those of its table from PostgreSQL 15 on, and is switched with it: it is told of only
    where one is off there alone."""
    off_whole = {(row[:2], row[4]) for row in rows if row[:2] == row[2:4] and not row[5]}
    fire = {(row[:2], row[4]): Trigger(TableId(*row[:2]), row[4]) for row in rows if row[5]}
    yield from fire.values()
    for row in rows:
        if not row[5] and (row[:2] == row[2:4] or (row[:2], row[4]) not in off_whole):
            yield Trigger(TableId(*row[:2]), row[4], _alter(row, f"ENABLE TRIGGER {quote(row[4])}"))


def _not_valid(connection: Connection, places: str, names: tuple[list[str], list[str]]) -> list[Unproven]:
    query = f"{_COLUMNS} k.conname::text, k.contype::text, {_ENFORCED} {places} {_NOT_VALID}"
    return [_unproven(row) for row in connection.execute(query.encode(), names).fetchall()]


def _unproven(row: tuple[str, ...]) -> Unproven:
    name, kind, is_enforced = row[4:7]
    said = f"{KINDS[kind]} {name} is NOT {'VALID' if is_enforced else 'ENFORCED'}"
    if is_enforced:
        mend = _alter(row, f"VALIDATE CONSTRAINT {quote(name)}")
    elif kind == "f":
        mend = _alter(row, f"ALTER CONSTRAINT {quote(name)} ENFORCED")
    else:
        mend = f"{_alter(row, f'DROP CONSTRAINT {quote(name)}')}, and add it again without NOT ENFORCED"
    return Unproven(TableId(*row[:2]), said, mend)


def _switched_off(connection: Connection, places: str, names: tuple[list[str], list[str]]) -> list[Unproven]:
    query = f"{_COLUMNS} k.conname::text, k.contype::text {places} {_SWITCHED_OFF}"
    return [
        Unproven(
            TableId(*row[:2]),
            f"the triggers of {KINDS.get(row[5], 'constraint')} {row[4]} are off on {TableId(*row[2:4])}: it refuses nothing",
            f"{_alter(row, 'ENABLE TRIGGER ALL')}, as a superuser; rows that were written meanwhile were not asked",
        )
        for row in connection.execute(query.encode(), names).fetchall()
    ]


def _alter(row: tuple[str, ...], action: str) -> str:
    return f"ALTER TABLE {qualified(TableId(row[2], row[3]))} {action}"
