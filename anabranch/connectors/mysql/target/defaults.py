"""Defaults of columns as SQL of this target: what stands behind DEFAULT, and which ones are lost.

A default acts for whoever writes beside us: we name every column. So is ON UPDATE CURRENT_TIMESTAMP left out for good
(decision 167): it would act on what we write. Every `timestamp` says what it defaults to, because servers without
explicit_defaults_for_timestamp would give the first one of a table both clauses by themselves.
https://dev.mysql.com/doc/refman/8.0/en/data-type-defaults.html · https://mariadb.com/kb/en/timestamp/
What does not live here: which type a column gets (`columns.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from anabranch.connectors.mysql.target import other_defaults, terms
from anabranch.connectors.mysql.target.clauses import is_of_family, own_words, text_in
from anabranch.connectors.mysql.target.names import NotMade, target_columns
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.words import bare, literal, sizes
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column, TableSchema
from anabranch.model.term import Term
from anabranch.rows.net import TargetTable

INTEGERS = ("tinyint", "smallint", "mediumint", "int", "integer", "bigint")
NUMBERS = (*INTEGERS, "decimal", "numeric", "float", "double", "year")
TEXTS = ("char", "varchar", "enum", "set", "uuid", "inet4", "inet6")
CLOCKS = ("date", "datetime", "timestamp", "time")
LONG = ("tinytext", "text", "mediumtext", "longtext", "json")  # a constant has to be an expression
BYTES = ("binary", "varbinary")
FLOAT_DIGITS = 6  # FLT_DIG
MOMENT = re.compile(r"(?:\d{4}-\d\d-\d\d)?(?: ?-?\d+:\d\d:\d\d(?:\.\d{1,6})?)?(?:\+00)?")
# In a table that is being made, so that no server gives the column a clause of its own; taken off behind it.
FIRST_MOMENT = "'1970-01-01 00:00:01'"


def default_of(schema: TableSchema, column: Column, type: LogicalType, native: str, release: Release) -> str | None:
    """Return what stands behind DEFAULT in the table's definition; None = nothing, NULL, or not expressible there."""
    if column.auto_increment:
        return None
    if term := _term(schema, column, type):
        return _of_term(term, type, native, release)
    if not column.has_default or column.default_is_expression or column.default is None:
        return None
    return constant(column.default, type, native, release)


def _term(schema: TableSchema, column: Column, type: LogicalType) -> Term | None:
    if type.target:
        return None
    if column.default_is_expression and schema.dialect == other_defaults.DIALECT:
        return other_defaults.default(column, type, schema)
    if column.default_term is None and is_of_family(schema) and (text := _text(column)) is not None:
        return Term("text", text=text)
    return column.default_term


def _text(column: Column) -> str | None:
    """Return the text of a default that is an expression only because its type takes no constant."""
    return text_in(column.default) if column.default_is_expression and column.default else None


def _of_term(term: Term, type: LogicalType, native: str, release: Release) -> str | None:
    has_expressions, name = release.has("expression defaults"), bare(native)
    if term.op == "text":
        return constant(term.text, type, native, release)
    if term.op == "now" and name in ("timestamp", "datetime"):
        digits = _digits(native)
        if name == "datetime" and type.kind is Kind.INSTANT:  # in UTC, whatever the time zone of who writes
            return f"(UTC_TIMESTAMP({digits or ''}))" if has_expressions else None
        return f"CURRENT_TIMESTAMP({digits})" if digits else "CURRENT_TIMESTAMP"
    if term.op == "today" and name == "date":
        return "(CURRENT_DATE)" if has_expressions else None
    if term.op == "uuid" and name in ("char", "varchar", "uuid"):
        return "(UUID())" if has_expressions else None
    return None


def constant(text: str, type: LogicalType, native: str, release: Release) -> str | None:
    """Return a constant in the text form of its kind as this type takes it, None where none is known."""
    name, kind = bare(native), type.kind
    if name in NUMBERS:
        text = {"t": "1", "f": "0"}.get(text, text) if kind is Kind.BOOLEAN else text
        return _number(text, type, release) if re.fullmatch(r"-?\d+(\.\d+)?(e[-+]?\d+)?", text) else None
    if name == "bit":
        return f"b'{text}'" if re.fullmatch("[01]+", text) else None
    if name in CLOCKS:
        return f"'{text.removesuffix('+00')}'" if text and MOMENT.fullmatch(text) else None
    if kind is Kind.BINARY:
        return _bytes(text, name, release) if text.startswith("\\x") else None
    if name in TEXTS:
        return literal(text)
    if name in LONG and release.has("expression defaults"):
        return f"({literal(text)})"
    if kind is Kind.UUID and name == "binary" and release.has("expression defaults"):
        return f"({terms.constant(type, text, release.family)})"
    return None


def _number(text: str, type: LogicalType, release: Release) -> str:
    """Return digits that are read as the number that they stand for: those of a FLOAT are the shortest ones. A constant of more
    than six is another one after the next ALTER TABLE (seen in MySQL 5.6.14, 8.0.33 and MariaDB 10.11), an expression is not;
    for MariaDB a constant in parentheses is none."""
    if type.kind is not Kind.FLOAT32 or type.target:
        return text
    exact = next((text.replace(short, exact) for short, exact in terms.FLOATS.items() if short in text), text)
    return f"({exact} + 0)" if _is_cut(exact) and release.has("expression defaults") else exact


def _is_cut(digits: str) -> bool:
    """Return whether a FLOAT is printed without some of these digits."""
    return len(re.sub(r"e.*|[-.]", "", digits).strip("0")) > FLOAT_DIGITS


def is_cut_by_alter(native: str, default: str | None) -> bool:
    """Return whether the next ALTER TABLE makes another number of this constant."""
    return bare(native) == "float" and default is not None and not default.startswith("(") and _is_cut(default)


def is_printed_of(shown: str | None, default: str) -> bool:
    """Return whether a server shows the default of a FLOAT so if it is this constant, or what ALTER TABLE has made of it."""
    try:
        return shown is not None and f"{float(shown):.{FLOAT_DIGITS}g}" == f"{float(default):.{FLOAT_DIGITS}g}"
    except ValueError:
        return False


def _bytes(text: str, name: str, release: Release) -> str | None:
    told = f"x'{text[2:]}'" if len(text) > 2 else "''"
    if name in BYTES:
        return told
    return f"({told})" if release.has("expression defaults") else None


def _digits(native: str) -> int:
    return (sizes(native) or (0,))[0]


def is_lost(schema: TableSchema, column: Column, type: LogicalType, native: str, release: Release) -> bool:
    """Return whether the source has a default other than NULL that the target does not get."""
    if column.auto_increment or not column.has_default:
        return False
    if column.default is None and not column.default_is_expression:
        return False
    return default_of(schema, column, type, native, release) is None


def own_defaults(schema: TableSchema, table: TargetTable, release: Release) -> Iterator[tuple[str, str, str | NotMade]]:
    """Yield source column, name here, and the expression, or why it is none: of a source of this family, for expressions
    that only a server of it can tell. They are built behind the load."""
    if not is_of_family(schema):
        return
    for source, target in target_columns(table).items():
        column = schema.column(source)
        if not column.default_is_expression or column.default is None or column.default_term is not None:
            continue
        if _text(column) is not None:
            continue
        if not release.has("expression defaults"):
            yield source, target, NotMade("defaults are constants in this release")
            continue
        try:
            yield source, target, own_words(column.default, schema, table, release.family)
        except NotMade as why:
            yield source, target, why
