"""The table's comment among the clauses of an ALTER TABLE, and columns with the comments that a statement says.

What does not live here: other clauses (`column_clauses.py`, `index_clauses.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.connectors.mysql.source.statement_tokens import Token
from anabranch.model.schema import Column, TableSchema

_VERBS = ("ADD", "DROP", "ALTER", "RENAME", "CHANGE", "MODIFY")


def is_comment(clause: Sequence[Token]) -> bool:
    """Return whether a clause is the table's comment, and nothing else."""
    return clause[0].word == "COMMENT" and len(clause) == 2 + _has_sign(clause, 0)


def comment_of(clauses: Sequence[Sequence[Token]]) -> str | None:
    """Return the comment that clauses give to the table, the last one; None where they give none. Options of a table need no
    commas between them."""
    found = None
    for clause in clauses:
        for at, token in enumerate(clause):
            text = at + 1 + _has_sign(clause, at)
            if token.word == "COMMENT" and not token.depth and clause[0].word not in _VERBS and text < len(clause):
                found = clause[text].text if clause[text].kind in ("string", "name") else found
    return found


def _has_sign(clause: Sequence[Token], at: int) -> bool:
    return at + 1 < len(clause) and clause[at + 1].kind == "mark" and clause[at + 1].text == "="


def with_comment(table: TableSchema, said: str | None, now: TableSchema) -> TableSchema:
    """Return the table with the comment that is said, None: none is. `now`: as the catalogue has it, perhaps by a later
    statement."""
    return table if said is None else replace(table, comment=said if _is_certain(said) else now.comment)


def is_late(said: str | None, then: TableSchema, now: TableSchema) -> bool:
    """Return whether only the catalogue tells the comment, and may not show it yet."""
    return said is not None and not _is_certain(said) and now.comment == then.comment


def commented(column: Column, said: str) -> Column:
    """Return a column of the catalogue with the comment that is said, which a later statement may have changed by now."""
    return replace(column, comment=said) if _is_certain(said) else column


def _is_certain(said: str) -> bool:
    """Return whether the text means the same in every session: what a backslash does depends on the sql_mode, and other signs
    on the character set."""
    return said.isascii() and "\\" not in said
