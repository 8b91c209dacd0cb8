"""Kinds of what clauses of ALTER TABLE change beside columns, by their words: indexes, keys, checks, comments, partitions.

What does not live here: what becomes of them (capture, apply), reading indexes (`index_clauses.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from anabranch.connectors.mysql.source.statement_tokens import Token
from anabranch.model.column_changes import (
    CONSTRAINTS,
    OTHER_INDEXES,
    PARTITIONS,
    ColumnChange,
)

_BY_WORD = {
    "UNIQUE": str(ColumnChange.UNIQUE_KEYS),
    "FOREIGN": str(ColumnChange.FOREIGN_KEYS),
    "CHECK": str(ColumnChange.CHECKS),
    "FULLTEXT": OTHER_INDEXES,
    "SPATIAL": OTHER_INDEXES,
    "INDEX": str(ColumnChange.INDEXES),
    "KEY": str(ColumnChange.INDEXES),
}
_VERBS = ("ADD", "DROP", "ALTER", "RENAME")
# Of these clauses (first words) the partitions have other bounds, or are gone, or come; rows stay.
_OF_PARTITIONS = frozenset(("PARTITION", "REMOVE", "REORGANIZE", "COALESCE"))

_BESIDE_PARTITIONS = frozenset(("ALGORITHM", "LOCK"))  # they may stand in front of it, and change nothing


def rows_only_go(clauses: Iterable[Sequence[Token]]) -> bool:
    """Return whether an ALTER TABLE only takes partitions away with their rows, or empties them. `clauses`: each from its first
    word on, to the end of the statement. EXCHANGE, IMPORT and CONVERT TABLE bring rows; a partition without its file
    (DISCARD) is not one without rows; a text may end elsewhere than it seems."""
    for clause in clauses:
        words = [token.word for token in clause if not token.depth]
        second = words[1] if len(words) > 1 else ""
        if (
            words[0] in ("DROP", "TRUNCATE", "CONVERT") and second == "PARTITION"
        ):  # the last clause, with all that follows
            return not any(token.kind == "string" for token in clause)
        if words[0] not in _BESIDE_PARTITIONS:
            return False
    return False


def kinds_beside(clauses: Iterable[Sequence[Token]]) -> tuple[str, ...]:
    """Return what the clauses change beside columns, in their order, each kind once."""
    return tuple(dict.fromkeys(kind for clause in clauses for kind in _kinds(clause)))


def kind_of_index(words: Collection[str]) -> str:
    """Return what CREATE INDEX makes, or DROP INDEX drops, by the words in front of the name."""
    return next((_BY_WORD[word] for word in ("UNIQUE", "FULLTEXT", "SPATIAL") if word in words), _BY_WORD["INDEX"])


def _kinds(clause: Sequence[Token]) -> Iterator[str]:
    words = [token.word for token in clause if not token.depth]
    first, second = words[0], words[1] if len(words) > 1 else ""
    if first in _OF_PARTITIONS or (first in ("ADD", "CONVERT") and second == "PARTITION"):
        yield PARTITIONS
    elif first in _VERBS and second in _BY_WORD:
        yield _BY_WORD[second]
    elif first in _VERBS and second == "CONSTRAINT":
        yield next((_BY_WORD[word] for word in words[2:5] if word in ("UNIQUE", "FOREIGN", "CHECK")), CONSTRAINTS)
    elif first not in _VERBS and "COMMENT" in words:  # options of the table need no commas
        yield str(ColumnChange.COMMENTS)
