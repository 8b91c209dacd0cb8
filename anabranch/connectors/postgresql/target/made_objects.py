"""Makes what tables need beside them, where the target lacks it: types of users, collations, extensions, functions.

What does not live here: reading it, and the order in which one needs another (needed_objects.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import LiteralString

import psycopg

from anabranch import log
from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import describe
from anabranch.connectors.postgresql.needed_objects import FUNCTION, present
from anabranch.connectors.postgresql.target.ddl import create_schema
from anabranch.errors import TargetError
from anabranch.model.schema import Need, TableSchema

SCHEMA_EXISTS: LiteralString = "SELECT 1 FROM pg_namespace WHERE nspname = %s"


def has_schema(connection: Connection, name: str) -> bool:
    return connection.execute(SCHEMA_EXISTS, [name]).fetchone() is not None


def make(connection: Connection, needs: Iterable[Need]) -> None:
    """Make what is missing. Raises psycopg.Error where the server refuses, TargetError for what only a person can make."""
    needs = list(needs)
    there = present(connection, needs) if needs else {}
    for need in needs:
        if need in there:
            continue
        if not need.definition:
            raise TargetError(
                f"the type {need.name} is missing at the target", hint="make it there as it is at the source"
            )
        if not has_schema(connection, need.schema):
            connection.execute(create_schema(need.schema).encode())
        if need.kind == FUNCTION:
            _make_function(connection, need)
        else:
            connection.execute(need.definition.encode())


def refuse_older(connection: Connection, then: Iterable[TableSchema], now: TableSchema) -> None:
    """Raise TargetError for older functions, as LabelLoader.refuse_older_functions.

    An older function is told by the text that the source had: one that somebody wrote for the target, or that another
    release prints otherwise, stays.
    """
    before: dict[str, set[str]] = {}
    for need in (need for one in then for need in one.needs if need.kind == FUNCTION):
        before.setdefault(need.name, set()).add(need.definition)
    functions = [need for need in now.needs if before.get(need.name, set()) - {need.definition}]
    there = present(connection, functions) if functions else {}
    older = [n for n in functions if n in there and there[n] != n.definition and there[n] in before[n.name]]
    if older:
        raise TargetError(
            f"the target computes columns by {', '.join(need.name for need in older)} as the source had it before",
            table=str(now.id),
            hint=f"run at the target, then load again: {'; '.join(need.definition.strip() for need in older)}",
        )


def _make_function(connection: Connection, need: Need) -> None:
    """Leave out by name, where it is built, whatever calls a function that the server refuses."""
    try:
        with connection.transaction():
            connection.execute(need.definition.encode())
    except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
        log.get().warning("function_is_not_made", function=need.name, reason=describe(error))


def refused(connection: Connection, needs: Iterable[Need]) -> dict[Need, str]:
    """Return the missing functions that this server does not make, and why.

    All of them are made, and rolled back; the locks are on nothing that anybody else sees.
    """
    found: dict[Need, str] = {}
    needs = list(needs)
    there = present(connection, needs)
    with connection.transaction(force_rollback=True):
        for need in needs:
            if need in there or not need.definition:
                continue
            try:
                with connection.transaction():
                    if not has_schema(connection, need.schema):
                        connection.execute(create_schema(need.schema).encode())
                    connection.execute(need.definition.encode())
            except psycopg.Error as error:
                found[need] = describe(error)
    return found
