"""The table `t` at a MySQL or MariaDB target, as the type map has it, and its rows as verification reads them."""

from __future__ import annotations

from anabranch.connectors.mysql.target import terms
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.connectors.mysql.target.verify import MysqlTargetReader
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database

RULES = ValueRules()
INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT, length=100)


def table_of(database: Database, *types: LogicalType, names: tuple[str, ...] = ()) -> TargetTable:
    names = names or tuple(f"c{number}" for number in range(len(types)))
    return TargetTable(TableId("s", "t"), TableId(database.name, "t"), names, types, names[:1])


def create(database: Database, types: tuple[LogicalType, ...], rows: list[list[str | None]]) -> None:
    """The table as the type map has it, and rows of text forms by the terms that the load uses."""
    family = database.server.name
    natives = [MysqlTypes(family).fit(type, RULES).native for type in types]
    columns = ", ".join(f"c{n} {native} NULL" for n, native in enumerate(natives))
    values = [
        ", ".join(terms.constant(type, text, family) for type, text in zip(types, row, strict=True)) for row in rows
    ]
    database.execute(
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t ({columns}) COLLATE utf8mb4_bin",
        *(f"INSERT INTO t VALUES ({one})" for one in values),
    )


def lines(reader: MysqlTargetReader, table: TargetTable, rows_per_piece: int = 1000) -> list[bytes]:
    pieces = reader.pieces(table, rows_per_piece)
    return [
        line for piece in pieces for block in reader.lines(table, piece) for line in block.splitlines(keepends=True)
    ]
