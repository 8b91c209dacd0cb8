"""CREATE TABLE as people write it, against the table that the catalogue has: is that what the statement made?

A later statement may have changed the table by now. Names, their order and types tell; whatever else a column has changes no
row of the log. https://dev.mysql.com/doc/refman/8.0/en/create-table.html · https://mariadb.com/kb/en/create-table/

What does not live here: copies that a tool makes (`copied_tables.py`), telling statements apart (`statements.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from anabranch.connectors.mysql.source.altered_columns import has_type
from anabranch.connectors.mysql.source.column_clauses import ALIASES, Said, parts, sizes
from anabranch.connectors.mysql.source.copied_tables import KEYS, WITH_ROWS
from anabranch.connectors.mysql.source.statement_tokens import Token
from anabranch.model.schema import Column, TableSchema


def has_columns_of(inside: Sequence[Token], now: TableSchema) -> bool:
    """Return whether a CREATE TABLE has just the columns of `now`, by name and type, in their order; `inside`: the tokens
    behind the parenthesis. False where it has rows as well."""
    held = list(takewhile(lambda token: token.depth > 0, inside))
    if any(token.word in WITH_ROWS for token in inside[len(held) :]):
        return False
    columns = [part for part in parts(held, 1) if part and part[0].word not in KEYS]
    return len(columns) == len(now.columns) and all(map(_is_column, columns, now.columns))


def _is_column(part: Sequence[Token], column: Column) -> bool:
    if len(part) < 2 or part[0].kind not in ("name", "word") or part[0].text != column.name or not part[1].word:
        return False
    rest = [token for token in part[2:] if token.depth == 1]
    unsigned = any(token.word in ("UNSIGNED", "ZEROFILL") for token in rest)
    type = ALIASES.get(part[1].word, part[1].word.lower())
    said = Said(part[0].text, type, sizes(part[2:]), unsigned, "", "", False, column.nullable, None, None)
    return has_type(column, said)
