"""Indexes that the source has dropped or renamed: the target's own go along, inside the epoch.

An index is ours if it has the name and the definition under which a load builds it; any other of the table stays. What does not
live here: building those that come (`constraints.py`), when it is done (apply engine).
Locks: https://www.postgresql.org/docs/current/sql-dropindex.html · https://www.postgresql.org/docs/current/sql-alterindex.html
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import WAITED_FOR, describe, meaning
from anabranch.connectors.postgresql.quoting import quote
from anabranch.connectors.postgresql.target.catalog import ExistingIndex, read_table, relation_table
from anabranch.connectors.postgresql.target.indexes import plan_index, plan_indexes
from anabranch.connectors.postgresql.target.planned import Planned
from anabranch.connectors.postgresql.target.printed_definitions import index_definition
from anabranch.connectors.postgresql.verbatim import NotCarried
from anabranch.contracts import Conflict
from anabranch.model.index_changes import may_refuse
from anabranch.rows.altered import AlteredTable

NOT_THERE = "the target has none of this name and definition"


def alter(connection: Connection, altered: AlteredTable) -> list[str]:
    """Drop and rename indexes, in the open transaction. Returns what was not done, and why. Raises Conflict for a unique key
    that stays and may refuse rows of the source. Errors of the driver pass that mean something else than a refusal."""
    left = []
    for name in altered.indexes.dropped:
        own, said = _found(connection, altered, name)
        if own and (said := attempt(connection, f"DROP INDEX {_place(altered, own)}")):
            _refuse_standing(altered, name, said)
        left += [f"index {name} is not dropped: {said}"] if said else []
    for what, statement in _renamed(connection, altered):
        said = attempt(connection, statement) if statement.startswith(("DROP ", "ALTER ")) else statement
        left += [f"{what}: {said}"] if said else []
    return left


def planned(connection: Connection, altered: AlteredTable) -> Iterator[tuple[str, str]]:
    """Yield what is to be done, for people, with its statement; or with why there is none."""
    for name in altered.indexes.dropped:
        own, why = _found(connection, altered, name)
        yield f"index {name} is not dropped", f"DROP INDEX {_place(altered, own)}" if own else why
    yield from _renamed(connection, altered)


def _refuse_standing(altered: AlteredTable, name: str, why: str) -> None:
    if may_refuse(altered.former, altered.schema, name):
        text = (
            f"unique key {name} of {altered.table.target} cannot be dropped, and would refuse rows that the source has"
        )
        raise Conflict(altered.table.source, f"{text}: {why}")


def _renamed(connection: Connection, altered: AlteredTable) -> Iterator[tuple[str, str]]:
    for former, name in altered.indexes.renamed:
        (own, why), to = _found(connection, altered, former), _next_name(connection, altered, name)
        statement = f"ALTER INDEX {_place(altered, own)} RENAME TO {quote(to)}" if own and to else why
        yield f"index {former} is not renamed", statement


def to_build(altered: AlteredTable) -> Iterator[str]:
    """Yield the statements that build the indexes which come, as a plan shows them."""
    for index, one in plan_indexes(altered.schema, altered.table):
        if index.name in altered.indexes.added and isinstance(one, Planned) and not one.served_by:
            yield one.sql_index(altered.table.target, one.name)


def _place(altered: AlteredTable, name: str) -> str:
    return f"{quote(altered.table.target.schema)}.{quote(name)}"


def _next_name(connection: Connection, altered: AlteredTable, name: str) -> str:
    """Return the name that a load would give to the index, "" where it would build none."""
    index = next((one for one in altered.schema.indexes if one.name == name), None)
    if index is None:
        return ""
    try:
        found = plan_index(index, altered.schema, altered.table)
    except NotCarried:
        return ""
    is_used = relation_table(connection, altered.table.target.schema, found.name) is not None
    return found.fallback if is_used else found.name


def _found(connection: Connection, altered: AlteredTable, name: str) -> tuple[str, str]:
    """Return the name of our index, and why there is none that could be told: a user may have no right to TEMPORARY tables."""
    try:
        return _own(connection, altered, name), NOT_THERE
    except psycopg.Error as error:
        if meaning(error)[0] in WAITED_FOR:
            raise
        return "", f"whether the target's is ours is not certain: {describe(error)}"


def _own(connection: Connection, altered: AlteredTable, name: str) -> str:
    """Return the name of the index here that stands for one of the source's, "" where there is none."""
    index = next((one for one in altered.former.indexes if one.name == name), None)
    if index is None:
        return ""
    try:
        found = plan_index(index, altered.former, altered.former_table)
    except NotCarried:
        return ""
    existing = read_table(connection, altered.table.target)
    named = [one for one in (existing.indexes if existing else []) if one.name in (found.name, found.fallback)]
    if any(not one.valid for one in named):  # left behind by CONCURRENTLY
        return next(one.name for one in named if not one.valid)
    if not named:
        return ""
    written = index_definition(connection, altered.table.target, found.body)
    return next((one.name for one in named if _is_as_made(one, found, written)), "")


def _is_as_made(index: ExistingIndex, planned: Planned, written: str) -> bool:
    is_made = index.unique is planned.unique and not (index.primary or index.constraint)
    return is_made and index.definition.endswith(f" {written}")


def attempt(connection: Connection, statement: str) -> str:
    """Carry out a statement. Returns why the server refuses it for good."""
    try:
        with connection.transaction():  # a savepoint: the epoch goes on
            connection.execute(statement.encode())
    except psycopg.Error as error:
        if meaning(error)[0] in WAITED_FOR:
            raise
        return describe(error)
    return ""
