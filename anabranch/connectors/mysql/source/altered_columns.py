"""Definitions of tables behind an ALTER TABLE of the log that adds columns and does nothing else.

The statement says which columns come, and where; the catalogue says what each of them is, in the form of all other definitions.
Both have to agree: a later statement may have changed the column by now. What rows that are there get has to be known, too: a
constant, or NULL. https://dev.mysql.com/doc/refman/8.0/en/alter-table.html · https://mariadb.com/kb/en/alter-table/

What does not live here: telling statements apart (`statements.py`), other changes, which park the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from anabranch.connectors.mysql.source.defaults import constant
from anabranch.connectors.mysql.source.statement_tokens import Token, tokens
from anabranch.connectors.mysql.source.typemap import INTEGERS
from anabranch.model.column_changes import Altered, ColumnChange
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column, TableSchema

HOW = frozenset(("ALGORITHM", "LOCK"))  # clauses that say how the server does it
# Words of a column's definition that say nothing which is compared, and those that take a word of their own with them.
PLAIN = frozenset(("ASCII", "BINARY", "PRECISION", "SIGNED", "UNICODE", "VARYING", "VISIBLE"))
WITH_ONE = frozenset(("COLLATE", "COLUMN_FORMAT", "COMMENT", "STORAGE"))
# https://dev.mysql.com/doc/refman/8.0/en/other-vendor-data-types.html and numeric-type-syntax.html: what the catalogue calls it
ALIASES = {
    "BOOL": "tinyint", "BOOLEAN": "tinyint", "CHARACTER": "char", "DEC": "decimal", "FIXED": "decimal", "INT1": "tinyint",
    "INT2": "smallint", "INT3": "mediumint", "INT4": "int", "INT8": "bigint", "INTEGER": "int", "LONG": "mediumtext",
    "MIDDLEINT": "mediumint", "NUMERIC": "decimal", "REAL": "double",
}  # fmt: skip
ALSO = {"char": ("varchar",), "json": ("longtext",)}  # CHARACTER VARYING; JSON of a MariaDB
# What the catalogue prints in parentheses where a statement says nothing.
USUAL = {"decimal": ("10", "0"), "char": ("1",), "binary": ("1",), "bit": ("1",)}
WITH_WIDTHS = frozenset(
    (*INTEGERS, "year")
)  # how wide they are shown changes no value, and not every release prints it
UTF8 = {"utf8": "utf8mb3"}
# What a constant means is not in its text alone: a time zone, or whether bits were written as a number or as bytes. Of texts
# with a backslash it is the sql_mode.
BY_SESSION = frozenset((Kind.INSTANT, Kind.BIT))


@dataclass(frozen=True)
class _Added:
    """A column as the statement says it. `sizes`: what stands in parentheses behind the type, labels of an ENUM among it;
    `charset`: "" where none is said; `default`: a constant other than NULL; `after`: None = in the last place, "" = in the
    first one."""

    name: str
    type: str
    sizes: tuple[str, ...]
    unsigned: bool
    charset: str
    nullable: bool
    default: str | None
    after: str | None


class _Unknown(Exception):
    """Something else than a column whose values in rows that are there are certain."""


def behind(clauses: Sequence[Sequence[Token]], then: TableSchema, now: TableSchema) -> Altered | None:
    """Return a table behind a statement with these clauses, that was `then` before it, and has since become `now`. None where
    that is not certain, or where the statement does anything else."""
    if then.row_end or not clauses:
        return None
    columns = list(then.columns)
    try:
        for one in (one for clause in clauses for one in _added(clause)):
            column = _agreed(one, then, now)
            if any(_is(column.name, other.name) for other in columns):
                return None
            columns.insert(_place(one, columns), column)
    except _Unknown:
        return None
    if len(columns) == len(then.columns):
        return None
    return Altered(replace(then, columns=tuple(columns)), frozenset({ColumnChange.ADD}))


def _is(name: str, other: str) -> bool:
    return name.lower() == other.lower()


def _agreed(said: _Added, then: TableSchema, now: TableSchema) -> Column:
    """Return the column as the catalogue has it, if that is what the statement says: a later one may have changed it."""
    column = next((column for column in now.columns if _is(column.name, said.name)), None)
    if column is None or column.type is None or column.generated or column.auto_increment or column.set_by_server:
        raise _Unknown
    if column.invisible or column.default_is_expression or column.nullable is not said.nullable:
        raise _Unknown
    is_known = column.default is not None or column.nullable  # else rows get what the server takes for nothing
    if not (is_known and _has_type(column, said) and _has_charset(column, said, then) and _has_default(column, said)):
        raise _Unknown
    return column


def _has_type(column: Column, said: _Added) -> bool:
    native = list(tokens(column.native))
    name, sizes = native[0].text.lower(), _sizes(native[1:])
    if name != said.type and name not in ALSO.get(said.type, ()):
        return False
    if said.unsigned is not any(token.word in ("UNSIGNED", "ZEROFILL") for token in native):
        return False
    is_plain = not any("\\" in text for text in said.sizes)  # else a label depends on the sql_mode of whoever wrote it
    return name in WITH_WIDTHS or (is_plain and sizes == (said.sizes or USUAL.get(name, ())))


def _has_charset(column: Column, said: _Added, then: TableSchema) -> bool:
    """Return whether the column has the character set that is said; where none is, one that the table's other texts have."""
    if said.type == "json":
        return True  # a text of MariaDB's own choice
    if said.charset or not column.charset:
        return not said.charset or UTF8.get(said.charset, said.charset) == UTF8.get(column.charset, column.charset)
    return any(other.charset == column.charset for other in then.columns)


