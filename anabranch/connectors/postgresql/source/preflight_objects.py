"""Checks of what a PostgreSQL source's schemas have beside tables, and of parts of the tables that the target will not
have.

https://www.postgresql.org/docs/current/catalogs.html What does not live here: indexes, checks and defaults that a
target cannot take (its own checks say them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.needed_objects import FUNCTION
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema

CHECK = "source.not_carried"
HINT = "create at the target, by hand, those that your application needs there"
ROOTS = 120_000  # pg_partition_root
SHOWN = 8  # names in one message
_ALONE = "NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = '{}'::regclass AND d.objid = o.oid AND d.deptype = 'e')"
# what -> catalogue of the objects, query: schema, name, table's name or ''. Of extensions nothing is told.
_OBJECTS = {
    "views": (
        "pg_class",
        "SELECT n.nspname::text, o.relname::text, '' FROM pg_class o JOIN pg_namespace n ON n.oid = o.relnamespace"
        " WHERE o.relkind IN ('v', 'm')",
    ),
    "foreign tables": (
        "pg_class",
        "SELECT n.nspname::text, o.relname::text, '' FROM pg_class o JOIN pg_namespace n ON n.oid = o.relnamespace"
        " WHERE o.relkind = 'f'",
    ),
    "triggers": (
        "pg_trigger",
        "SELECT n.nspname::text, o.tgname::text, c.relname::text FROM pg_trigger o JOIN pg_class c ON c.oid = o.tgrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE NOT o.tgisinternal",
    ),
    "rules": (
        "pg_rewrite",
        "SELECT n.nspname::text, o.rulename::text, c.relname::text FROM pg_rewrite o JOIN pg_class c ON c.oid = o.ev_class"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE o.rulename <> '_RETURN'",
    ),
    "row security policies": (
        "pg_policy",
        "SELECT n.nspname::text, o.polname::text, c.relname::text FROM pg_policy o JOIN pg_class c ON c.oid = o.polrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE true",
    ),
    "functions": (
        "pg_proc",
        "SELECT n.nspname::text, o.proname::text, '' FROM pg_proc o JOIN pg_namespace n ON n.oid = o.pronamespace"
        " WHERE NOT EXISTS (SELECT FROM pg_depend i WHERE i.classid = 'pg_proc'::regclass AND i.objid = o.oid"
        " AND i.deptype = 'i')",
    ),
    "sequences": (
        "pg_class",
        "SELECT n.nspname::text, o.relname::text, '' FROM pg_class o JOIN pg_namespace n ON n.oid = o.relnamespace"
        " WHERE o.relkind = 'S' AND NOT EXISTS (SELECT FROM pg_depend i WHERE i.classid = 'pg_class'::regclass"
        " AND i.objid = o.oid AND i.deptype IN ('a', 'i'))",
    ),
    "statistics": (
        "pg_statistic_ext",
        "SELECT n.nspname::text, o.stxname::text, c.relname::text FROM pg_statistic_ext o JOIN pg_class c ON c.oid = o.stxrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE true",
    ),
    "indexes of single partitions": (
        "pg_class",
        "SELECT n.nspname::text, o.relname::text, r.relname::text FROM pg_index x JOIN pg_class o ON o.oid = x.indexrelid"
        " JOIN pg_class c ON c.oid = x.indrelid AND c.relispartition JOIN pg_class r ON r.oid = pg_partition_root(c.oid)"
        " JOIN pg_namespace n ON n.oid = r.relnamespace WHERE NOT o.relispartition",
    ),
    "changes of partitions that are foreign tables": (
        "pg_class",
        "SELECT n.nspname::text, o.relname::text, r.relname::text FROM pg_class o JOIN pg_class r ON r.oid ="
        " pg_partition_root(o.oid) JOIN pg_namespace n ON n.oid = r.relnamespace WHERE o.relkind = 'f' AND o.relispartition",
    ),
}
# The log's rows are found by it, and ON CONFLICT takes none of those.
_KEYS = (
    "SELECT n.nspname::text, o.conname::text, c.relname::text FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE o.contype = 'p' AND n.nspname = ANY(%s)"
    " AND (o.condeferrable OR to_jsonb(o) ->> 'conperiod' = 'true')"
)


def objects(connection: Connection, tables: Mapping[TableId, TableSchema]) -> Iterator[CheckResult]:
    """Check the objects in the schemas of these tables; what belongs to a table, only for these."""
    schemas, is_any = [sorted({table.schema for table in tables})], False
    needs = (need for table in tables.values() for need in table.needs)
    carried = {need.name.partition("(")[0] for need in needs if need.kind == FUNCTION}
    known = {w: q for w, q in _OBJECTS.items() if connection.info.server_version >= ROOTS or "_root(" not in q[1]}
    for what, (catalog, query) in known.items():
        rows = connection.execute(
            f"{query} AND {_ALONE.format(catalog)} AND n.nspname = ANY(%s)".encode(), schemas
        ).fetchall()
        names = tuple(name for name in _names(rows, tables) if what != "functions" or name not in carried)
        if names:
            is_any = True
            yield CheckResult(
                CHECK, CheckVerdict.WARNING, f"{what} are not carried over: {_some(names)}", HINT, "", names
            )
    keys = _names(connection.execute(_KEYS.encode(), schemas).fetchall(), tables)
    if keys:
        is_any = True
        message = f"DEFERRABLE and WITHOUT OVERLAPS of primary keys are not carried over: {_some(keys)}"
        yield CheckResult(CHECK, CheckVerdict.WARNING, message, "the target's keys are plain ones", "", keys)
    if not is_any:
        yield CheckResult(CHECK, CheckVerdict.OK, f"there are no {', '.join(list(known)[:-1])} or {list(known)[-1]}")


def _names(rows: list[tuple[str, ...]], tables: Mapping[TableId, TableSchema]) -> tuple[str, ...]:
    """Return the names, each once: a function may be there several times."""
    told = {
        f"{TableId(schema, table)}.{name}" if table else str(TableId(schema, name))
        for schema, name, table in rows
        if not table or TableId(schema, table) in tables
    }
    return tuple(sorted(told))


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
