"""Columns that a statement would add, of the statement alone: nobody has run it, and no catalogue has them.

What a statement leaves to the table or the server is taken from the table's other columns: the character set of a text and its
collation. What does not live here: whether the statement is one that a table goes on behind (`altered_columns.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anabranch.connectors.mysql.charsets import character_bytes
from anabranch.connectors.mysql.source.altered_columns import USUAL, UTF8
from anabranch.connectors.mysql.source.check_clauses import (
    AddsCheck,
    CheckClause,
    DropsCheck,
    EnforcesCheck,
    apart,
    of_statement,
)
from anabranch.connectors.mysql.source.column_clauses import Adds, Changes, Clause, Defaults, Said, Unknown, read
from anabranch.connectors.mysql.source.comment_clauses import comment_of, is_comment
from anabranch.connectors.mysql.source.defaults import constant
from anabranch.connectors.mysql.source.index_clauses import is_about_index
from anabranch.connectors.mysql.source.statement_tokens import Token
from anabranch.connectors.mysql.source.typemap import TEXTS, spelled
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column, TableSchema

__all__ = ["Unknown", "foreseen"]

LABELLED = ("enum", "set")
TEXTUAL = frozenset(("char", "varchar", *LABELLED, *TEXTS))
# What the catalogue of a MariaDB calls it: https://mariadb.com/kb/en/json-data-type/
JSON_OF_MARIADB = ("longtext", "utf8mb4", "utf8mb4_bin")


def foreseen(clauses: Sequence[Sequence[Token]], then: TableSchema, family: str) -> TableSchema:
    """Return the definition as a catalogue would show it, but for the places of its columns: with those that come and those
    that are defined anew. Raises Unknown, IndexError and ValueError for what is not read."""
    columns = {column.name: column for column in then.columns}
    checks, clauses = apart(clauses, then)
    for clause in read([one for one in clauses if not (is_about_index(one) or is_comment(one))]):
        columns |= _columns(clause, columns, then, family)
    comment = comment_of(clauses)
    table = replace(then, columns=tuple(columns.values()), comment=then.comment if comment is None else comment)
    return with_checks(checks, table, family)


def with_checks(said: Sequence[CheckClause], then: TableSchema, family: str) -> TableSchema:
    """Return the definition with the checks that clauses leave. Raises Unknown for one that is enforced again."""
    checks = {check.name.lower(): check for check in then.checks}
    for one in said:
        if isinstance(one, DropsCheck):
            checks.pop(one.name.lower(), None)
        elif isinstance(one, EnforcesCheck) and one.enforced:
            raise Unknown  # what it means is in no statement
    for one in said:
        if isinstance(one, AddsCheck):
            made = of_statement(one, then, family, checks.keys())
            checks[made.name.lower()] = made
    return replace(then, checks=tuple(checks.values()))


def _columns(clause: Clause, known: Mapping[str, Column], then: TableSchema, family: str) -> dict[str, Column]:
    match clause:
        case Adds() | Changes():
            return {clause.said.name: _column(clause.said, then, family)}
        case Defaults() if clause.name in known:
            return {clause.name: _with_default(known[clause.name], clause.default)}
    return {}


def _with_default(column: Column, default: str | None) -> Column:
    if default is not None:
        return constant(column, default)
    return replace(column, has_default=column.nullable, default=None, default_is_expression=False)


def _column(said: Said, then: TableSchema, family: str) -> Column:
    native, charset, collation = _native(said), "", ""
    type = spelled(native, family)
    if said.type == "json" and family == "mariadb":
        native, charset, collation = JSON_OF_MARIADB
        type = LogicalType(Kind.JSON)
    elif said.type in TEXTUAL:
        charset, collation = _charset(said, then)
    column = Column(
        name=said.name,
        type=type,
        native=native,
        nullable=said.nullable,
        charset=charset,
        collation=collation,
        comment=said.comment,
        character_bytes=character_bytes(charset),
    )
    return _with_default(column, said.default)


def _native(said: Said) -> str:
    """Return the type as the catalogue prints it."""
    sizes = said.sizes or USUAL.get(said.type, ())
    inside = ",".join(map(_quoted, sizes) if said.type in LABELLED else sizes)
    return f"{said.type}{f'({inside})' if inside else ''}{' unsigned' if said.unsigned else ''}"


def _quoted(label: str) -> str:
    return "'" + label.replace("\\", "\\\\").replace("'", "''") + "'"


def _charset(said: Said, then: TableSchema) -> tuple[str, str]:
    """Return character set and collation of a text: what is said, else what another text of the table has, the last one."""
    named = said.charset or said.collation.partition("_")[0]
    wanted = UTF8.get(named, named)
    for other in reversed(then.columns):
        if other.charset and wanted in ("", UTF8.get(other.charset, other.charset)):
            return other.charset, said.collation or other.collation
    return wanted, said.collation
