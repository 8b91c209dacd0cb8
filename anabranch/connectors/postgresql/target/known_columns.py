"""Facts about a table's columns that its prepared statements rely on, as they were when they were read.

Statements compare the types with those that the columns have when they are carried out (decision 113). What does not
live here: the types of an epoch's columns (`unchanged_types.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.model.ids import TableId
from anabranch.rows.net import ChangeShape

# Elements of an array are read by their type's own input function, as a parameter of a statement is. Arrays have no arrays:
# they are read from text, where no cast that somebody made stands for that.
# https://www.postgresql.org/docs/current/catalog-pg-type.html, https://www.postgresql.org/docs/current/sql-createcast.html
COLUMNS = """
SELECT a.attname::text, a.atttypid::int8, c.relkind = 'r', c.relhasrules, t.typdelim::text,
       CASE WHEN e.oid IS NOT NULL THEN format('%%I.%%I', en.nspname, e.typname)
            WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_cast
                              WHERE castsource = 'pg_catalog.text'::regtype AND casttarget = t.oid)
            THEN 'pg_catalog._text' END,
       CASE WHEN e.oid IS NULL THEN format('%%I.%%I', n.nspname, t.typname) END
  FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
  LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typarray LEFT JOIN pg_catalog.pg_namespace en ON en.oid = e.typnamespace
 WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
"""


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """The form of a column's values in an array: its type, what stands between elements, and what an element is cast to
    ("": it has the column's type).
    """

    array: str
    delimiter: str
    cast: str


@dataclass
class KnownTable:
    """`types`: oids. `forms`: of columns whose values may come as an array. `is_plain`: not partitioned; rows of tables that
    inherit from one are not its own."""

    types: dict[str, int] = field(default_factory=dict)
    forms: dict[str, ArrayForm] = field(default_factory=dict)
    is_plain: bool = False
    has_rules: bool = False


class KnownColumns:
    """The columns of tables at one connection, each asked once until they are forgotten."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[TableId, KnownTable] = {}

    def of(self, table: TableId) -> KnownTable:
        if table not in self._known:
            found = KnownTable()
            name = table_name(table).as_string(self._connection)
            rows = self._connection.execute(COLUMNS, [name]).fetchall()
            for column, type, is_plain, has_rules, delimiter, array, cast in rows:
                found.types[column], found.is_plain, found.has_rules = type, is_plain, has_rules
                if array:
                    found.forms[column] = ArrayForm(array, "," if cast else delimiter, cast or "")
            self._connection.commit()
            self._known[table] = found
        return self._known[table]

    def forget(self) -> None:
        self._known.clear()


def sets(shape: ChangeShape, values: list[sql.Composed]) -> sql.Composed:
    """Return the SET list of an UPDATE: `values` are those of shape.columns."""
    pairs = zip(shape.sets, values, strict=False)
    return sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(name), value) for name, value in pairs)


def on_key(shape: ChangeShape, values: list[sql.Composed]) -> sql.Composed:
    """Return the row `t` that an UPDATE or DELETE of the shape means."""
    pairs = zip(shape.table.key, values[len(shape.sets) :], strict=True)
    return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier("t", name), value) for name, value in pairs)


def own_rows(shape: ChangeShape, known: KnownTable) -> sql.Composed:
    """Return the table as `t`, without rows of tables that inherit from it."""
    target = sql.SQL("{} AS t").format(table_name(shape.table.target))
    return sql.SQL("ONLY {}" if known.is_plain else "{}").format(target)
