"""The rows that the source itself shows, in the texts that the target must show.

A value is recognised by what the server prints for it: the prints of all edges are learnt once per server, from a temporary
table; what keys are made of follows simple rules. Nothing of the product takes part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from anabranch.testing.databases import connect
from anabranch.testing.servers import Server
from anabranch.testing.torture.tables import LEDGER, Schema, Table, heading
from anabranch.testing.torture.values import WITHOUT_SIGN, Kind, Version, copied, exact_collation, kinds

Printed = str | bytes
_learnt: dict[tuple[str, int], Mapping[tuple[str, Printed], str]] = {}


def version_of(server: Server) -> Version:
    return tuple(int(part) for part in server.version.split(".") if part.isdigit())


def source_lines(server: Server, database: str, schema: Schema) -> dict[str, list[bytes]]:
    """Return the rows by table, ledger included, as COPY would show them at the target, sorted."""
    with closing(_reader(server, database)) as connection, closing(connection.cursor()) as cursor:
        known = _prints(server, cursor)
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        found = {table.name: _lines(cursor, table, server.name, known) for table in schema.steady}
        for name, tables in schema.passing().items():
            found[name] = _passing_lines(cursor, name, tables, server.name, known)
        cursor.execute(f"SELECT n FROM {LEDGER}")
        return {LEDGER: sorted(row[0].encode() for row in cursor.fetchall()), **found}


def _reader(server: Server, database: str) -> Any:
    """Values come as the server prints them."""
    return connect(server, database, conv={}, init_command="SET time_zone = '+00:00'")


def _passing_lines(
    cursor: Any, name: str, tables: Sequence[Table], family: str, known: Mapping[tuple[str, Printed], str]
) -> list[bytes]:
    """Return the rows of what has the name now, and its heading; [] for none."""
    cursor.execute(f"SHOW TABLES LIKE '{name}'")
    if not cursor.fetchall():
        return []
    cursor.execute(f"SHOW COLUMNS FROM {name}")
    there = {row[0] for row in cursor.fetchall()}
    table = next((one for one in tables if {column.name for column in one.columns} == there), None)
    rows = _lines(cursor, replace(table, name=name), family, known) if table else []
    return sorted([heading(there), *rows])


def _lines(cursor: Any, table: Table, family: str, known: Mapping[tuple[str, Printed], str]) -> list[bytes]:
    """Return the rows, with its default for a column that is not there (any more)."""
    cursor.execute(f"SHOW COLUMNS FROM {table.name}")
    there = {row[0] for row in cursor.fetchall()}
    columns = [column for column in table.columns if column.shown_as(there)]
    cursor.execute(f"SELECT {', '.join(column.shown_as(there) for column in columns)} FROM {table.name}")
    before = {column.name: column.before(family) for column in table.columns if not column.shown_as(there)}
    found = []
    for row in cursor.fetchall():
        texts = {c.name: _text(c.of, value, known) for c, value in zip(columns, row, strict=True)} | before
        found.append("\t".join(copied(texts[column.name]) for column in table.columns).encode())
    return sorted(found)


def _text(kind: Kind, printed: Printed | None, known: Mapping[tuple[str, Printed], str]) -> str | None:
    if printed is None:
        return None
    text = known.get((kind.name.removesuffix(WITHOUT_SIGN), printed))
    if text is not None:
        return text
    if isinstance(printed, bytes):
        return "\\x" + printed.hex()
    return printed.rstrip("0").rstrip(".") if kind.native == "datetime(6)" else printed


def _prints(server: Server, cursor: Any) -> Mapping[tuple[str, Printed], str]:
    """Map what the server prints for every edge of every kind to its text at the target."""
    place = server.host, server.port
    if place not in _learnt:
        known = kinds(server.name, version_of(server))
        _learnt[place] = _learn(cursor, known, server.name, exact_collation(server.name, version_of(server)))
    return _learnt[place]


def _learn(cursor: Any, known: Sequence[Kind], family: str, exact: str) -> Mapping[tuple[str, Printed], str]:
    columns = ", ".join(f"c{i} {kind.native.replace('{exact}', exact)} NULL" for i, kind in enumerate(known))
    edges = [sorted(kind.texts) for kind in known]
    rows = [[some[i] if i < len(some) else "NULL" for some in edges] for i in range(max(map(len, edges)))]
    cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'")
    cursor.execute(f"CREATE TEMPORARY TABLE torture_edges (n INT PRIMARY KEY, {columns.replace('null NULL', 'NULL')})")
    cursor.execute(
        "INSERT INTO torture_edges VALUES " + ", ".join(f"({i}, {', '.join(row)})" for i, row in enumerate(rows))
    )
    cursor.execute("SELECT * FROM torture_edges ORDER BY n")
    prints = [row[1:] for row in cursor.fetchall()]
    cursor.execute("DROP TEMPORARY TABLE torture_edges")
    return {
        (kind.name, prints[place][column]): kind.text(literal, family) or ""
        for column, kind in enumerate(known)
        for place, literal in enumerate(edges[column])
    }
