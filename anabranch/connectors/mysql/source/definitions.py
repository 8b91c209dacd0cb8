"""Definitions from information_schema: a handful of queries per database, whatever the number of tables.

https://dev.mysql.com/doc/refman/8.0/en/information-schema.html · https://mariadb.com/kb/en/information-schema-tables/
What does not live here: which types we know (`typemap.py`), how values are spelled (`expressions.py`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pymysql

from anabranch.connectors.mysql.charsets import character_bytes
from anabranch.connectors.mysql.connection import account, ask, family, printed, version
from anabranch.connectors.mysql.rights import as_pattern, grant
from anabranch.connectors.mysql.source import defaults, foreign_keys, uuids
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.expressions import name
from anabranch.connectors.mysql.source.statement_tokens import tokens
from anabranch.connectors.mysql.source.structures import HIDDEN, TABLE_COLUMN, checks_of, checks_query
from anabranch.connectors.mysql.source.table_names import BASE_TABLES, SYSTEM_SCHEMAS
from anabranch.connectors.mysql.source.typemap import NativeType, Refused, logical_type
from anabranch.connectors.mysql.source.whole_labels import with_whole_labels
from anabranch.connectors.mysql.versions import knows
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema

ROW_PERIOD = ("ROW START", "ROW END")  # https://mariadb.com/kb/en/system-versioned-tables/
ONE_BY_ONE = 20  # tables up to which each is asked for by name
ACTIONS = {
    "CASCADE": Action.CASCADE,
    "SET NULL": Action.SET_NULL,
    "SET DEFAULT": Action.SET_DEFAULT,
    "NO ACTION": Action.RESTRICT,
    "RESTRICT": Action.RESTRICT,
}
_DEFAULT = {"mysql": defaults.of_mysql, "mariadb": defaults.of_mariadb}

_TABLES = "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COMMENT FROM information_schema.TABLES"
_COLUMNS = (
    "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_SET_NAME, COLLATION_NAME,"
    " CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION, IS_NULLABLE, COLUMN_DEFAULT, EXTRA,"
    " GENERATION_EXPRESSION, COLUMN_COMMENT FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = %s{one} ORDER BY TABLE_NAME, ORDINAL_POSITION"
)
COLUMNS_SINCE = {"DATETIME_PRECISION": "fractions of seconds", "GENERATION_EXPRESSION": "generated columns"}
_INDEXES = (
    "SELECT TABLE_NAME, INDEX_NAME, NON_UNIQUE, COLUMN_NAME, SUB_PART, INDEX_TYPE, COLLATION,"
    " IS_VISIBLE, EXPRESSION, IGNORED"
    " FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s{one} ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"
)
INDEXES_SINCE = {"IS_VISIBLE": "invisible indexes", "EXPRESSION": "functional indexes", "IGNORED": "ignored indexes"}
_FOREIGN_KEYS = (
    "SELECT r.TABLE_NAME, r.CONSTRAINT_NAME, r.DELETE_RULE, r.UPDATE_RULE, k.COLUMN_NAME, k.REFERENCED_TABLE_SCHEMA,"
    " k.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS r"
    " JOIN information_schema.KEY_COLUMN_USAGE k ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA"
    " AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME AND k.TABLE_NAME = r.TABLE_NAME AND k.TABLE_SCHEMA = r.CONSTRAINT_SCHEMA"
    " WHERE r.CONSTRAINT_SCHEMA = %s{one} ORDER BY r.TABLE_NAME, r.CONSTRAINT_NAME, k.ORDINAL_POSITION"
)

Row = dict[str, Any]
Rows = Mapping[str, list[Row]]  # table name -> rows


class Definitions:
    """Reader of a server's table definitions, over a connection of the caller's."""

    def __init__(self, connection: pymysql.Connection) -> None:
        self._connection = connection

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        return self._found({t: row for t, row in self._base_tables() if wanted(t)}, whole)

    def named(self, tables: Iterable[TableId]) -> dict[TableId, TableSchema]:
        """Return those of these tables that are there. None other is looked at: information_schema may compare names without
        their case, so names are compared here, too."""
        where = " AND TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        found = (pair for t in tables for pair in self._base_tables(where, t.schema, t.name) if pair[0] == t)
        return self._found(dict(found), True)

    def _found(self, chosen: Mapping[TableId, Row], whole: bool) -> dict[TableId, TableSchema]:
        found: dict[TableId, TableSchema] = {}
        for schema, names in _places(chosen):
            found |= self._read(schema, names, chosen)
        if whole:
            self._refuse_hidden_foreign_keys(found)
        return found

    def _refuse_hidden_foreign_keys(self, tables: Iterable[TableId]) -> None:
        for table in foreign_keys.hidden(self._connection, tables):
            raise SourceError(
                f"its {foreign_keys.MESSAGE}",
                table=str(table),
                hint=grant(foreign_keys.RIGHT, f"{as_pattern(table.schema)}.*", account(self._connection)),
            )

    def _base_tables(self, condition: str = "", *values: str) -> Iterator[tuple[TableId, Row]]:
        places = ", ".join(["%s"] * len(SYSTEM_SCHEMAS))
        where = f" WHERE TABLE_SCHEMA NOT IN ({places}) AND TABLE_TYPE IN {BASE_TABLES}{condition}"
        for row in self._rows(_TABLES + where, *SYSTEM_SCHEMAS, *values):
            yield TableId(row["TABLE_SCHEMA"], row["TABLE_NAME"]), row

    def _read(self, schema: str, one: str | None, chosen: Mapping[TableId, Row]) -> dict[TableId, TableSchema]:
        columns = self._by_table(self._known(_COLUMNS, COLUMNS_SINCE), schema, one)
        indexes = self._by_table(self._known(_INDEXES, INDEXES_SINCE), schema, one)
        keys = self._by_table(_FOREIGN_KEYS, schema, one, "r.TABLE_NAME")
        kind = family(self._connection)
        query = checks_query(kind, version(self._connection))
        checks = self._by_table(query, schema, one, TABLE_COLUMN[kind]) if query else {}
        ids = [t for t in chosen if t.schema == schema and (one is None or t.name == one) and t.name in columns]
        found = {}
        for t in ids:
            table = _table(kind, t, chosen[t], columns[t.name], indexes.get(t.name, []), keys.get(t.name, []))
            if kind == "mariadb":
                table = self._with_uuids(_with_json(table, checks.get(t.name, []), columns[t.name]))
            table = with_whole_labels(self._connection, table)
            table = replace(table, checks=checks_of(kind, table, checks.get(t.name, [])))
            table = self._with_untold_defaults(table)
            found[t] = self._with_instants(table) if kind == "mysql" else table
        return found

    def _known(self, query: str, since: Mapping[str, str]) -> str:
        """Return a query in which columns of the view that this server does not have read as NULL."""
        unknown = (column for column, thing in since.items() if not knows(self._connection, thing))
        return reduce(lambda sql, column: sql.replace(column, f"NULL AS {column}"), unknown, query)

    def _by_table(self, sql: str, schema: str, one: str | None, column: str = "TABLE_NAME") -> Rows:
        grouped: dict[str, list[Row]] = defaultdict(list)
        condition = "" if one is None else f" AND {column} = %s"
        for row in self._rows(sql.format(one=condition), schema, *([] if one is None else [one])):
            grouped[row["TABLE_NAME"]].append(row)
        return grouped

    def _rows(self, sql: str, *arguments: object) -> list[Row]:
        names = [
            part.replace(" AS ", ".").rpartition(".")[2].strip() for part in sql[7 : sql.index(" FROM")].split(",")
        ]
        return [dict(zip(names, row, strict=True)) for row in ask(self._connection, sql, *arguments)]

    def _with_uuids(self, table: TableSchema) -> TableSchema:
        """Refuse UUIDs that a table of MariaDB stores in the old form."""
        found = [column.name for column in table.columns if column.type and column.type.kind is Kind.UUID]
        why = uuids.refusal(self._connection, table.id, found[0]) if found else ""
        if not why:
            return table
        columns = (replace(c, type=None, refusal=why) if c.name in found else c for c in table.columns)
        return replace(table, columns=tuple(columns))

    def _with_untold_defaults(self, table: TableSchema) -> TableSchema:
        """Ask for defaults that information_schema may show incompletely.

        For a column that is NOT NULL the server tells its default beside a row of the table only; in an empty table a
        doubtful default stays unknown.
        """
        doubtful = [c for c in table.columns if defaults.may_be_more(c)]
        if not doubtful:
            return table
        asked = ", ".join(defaults.ASKED[c.type.kind].format(f"DEFAULT(t.{name(c.name)})") for c in doubtful if c.type)
        try:
            rows = f"(SELECT 1) AS o LEFT JOIN {qualified(table.id)} AS t ON TRUE LIMIT 1"
            (told,) = ask(self._connection, f"SELECT {asked} FROM {rows}")
        except SourceUnavailable:
            raise
        except SourceError:  # this user may not read the table: nobody knows
            told = (None,) * len(doubtful)
        exact = {c.name: defaults.with_told(c, value) for c, value in zip(doubtful, told, strict=True)}
        return replace(table, columns=tuple(exact.get(c.name, c) for c in table.columns))

    def _with_instants(self, table: TableSchema) -> TableSchema:
        """Convert constant defaults of TIMESTAMP columns to UTC (MySQL)."""
        instants = [c for c in table.columns if _has_constant_instant(c)]
        if not instants:
            return table
        create = printed(self._connection, qualified(table.id))
        told = {c.name: defaults.instant_in(create, name(c.name)) for c in instants}
        exact = {c.name: _known(c, told[c.name]) for c in instants}
        return replace(table, columns=tuple(exact.get(c.name, c) for c in table.columns))


def _has_constant_instant(column: Column) -> bool:
    is_instant = column.type is not None and column.type.kind is Kind.INSTANT
    return is_instant and column.default is not None and not column.default_is_expression


def _known(column: Column, told: str | None) -> Column:
    if told is None:
        return replace(column, default=None, default_is_expression=True)
    return defaults.constant(column, told)


def _places(chosen: Iterable[TableId]) -> list[tuple[str, str | None]]:
    """Return (schema, table) to ask for: each table alone when they are few, else whole schemas (None)."""
    ids = sorted(chosen)
    if len(ids) <= ONE_BY_ONE:
        return [(t.schema, t.name) for t in ids]
    return [(schema, None) for schema in sorted({t.schema for t in ids})]


def _table(kind: str, t: TableId, facts: Row, columns: list[Row], indexes: list[Row], keys: list[Row]) -> TableSchema:
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in indexes:
        grouped[row["INDEX_NAME"]].append(row)
    primary = grouped.pop("PRIMARY", [])
    row_end = _row_end(columns) if facts["TABLE_TYPE"] == "SYSTEM VERSIONED" else ""
    return TableSchema(
        id=t,
        columns=_with_inputs(kind, tuple(_column(row, kind) for row in columns)),
        primary_key=tuple(row["COLUMN_NAME"] for row in primary if row["COLUMN_NAME"] != row_end),
        indexes=tuple(_index(index, rows) for index, rows in grouped.items()),
        foreign_keys=_foreign_keys(keys),
        engine=facts["ENGINE"] or "",
        row_end=row_end,
        comment=facts["TABLE_COMMENT"] or "",
    )


def _row_end(columns: list[Row]) -> str:
    """Return the column of a versioned table that says until when a row was current."""
    return next((row["COLUMN_NAME"] for row in columns if row["GENERATION_EXPRESSION"] == ROW_PERIOD[1]), HIDDEN[1])


def _column(row: Row, kind: str) -> Column:
    extra = row["EXTRA"].upper()
    try:
        type, refusal = logical_type(_native(row, kind)), ""
    except Refused as reason:
        type, refusal = None, str(reason)
    is_generated = "GENERATED" in extra.replace("DEFAULT_GENERATED", "") or "PERSISTENT" in extra
    is_period = is_generated and row["GENERATION_EXPRESSION"] in ROW_PERIOD
    if is_period:
        is_generated = False  # the server sets it, and the log has it
        if row["DATA_TYPE"] != "timestamp":
            type, refusal = None, "history by transactions is logged as statements"
    column = Column(
        name=row["COLUMN_NAME"],
        type=type,
        native=row["COLUMN_TYPE"],
        nullable=row["IS_NULLABLE"] == "YES",
        generated=is_generated,
        expression=str(row["GENERATION_EXPRESSION"] or "") if is_generated else "",
        auto_increment="AUTO_INCREMENT" in extra,
        charset=row["CHARACTER_SET_NAME"] or "",
        collation=row["COLLATION_NAME"] or "",
        refusal=refusal,
        comment=row["COLUMN_COMMENT"] or "",
        character_bytes=character_bytes(row["CHARACTER_SET_NAME"] or ""),
        set_by_server=is_period,
        stored=is_generated and "VIRTUAL" not in extra,
        invisible="INVISIBLE" in extra,
    )
    return column if column.generated else _DEFAULT[kind](column, row["COLUMN_DEFAULT"], extra)


def _with_inputs(kind: str, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    names = [column.name for column in columns]
    return tuple(
        replace(c, computed_from=_columns_named(kind, c.expression, names)) if c.generated else c for c in columns
    )


def _columns_named(family: str, expression: str, names: Collection[str]) -> tuple[str, ...]:
    """Return the columns that an expression names, as information_schema prints it: MySQL as the text of a string, with
    a backslash before quotes and backslashes.
    """
    told = re.sub(r"\\(.)", r"\1", expression, flags=re.DOTALL) if family == "mysql" else expression
    words = {token.text.lower() for token in tokens(told) if token.kind != "mark"}
    return tuple(column for column in names if column.lower() in words)


def _native(row: Row, family: str, is_json: bool = False) -> NativeType:
    return NativeType(
        name=row["DATA_TYPE"].lower(),
        full=row["COLUMN_TYPE"],
        charset=row["CHARACTER_SET_NAME"] or "",
        length=row["CHARACTER_MAXIMUM_LENGTH"],
        precision=int(row["NUMERIC_PRECISION"] or 0),
        scale=int(row["NUMERIC_SCALE"] or 0),
        fraction=int(row["DATETIME_PRECISION"] or 0),
        is_json=is_json,
        family=family,
    )


def _with_json(table: TableSchema, checks: list[Row], rows: list[Row]) -> TableSchema:
    """Mark JSON columns of MariaDB, which are longtext with a check; without that check it is text, and may hold
    anything.

    https://mariadb.com/kb/en/json-data-type/
    """
    clauses = {row["CHECK_CLAUSE"] for row in checks}
    known = [row for row in rows if f"json_valid({name(row['COLUMN_NAME'])})" in clauses]
    natives = {row["COLUMN_NAME"]: _native(row, "mariadb", is_json=True) for row in known}
    columns = (
        replace(c, type=logical_type(natives[c.name])) if c.name in natives and c.type else c for c in table.columns
    )
    return replace(table, columns=tuple(columns)) if natives else table


def _index(index: str, rows: Sequence[Row]) -> Index:
    """Describe an index. One over expressions (MySQL 8) keeps the columns that it has."""
    is_functional = any(row["COLUMN_NAME"] is None for row in rows)
    return Index(
        name=index,
        columns=tuple(row["COLUMN_NAME"] for row in rows if row["COLUMN_NAME"] is not None),
        unique=not rows[0]["NON_UNIQUE"],
        prefixes=tuple(row["SUB_PART"] for row in rows if row["COLUMN_NAME"] is not None),
        kind="functional" if is_functional else rows[0]["INDEX_TYPE"].lower(),
        descending=_descending(rows),
        parts=tuple(map(_part, rows)) if is_functional else (),
        invisible=rows[0]["IS_VISIBLE"] == "NO" or rows[0]["IGNORED"] == "YES",
    )


def _part(row: Row) -> str:
    """Return a part of an index over expressions, as information_schema prints those."""
    prefix = f"({row['SUB_PART']})" if row["SUB_PART"] else ""
    part = name(row["COLUMN_NAME"]) + prefix if row["COLUMN_NAME"] is not None else f"({row['EXPRESSION']})"
    return f"{part} DESC" if row["COLLATION"] == "D" else part


def _descending(rows: Sequence[Row]) -> tuple[bool, ...]:
    """Return which columns of an index are in descending order; () if none is.

    https://dev.mysql.com/doc/refman/8.0/en/descending-indexes.html · https://mariadb.com/kb/en/descending-indexes/
    """
    found = tuple(row["COLLATION"] == "D" for row in rows if row["COLUMN_NAME"] is not None)
    return found if any(found) else ()


def _foreign_keys(rows: Iterable[Row]) -> tuple[ForeignKey, ...]:
    grouped: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        grouped[row["CONSTRAINT_NAME"]].append(row)
    return tuple(_foreign_key(key, parts) for key, parts in grouped.items())


def _foreign_key(key: str, parts: Sequence[Row]) -> ForeignKey:
    first = parts[0]
    return ForeignKey(
        name=key,
        columns=tuple(part["COLUMN_NAME"] for part in parts),
        parent=TableId(first["REFERENCED_TABLE_SCHEMA"], first["REFERENCED_TABLE_NAME"]),
        parent_columns=tuple(part["REFERENCED_COLUMN_NAME"] for part in parts),
        on_delete=ACTIONS[first["DELETE_RULE"]],
        on_update=ACTIONS[first["UPDATE_RULE"]],
    )
