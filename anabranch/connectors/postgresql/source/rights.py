"""Rights of the job's user at a PostgreSQL source, and the statements that give what is missing.

Rights are asked by a table's number in the catalogue: asking by its name takes the right to use its schema, and ends in
an error without it. https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-ACCESS What does not
live here: publications (preflight_publication.py), row security (row_security.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.source.preflight_facts import Live, failed, some
from anabranch.model.checks import CheckResult
from anabranch.model.ids import TableId

MAY_READ_LOG = "SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user"
_RIGHTS = """
SELECT n.nspname::text, c.relname::text, pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
       pg_catalog.has_table_privilege(c.oid, 'SELECT')
  FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
  JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
 ORDER BY 1, 2
"""


@dataclass(frozen=True)
class Rights:
    """The user's rights on tables that exist: all of those tables, schemas that it may not use, tables that it may not read."""

    there: tuple[TableId, ...]
    closed: tuple[str, ...]
    unread: tuple[TableId, ...]

    def grants(self, user: str) -> Iterator[str]:
        """Yield the statements that give what is missing, each complete."""
        if self.closed:
            yield may_use(self.closed, user)
        if self.unread:
            yield f"GRANT SELECT ON TABLE {', '.join(map(qualified, self.unread))} TO {quote(user)}"


def replication(user: str) -> str:
    """Return the statement after which a user may read the log."""
    return f"ALTER ROLE {quote(user)} REPLICATION"


def may_use(schemas: Iterable[str], user: str) -> str:
    return f"GRANT USAGE ON SCHEMA {', '.join(map(quote, schemas))} TO {quote(user)}"


def may_read(schemas: Iterable[str], user: str) -> tuple[str, str]:
    """Return the statements after which a user may read all tables that schemas have now."""
    named = list(schemas)
    return (
        may_use(named, user),
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {', '.join(map(quote, named))} TO {quote(user)}",
    )


def rights(connection: Connection, tables: Iterable[TableId]) -> Rights:
    wanted = sorted(tables)
    names = [table.schema for table in wanted], [table.name for table in wanted]
    rows = [(TableId(schema, name), *may) for schema, name, *may in connection.execute(_RIGHTS, names).fetchall()]
    return Rights(
        tuple(table for table, *_ in rows),
        tuple(dict.fromkeys(table.schema for table, is_open, _ in rows if not is_open)),
        tuple(table for table, _, is_read in rows if not is_read),
    )


def check_rights(live: Live, found: Rights) -> Iterator[CheckResult]:
    if not one(live.connection, MAY_READ_LOG):
        yield failed("replication", f"the user {live.user} may not read the log", replication(live.user))
    if found.closed:
        hint = may_use(found.closed, live.user)
        yield failed("schemas", f"the user {live.user} may not use the schemas {some(found.closed)}", hint)
    if found.unread:
        hint = f"GRANT SELECT ON TABLE {', '.join(map(qualified, found.unread))} TO {quote(live.user)}"
        yield failed("select", f"the user {live.user} may not read {some(map(str, found.unread))}", hint)
