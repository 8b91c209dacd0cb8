"""Keeps what others have given to a table that is dropped and made anew: its owner, privileges, comments and triggers.

They are read before DROP TABLE and put back in the same transaction, so that no moment and no kill leaves a table without
them. What the new table cannot have (a privilege on a column that is gone, a trigger on one) is told: a trigger and a comment
by name, since their texts may hold secrets, the rest with its statement. Row security is refused: nobody may see rows by a
privilege that a policy was to hide.
What does not live here: dropping and creating it (load.py), keys that lead to it (taken_off.py).
https://www.postgresql.org/docs/current/ddl-priv.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

import psycopg

from anabranch import log
from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import describe
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.errors import TargetError
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

FACTS: LiteralString = """
SELECT c.oid::bigint, pg_catalog.pg_get_userbyid(c.relowner)::text, c.relrowsecurity
       OR EXISTS (SELECT FROM pg_catalog.pg_policy p WHERE p.polrelid = c.oid)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = %s
"""
# 0 is PUBLIC. What the owner may do goes with the table. A table without an entry has none but the owner's.
PRIVILEGES: LiteralString = """
SELECT a.privilege_type::text, a.is_grantable, pg_catalog.pg_get_userbyid(nullif(a.grantee, 0))::text, NULL::text
  FROM pg_catalog.pg_class c CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS a
 WHERE c.oid = %s AND a.grantee <> c.relowner
UNION
SELECT a.privilege_type::text, a.is_grantable, pg_catalog.pg_get_userbyid(nullif(a.grantee, 0))::text, t.attname::text
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute t ON t.attrelid = c.oid AND NOT t.attisdropped
 CROSS JOIN LATERAL pg_catalog.aclexplode(t.attacl) AS a
 WHERE c.oid = %s AND a.grantee <> c.relowner
 ORDER BY 4 NULLS FIRST, 3, 1, 2
"""
COMMENTS: LiteralString = """
SELECT a.attname::text, d.description FROM pg_catalog.pg_description d
  LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.objoid AND a.attnum = d.objsubid AND d.objsubid > 0
 WHERE d.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objoid = %s ORDER BY d.objsubid
"""
TRIGGERS: LiteralString = """
SELECT tgname::text, tgenabled::text, pg_catalog.pg_get_triggerdef(oid) FROM pg_catalog.pg_trigger
 WHERE tgrelid = %s AND NOT tgisinternal ORDER BY tgname
"""
COLUMNS: LiteralString = "SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = %s AND attnum > 0"
ENABLED = {"D": "DISABLE", "R": "ENABLE REPLICA", "A": "ENABLE ALWAYS"}


@dataclass(frozen=True, slots=True)
class Privilege:
    """`grantee`: None is PUBLIC; `column`: None is the whole table."""

    name: str
    is_grantable: bool
    grantee: str | None
    column: str | None

    def statement(self, verb: str, table: TableId) -> str:
        """Return it as `GRANT` or `REVOKE`."""
        who = quote(self.grantee) if self.grantee is not None else "PUBLIC"
        what = f"{self.name} ({quote(self.column)})" if self.column is not None else self.name
        if verb == "REVOKE":
            return f"REVOKE {what} ON {qualified(table)} FROM {who}"
        return f"GRANT {what} ON {qualified(table)} TO {who}" + " WITH GRANT OPTION" * self.is_grantable


@dataclass(frozen=True, slots=True)
class Given:
    """The parts of a table beside its definition. `comments`: of columns, of the table for None. `triggers`: name, how
    it is enabled, statement."""

    owner: str
    privileges: tuple[Privilege, ...]
    comments: tuple[tuple[str | None, str], ...]
    triggers: tuple[tuple[str, str, str], ...]


def given(connection: Connection, table: TargetTable) -> Given | None:
    """Return what the target table has, None where it is not there. Raises TargetError for one with row security."""
    facts = connection.execute(FACTS, [table.target.schema, table.target.name]).fetchone()
    if facts is None:
        return None
    oid, owner, hides_rows = facts
    if hides_rows:
        raise TargetError(
            f"{table.target} has row security, which it would lose if it was made anew",
            table=str(table.source),
            hint="drop its policies, disable row level security, and load again; put them back behind the load",
        )
    return Given(
        owner,
        tuple(Privilege(*row) for row in connection.execute(PRIVILEGES, [oid, oid])),
        tuple((column, text) for column, text in connection.execute(COMMENTS, [oid])),
        tuple((name, how, text) for name, how, text in connection.execute(TRIGGERS, [oid])),
    )


def give_back(connection: Connection, table: TargetTable, before: Given) -> None:
    """Give the new table what the former one had, inside the caller's transaction. What it cannot have is told in the log."""
    facts = connection.execute(FACTS, [table.target.schema, table.target.name]).fetchone()
    assert facts is not None
    now = given(connection, table)
    assert now is not None
    columns = {str(name) for (name,) in connection.execute(COLUMNS, [facts[0]])}
    lost = [
        f"{told or statement}: {why}"
        for statement, told in _statements(table.target, before, now, columns)
        if (why := _run(connection, statement))
    ]
    if lost:
        log.get(table=str(table.source), target=str(table.target)).warning("table_made_anew_without", lost=lost)


def _statements(table: TableId, before: Given, now: Given, columns: set[str]) -> Iterator[tuple[str, str]]:
    """Yield what makes the new table's properties those of the former one, and by which words it is told, "" for its own. The
    owner comes behind what it may do. It takes over what its predecessor was granted, whose privileges are given behind it."""
    for one in now.privileges:
        if one not in before.privileges:  # by default privileges that were there later, or were revoked
            yield one.statement("REVOKE", table), ""
    yield from ((one.statement("GRANT", table), "") for one in before.privileges if one.grantee != now.owner)
    commented = dict(now.comments)
    for column, text in before.comments:
        if column not in commented and (column is None or column in columns):
            of = f"COLUMN {qualified(table)}.{quote(column)}" if column is not None else f"TABLE {qualified(table)}"
            yield f"COMMENT ON {of} IS {literal(text)}", f"COMMENT ON {of}"
    for name, how, text in before.triggers:
        yield text, f"trigger {name}"
        if how in ENABLED:
            yield f"ALTER TABLE {qualified(table)} {ENABLED[how]} TRIGGER {quote(name)}", ""
    if before.owner != now.owner:
        yield f"ALTER TABLE {qualified(table)} OWNER TO {quote(before.owner)}", ""
    yield from ((one.statement("GRANT", table), "") for one in before.privileges if one.grantee == now.owner)


def _run(connection: Connection, statement: str) -> str:
    """Run a statement. Returns "" or, where the server refuses it, the reason."""
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
        return describe(error)
    return ""
