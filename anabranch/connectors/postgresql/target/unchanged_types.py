"""The column types that a connection's statements and staging tables were made for.

A prepared statement keeps the types its parameters had, a staging table those of its columns, whatever becomes of the target's.
If somebody makes a `real` a `double precision`, or a `date` a `timestamp`, values would pass through the old type and lose
digits, or the time of day, silently. So each epoch checks, after its changes and atomically with its commit, whether
the tables that it wrote to still have their first types; if not, the server refuses the commit. The locks of the epoch's
own statements keep the types as they are from there on.

The same question asks whether tables inherit from one that was written to, or one of its partitions is a foreign table: what
was written to it would have changed rows of theirs. Where none was below it at first, the server refuses the commit as
soon as there is one; the epoch is tried again, and all is asked anew.
"""

from __future__ import annotations

from typing import Any

import psycopg

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.model.ids import TableId

Answer = psycopg.Cursor[tuple[Any, ...]]

MARK, END = "anabranch: other column types in ", " now"
MIXED = "anabranch: rows of others are in "
# No statement but a cast that fails can refuse something without a function of our own. A table that is gone refuses by itself.
# https://www.postgresql.org/docs/current/catalog-pg-attribute.html
_ASK = f"""
SELECT CASE WHEN {{mixed}} THEN ('{{mark}}' || t.name || '{END}')::int::text
            WHEN coalesce(f.types = t.types, true) THEN f.types ELSE ('{MARK}' || t.name || '{END}')::int::text END,
       {{below}}
  FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS t (name, types, place)
 CROSS JOIN LATERAL (SELECT string_agg(concat_ws(' ', attname, atttypid, atttypmod), ', ' ORDER BY attnum)
                       FROM pg_catalog.pg_attribute
                      WHERE attrelid = to_regclass(t.name) AND attnum > 0 AND NOT attisdropped) AS f (types)
 ORDER BY t.place
"""
# True of a partitioned table with partitions, and of one that others inherit from or once did.
# https://www.postgresql.org/docs/current/catalog-pg-class.html
_BELOW = "(SELECT r.relhassubclass FROM pg_catalog.pg_class r WHERE r.oid = to_regclass(t.name))"
_IS_MIXED = """
     EXISTS (SELECT FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhparent
              WHERE i.inhparent = to_regclass(t.name) AND c.relkind = 'r')
  OR EXISTS (SELECT FROM pg_catalog.pg_class p CROSS JOIN LATERAL pg_catalog.pg_partition_tree(p.oid) AS r
               JOIN pg_catalog.pg_class c ON c.oid = r.relid AND c.relkind = 'f'
              WHERE p.oid = to_regclass(t.name) AND p.relkind = 'p')
"""
ASK_ALL = _ASK.format(mixed=_IS_MIXED, mark=MIXED, below=_BELOW)
# Of tables that had no others below them when all was asked: 0.15 ms of the server in place of 0.33 ms (PostgreSQL 18).
ASK_AGAIN = _ASK.format(mixed=_BELOW, mark=MARK, below="false")


class ColumnTypes:
    """Column types of the tables that one connection has written to. Not for two threads."""

    def __init__(self) -> None:
        self._known: dict[TableId, str] = {}
        self._alone: set[TableId] = set()  # of these, the tables without others below them
        self._written: dict[TableId, None] = {}  # in this transaction, in their order

    def writes(self, table: TableId) -> None:
        """Note that the open transaction writes to this table."""
        self._written[table] = None

    @property
    def written(self) -> list[TableId]:
        """Return the tables that the open transaction has written to so far."""
        return list(self._written)

    def ask(self, connection: Connection) -> Answer | None:
        """Send the question, behind all that the transaction writes; an error with MARK or MIXED is its no."""
        if not self._written:
            return None
        names = [table_name(table).as_string(connection) for table in self._written]
        known = [self._known.get(table) for table in self._written]
        question = ASK_AGAIN if self._alone.issuperset(self._written) else ASK_ALL
        return connection.execute(question, [names, known], prepare=True)

    def committed(self, answer: Answer | None) -> None:
        """Note the types of a committed transaction; `answer` is that to its `ask`."""
        found = answer.fetchall() if answer is not None else []
        for table, (types, has_below) in zip(self._written, found, strict=True):
            if types is not None:
                self._known[table] = types
                self._alone |= set() if has_below else {table}
        self._written.clear()

    def rolled_back(self) -> None:
        self._written.clear()

    def forget(self, table: TableId) -> None:
        """Forget a table, between transactions: it was altered by us."""
        self._known.pop(table, None)
        self._alone.discard(table)


def changed_table(error: psycopg.Error) -> str:
    """Return the table, quoted, that has other column types, or other tables below it, than it had; "" for any other error.
    The words around it may be in any language.
    """
    return _named(error, MARK)


def mixed_table(error: psycopg.Error) -> str:
    """Return the table, quoted, with rows of other tables as well: what was written to it was written to those, too."""
    return _named(error, MIXED)


def _named(error: psycopg.Error, mark: str) -> str:
    found = (error.diag.message_primary or "").partition(mark)[2]
    return found.rpartition(END)[0] if error.sqlstate == "22P02" else ""
