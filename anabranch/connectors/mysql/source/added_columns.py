"""Definitions of tables behind an ALTER TABLE of the log that adds columns and does nothing else.

The statement says which columns come, and where; the catalogue says what each of them is, in the form of all other definitions.
Both have to agree: a later statement may have changed the column by now. What rows that are there get has to be known, too: a
constant, or NULL. https://dev.mysql.com/doc/refman/8.0/en/alter-table.html · https://mariadb.com/kb/en/alter-table/

What does not live here: telling statements apart (`statements.py`), other changes, which park the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from anabranch.connectors.mysql.source.statement_tokens import Token
from anabranch.model.schema import Column, TableSchema

HOW = frozenset(("ALGORITHM", "LOCK"))  # clauses that say how the server does it
# Words of a column's definition that say nothing beside its type, and that take a word of their own with them.
PLAIN = frozenset(
    ("ASCII", "BINARY", "PRECISION", "SIGNED", "UNICODE", "UNSIGNED", "VARYING", "VISIBLE", "YEAR", "ZEROFILL")
)
WITH_ONE = frozenset(("CHARSET", "COLLATE", "COLUMN_FORMAT", "COMMENT", "STORAGE"))
# https://dev.mysql.com/doc/refman/8.0/en/other-vendor-data-types.html and numeric-type-syntax.html: what the catalogue calls it
ALIASES = {
    "BOOL": "tinyint", "BOOLEAN": "tinyint", "CHARACTER": "char", "DEC": "decimal", "FIXED": "decimal", "INT1": "tinyint",
    "INT2": "smallint", "INT3": "mediumint", "INT4": "int", "INT8": "bigint", "INTEGER": "int", "LONG": "mediumtext",
    "MIDDLEINT": "mediumint", "NUMERIC": "decimal", "REAL": "double",
}  # fmt: skip
ALSO = {"char": ("varchar",), "json": ("longtext",)}  # CHARACTER VARYING; JSON of a MariaDB


@dataclass(frozen=True)
class _Added:
    """A column as the statement says it. `default`: has it a constant one other than NULL; `after`: None = in the last place,
    "" = in the first one."""

    name: str
    type: str
    nullable: bool
    default: bool
    after: str | None


class _Unknown(Exception):
    """Something else than a column whose values in rows that are there are certain."""


def behind(clauses: Sequence[Sequence[Token]], then: TableSchema, now: TableSchema) -> TableSchema | None:
    """Return the definition behind a statement with these clauses, of a table that was `then` before it, and has since become
    `now`. None where that is not certain, or where the statement does anything else."""
    if then.row_end or not clauses:
        return None
    columns = list(then.columns)
    try:
        for one in (one for clause in clauses for one in _added(clause)):
            column = _agreed(one, now)
            if any(_is(column.name, other.name) for other in columns):
                return None
            columns.insert(_place(one, columns), column)
    except _Unknown:
        return None
    return replace(then, columns=tuple(columns)) if len(columns) > len(then.columns) else None


def _is(name: str, other: str) -> bool:
    return name.lower() == other.lower()


def _agreed(said: _Added, now: TableSchema) -> Column:
    """Return the column as the catalogue has it, if that is what the statement says."""
    column = next((column for column in now.columns if _is(column.name, said.name)), None)
    if column is None or column.type is None or column.generated or column.auto_increment or column.set_by_server:
        raise _Unknown
    if column.invisible or column.default_is_expression or column.nullable is not said.nullable:
        raise _Unknown
    has_constant = column.has_default and column.default is not None
    is_known = has_constant or column.nullable  # else rows get what the server takes for nothing
    names = (said.type, *ALSO.get(said.type, ()))
    if has_constant is not said.default or not is_known or not column.native.lower().startswith(names):
        raise _Unknown
    return column


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


def _parts(tokens: Sequence[Token], depth: int) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in tokens:
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
    nullable, default, after = True, False, None
    while left:
        token, left = left[0], left[1:]
        word, ahead = token.word, left[0].word if left else ""
        if word == "NOT" and ahead == "NULL":
            nullable, left = False, left[1:]
        elif word in ("CHARACTER", "CHAR") and ahead == "SET":
            left = _without(left[1:], 1)
        elif word in WITH_ONE:
            left = _without([t for t in left[:1] if t.text != "="] + left[1:], 1)
        elif word == "DEFAULT":
            default, left = _default(left)
        elif word == "FIRST":
            after = ""
        elif word == "AFTER":
            after, left = (left[0].text if left else ""), _without(left, 1)
        elif word not in PLAIN and word != "NULL":
            raise _Unknown
    return _Added(name, type, nullable, default, after)


def _without(tokens: Sequence[Token], number: int) -> list[Token]:
    if len(tokens) < number:
        raise _Unknown
    return list(tokens[number:])


def _default(tokens: Sequence[Token]) -> tuple[bool, list[Token]]:
    """Read a constant: is it another than NULL, and what follows it. Raises _Unknown for anything that is computed."""
    if not tokens:
        raise _Unknown
    first = tokens[0]
    if first.kind == "string" or first.word in ("TRUE", "FALSE"):
        return True, list(tokens[1:])
    if first.word == "NULL":
        return False, list(tokens[1:])
    at = 1 if first.kind == "mark" and first.text in ("+", "-") else 0
    digits = 0
    while at < len(tokens) and (tokens[at].word[:1].isdigit() or tokens[at].text == "."):
        at, digits = at + 1, digits + 1
    if not digits or "E" in "".join(token.word for token in tokens[:at]):
        raise _Unknown  # 1e3 may be followed by a sign
    return True, list(tokens[at:])
