"""Plan of altering a table of a MySQL or MariaDB: the statement that apply would run, and what the server makes of it.

What does not live here: the statement itself (`altered_columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.connectors.mysql.target import (
    altered_checks,
    altered_columns,
    altered_comments,
    altered_indexes,
    altered_keys,
    restated,
)
from anabranch.connectors.mysql.target.release import Release, Version
from anabranch.connectors.mysql.target.session import Connection, ask, quoted, table_name
from anabranch.connectors.mysql.target.structures import read_table
from anabranch.contracts import ValueRules
from anabranch.model.altering_plan import AlteringPlan
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.altered import AlteredTable, ColumnAdded, ColumnDropped, ColumnRetyped, NullabilityChanged, Step

# From which release on InnoDB adds a column in the last place, and drops one, without writing rows (ALGORITHM=INSTANT); before,
# it writes the table anew while others go on. https://mariadb.com/kb/en/innodb-online-ddl-operations-with-the-instant-alter-algorithm/
ADDS_AT_ONCE: Mapping[str, Version] = {"mysql": (8, 0, 12), "mariadb": (10, 3, 2)}
APPENDS_AT_ONCE: Mapping[str, Version] = {"mysql": (8, 0, 12), "mariadb": (10, 3, 2)}
DROPS_AT_ONCE: Mapping[str, Version] = {"mysql": (8, 0, 29), "mariadb": (10, 4, 0)}
LINKS = {
    "mysql": "https://dev.mysql.com/doc/refman/8.0/en/innodb-online-ddl-operations.html",
    "mariadb": "https://mariadb.com/kb/en/innodb-online-ddl-overview/",
}
MOMENT = "metadata lock for a moment, waited for three seconds at a time"
INSTANT = f"ALGORITHM=INSTANT: {MOMENT}; rows stay as they are"
INPLACE = f"ALGORITHM=INPLACE: {MOMENT} at its beginning and end; others read and write rows meanwhile"
COPY = "ALGORITHM=COPY: others read, and wait with what they write until it is through"
# Tables that are written anew in any case: a compressed row format, a full-text index; another engine than InnoDB copies.
FACTS = """
SELECT t.TABLE_ROWS, t.DATA_LENGTH + t.INDEX_LENGTH, t.ENGINE, t.ROW_FORMAT,
       (SELECT COUNT(*) FROM information_schema.STATISTICS s WHERE s.TABLE_SCHEMA = t.TABLE_SCHEMA
           AND s.TABLE_NAME = t.TABLE_NAME AND s.INDEX_TYPE = 'FULLTEXT')
  FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = %s AND t.TABLE_NAME = %s
"""


def plan(connection: Connection, altered: AlteredTable, rules: ValueRules) -> AlteringPlan:
    """Return the plan; changes nothing. Raises Conflict and TargetError as the steps would. Driver errors pass."""
    release = Release.of(connection)
    altered_columns.refuse_standing(connection, altered, rules)
    existing = read_table(connection, altered.table.target)
    assert existing is not None, "refused else"
    statement = altered_columns.alter_statement(altered, existing, rules, release) if altered.steps else ""
    going = [found for _, found in altered_keys.dropped(altered, existing)]
    going += [found for _, found in altered_indexes.planned(altered, existing, rules, release)]
    going += [found for _, found in altered_checks.dropped(altered, existing, rules, release)]
    rows, size, lock = _facts(connection, altered, release)
    link = LINKS[release.family]
    lines = ", ".join(altered_columns.completed(altered))
    found = [one for one in going if one.startswith("ALTER ")]
    place = f"ALTER TABLE {table_name(altered.table.target)}"
    found += [statement, f"{place} {lines}" if lines else ""]
    said = (one for _, one in altered_comments.statements(connection, altered, release, restated.restated(altered)))
    found += [one for one in said if one.startswith("ALTER ")]
    found += [f"{place} {one}" for one in restated.commented(altered, existing, rules, release)]
    found += altered_indexes.to_build(altered, existing, rules, release)
    found += altered_checks.to_build(altered, rules, release)
    rewrites = bool(altered.steps) and lock is not INSTANT
    return AlteringPlan(tuple(filter(None, found)), tuple(_inverse(altered)), lock, link, rewrites, rows, size)


def _facts(connection: Connection, altered: AlteredTable, release: Release) -> tuple[int | None, int | None, str]:
    table: TableId = altered.table.target
    found = ask(connection, FACTS, table.schema, table.name)
    if not found:
        return None, None, COPY
    rows, size, engine, form, texts = found[0]
    if str(engine).lower() != "innodb" or any(_is_copied(altered, step) for step in altered.steps):
        return rows, size, COPY
    if altered.checks.added and release.family == "mysql":  # which copies the table for a check
        return rows, size, COPY
    if altered.indexes.added:
        return rows, size, INPLACE
    is_plain = str(form).lower() != "compressed" and not texts
    return rows, size, INSTANT if is_plain and _is_at_once(altered, release) else INPLACE


def _is_copied(altered: AlteredTable, step: Step) -> bool:
    """Return whether the server copies the rows. It does not where an ENUM or SET gets labels, and its values no more bytes."""
    if not isinstance(step, ColumnRetyped):
        return False
    types = [table.type_of(target) for _, table, _, target in altered.both(step.name)]
    bytes_ = {_label_bytes(type) for type in types if type.kind in (Kind.ENUM, Kind.SET) and not type.target}
    return len(bytes_) != 1 or len({type.kind for type in types}) > 1


def _label_bytes(type: LogicalType) -> int:
    """https://dev.mysql.com/doc/refman/8.0/en/storage-requirements.html (String Type Storage Requirements)"""
    if type.kind is Kind.ENUM:
        return 1 if len(type.values) < 256 else 2
    width = (len(type.values) + 7) // 8
    return width if width <= 4 else 8


def _is_at_once(altered: AlteredTable, release: Release) -> bool:
    """Return whether no step has rows written. A column that may be NULL, or may no longer, is another one to InnoDB."""
    since = {ColumnAdded: ADDS_AT_ONCE, ColumnDropped: DROPS_AT_ONCE, ColumnRetyped: APPENDS_AT_ONCE}
    found = [since[type(step)][release.family] for step in altered.steps if type(step) in since]
    is_kept = any(isinstance(step, ColumnDropped) and step.keeps for step in altered.steps)
    is_nullable = any(isinstance(step, NullabilityChanged) for step in altered.steps)
    return not is_kept and not is_nullable and all(release.version >= one for one in found)


def _inverse(altered: AlteredTable) -> Iterator[str]:
    """Yield what takes columns off again that have come. For other steps there is no statement that certainly leads back."""
    if altered.steps and all(isinstance(step, ColumnAdded) for step in altered.steps):
        lines = ", ".join(f"DROP COLUMN {quoted(altered.target(step.name))}" for step in altered.steps)
        yield f"ALTER TABLE {table_name(altered.table.target)} {lines}"
