"""Columns of a table that stands whose type, NULL or default changes: the clause of ALTER TABLE for each, in which all that
does not change is as it stands. https://dev.mysql.com/doc/refman/8.0/en/alter-table.html

What does not live here: when it comes (apply engine), columns that come and go (`altered_columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from anabranch.connectors.mysql.target import ddl, defaults, enums
from anabranch.connectors.mysql.target.columns import MadeColumn, made_columns
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import quoted
from anabranch.connectors.mysql.target.structures import ExistingColumn, ExistingTable
from anabranch.connectors.mysql.target.words import bare, sizes, without_hints
from anabranch.contracts import Conflict, ValueRules
from anabranch.rows.altered import AlteredTable, ColumnRenamed, ColumnRetyped, DefaultChanged, NullabilityChanged

RESTATED = ColumnRetyped | NullabilityChanged | DefaultChanged
WITH_WIDTHS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")  # which say nothing


def restated(altered: AlteredTable) -> list[str]:
    """Return the columns, by the source's names of now."""
    return list(dict.fromkeys(step.name for step in altered.steps if isinstance(step, RESTATED)))


def commented(altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release) -> Iterator[str]:
    """Yield the clauses that, behind those of `lines`, define columns again for their comments alone."""
    for name in restated(altered):
        was, now = _made(altered, name, rules, release)
        if name in altered.comments.columns and not _is_written(altered, name, was, now):
            yield f"MODIFY COLUMN {_line(was, now, _standing(altered, name, existing), release)}"


def _is_written(altered: AlteredTable, name: str, was: MadeColumn, now: MadeColumn) -> bool:
    is_restated = was.native != now.native or was.nullable is not now.nullable
    return is_restated or any(isinstance(step, ColumnRenamed) for step in altered.steps if step.name == name)


def lines(altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release) -> Iterator[str]:
    """Yield the clauses, none for a column that stays as it is here. Raises Conflict for a default that the target cannot
    have."""
    for name in restated(altered):
        was, now = _made(altered, name, rules, release)
        column = _standing(altered, name, existing)
        kinds = {type(step) for step in altered.steps if step.name == name}
        if DefaultChanged in kinds or was.nullable is not now.nullable:
            _refuse_lost_default(altered, now, release)
        if _is_written(altered, name, was, now):
            yield f"CHANGE COLUMN {quoted(column.name)} {_line(was, now, column, release)}"
        elif DefaultChanged in kinds:
            yield _default(now)


def _line(was: MadeColumn, now: MadeColumn, column: ExistingColumn, release: Release) -> str:
    """Return the whole definition of a column that stands as `column`."""
    is_own = was.native != now.native or bare(now.native) == "json"  # which a MariaDB prints as a text with a check
    native = now.native if is_own else without_hints(column.type)
    as_it_stands = replace(now, native=native, charset=column.charset, collation=column.collation)
    return ddl.column_line(replace(as_it_stands, invisible=column.invisible), release)


def unlike(altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release) -> Iterator[str]:
    """Say which columns stand as something else than what they were made as, before the steps or behind them."""
    for name in restated(altered):
        was, now = _made(altered, name, rules, release)
        column = existing.column(was.name) or existing.column(now.name)
        if column is None:
            yield f"the target's table has no column {was.name}"
        elif column.generated or column.auto_increment:
            yield f"column {column.name} of the target's table is computed"
        elif release.family == "mariadb" and (checks := _checks(existing, column.name)):
            yield f"check {', '.join(checks)} of the target's table may be of column {column.name} alone, and would go"
        elif was.native != now.native and not any(is_spelled_alike(column.type, one.native) for one in (was, now)):
            yield f"column {column.name} of the target's table is {column.type}, and was made as {was.native}"


def _checks(existing: ExistingTable, name: str) -> list[str]:
    """Return the checks that name a column, without that of JSON, which comes with the type."""
    own = {check: clause for check, clause in existing.checks.items() if not clause.lower().startswith("json_valid(")}
    return sorted(check for check, clause in own.items() if name in existing.named_in(clause))


def never_null(altered: AlteredTable, rules: ValueRules, release: Release) -> list[str]:
    """Return the columns, as the target calls them before the steps, that take NULL no longer."""
    pairs = (_made(altered, name, rules, release) for name in restated(altered))
    return [was.name for was, now in pairs if was.nullable and not now.nullable]


def _made(altered: AlteredTable, name: str, rules: ValueRules, release: Release) -> tuple[MadeColumn, MadeColumn]:
    """Return a column as it is made by both definitions."""
    was, now = (
        next(made for made in made_columns(schema, table, rules, release) if made.source == source)
        for schema, table, source, _ in altered.both(name)
    )
    return was, now


def _standing(altered: AlteredTable, name: str, existing: ExistingTable) -> ExistingColumn:
    column = existing.column(altered.former_of(name))
    if column is None:
        raise Conflict(altered.table.source, f"the target's table has no column {altered.former_of(name)}")
    return column


def _refuse_lost_default(altered: AlteredTable, now: MadeColumn, release: Release) -> None:
    schema, column = altered.schema, altered.schema.column(now.source)
    logical = altered.table.type_of(now.name)
    if ddl.is_unsaid(now, release) or defaults.is_lost(schema, column, logical, now.native, release):
        raise Conflict(altered.table.source, f"{now.source} cannot have its default here")


def _default(now: MadeColumn) -> str:
    if now.default is None and not now.nullable:
        return f"ALTER COLUMN {quoted(now.name)} DROP DEFAULT"
    return f"ALTER COLUMN {quoted(now.name)} SET DEFAULT {now.default or 'NULL'}"


def is_spelled_alike(native: str, other: str) -> bool:
    """Return whether two types are the same, however a release prints them. JSON is a text at a MariaDB."""
    texts = {bare(native), bare(other)}
    if texts in ({"enum"}, {"set"}):
        return enums.are_alike(native, other)
    return texts == {"json", "longtext"} or _spelled(native) == _spelled(other)


def _spelled(native: str) -> tuple[object, ...]:
    """Return a type so that equal ones are equal, however a release prints them."""
    name, is_unsigned = bare(native), "unsigned" in native.lower()
    return name, () if name in WITH_WIDTHS else sizes(native), is_unsigned
