"""Clauses of ALTER TABLE that are about columns, as values: what the statement says, and nothing that the catalogue says.

A clause that may do anything else is not read. https://dev.mysql.com/doc/refman/8.0/en/alter-table.html ·
https://mariadb.com/kb/en/alter-table/ What does not live here: what a table is behind them (`altered_columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from anabranch.connectors.mysql.source.statement_tokens import Token

HOW = frozenset(("ALGORITHM", "LOCK"))  # clauses that say how the server does it
# Words of a column's definition that say nothing which is compared, and those that take a word of their own with them.
PLAIN = frozenset(("ASCII", "BINARY", "SIGNED", "UNICODE", "VISIBLE"))
WITH_ONE = frozenset(("COLUMN_FORMAT", "STORAGE"))
COLLATING = frozenset(("ASCII", "BINARY", "UNICODE"))  # those of PLAIN by which a text is compared otherwise
# https://dev.mysql.com/doc/refman/8.0/en/other-vendor-data-types.html and numeric-type-syntax.html: what the catalogue calls it
ALIASES = {
    "BOOL": "tinyint", "BOOLEAN": "tinyint", "CHARACTER": "char", "DEC": "decimal", "FIXED": "decimal", "INT1": "tinyint",
    "INT2": "smallint", "INT3": "mediumint", "INT4": "int", "INT8": "bigint", "INTEGER": "int", "LONG": "mediumtext",
    "MIDDLEINT": "mediumint", "NUMERIC": "decimal", "REAL": "double",
}  # fmt: skip


class Unknown(Exception):
    """Something that is not certain, or is not about columns alone."""


class Number(str):
    """A constant that is written without quotes: of an ENUM its place, of a SET its bits."""

    __slots__ = ()


@dataclass(frozen=True)
class Said:
    """A column as the statement says it. `sizes`: what stands in parentheses behind the type, labels of an ENUM among it;
    `charset`, `collation`: "" where none is said, `collates`: a word says it in another way; `default`: a constant other than
    NULL, a Number where it stands without quotes; `after`: None = in the last place, "" = in the first one."""

    name: str
    type: str
    sizes: tuple[str, ...]
    unsigned: bool
    charset: str
    collation: str
    collates: bool
    nullable: bool
    default: str | None
    after: str | None
    comment: str = ""


@dataclass(frozen=True)
class Adds:
    said: Said


@dataclass(frozen=True)
class Drops:
    name: str


@dataclass(frozen=True)
class Renames:
    name: str
    to: str


@dataclass(frozen=True)
class Changes:
    """A column that is defined anew, in its place, perhaps by another name."""

    name: str
    said: Said


@dataclass(frozen=True)
class Defaults:
    """A column that gets another constant for default; None: NULL, or no default any more."""

    name: str
    default: str | None


Clause = Adds | Drops | Renames | Changes | Defaults


def read(clauses: Sequence[Sequence[Token]]) -> list[Clause]:
    """Return what the clauses do to columns. Raises Unknown for one that does anything else, IndexError for one that ends
    early."""
    return [one for clause in clauses for one in _read(clause)]


def _read(clause: Sequence[Token]) -> Iterator[Clause]:
    verb, rest = clause[0].word, list(clause[1:])
    if verb in HOW:
        return
    if rest[0].word == "COLUMN":
        rest = rest[1:]
    if verb == "ADD":
        yield from map(Adds, _added(rest))
    elif verb == "DROP" and len(without := _without_nothing(rest)) == 1:  # DROP KEY k has more words
        yield Drops(_name(without[0]))
    elif verb == "RENAME" and clause[1].word == "COLUMN" and len(rest) == 3 and rest[1].word == "TO":
        yield Renames(_name(rest[0]), _name(rest[2]))
    elif verb == "CHANGE":
        yield _changed(_name(rest[0]), rest[1:])
    elif verb == "MODIFY":
        yield _changed(_name(rest[0]), rest)
    elif verb == "ALTER" and rest[2].word == "DEFAULT":
        yield Defaults(_name(rest[0]), _new_default(rest[1:]))
    else:
        raise Unknown


def _without_nothing(rest: Sequence[Token]) -> Sequence[Token]:
    """Return what is dropped without the word behind it that says nothing; a name of that spelling is quoted."""
    return rest[:-1] if rest[-1].kind == "word" and rest[-1].word in ("RESTRICT", "CASCADE") else rest


def _name(token: Token) -> str:
    if token.kind not in ("name", "word"):
        raise Unknown
    return token.text


def _changed(name: str, rest: Sequence[Token]) -> Changes:
    said = read_column(rest, 0)
    if said.after is not None:  # rows have their columns in another order from there on
        raise Unknown
    return Changes(name, said)


def _new_default(rest: Sequence[Token]) -> str | None:
    """Read `SET DEFAULT constant` or `DROP DEFAULT`."""
    default, left = (None, list(rest[2:])) if rest[0].word == "DROP" else _default(rest[2:])
    if left or rest[0].word not in ("SET", "DROP"):
        raise Unknown
    return default


def constant_of(tokens: Sequence[Token]) -> str | None:
    """Read a constant, None for NULL, and nothing behind it."""
    constant, left = _default(tokens)
    if left:
        raise Unknown
    return constant


def _added(rest: Sequence[Token]) -> Iterator[Said]:
    if rest and rest[0].text == "(" and rest[0].kind == "mark":
        for part in parts(rest[1:-1], rest[0].depth + 1):
            yield read_column(part, part[0].depth if part else 0)
    else:
        yield read_column(rest, 0)


def parts(inside: Sequence[Token], depth: int) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in inside:
        if token.kind == "mark" and token.text == "," and token.depth == depth:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def read_column(tokens: Sequence[Token], depth: int) -> Said:
    """Read `name type attributes [FIRST | AFTER name]`."""
    if len(tokens) < 2 or tokens[0].kind == "mark" or not tokens[1].word or tokens[0].word == "IF":
        raise Unknown
    name, (type, behind) = tokens[0].text, _type(tokens[1:])
    if any(one.word == "DEFAULT" and then.kind == "mark" and then.text == "(" for one, then in pairwise(tokens)):
        raise Unknown  # an expression
    left = [t for t in behind if t.depth <= depth and not (t.kind == "mark" and t.text in "()")]
    nullable, unsigned, charset, collation, default, after, comment = True, False, "", "", None, None, ""
    collates = not COLLATING.isdisjoint(token.word for token in left)
    while left:
        token, left = left[0], left[1:]
        word, ahead = token.word, left[0].word if left else ""
        if word == "NOT" and ahead == "NULL":
            nullable, left = False, left[1:]
        elif word in ("UNSIGNED", "ZEROFILL"):
            unsigned = True
        elif word == "CHARSET" or (word in ("CHARACTER", "CHAR") and ahead == "SET"):
            charset, left = _named(left if word == "CHARSET" else left[1:])
        elif word == "COLLATE":
            collation, left = _named(left)
        elif word == "COMMENT":
            comment, left = _named(left, lower=False)
        elif word in WITH_ONE:
            _, left = _named(left)
        elif word == "DEFAULT":
            default, left = _default(left)
        elif word == "FIRST":
            after = ""
        elif word == "AFTER":
            after, left = _named(left, lower=False)
        elif word not in PLAIN and word != "NULL":
            raise Unknown
    return Said(
        name,
        type,
        _usual(type, sizes(behind)),
        unsigned,
        charset,
        collation,
        collates,
        nullable,
        default,
        after,
        comment,
    )


def _type(tokens: Sequence[Token]) -> tuple[str, Sequence[Token]]:
    """Read a type's name, perhaps of two words, and return it as the catalogue has it, with what follows."""
    first, then = tokens[0].word, tokens[1].word if len(tokens) > 1 else ""
    if first in ("CHAR", "CHARACTER") and then == "VARYING":
        return "varchar", tokens[2:]
    if first == "DOUBLE" and then == "PRECISION":
        return "double", tokens[2:]
    return ALIASES.get(first, first.lower()), tokens[1:]