def _has_default(column: Column, said: _Added) -> bool:
    if said.default is None:
        return column.default is None
    if "\\" in said.default or (column.type and column.type.kind in BY_SESSION):
        return False
    try:
        return column.default is not None and constant(column, said.default).default == column.default
    except ValueError:  # the server has rounded it, or read it in another way
        return False


def _place(said: _Added, columns: Sequence[Column]) -> int:
    if said.after is None:
        return len(columns)
    if said.after == "":
        return 0
    found = next((place for place, column in enumerate(columns) if _is(column.name, said.after)), None)
    if found is None:
        raise _Unknown
    return found + 1


# --- the statement's words --------------------------------------------------------------------------------------------


def _added(clause: Sequence[Token]) -> Iterator[_Added]:
    """Yield the columns that a clause adds, none of a clause that says how. Raises _Unknown for any other."""
    words = [token.word for token in clause]
    if words[0] in HOW:
        return
    if words[0] != "ADD":
        raise _Unknown
    rest = list(clause[1:])
    if rest and rest[0].word == "COLUMN":
        rest = rest[1:]
    if rest and rest[0].text == "(" and rest[0].kind == "mark":
        for part in _parts(rest[1:-1], rest[0].depth + 1):
            yield _column(part, part[0].depth if part else 0)
    else:
        yield _column(rest, 0)


def _parts(inside: Sequence[Token], depth: int) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in inside:
        if token.kind == "mark" and token.text == "," and token.depth == depth:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _column(tokens: Sequence[Token], depth: int) -> _Added:
    """Read `name type attributes [FIRST | AFTER name]`."""
    if len(tokens) < 2 or tokens[0].kind == "mark" or not tokens[1].word or tokens[0].word == "IF":
        raise _Unknown
    name, type = tokens[0].text, ALIASES.get(tokens[1].word, tokens[1].word.lower())
    left = [t for t in tokens[2:] if t.depth <= depth and not (t.kind == "mark" and t.text in "()")]
    nullable, unsigned, charset, default, after = True, False, "", None, None
    while left:
        token, left = left[0], left[1:]
        word, ahead = token.word, left[0].word if left else ""
        if word == "NOT" and ahead == "NULL":
            nullable, left = False, left[1:]
        elif word in ("UNSIGNED", "ZEROFILL"):
            unsigned = True
        elif word == "CHARSET" or (word in ("CHARACTER", "CHAR") and ahead == "SET"):
            charset, left = _named(left if word == "CHARSET" else left[1:])
        elif word in WITH_ONE:
            _, left = _named(left)
        elif word == "DEFAULT":
            default, left = _default(left)
        elif word == "FIRST":
            after = ""
        elif word == "AFTER":
            after, left = _named(left, lower=False)
        elif word not in PLAIN and word != "NULL":
            raise _Unknown
    return _Added(name, type, _sizes(tokens[2:]), unsigned, charset, nullable, default, after)


def _sizes(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return what stands in the parentheses that these tokens begin with."""
    if not tokens or tokens[0].kind != "mark" or tokens[0].text != "(":
        return ()
    inside = takewhile(lambda token: token.depth > tokens[0].depth, tokens[1:])
    return tuple(token.text for token in inside if token.kind != "mark")


def _named(tokens: Sequence[Token], lower: bool = True) -> tuple[str, list[Token]]:
    """Read a word, perhaps behind `=`."""
    rest = [token for place, token in enumerate(tokens) if place or token.text != "="]
    if not rest:
        raise _Unknown
    return (rest[0].text.lower() if lower else rest[0].text), rest[1:]


def _default(tokens: Sequence[Token]) -> tuple[str | None, list[Token]]:
    """Read a constant, None for NULL, and what follows it. Raises _Unknown for anything that is computed."""
    if not tokens:
        raise _Unknown
    first = tokens[0]
    if first.kind == "string":
        return first.text, list(tokens[1:])
    if first.word in ("NULL", "TRUE", "FALSE"):
        return {"NULL": None, "TRUE": "1", "FALSE": "0"}[first.word], list(tokens[1:])
    at = 1 if first.kind == "mark" and first.text in ("+", "-") else 0
    begin, sign = at, "-" if at and first.text == "-" else ""
    while at < len(tokens) and (tokens[at].word[:1].isdigit() or tokens[at].text == "."):
        at += 1
    digits = "".join(token.text for token in tokens[begin:at])
    if not digits or not digits.replace(".", "").isdigit():
        raise _Unknown  # hexadecimal, or 1e3, which may be followed by a sign
    return sign + digits, list(tokens[at:])
