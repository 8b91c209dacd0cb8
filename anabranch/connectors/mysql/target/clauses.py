"""Conditions and expressions as SQL of this target: of terms (model/term.py), and in the source's own words.

Own words are taken where the source is of this family: the server here is the judge of what it does not know. What names a
column of which the job makes something else is told, never rewritten.
https://dev.mysql.com/doc/refman/8.0/en/functions.html · https://mariadb.com/kb/en/built-in-functions/
What does not live here: which terms a source makes (`source/conditions.py`), what another database's words mean
(`other_words.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from anabranch.connectors.mysql.target.names import NotMade, target_columns
from anabranch.connectors.mysql.target.session import quoted
from anabranch.connectors.mysql.target.words import literal
from anabranch.connectors.sql.terms import TermForms, written
from anabranch.model.schema import TableSchema
from anabranch.model.term import Term
from anabranch.rows.net import TargetTable

FUNCTIONS = {"characters": "CHAR_LENGTH({})", "bytes": "OCTET_LENGTH(CONVERT({} USING utf8mb4))"}
# Texts are in utf8mb4, which our sessions speak; a column's collation wins.
FORMS = TermForms(literal, FUNCTIONS, {"is not distinct from": "<=>"})


def condition(term: Term, names: Mapping[str, str]) -> str:
    """Write a term as SQL. `names`: source column -> column as SQL. Raises KeyError with the name of one that is missing."""
    return written(term, names, FORMS)


def is_of_family(schema: TableSchema) -> bool:
    """Return whether the source is a MySQL or a MariaDB: of their tables an engine is told, and no dialect."""
    return not schema.dialect and bool(schema.engine)


def own_words(text: str, schema: TableSchema, table: TargetTable, family: str) -> str:
    """Return an expression of a source of this family, if all columns that it names are the same here. Raises NotMade."""
    text = as_written(text)
    for name, why in _changed(schema, table):
        if quoted(name).lower() in text.lower():
            raise NotMade(f"it names {name}, which the job {why}")
    if is_doubtful(text):
        raise NotMade(DOUBTFUL)
    if unknown := next((name for name in _called(text) if name in UNKNOWN[family]), ""):
        raise NotMade(f"{NAMES[family]} has no function {unknown}")
    return _INTRODUCED.sub(lambda found: found[0] if found[0][0] == "'" else "", text) if family == "mariadb" else text


# Functions that definitions of the other family may call, and this one does not have (seen in MySQL 8.0.33 and MariaDB 10.11).
# https://mariadb.com/kb/en/sequence-functions/ · https://dev.mysql.com/doc/refman/8.0/en/regexp.html
# https://dev.mysql.com/doc/refman/8.0/en/miscellaneous-functions.html
SEQUENCES = frozenset(("nextval", "lastval", "setval"))
UNKNOWN = {"mysql": SEQUENCES, "mariadb": frozenset(("regexp_like", "bin_to_uuid", "uuid_to_bin", "is_uuid"))}
NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}
# A text, or a character set before one. MariaDB does not read back what it stores of `_utf8mb4'it\\'s'` in a definition; our
# sessions speak that set anyway.
_INTRODUCED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\b_utf8mb4(?=')", re.DOTALL)
_TEXT = re.compile(r"\(?(?:_utf8mb4)?'((?:[^'\\]|\\.|'')*)'\)?", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


_CALL = re.compile(r"(?<![`\w$])(\w+)\s*\(")  # names of columns are in backticks
_LITERAL = re.compile(r"(\b_\w+)?'(?:[^'\\]|\\.|'')*'", re.DOTALL)
# Seen in MySQL 8.0.33, which prints the bytes of a text as if they were latin1, and MariaDB 10.11, which prints utf8mb3.
DOUBTFUL = "of a text in it the source may print other characters: a question mark for those beyond U+FFFF, bytes for non-ASCII"


def is_doubtful(text: str) -> bool:
    """Return whether a text of an expression may be another one at the source than what the catalogue prints."""
    return any("?" in found[0] or (found[1] and not found[0].isascii()) for found in _LITERAL.finditer(text))


def takes_numbers(text: str) -> bool:
    """Return whether an expression takes numbers from a sequence."""
    return not SEQUENCES.isdisjoint(_called(text))


def _called(text: str) -> Iterator[str]:
    """Yield the functions that an expression calls, and words before a parenthesis that are none."""
    return (name.lower() for name in _CALL.findall(_LITERAL.sub("''", text)))


def as_written(text: str) -> str:
    """Return an expression as somebody writes it: MySQL tells it as the text of a string, with a backslash before quotes and
    backslashes. Then the first quote has one."""
    if (first := text.find("'")) > 0 and text[first - 1] == "\\":
        return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
    return text


def text_in(expression: str) -> str | None:
    """Return the text that an expression is and nothing else, None for any other.

    https://dev.mysql.com/doc/refman/8.0/en/string-literals.html
    """
    found = _TEXT.fullmatch(as_written(expression))
    if found is None or is_doubtful(found[0]):
        return None
    return re.sub(r"''|\\(.)", lambda m: _ESCAPED.get(m[1], m[1]) if m[1] else "'", found[1], flags=re.DOTALL)


def _changed(schema: TableSchema, table: TargetTable) -> Iterator[tuple[str, str]]:
    """Yield columns of which the job makes something else, and what."""
    kept, written = target_columns(table) | dict(table.computed), set(table.columns)
    for column in schema.columns:
        target = kept.get(column.name)
        if target is None:
            yield column.name, "leaves out"
        elif target != column.name:
            yield column.name, "renames"
        elif target in written and table.type_of(target).target:
            yield column.name, "gives another type"
