"""Objects that exist at the target: tables with columns, indexes, keys, checks, triggers. Reads only, a handful of queries for
any number of tables.

https://dev.mysql.com/doc/refman/8.0/en/information-schema.html · https://mariadb.com/kb/en/information-schema-tables/
What does not live here: judging what is there (`preflight.py`), changing it (`tables.py`). Errors of the driver pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from anabranch.connectors.mysql.connection import family, version
from anabranch.connectors.mysql.target.session import Connection, ask, one, quoted, table_name
from anabranch.connectors.mysql.versions import knows
from anabranch.model.ids import TableId

PRIMARY = "PRIMARY"
BASE_TABLE = "BASE TABLE"
TABLE_TYPES = (
    BASE_TABLE,
    "SYSTEM VERSIONED",
)  # what has rows of its own: https://mariadb.com/kb/en/system-versioned-tables/
# The first version that has checks; older ones parse and forget them. https://dev.mysql.com/doc/refman/8.0/en/create-table-check-constraints.html
CHECKS_SINCE = {"mysql": (8, 0, 16), "mariadb": (10, 2, 22)}
EXPRESSIONS_SINCE = {"mysql": (8, 0, 13), "mariadb": None}  # STATISTICS.EXPRESSION: functional key parts

_TABLES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COLLATION, ROW_FORMAT, DATA_LENGTH"
    " FROM information_schema.TABLES WHERE TABLE_SCHEMA IN {schemas} AND TABLE_NAME IN {names}"
)
_COLUMNS = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA,"
    " CHARACTER_SET_NAME, COLLATION_NAME, CHARACTER_MAXIMUM_LENGTH, {expression} FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA IN {schemas} AND TABLE_NAME IN {names} ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
)
_INDEXES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART, INDEX_TYPE, COLLATION, {expression}"
    " FROM information_schema.STATISTICS WHERE TABLE_SCHEMA IN {schemas} AND TABLE_NAME IN {names}"
    " ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"
)
_KEYS = (
    "SELECT k.CONSTRAINT_NAME, k.TABLE_SCHEMA, k.TABLE_NAME, k.COLUMN_NAME, k.REFERENCED_TABLE_SCHEMA,"
    " k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME, r.DELETE_RULE, r.UPDATE_RULE"
    " FROM information_schema.KEY_COLUMN_USAGE k JOIN information_schema.REFERENTIAL_CONSTRAINTS r"
    " ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME AND r.TABLE_NAME = k.TABLE_NAME"
    " WHERE k.REFERENCED_TABLE_NAME IS NOT NULL AND {which}"
    " ORDER BY k.TABLE_SCHEMA, k.TABLE_NAME, k.CONSTRAINT_NAME, k.ORDINAL_POSITION"
)
# Asked one after the other: with OR neither is read by name. https://dev.mysql.com/doc/refman/8.0/en/information-schema-optimization.html
_WHICH = (
    "k.TABLE_SCHEMA IN {schemas} AND k.TABLE_NAME IN {names}",
    "k.REFERENCED_TABLE_SCHEMA IN {schemas} AND k.REFERENCED_TABLE_NAME IN {names}",
)
_TRIGGERS = (
    "SELECT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE, TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION"
    " FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA IN {schemas} AND EVENT_OBJECT_TABLE IN {names}"
    " ORDER BY TRIGGER_NAME"
)
_CHECKS = {
    "mysql": (
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, c.CONSTRAINT_NAME, c.CHECK_CLAUSE FROM information_schema.TABLE_CONSTRAINTS t"
        " JOIN information_schema.CHECK_CONSTRAINTS c ON c.CONSTRAINT_SCHEMA = t.CONSTRAINT_SCHEMA"
        " AND c.CONSTRAINT_NAME = t.CONSTRAINT_NAME WHERE t.CONSTRAINT_TYPE = 'CHECK'"
        " AND t.TABLE_SCHEMA IN {schemas} AND t.TABLE_NAME IN {names}"
    ),
    "mariadb": (
        "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS"
        " WHERE CONSTRAINT_SCHEMA IN {schemas} AND TABLE_NAME IN {names}"
    ),
}


@dataclass(frozen=True, slots=True)
class ExistingColumn:
    """A column as information_schema.COLUMNS has it. `expression`: of a generated column."""

    name: str
    type: str  # COLUMN_TYPE, e.g. "int(10) unsigned"
    kind: str  # DATA_TYPE, e.g. "int"
    nullable: bool
    default: str | None
    extra: str  # in small letters
    charset: str
    collation: str
    length: int | None  # characters, of a text or bytes
    expression: str

    @property
    def generated(self) -> bool:
        """True for a generated column, and for the periods of a versioned table: nobody may write them."""
        return "generated" in self.extra.replace("default_generated", "")

    @property
    def auto_increment(self) -> bool:
        return "auto_increment" in self.extra

    @property
    def changes_itself(self) -> bool:
        """True if the server sets it whenever its row changes: ON UPDATE CURRENT_TIMESTAMP (pitfall 50)."""
        return "on update" in self.extra

    @property
    def invisible(self) -> bool:
        return "invisible" in self.extra

    @property
    def has_default(self) -> bool:
        """True if the table has a row without a value for it: a default other than NULL, or NULL itself."""
        return self.nullable or self.default is not None or self.auto_increment or self.generated


@dataclass(frozen=True, slots=True)
class ExistingIndex:
    """`columns` has "" for an expression, which then stands in `expressions`."""

    name: str
    columns: tuple[str, ...]
    prefixes: tuple[int | None, ...]
    descending: tuple[bool, ...]
    unique: bool
    kind: str  # BTREE, HASH, FULLTEXT, SPATIAL
    expressions: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """True if it has whole columns, each ascending."""
        return self.kind in ("BTREE", "HASH") and not any((*self.prefixes, *self.descending, *self.expressions))


@dataclass(frozen=True, slots=True)
class ExistingForeignKey:
    """`on_delete` and `on_update` as the server writes them. `child` holds it."""

    name: str
    child: TableId
    columns: tuple[str, ...]
    parent: TableId
    parent_columns: tuple[str, ...]
    on_delete: str
    on_update: str


@dataclass(frozen=True, slots=True)
class ExistingTrigger:
    name: str
    timing: str  # BEFORE, AFTER
    event: str  # INSERT, UPDATE, DELETE


@dataclass
class ExistingTable:
    """`id`: as it was asked for, where the server folds names not quite as it is stored."""

    id: TableId
    type: str  # BASE TABLE, VIEW, …
    engine: str
    collation: str
    row_format: str
    bytes: int
    columns: list[ExistingColumn] = field(default_factory=list)
    indexes: list[ExistingIndex] = field(default_factory=list)
    foreign_keys: list[ExistingForeignKey] = field(default_factory=list)  # of this table
    referenced_by: list[ExistingForeignKey] = field(default_factory=list)  # of other tables, or its own
    triggers: list[ExistingTrigger] = field(default_factory=list)
    checks: dict[str, str] = field(default_factory=dict)  # name -> clause, as the server prints it

    def column(self, name: str) -> ExistingColumn | None:
        """Return a column; names of columns are one name whatever their case."""
        return next((column for column in self.columns if column.name.lower() == name.lower()), None)

    @property
    def primary_key(self) -> tuple[str, ...]:
        return next((index.columns for index in self.indexes if index.name == PRIMARY), ())

    @property
    def secondary_unique(self) -> list[ExistingIndex]:
        return [index for index in self.indexes if index.unique and index.name != PRIMARY]

    @property
    def has_actions(self) -> bool:
        """True if writing to the table would fire triggers or ask foreign keys."""
        return bool(self.foreign_keys or self.referenced_by or self.triggers)

    def named_in(self, expression: str) -> Iterator[str]:
        """Yield the columns that an expression of the table names: both servers print names in backticks."""
        for column in self.columns:
            if quoted(column.name).lower() in expression.lower():
                yield column.name

    def depends_on(self, index: ExistingIndex) -> frozenset[str]:
        """Return all columns on which an index depends, over expressions and generated columns."""
        open_names = [name for name in index.columns if name]
        open_names += [name for text in index.expressions for name in self.named_in(text)]
        found: set[str] = set()
        while open_names:
            name = open_names.pop()
            column = self.column(name)
            if name not in found and column is not None and column.generated:
                open_names += self.named_in(column.expression)
            found.add(name)
        return frozenset(found)


def folds_names(connection: Connection) -> bool:
    """Return whether `Orders` and `orders` are one table here.

    https://dev.mysql.com/doc/refman/8.0/en/identifier-case-sensitivity.html
    """
    if connection not in _FOLDS:
        _FOLDS[connection] = int(one(connection, "SELECT @@lower_case_table_names")) != 0
    return _FOLDS[connection]


_FOLDS: WeakKeyDictionary[Connection, bool] = WeakKeyDictionary()


def read_tables(connection: Connection, ids: Iterable[TableId]) -> dict[TableId, ExistingTable]:
    """Find the wanted tables (or views) that are there, by the names that they were asked for."""
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return {}
    read = _Reading(connection, wanted)
    for schema, name, kind, engine, collation, row_format, size in read.rows(_TABLES):
        if table := read.id_of(schema, name):
            facts = kind, engine or "", collation or "", row_format or "", int(size or 0)
            read.found[table] = ExistingTable(table, *facts)
    if read.found:
        read.columns()
        read.indexes()
        read.keys()
        read.rest()
    return read.found


def read_table(connection: Connection, table: TableId) -> ExistingTable | None:
    return read_tables(connection, [table]).get(table)


def holds_rows(connection: Connection, table: TableId) -> bool:
    return bool(ask(connection, f"SELECT 1 FROM {table_name(table)} LIMIT 1"))


def has_database(connection: Connection, name: str) -> bool:
    found = ask(connection, "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", name)
    fold = folds_names(connection)
    return any(_same(str(row[0]), name, fold) for row in found)


class _Reading:
    """The queries, and what they have found by now. information_schema may compare names without their case: what was not
    asked for is left out."""

    def __init__(self, connection: Connection, wanted: Collection[TableId]) -> None:
        self.connection = connection
        fold: Callable[[str], str] = str.lower if folds_names(connection) else str
        self.fold = fold
        self.by_name = {(fold(t.schema), fold(t.name)): t for t in wanted}
        self.schemas = sorted({t.schema for t in wanted})
        self.names = sorted({t.name for t in wanted})
        self.found: dict[TableId, ExistingTable] = {}

    def id_of(self, schema: str, name: str) -> TableId | None:
        return self.by_name.get((self.fold(schema), self.fold(name)))

    def rows(self, sql: str, **parts: str) -> list[tuple[Any, ...]]:
        lists = {"schemas": _places(self.schemas), "names": _places(self.names)}
        return ask(self.connection, sql.format(**lists, **parts), *self.schemas, *self.names)

    def by_table(self, sql: str, **parts: str) -> Iterator[tuple[ExistingTable, list[Any]]]:
        for schema, name, *rest in self.rows(sql, **parts):
            table = self.id_of(schema, name)
            if table in self.found:
                yield self.found[table], rest

    def columns(self) -> None:
        is_told = knows(self.connection, "generated columns")
        expression = "GENERATION_EXPRESSION" if is_told else "''"
        is_mysql = family(self.connection) == "mysql"
        for table, row in self.by_table(_COLUMNS, expression=expression):
            name, type_, kind, nullable, default, extra, charset, collation, length, text = row
            told, default = _as_mysql(text or "", default) if is_mysql else _as_mariadb(text or "", default)
            facts = default, str(extra).lower(), charset or "", collation or "", length, told
            table.columns.append(ExistingColumn(name, str(type_), str(kind).lower(), nullable == "YES", *facts))

    def indexes(self) -> None:
        since = EXPRESSIONS_SINCE[family(self.connection)]
        is_told = since is not None and version(self.connection) >= since
        grouped: dict[tuple[TableId, str], list[Any]] = {}
        for table, row in self.by_table(_INDEXES, expression="EXPRESSION" if is_told else "NULL"):
            grouped.setdefault((table.id, row[0]), []).append(row)
        for (table_id, name), rows in grouped.items():
            self.found[table_id].indexes.append(_index(name, rows))

    def keys(self) -> None:
        """Read the foreign keys at both ends of the tables."""
        read: dict[tuple[str, str, str], list[Any]] = {}
        for which in _WHICH:
            for row in self.rows(_KEYS.replace("{which}", which)):
                parts = read.setdefault((row[1], row[2], row[0]), [])
                if row not in parts:
                    parts.append(row)
        for rows in read.values():
            key = self._key(rows)
            if key.child in self.found:
                self.found[key.child].foreign_keys.append(key)
            if key.parent in self.found:
                self.found[key.parent].referenced_by.append(key)

    def _key(self, rows: list[Any]) -> ExistingForeignKey:
        name, schema, child, _, parent_schema, parent, _, on_delete, on_update = rows[0]
        return ExistingForeignKey(
            name,
            self.id_of(schema, child) or TableId(schema, child),
            tuple(row[3] for row in rows),
            self.id_of(parent_schema, parent) or TableId(parent_schema, parent),
            tuple(row[6] for row in rows),
            on_delete,
            on_update,
        )

    def rest(self) -> None:
        for table, (name, timing, event) in self.by_table(_TRIGGERS):
            table.triggers.append(ExistingTrigger(name, timing, event))
        kind = family(self.connection)
        if version(self.connection) >= CHECKS_SINCE[kind]:
            for table, (name, clause) in self.by_table(_CHECKS[kind]):
                table.checks[name] = clause


def _index(name: str, rows: list[Any]) -> ExistingIndex:
    return ExistingIndex(
        name,
        columns=tuple(row[2] or "" for row in rows),
        prefixes=tuple(row[3] for row in rows),
        descending=tuple(row[5] == "D" for row in rows),
        unique=not int(rows[0][1]),
        kind=str(rows[0][4]).upper(),
        expressions=tuple(_unescaped(row[6]) for row in rows if row[6]),
    )


def _as_mysql(expression: str, default: str | None) -> tuple[str, str | None]:
    return _unescaped(expression), default


def _as_mariadb(expression: str, default: str | None) -> tuple[str, str | None]:
    """MariaDB prints a default as SQL: the word NULL is none. https://mariadb.com/kb/en/information-schema-columns-table/"""
    return expression, None if default == "NULL" else default


def _unescaped(text: str) -> str:
    """Undo what MySQL does to expressions in information_schema: a backslash before quotes and backslashes."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _places(values: Collection[object]) -> str:
    return f"({', '.join(['%s'] * len(values))})"


def _same(one_name: str, other: str, fold: bool) -> bool:
    return one_name.lower() == other.lower() if fold else one_name == other
