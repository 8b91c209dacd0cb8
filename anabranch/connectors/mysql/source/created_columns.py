"""A column as CREATE TABLE defines it, against the column that the catalogue has.

What does not live here: what ALTER TABLE may say of a column as well (`column_clauses.py`), keys beside columns
(`created_tables.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anabranch.connectors.mysql.source.altered_columns import UTF8, has_collation, has_default, has_type
from anabranch.connectors.mysql.source.column_clauses import Said, Unknown, read_column
from anabranch.connectors.mysql.source.statement_tokens import Token, tokens
from anabranch.model.schema import Column, TableSchema

# What a character set is compared by where nobody says it, by release: https://dev.mysql.com/doc/refman/8.0/en/charset-charsets.html
# https://mariadb.com/kb/en/supported-character-sets-and-collations/
DEFAULT_COLLATIONS = {
    "ascii": frozenset(("ascii_general_ci", "ascii_uca1400_ai_ci")),
    "latin1": frozenset(("latin1_swedish_ci",)),
    "utf8mb3": frozenset(("utf8mb3_general_ci", "utf8mb3_uca1400_ai_ci")),
    "utf8mb4": frozenset(("utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_uca1400_ai_ci")),
}
_ALONE = frozenset(("AUTO_INCREMENT", "INVISIBLE", "PRIMARY", "UNIQUE", "KEY"))
_COMPUTED = frozenset(("STORED", "PERSISTENT", "VIRTUAL"))
_CLOCK = frozenset(("CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "NOW"))


@dataclass
class Made:
    """A column as it is written. `computes`: its default is computed; `expression`: of a generated column, `stored`: its
    values are kept."""

    said: Said
    primary: bool = False
    unique: bool = False
    auto_increment: bool = False
    invisible: bool = False
    computes: bool = False
    expression: tuple[Token, ...] | None = None
    stored: bool = False


@dataclass(frozen=True)
class Charsets:
    """Character set and collation that the table gives to texts which say none, "" = unsaid; `others`: those that texts of
    other tables in the schema have."""

    charset: str
    collation: str
    others: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, options: Sequence[Token], now: TableSchema, known: Iterable[TableSchema]) -> Charsets:
        near = (table for table in known if table.id.schema == now.id.schema and table.id != now.id)
        others = frozenset((c.charset, c.collation) for table in near for c in table.columns if c.charset)
        found = [word_behind(options, words) for words in (("CHARSET",), ("CHARACTER", "SET"), ("CHAR", "SET"))]
        return cls(next(filter(None, found), "").lower(), word_behind(options, ("COLLATE",)).lower(), others)


def word_behind(found: Sequence[Token], words: tuple[str, ...]) -> str:
    """Return what stands behind these words, and perhaps `=`; "" where they do not stand there. The last one counts."""
    value = ""
    for place in range(len(found)):
        if tuple(token.word for token in found[place : place + len(words)]) == words:
            rest = [token for token in found[place + len(words) : place + len(words) + 2] if token.text != "="]
            value = rest[0].text
    return value


def made(part: Sequence[Token]) -> Made:
    """Read a column between the parentheses of CREATE TABLE. Raises Unknown and IndexError for what is not read."""
    found, left, at = Made(said=_NONE), list(part[:2]), 2
    depth = part[0].depth
    while at < len(part):
        token, ahead = part[at], part[at + 1].word if at + 1 < len(part) else ""
        if token.depth > depth or not token.word:
            left.append(token)
            at += 1
        elif token.word in _ALONE:
            at += _alone(found, token.word, ahead)
        elif token.word == "CONSTRAINT":
            at += 1 if ahead == "CHECK" else 2
        elif token.word == "CHECK":
            at = _behind_parentheses(part, at + 1)
        elif token.word == "REFERENCES":  # the last one; keys that act are looked for elsewhere
            at = len(part)
        elif token.word == "ON" and ahead == "UPDATE":
            at = _behind_parentheses(part, at + 3)
        elif token.word == "DEFAULT" and _is_computed(part, at + 1):
            found.computes, at = True, _behind_parentheses(part, at + (1 if part[at + 1].text == "(" else 2))
        elif token.word in ("GENERATED", "AS"):
            at += 2 if token.word == "GENERATED" and ahead == "ALWAYS" else 0
            end = _behind_parentheses(part, at + 1)
            found.expression, at = tuple(part[at + 1 : end]), end
        elif token.word in _COMPUTED and found.expression is not None:
            found.stored, at = token.word != "VIRTUAL", at + 1
        else:
            left.append(token)
            at += 1
    found.said = read_column(left, depth)
    return found


_NONE = Said("", "", (), False, "", "", False, True, None, None)


def _alone(found: Made, word: str, ahead: str) -> int:
    """Note a word that stands alone, or in front of KEY, and return how many words that are."""
    if word == "AUTO_INCREMENT":
        found.auto_increment = True
    elif word == "INVISIBLE":
        found.invisible = True
    elif word == "UNIQUE":
        found.unique = True
    else:
        found.primary = True
    return 2 if ahead == "KEY" and word in ("PRIMARY", "UNIQUE") else 1


def _is_computed(part: Sequence[Token], at: int) -> bool:
    return part[at].text == "(" or part[at].word in _CLOCK


def _behind_parentheses(part: Sequence[Token], at: int) -> int:
    """Return the place behind the parentheses that begin at a place, or the place itself. Raises Unknown where they do not
    end: a text in them is cut in another way than the server does it."""
    if at >= len(part) or part[at].kind != "mark" or part[at].text != "(":
        return at
    end = next((place for place in range(at + 1, len(part)) if part[place].depth <= part[at].depth), None)
    if end is None:
        raise Unknown
    return end + 1


def agrees(one: Made, column: Column, charsets: Charsets, is_key: bool) -> bool:
    """Return whether the column is what the statement says; `is_key`: it is one of the primary key, so it is NOT NULL, as
    one that counts is."""
    said = one.said
    if said.name != column.name or said.after is not None or column.type is None or column.set_by_server:
        return False
    is_nullable = said.nullable and not is_key and not one.auto_increment
    if column.nullable is not is_nullable or column.auto_increment is not one.auto_increment:
        return False
    if column.invisible is not one.invisible or not has_type(column, said) or not _has_charset(column, said, charsets):
        return False
    if column.generated or one.expression is not None:
        return column.generated and column.stored is one.stored and _is_same(one.expression or (), column.expression)
    if one.computes or column.default_is_expression:
        return one.computes and column.default_is_expression
    return has_default(column, said.default)


def _is_same(written: Sequence[Token], shown: str) -> bool:
    """Return whether the server shows the expression as it is written, apart from parentheses around all of it and quotes
    around names."""
    return _bare(list(written)) == _bare(list(tokens(shown)))


def _bare(expression: list[Token]) -> list[str]:
    while (
        len(expression) > 1 and expression[0].kind == "mark" and _behind_parentheses(expression, 0) == len(expression)
    ):
        expression = expression[1:-1]
    return [token.text if token.kind == "string" else token.text.lower() for token in expression]


def _has_charset(column: Column, said: Said, charsets: Charsets) -> bool:
    """Return whether a text has the character set and collation that the statement says, for the column or the table. What is
    said nowhere is as in other tables of the schema, or, of a collation, as servers have it."""
    if not column.charset or said.type == "json":
        return not said.charset
    there = (column.charset, column.collation)
    charset, collation = said.charset, said.collation
    if not charset and not collation:
        charset, collation = charsets.charset, charsets.collation
    if said.collates or (not charset and not collation and there not in charsets.others):
        return False
    if charset and UTF8.get(charset, charset) != UTF8.get(column.charset, column.charset):
        return False
    if collation or not charset:
        return not collation or has_collation(column, collation)
    family = UTF8.get(column.charset, column.charset)
    return there in charsets.others or column.collation.replace(column.charset, family, 1) in DEFAULT_COLLATIONS.get(
        family, ()
    )