def _usual(type: str, said: tuple[str, ...]) -> tuple[str, ...]:
    """Return the sizes of a type as the catalogue has them: DECIMAL(10) is decimal(10,0)."""
    return (*said, "0") if type == "decimal" and len(said) == 1 else said


def sizes(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return what stands in the parentheses that these tokens begin with."""
    if not tokens or tokens[0].kind != "mark" or tokens[0].text != "(":
        return ()
    inside = takewhile(lambda token: token.depth > tokens[0].depth, tokens[1:])
    return tuple(token.text for token in inside if token.kind != "mark")


def _named(tokens: Sequence[Token], lower: bool = True) -> tuple[str, list[Token]]:
    """Read a word, perhaps behind `=`."""
    rest = [token for place, token in enumerate(tokens) if place or token.text != "="]
    if not rest:
        raise Unknown
    return (rest[0].text.lower() if lower else rest[0].text), rest[1:]


def _default(tokens: Sequence[Token]) -> tuple[str | None, list[Token]]:
    """Read a constant, None for NULL, and what follows it. Raises Unknown for anything that is computed."""
    if not tokens:
        raise Unknown
    first = tokens[0]
    if first.kind == "string":
        return first.text, list(tokens[1:])
    if first.word in ("NULL", "TRUE", "FALSE"):
        return {"NULL": None, "TRUE": Number(1), "FALSE": Number(0)}[first.word], list(tokens[1:])
    at = 1 if first.kind == "mark" and first.text in ("+", "-") else 0
    begin, sign = at, "-" if at and first.text == "-" else ""
    while at < len(tokens) and (tokens[at].word[:1].isdigit() or tokens[at].text == "."):
        at += 1
    digits = "".join(token.text for token in tokens[begin:at])
    if not digits or not digits.replace(".", "").isdigit():
        raise Unknown  # hexadecimal, or 1e3, which may be followed by a sign
    return Number(sign + digits), list(tokens[at:])
