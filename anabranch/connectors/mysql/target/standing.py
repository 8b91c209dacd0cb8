"""Columns of a table that stands, held against what would be made now: of some types a definition that is spelled alike says
more in a later release, or other labels, and rows for a number do not go into a text as that text.

What does not live here: whether a table that the job did not make takes its rows at all (`preflight_tables.py`).
"""

from __future__ import annotations

from anabranch.connectors.mysql.target.collations import is_deterministic
from anabranch.connectors.mysql.target.columns import TEXTS, made_columns
from anabranch.connectors.mysql.target.enums import declared, is_enum, is_part
from anabranch.connectors.mysql.target.fits import takes
from anabranch.connectors.mysql.target.known_columns import KnownTable
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.structures import ExistingColumn, ExistingTable
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.connectors.mysql.target.words import bare, literal, without_hints
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import TableSchema
from anabranch.rows.json_texts import is_json
from anabranch.rows.net import TargetTable

ENUM = "enum"
READING = (ENUM, "set", "json")  # types that make something else of a text
HINT = "anabranch load JOB --table {table} --recreate makes the table anew, by the source's definition of now"


def differences(
    schema: TableSchema, table: TargetTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> list[str]:
    """Say which columns stand here as something else than what rows of this definition are written for. Raises TargetError
    for a type that is refused."""
    if not depends_on_definition(table):
        return []
    found = []
    for wanted in made_columns(schema, table, rules, release):
        column, type = existing.column(wanted.name), table.type_of(wanted.name)
        if column and _depends_on_definition(type) and not _suits(column, wanted.native, type):
            compared = f" (compared by {column.collation})" if is_enum(type) and column.kind == ENUM else ""
            found.append(f"column {wanted.name} is {column.type}{compared}, needed is {wanted.native}")
    return found


def unlike(known: KnownTable, table: TargetTable, rules: ValueRules, family: str) -> str:
    """Say which column is no longer what rows of this table are written for, "" for none: somebody has altered it since."""
    for name, type in zip(table.columns, table.types, strict=True):
        if not _depends_on_definition(type):
            continue
        column = known.column(name)
        if type.target:
            is_alike = _is_as_chosen(column.type, type.target)
        elif is_enum(type):
            is_alike = column.type == ENUM and _is_exact(column.charset, column.collation)
        elif column.type == "json" and is_json(type):
            is_alike = False  # it would make 1.0 of 1.00
        else:
            is_alike = column.type != ENUM and _is_text(column.type) == _is_text(
                MysqlTypes(family).fit(type, rules).native
            )
        if not is_alike:
            hint = HINT.format(table=table.source.typed)
            return f"column {name} is {column.spelled} now, which rows are not written for: {hint}"
    return ""


def takes_labels(column: ExistingColumn, type: LogicalType) -> bool:
    """Return whether an enum(…) tells labels apart as the source does, and has its labels, or will have: all in one order."""
    here, there = declared(column.type), [literal(label) for label in type.values]
    is_exact = column.kind == ENUM and _is_exact(column.charset, column.collation)
    return is_exact and (is_part(here, there) or is_part(there, here))


def _is_exact(charset: str, collation: str) -> bool:
    """Return whether texts of a column have every letter of a label, and are told apart by each."""
    return charset.startswith("utf8") and is_deterministic(collation)


def depends_on_definition(table: TargetTable) -> bool:
    """Return whether a table has columns that have to be looked at."""
    return any(map(_depends_on_definition, table.types))


def _depends_on_definition(type: LogicalType) -> bool:
    """Return whether the source's spelling of a type does not say all that matters here, or the job has chosen another."""
    is_own = type.carried is Kind.NATIVE and type.kind in (Kind.NATIVE, Kind.ENUM)
    return bool(type.base or type.target) or is_own


def _suits(existing: ExistingColumn, wanted: str, type: LogicalType) -> bool:
    """Return whether a column takes the values as they are written for the wanted one: those of a text are the source's own."""
    if type.target:
        return _is_as_chosen(existing.kind, wanted)
    if is_enum(type):
        return takes_labels(existing, type)
    if existing.kind == "json" and is_json(type):
        return False
    is_alike = _is_text(existing.type) == _is_text(wanted)
    return is_alike and (not type.base or takes(existing.type, wanted))


def _is_as_chosen(existing: str, wanted: str) -> bool:
    """Return whether a column takes values as they are written for a type that the job chose: an enum(…) takes numbers for
    places of labels, a set(…) for bits, a number rounds, and JSON is printed otherwise than it came."""
    here, there = existing.lower(), bare(wanted)
    if here in READING:
        return here == there
    return _is_text(here) == _is_text(there)


def _is_text(native: str) -> bool:
    name = bare(without_hints(native))
    return name in ("json", *TEXTS) and name not in (ENUM, "set")
