"""Checks of what the databases have beside tables, and of parts of the tables that the target will not have.

All of it as far as this user sees it: each kind has a right of its own.
https://dev.mysql.com/doc/refman/8.0/en/information-schema.html · https://mariadb.com/kb/en/information-schema-tables/
What does not live here: indexes, checks and defaults that a target cannot take (its own checks say them).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from anabranch.connectors.mysql.connection import account, ask
from anabranch.connectors.mysql.rights import Rights
from anabranch.connectors.mysql.source import privileges
from anabranch.connectors.mysql.source.preflight_facts import Live, ok, some, warning
from anabranch.model.checks import CheckResult
from anabranch.model.ids import TableId

CHECK = "not_carried"
HINT = "create at the target, by hand, those that your application needs there"
# what -> schema, name and, where it belongs to a table, that table
_OBJECTS = {
    "views": "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA IN {schemas}",
    "triggers": (
        "SELECT TRIGGER_SCHEMA, TRIGGER_NAME, EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS"
        " WHERE EVENT_OBJECT_SCHEMA IN {schemas}"
    ),
    "routines": "SELECT ROUTINE_SCHEMA, ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA IN {schemas}",
    "events": "SELECT EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA IN {schemas}",
    "sequences": (
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        " WHERE TABLE_TYPE = 'SEQUENCE' AND TABLE_SCHEMA IN {schemas}"
    ),
}
_ON_UPDATE = (
    "SELECT TABLE_SCHEMA, COLUMN_NAME, TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMNS"
    " WHERE EXTRA LIKE '%%on update%%' AND TABLE_SCHEMA IN {schemas}"
)
_PARTITIONED = (
    "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME, TABLE_SCHEMA, TABLE_NAME FROM information_schema.PARTITIONS"
    " WHERE PARTITION_NAME IS NOT NULL AND TABLE_SCHEMA IN {schemas}"
)


def check_objects(live: Live) -> Iterator[CheckResult]:
    """Check for views, triggers, routines, events and sequences."""
    found = {what: _names(live, query) for what, query in _OBJECTS.items()}
    for what, names in found.items():
        if names:
            message = f"{what} are not carried over: {some(names)}"
            yield replace(warning(CHECK, message, HINT), names=names)
    if not any(found.values()) and live.context.tables:
        yield ok(CHECK, f"the user sees no {', '.join(list(found)[:-1])} or {list(found)[-1]} beside the tables")
    if not found["triggers"]:
        rights = Rights([str(row[0]) for row in ask(live.connection, "SHOW GRANTS")])
        yield from privileges.unseen_triggers(rights, account(live.connection), sorted(live.context.tables))


def check_on_update(live: Live) -> Iterator[CheckResult]:
    columns = _names(live, _ON_UPDATE, of_tables=True)
    if columns:
        message = f"ON UPDATE CURRENT_TIMESTAMP is not carried over: {some(columns)}"
        hint = (
            "replicated rows have the source's values; for other writers at the target, set the column in the application or "
            "by a trigger"
        )
        yield replace(warning(CHECK, message, hint), names=columns)


def check_partitions(live: Live) -> Iterator[CheckResult]:
    tables = _names(live, _PARTITIONED)
    if tables:
        message = f"{len(tables)} partitioned tables arrive as plain ones: {some(tables)}"
        yield replace(ok("partitions", message), names=tables)


def _names(live: Live, query: str, of_tables: bool = False) -> tuple[str, ...]:
    """List objects of the databases of the job; what belongs to a table only where the job has it."""
    schemas = sorted({table.schema for table in live.context.tables})
    if not schemas:
        return ()
    rows = ask(live.connection, query.format(schemas=f"({', '.join(['%s'] * len(schemas))})"), *schemas)
    return tuple(sorted(_told(live, rows, of_tables)))


def _told(live: Live, rows: Iterable[tuple[str, ...]], of_tables: bool) -> Iterator[str]:
    for schema, name, *table in rows:
        place = TableId(*table) if table else None
        if place is None or place in live.context.tables:
            yield f"{place}.{name}" if of_tables else str(TableId(schema, name))
