"""Tables whose row security would hide rows from our user: they are named in preflight, at both ends.

Our sessions have row_security = off: a statement that a policy would filter is an error, never a part of the rows.
https://www.postgresql.org/docs/current/ddl-rowsecurity.html
What does not live here: the setting itself (settings.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import NamedTuple

import psycopg

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.errors import SourceError, TargetError
from anabranch.model.ids import TableId

# row_security_active knows the user: https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-ACCESS
# An owner is not filtered, unless the table forces its policies upon the owner.
_ACTIVE = """
SELECT n.nspname::text, c.relname::text, pg_has_role(c.relowner, 'USAGE'), current_user::text,
       ARRAY(SELECT polname::text FROM pg_policy p WHERE p.polrelid = c.oid ORDER BY 1)
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relrowsecurity AND row_security_active(c.oid)
   AND (n.nspname = %s OR (n.nspname::text, c.relname::text) IN (SELECT * FROM unnest(%s::text[], %s::text[])))
 ORDER BY 1, 2
"""


class Hidden(NamedTuple):
    """A table, why its rows are hidden, and the statement that shows them."""

    table: TableId
    message: str
    mending: str


def hidden(connection: Connection, tables: Iterable[TableId], own_schema: str = "anabranch") -> Iterator[Hidden]:
    """List the tables, of `tables` and of our own schema, whose rows are filtered for the session's user. Raises
    psycopg.Error."""
    wanted = list(tables)
    names = [table.schema for table in wanted], [table.name for table in wanted]
    for schema, name, is_owner, user, policies in connection.execute(_ACTIVE, [own_schema, *names]).fetchall():
        table = TableId(schema, name)
        by = f"policies {', '.join(policies)}" if policies else "no policy, which hides every row"
        message = f"row security of {table} hides rows from {user} ({by})"
        force = f"ALTER TABLE {qualified(table)} NO FORCE ROW LEVEL SECURITY"
        yield Hidden(table, message, force if is_owner else f"ALTER ROLE {quote(user)} BYPASSRLS")


@contextmanager
def policies_named(connect: Callable[[], Connection]) -> Iterator[None]:
    """Add to an error of row security, which names a table alone, the policies and the statement that lets the job go on: a
    policy may come at any moment. `connect` opens another session: that of the error is in a transaction that has failed."""
    try:
        yield
    except (SourceError, TargetError) as error:
        if "row-level security" in error.message:
            with suppress(SourceError, TargetError, psycopg.Error), closing(connect()) as beside:
                found = [one for one in every(beside) if f'"{one.table.name}"' in error.message]
                if found:
                    error.message += "".join(f"; {one.message}" for one in found)
                    error.hint = "; ".join(one.mending for one in found)
        raise


def every(connection: Connection) -> Iterator[Hidden]:
    """Yield the policies of all tables: an error names a table without its schema."""
    rows = connection.execute(
        "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE c.relrowsecurity"
    ).fetchall()
    return hidden(connection, [TableId(*row) for row in rows])
