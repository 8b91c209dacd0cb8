"""Clauses of ALTER TABLE about foreign keys that only refuse, as values; and a table behind them.

A statement says all of a key but the name that a server gives to one without, which the catalogue has.
https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html · https://mariadb.com/kb/en/foreign-keys/
What does not live here: keys that a job of ours builds (`built_clauses.py`), keys that change rows, which park their table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from anabranch.connectors.mysql.source.built_clauses import key_of
from anabranch.connectors.mysql.source.column_clauses import Unknown
from anabranch.model.foreign_key_changes import refuses

if TYPE_CHECKING:
    from anabranch.connectors.mysql.source.statement_tokens import Token
    from anabranch.model.ids import TableId
    from anabranch.model.schema import ForeignKey, TableSchema

Read = Callable[[Sequence["Token"]], "TableId"]


def is_about_key(clause: Sequence[Token], table: TableSchema) -> bool:
    """Return whether a clause of ALTER TABLE makes a foreign key, or drops one that the table has."""
    first, second = clause[0].word, clause[1].word if len(clause) > 1 else ""
    if first == "ADD":
        return second == "FOREIGN" or (second == "CONSTRAINT" and "FOREIGN" in (token.word for token in clause[2:7]))
    if first != "DROP" or second not in ("FOREIGN", "CONSTRAINT"):
        return False
    return second == "FOREIGN" or any(_is(key.name, _gone(clause)) for key in table.foreign_keys)


def behind(
    table: TableSchema, clauses: Sequence[Sequence[Token]], now: TableSchema, table_of: Read, waits: bool
) -> TableSchema:
    """Return a table behind these clauses: the keys that go do so first. `now`: as the catalogue has it. A key that is not
    known was made while nobody followed it. Where one that comes is not read, none comes. With `waits`, and where none goes,
    raises Unknown then: the catalogue may not show yet how it is called. One that goes may refuse rows behind this place."""
    gone = [_gone(clause) for clause in clauses if clause[0].word == "DROP"]
    left = tuple(key for key in table.foreign_keys if not any(_is(key.name, name) for name in gone))
    keys = list(left)
    try:
        for clause in clauses:
            if clause[0].word == "ADD":
                key = _added(clause, table, now, keys, table_of)
                if any(_is(one.name, key.name) for one in keys):
                    raise Unknown
                keys.append(key)
    except (Unknown, IndexError):
        if waits and left == table.foreign_keys:
            raise
        return replace(table, foreign_keys=left) if left != table.foreign_keys else table
    return replace(table, foreign_keys=tuple(keys))


def _gone(clause: Sequence[Token]) -> str:
    """Return the name in DROP FOREIGN KEY [IF EXISTS] and DROP CONSTRAINT [IF EXISTS]."""
    at = 2 if clause[1].word == "CONSTRAINT" else 3
    return clause[at + 2 if clause[at].word == "IF" else at].text


def _added(
    clause: Sequence[Token], table: TableSchema, now: TableSchema, known: Sequence[ForeignKey], table_of: Read
) -> ForeignKey:
    """Read ADD [CONSTRAINT [name]] FOREIGN KEY [index] (…) REFERENCES …: of two keys that are alike the name decides."""
    head = list(takewhile(lambda token: token.text != "(", clause))
    words = [token.word for token in head]
    if "IF" in words:
        raise Unknown  # it may have been there
    at = words.index("FOREIGN")
    if words[at + 1 : at + 2] != ["KEY"] or at > 3 or len(head) > at + 3:
        raise Unknown
    said = key_of(head[2].text if at == 3 else "", clause[len(head) :], table, table_of)
    if not refuses(said):
        raise Unknown
    alike = [
        key for key in now.foreign_keys if _plain(key) == _plain(said) and not any(_is(key.name, k.name) for k in known)
    ]
    named = [key for key in alike if _is(key.name, said.name)] if said.name else alike
    if len(named) == 1:
        return replace(said, name=named[0].name, columns=named[0].columns, parent_columns=named[0].parent_columns)
    if not said.name or any(_is(key.name, said.name) and _plain(key, said) == _plain(said) for key in now.foreign_keys):
        raise Unknown  # the catalogue has it with another parent
    return said


def _plain(key: ForeignKey, to: ForeignKey | None = None) -> object:
    """Return what makes two keys alike beside their names. `to`: the key whose parent counts, if it is not its own."""
    names = [tuple(name.lower() for name in columns) for columns in (key.columns, key.parent_columns)]
    return names, (to or key).parent, key.on_delete, key.on_update


def _is(name: str, other: str) -> bool:
    return name.lower() == other.lower()
