"""Generated columns that the server evaluates for rows that it has not, on each server that has them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from anabranch.connectors.mysql.source.catalog import MysqlCatalog
from anabranch.connectors.mysql.source.computed import ComputingSnapshot
from anabranch.contracts import ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import TableSchema
from anabranch.rows.lines import parse_line
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

# type of the input -> values in text form, each with a quote, an end of a range or what a literal could lose
INPUTS: dict[str, tuple[str, ...]] = {
    "BIGINT": ("-9223372036854775808", "0"),
    "BIGINT UNSIGNED": ("18446744073709551615",),
    "TINYINT(1)": ("1", "-5"),
    "INT(7) ZEROFILL": ("42",),
    "DECIMAL(20,5)": ("-12.50000", "999999999999999.99999"),
    "DOUBLE": ("0.1", "-1e+300", "5e-324"),
    "FLOAT": ("16777215", "0.3"),
    "VARCHAR(40)": ("it's", "a\\b", "tab\tend", "ü😀", ""),
    "VARCHAR(40) CHARACTER SET latin1": ("ä€'",),
    "CHAR(9)": ("x", "a b"),
    "TEXT": ("line\nline",),
    "VARBINARY(9)": ("\\x00ff27", "\\x"),
    "BINARY(4)": ("\\x00ff0000",),
    "VARBINARY(8) DEFAULT x'ff5c27'": ("\\x00ff27",),  # which a MariaDB prints byte by byte
    "ENUM('a','it''s','ü')": ("it's", "ü"),
    "SET('a','b')": ("a,b", ""),
    "BIT(10)": ("0000000101",),
    "DATE": ("2024-02-29",),
    "DATETIME(3)": ("2024-02-29 12:00:00.500000",),
    "TIMESTAMP(6)": ("2024-02-29 12:00:00.123456+00",),
    "TIME(2)": ("-838:59:59.000000", "12:00:00.250000"),
    "YEAR": ("1999",),
}


@pytest.fixture
def inputs(mysql_family: Server, source_database: Callable[[Server], Database]) -> Database:
    database = source_database(mysql_family)
    for number, type_ in enumerate(INPUTS):
        database.execute(
            f"CREATE TABLE t{number} (id INT AUTO_INCREMENT PRIMARY KEY, `i,'n` {type_} NOT NULL, other TEXT, rest GEOMETRY,"
            " one VARCHAR(200) AS (HEX(`i,'n`)) VIRTUAL COMMENT 'of `i,''n`, as it is',"
            " two VARCHAR(200) AS (CONCAT(one, ':', LENGTH(`i,'n`))) VIRTUAL, FULLTEXT (other)) COMMENT 'a ) ENGINE=x'"
        )
    return database


def test_mysql_live_any_input_comes_back_with_what_is_computed_from_it(inputs: Database) -> None:
    """The server itself is the judge: rows that it has say the same."""
    tables = definitions(inputs)
    with closing(ComputingSnapshot(endpoint(inputs))) as snapshot:
        for number, (type_, values) in enumerate(INPUTS.items()):
            table = tables[f"t{number}"]
            assert table.inputs_of("two") == {"i,'n"}, "over a computed column between"
            rows = [{"id": str(place + 1), "i,'n": value} for place, value in enumerate(values)]
            names, columns = ["i,'n"], ["one", "two"]
            told = b"".join(snapshot.compute(table, names, columns, rows, ValueRules()))
            assert [parse_line(line)[0] for line in told.split(b"\n")[:-1]] == list(values), type_
            with closing(inputs.connect()) as connection, connection.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
                for value in values:
                    plain: object = bytes.fromhex(value[2:]) if value.startswith("\\x") else value
                    plain = int(value, 2) if type_.startswith("BIT") else plain
                    plain = value.removesuffix("+00") if type_.startswith("TIMESTAMP") else plain
                    cursor.execute(f"INSERT INTO t{number} (`i,'n`) VALUES (%s)", [plain])
            keys = [{"id": row["id"]} for row in rows]
            there = b"".join(snapshot.lines_of(table, [*names, *columns], keys, ValueRules()))
            assert there == told, type_


def endpoint(database: Database) -> Endpoint:
    server = database.server
    return Endpoint(server.name, server.host, server.port, server.user, server.password)


def definitions(database: Database) -> dict[str, TableSchema]:
    with closing(MysqlCatalog(endpoint(database))) as catalog:
        found = catalog.tables(lambda table: table.schema == database.name)
    return {table.name: schema for table, schema in found.items()}
