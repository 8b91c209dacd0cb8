"""Begin the loads of many tables that the target does not have yet: tables, states and ledgers in one transaction.

A table that is not simply new, or that the server refuses, is left to `create_table` and `begin_generation` (load.py), which
tell what is wrong. What does not live here: rendered definitions (ddl.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import LiteralString

import psycopg

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import translate, translated
from anabranch.connectors.postgresql.target import ddl
from anabranch.connectors.postgresql.target.shared_tables import ONE_ASKS
from anabranch.connectors.postgresql.target.store import LOCK_TABLES, SAVE_TABLE, add_states, state_row, stored_place
from anabranch.connectors.postgresql.target.typemap import EXTENSIONS
from anabranch.connectors.postgresql.verbatim import is_partitioned
from anabranch.contracts import Bounds, NewLoad, ValueRules
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.table_life import Place
from anabranch.rows.net import TargetTable

# A load that was killed may still be at it, on the server: who finds nothing would make the same once more.
ONE_CREATES = "SELECT pg_advisory_xact_lock(7168357)"
# Types of extensions are found by name inside the transaction that creates a table with them.
SEE_EXTENSIONS = """
SELECT set_config('search_path', concat_ws(', ', 'pg_catalog', string_agg(quote_ident(n.nspname), ', ')), true)
  FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = ANY (%s)
"""
ADD_CHUNK = """
INSERT INTO anabranch.load_chunk (job, source_table, generation, number, lower, upper)
VALUES (%s, %s, %s, %s, %s, %s)
"""
THERE: LiteralString = """
SELECT n.nspname::text, c.relname::text FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
"""
SCHEMAS = "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE nspname = ANY (%s)"
OTHERS = "SELECT DISTINCT target_table FROM anabranch.table_state WHERE job <> %s AND target_table = ANY (%s)"
CLEAR_LEDGERS = "DELETE FROM anabranch.load_chunk WHERE job = %s AND source_table = ANY (%s)"


def begin_new(
    connection: Connection, job: str, loads: Sequence[NewLoad], rules: ValueRules, beside: Collection[TableId]
) -> frozenset[TableId]:
    """Begin the loads of new tables. Returns the source tables whose first generation has begun."""
    with translated("begin the load of new tables"), connection.transaction():
        connection.execute(ONE_CREATES)
        sources = [str(one.table.source) for one in loads]
        locked = connection.execute(
            LOCK_TABLES, [job, sources]
        ).fetchall()  # before ONE_ASKS, as `begin_generation` does
        connection.execute(ONE_ASKS)
        new = list(_new(connection, job, loads, {source: stored_place(*rest) for source, *rest in locked}))
        connection.execute(SEE_EXTENSIONS, [list(EXTENSIONS.values())])
        connection.execute("SAVEPOINT new")
        there = _schemas(connection, {one.table.target.schema for one in new})
        version = connection.info.server_version
        made = [
            one for one in new if one.table.target.schema in there and _create(connection, one, rules, version, beside)
        ]
        connection.execute(CLEAR_LEDGERS, [job, [str(one.table.source) for one in made]])
        with connection.cursor() as cursor:
            add_states(cursor, job, [one.state for one in made if one.before is None])
            cursor.executemany(SAVE_TABLE, [state_row(job, one.state) for one in made])
            cursor.executemany(ADD_CHUNK, [row for one in made for row in chunk_rows(job, one.table, 1, one.bounds)])
        reach("load.generations.written")
    return frozenset(one.table.source for one in made)


def _new(connection: Connection, job: str, loads: Sequence[NewLoad], states: Mapping[str, Place]) -> Iterator[NewLoad]:
    """Pick tables of which the target has nothing, and nobody else wants anything. `states`: the target's, by source table."""
    keys = [TableId(one.table.target.schema, one.schema.key_name) for one in loads if one.schema.key_name]
    names = [one.table.target for one in loads] + keys
    there = connection.execute(THERE, [[n.schema for n in names], [n.name for n in names]]).fetchall()
    used = {TableId(*row) for row in there}
    targets = [str(one.table.target) for one in loads]
    others = {target for (target,) in connection.execute(OTHERS, [job, targets]).fetchall()}
    for one in loads:
        target, before = one.table.target, one.before
        known = None if before is None else before.place
        mine = {target, *([TableId(target.schema, one.schema.key_name)] if one.schema.key_name else ())}
        is_plain = not (one.schema.needs or one.table.computed or is_partitioned(one.schema, one.table))
        is_free = mine.isdisjoint(used) and str(target) not in others
        if is_plain and is_free and states.get(str(one.table.source)) == known:
            used |= mine
            yield one


def _schemas(connection: Connection, names: Collection[str]) -> set[str]:
    """Create the missing ones of these schemas. Returns those that are there then."""
    there = {name for (name,) in connection.execute(SCHEMAS, [list(names)]).fetchall()}
    missing = sorted(set(names) - there)
    return there | {name for name in missing if _run(connection, f"schema {name}", [ddl.create_schema(name)])}


def _create(connection: Connection, one: NewLoad, rules: ValueRules, version: int, beside: Collection[TableId]) -> bool:
    create = ddl.create_table(one.schema, one.table, rules, version, beside, None)
    complete = ddl.complete_table(one.schema, one.table, rules, beside)
    return _run(connection, str(one.table.target), [create, *complete])


def _run(connection: Connection, what: str, statements: Sequence[str]) -> bool:
    """Run statements in one message, wholly or not at all. Returns False where the server refuses one.

    A savepoint stands before the message, and one at its end: of a message with an error of syntax the server carries
    out nothing, not even a SAVEPOINT in it. A statement that would only have to wait (for a lock, or room for locks)
    counts as refused, too: table by table it is waited for, and said for whom.
    """
    text = ";\n".join([*statements, "RELEASE SAVEPOINT new", "SAVEPOINT new"])
    try:
        connection.execute(text.encode(), prepare=False)
    except psycopg.Error as error:
        if connection.broken:
            raise translate(error, f"create {what}") from None
        connection.execute("ROLLBACK TO SAVEPOINT new")
        return False
    return True


# --- ledger -----------------------------------------------------------------------------------------------------------


def chunk_rows(job: str, table: TargetTable, generation: int, bounds: Sequence[Bounds]) -> list[tuple[object, ...]]:
    """Return the parameters of ADD_CHUNK."""
    return [(job, str(table.source), generation, number, *_bounds(one)) for number, one in enumerate(bounds)]


def _bounds(bounds: Bounds) -> tuple[list[str] | None, list[str] | None]:
    lower, upper = (None if ends is None else list(ends) for ends in (bounds.lower, bounds.upper))
    return lower, upper
