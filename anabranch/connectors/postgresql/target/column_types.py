"""The column types that a connection's statements and staging tables were made for.

A prepared statement keeps the types its parameters had, a staging table those of its columns, whatever becomes of the target's.
Where somebody makes a `real` a `double precision`, or a `date` a `timestamp`, values would go through the old type and lose
digits, or the time of day, without a word. So each epoch asks, behind its changes and in one piece with its commit, whether
the tables that it wrote to have the types they had at first; if not, the server refuses the commit. The locks of the epoch's
own statements keep the types as they are from there on. The same question asks whether tables inherit from one that was written
to, or one of its partitions is a foreign table: what was written to it would have changed rows of theirs.
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
ASK_TYPES = f"""
SELECT CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhparent
                          WHERE i.inhparent = to_regclass(t.name) AND c.relkind = 'r')
              OR EXISTS (SELECT FROM pg_catalog.pg_class p CROSS JOIN LATERAL pg_catalog.pg_partition_tree(p.oid) AS r
                           JOIN pg_catalog.pg_class c ON c.oid = r.relid AND c.relkind = 'f'
                          WHERE p.oid = to_regclass(t.name) AND p.relkind = 'p')
            THEN ('{MIXED}' || t.name || '{END}')::int::text
            WHEN coalesce(f.types = t.types, true) THEN f.types ELSE ('{MARK}' || t.name || '{END}')::int::text END
  FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS t (name, types, place)
 CROSS JOIN LATERAL (SELECT string_agg(concat_ws(' ', attname, atttypid, atttypmod), ', ' ORDER BY attnum)
                       FROM pg_catalog.pg_attribute
                      WHERE attrelid = to_regclass(t.name) AND attnum > 0 AND NOT attisdropped) AS f (types)
 ORDER BY t.place
"""


class ColumnTypes:
    """Column types of the tables that one connection has written to. Not for two threads."""

    def __init__(self) -> None:
        self._known: dict[TableId, str] = {}
        self._written: dict[TableId, None] = {}  # in this transaction, in their order

    def writes(self, table: TableId) -> None:
        """Note that the open transaction writes to this table."""
        self._written[table] = None

    @property
    def written(self) -> list[TableId]:
        """Return the tables that the open transaction has written to so far."""
        return list(self._written)

    def ask(self, connection: Connection) -> Answer | None:
        """Send the question, behind all that the transaction writes; an error with MARK is its no."""
        if not self._written:
            return None
        names = [table_name(table).as_string(connection) for table in self._written]
        known = [self._known.get(table) for table in self._written]
        return connection.execute(ASK_TYPES, [names, known], prepare=True)

    def committed(self, answer: Answer | None) -> None:
        """Note the types of a committed transaction; `answer` is that to its `ask`."""
        found = answer.fetchall() if answer is not None else []
        self._known |= {table: types for table, (types,) in zip(self._written, found, strict=True) if types is not None}
        self._written.clear()

    def rolled_back(self) -> None:
        self._written.clear()


def changed_table(error: psycopg.Error) -> str:
    """Return the table, quoted, that has other column types; "" for any other error. The words around it may be in any
    language.
    """
    return _named(error, MARK)


def mixed_table(error: psycopg.Error) -> str:
    """Return the table, quoted, with rows of other tables as well: what was written to it was written to those, too."""
    return _named(error, MIXED)


def _named(error: psycopg.Error, mark: str) -> str:
    found = (error.diag.message_primary or "").partition(mark)[2]
    return found.rpartition(END)[0] if error.sqlstate == "22P02" else ""
