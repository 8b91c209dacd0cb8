"""Columns of the tables that a Writer writes to, as the server has them now: what staging tables are made of, what is never
written, what would change by itself.

Read once per connection; in each transaction the first statement about a table says whether it still is as it was, and
keeps it so until the end. https://dev.mysql.com/doc/refman/8.0/en/information-schema-columns-table.html ·
https://dev.mysql.com/doc/refman/8.0/en/metadata-locking.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import pymysql

from anabranch.connectors.mysql.target.session import Connection, ask, column_list, quoted, table_name
from anabranch.errors import TargetError
from anabranch.model.ids import TableId

COLUMNS = """
SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME, CHARACTER_OCTET_LENGTH, IS_NULLABLE, EXTRA
  FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION
"""
# The answer to a query tells of the longest label alone.
LABELS = """
SELECT COLUMN_TYPE FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND DATA_TYPE IN ('enum', 'set') ORDER BY ORDINAL_POSITION
"""
TRIGGERS = """
SELECT 1 FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE = %s LIMIT 1
"""
NO_COLUMN = 1054
# `DEFAULT_GENERATED`, of a default that is an expression, is another thing.
_GENERATED = re.compile(r"\b(VIRTUAL|STORED|PERSISTENT) GENERATED|\bROW (START|END)\b", re.IGNORECASE)
INVISIBLE_KEY = "my_row_id"  # https://dev.mysql.com/doc/refman/8.0/en/create-table-gipks.html


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A column. `declared`: its type as a definition spells it; `octets`: how long a text or bytes may be."""

    name: str
    type: str
    declared: str
    charset: str
    collation: str
    octets: int
    is_nullable: bool
    extra: str

    @property
    def is_generated(self) -> bool:
        return _GENERATED.search(self.extra) is not None

    @property
    def moves_by_itself(self) -> bool:
        """True for ON UPDATE CURRENT_TIMESTAMP: an UPDATE that leaves it out sets it to the time of day."""
        return "on update" in self.extra.lower()

    @property
    def is_invisible(self) -> bool:
        """True where `*` does not stand for it."""
        return "invisible" in self.extra.lower()

    @property
    def is_counted(self) -> bool:
        return "auto_increment" in self.extra.lower()

    def replaces_null(self, explicit: bool) -> bool:
        """Return whether an explicit NULL would become the next number, or the time of day (`explicit`: not that one)."""
        return self.is_counted or (self.type == "timestamp" and not self.is_nullable and not explicit)

    @property
    def spelled(self) -> str:
        """The type with charset and collation, without what else a definition says of a column."""
        if not self.charset:
            return self.declared
        return f"{self.declared} CHARACTER SET {self.charset} COLLATE {self.collation}"


@dataclass(frozen=True)
class KnownTable:
    """All columns of a table, in their order. `form`: what the server says of a query for all of them."""

    id: TableId
    columns: tuple[KnownColumn, ...]
    form: tuple[object, ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, KnownColumn]:
        return {column.name.lower(): column for column in self.columns}

    def column(self, name: str) -> KnownColumn:
        """Return a column. Raises TargetError where there is none of this name any more."""
        found = self._by_name.get(name.lower())
        if found is None:
            raise TargetError(
                f"{self.id} has no column {name} any more",
                hint="the target table was changed: bring the column back, or load the table again",
                table=str(self.id),
            )
        return found

    @cached_property
    def written(self) -> tuple[str, ...]:
        """The columns that an INSERT of a whole row names: all that are not computed."""
        return tuple(column.name for column in self.columns if not column.is_generated)

    def counted(self, names: Iterable[str]) -> list[str]:
        """Return those of `names` that have AUTO_INCREMENT."""
        return [name for name in names if self.column(name).is_counted]

    def kept(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns that an UPDATE of `names` has to set to what they are, lest they move by themselves."""
        sets = {name.lower() for name in names}
        return tuple(c.name for c in self.columns if c.moves_by_itself and c.name.lower() not in sets)

    def beside(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the target's own columns: those that are neither in `names`, nor computed, nor a key that it made up."""
        ours = {name.lower() for name in (*names, INVISIBLE_KEY)}
        return tuple(name for name in self.written if name.lower() not in ours)


class KnownColumns:
    """The tables that one connection knows. Not for two threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[TableId, KnownTable] = {}
        self._fresh: set[TableId] = set()  # looked at in this transaction
        self._whole: set[TableId] = set()  # read in this transaction, column by column

    def of(self, table: TableId) -> KnownTable:
        """Return the table as it is, and will be until the transaction ends. Driver errors pass."""
        known = self._known.get(table)
        if known is None or (table not in self._fresh and self._form(known) != known.form):
            known = self._known[table] = self._read(table)
        self._fresh.add(table)
        return known

    def whole(self, table: TableId) -> KnownTable:
        """Return the table with the invisible columns that have come since, too. It costs a query of the catalogue once in a
        transaction: for rows that leave and come back, which is rare. Driver errors pass."""
        if table not in self._whole:
            self._known[table] = self._read(table)
            self._fresh.add(table)
        return self._known[table]

    def forget(self, table: TableId) -> None:
        """Forget a table, outside of any transaction: it was altered."""
        self._known.pop(table, None)

    def ended(self) -> None:
        """Note the end of a transaction: others may alter tables again."""
        self._fresh.clear()
        self._whole.clear()

    def _read(self, table: TableId) -> KnownTable:
        ask(self._connection, f"SELECT 1 FROM {table_name(table)} LIMIT 0")  # nobody alters it from here on
        rows = ask(self._connection, COLUMNS, table.schema, table.name)
        columns = tuple(
            KnownColumn(
                name, type.lower(), declared, charset or "", collation or "", octets or 0, nullable == "YES", extra
            )
            for name, type, declared, charset, collation, octets, nullable, extra in rows
        )
        known = KnownTable(table, columns)
        self._whole.add(table)
        return KnownTable(table, columns, self._form(known))

    def _form(self, known: KnownTable) -> tuple[object, ...]:
        """Ask for `*`, which tells of a column that has come since, too: in a row that leaves and comes back its value would be
        lost. An invisible one that has come is not told (`whole` asks for those)."""
        hidden = [column.name for column in known.columns if column.is_invisible]
        names = f"*, {column_list(hidden)}" if hidden else "*"
        try:
            self._connection.query(f"SELECT {names} FROM {table_name(known.id)} LIMIT 0")
        except pymysql.err.Error as error:
            if error.args[0] != NO_COLUMN:
                raise
            return ()
        fields = self._connection._result.fields
        form = ((field.name, field.type_code, field.flags, field.length, field.scale) for field in fields)
        has_labels = any(column.type in ("enum", "set") for column in known.columns)
        labels = ask(self._connection, LABELS, known.id.schema, known.id.name) if has_labels else ()
        return (*form, *labels)


def assigned(known: KnownTable, names: tuple[str, ...], values: tuple[str, ...], alias: str = "") -> str:
    """Return the SET of an UPDATE: `names` to `values`, and what would move by itself to what it is."""
    place = f"{alias}." if alias else ""
    sets = [f"{place}{quoted(name)} = {value}" for name, value in zip(names, values, strict=True)]
    kept = (f"{place}{quoted(name)}" for name in known.kept(names))
    return ", ".join([*sets, *(f"{name} = {name}" for name in kept)])


def has_triggers(connection: Connection, table: TableId) -> bool:
    """Return whether triggers see what is done to a table: no session can switch them off."""
    return bool(ask(connection, TRIGGERS, table.schema, table.name))
