"""Rows that go from one server of MySQL's family to another unread: values to the letter, and what is not taken that way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

import pytest

from anabranch import connectors
from anabranch.connectors.mysql.target.load import MysqlLoader
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.contracts import Bounds, RawLoader, RawReader, RowTarget
from anabranch.errors import RowRefused
from anabranch.load.copy import ChunkWork
from anabranch.load.plan import LoadPiece, LoadTable
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows import compiled
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_load import MARKS, RULES, Roles

pytestmark = pytest.mark.every_server("fractions")
JOB = "raw"
COLUMNS = """
id INT PRIMARY KEY, big BIGINT UNSIGNED, small TINYINT, filled INT(6) ZEROFILL, price DECIMAL(20,6), f FLOAT, d DOUBLE,
day DATE, moment DATETIME(6), at TIMESTAMP(3) NULL, clock TIME(2), y YEAR,
word VARCHAR(50), fixed CHAR(5), long_one LONGTEXT, bytes VARBINARY(20), padded BINARY(4), blob_one LONGBLOB,
one ENUM('a','ünï','\\'x'), some SET('a','b'), old VARCHAR(20) CHARACTER SET utf8mb3
"""
ROWS = (
    "1, 18446744073709551615, -128, 7, -0.000001, 16777215, 1.7976931348623157e308, '9999-12-31', '2024-02-29 23:59:59.000001',"
    " '2038-01-19 03:14:07.999', '-838:59:59.00', 0, 'tab\\t nl\\n cr\\r back\\\\slash \\\\N €😀', 'x ', '', '', '',"
    " x'00ff5c0a090d27',"
    " 'ünï', 'a,b', 'a\\\\b'",
    "2" + ", NULL" * 20,
    "3, 0, 127, 999999, 99999999999999.999999, -0e0, 5e-324, '0001-01-01', '1000-01-01 00:00:00', '1970-01-01 00:00:01',"
    " '838:59:59.99', 2155, REPEAT('ü', 50), '12345', REPEAT('x\\t', 100000), x'00', x'01020304', REPEAT(x'ff', 300000),"
    " '\\'x', '', ''",
    "4, 1, 0, 0, 0, 0.1, 0.1, '2024-02-29', '2024-01-01 00:00:00.1', NULL, '00:00:00', 1901,"
    " '\\\\f\\\\v\\f\\v\\b', '', 'NULL', x'5c',"
    " x'5c4e', '\\\\N', 'a', 'b', '\\\\'",
)
Made = Callable[[str], tuple[Database, Database]]


@pytest.fixture
def ends(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Made]:
    """`ends(columns)`: two databases with a table `t` each."""
    if compiled.NATIVE is None:
        pytest.fail("install anabranch-native (make venv): without it nothing goes unread")
    one, other = source_database(mysql_family), source_database(mysql_family)
    ((before,),) = one.query("SELECT @@GLOBAL.local_infile")
    one.execute("SET GLOBAL local_infile = 1")
    with closing(MysqlStore(endpoint_of(other))) as store:
        store.prepare()

        def make(columns: str) -> tuple[Database, Database]:
            for database in (one, other):
                with database.connect() as connection, connection.cursor() as cursor:
                    cursor.execute("SET SESSION sql_mode = ''")
                    cursor.execute(f"CREATE TABLE t ({columns}) ENGINE=InnoDB CHARACTER SET utf8mb4")
            return one, other

        yield make
        store.jobs.drop(JOB)
    one.execute(f"SET GLOBAL local_infile = {before}")


def tables_of(one: Database, other: Database) -> tuple[TableSchema, TargetTable]:
    with closing(connectors.source(endpoint_of(one)).catalog()) as catalog:
        (schema,) = catalog.tables(lambda table: table.schema == one.name).values()
    names, types = tuple(c.name for c in schema.columns), tuple(c.type for c in schema.columns if c.type)
    return schema, TargetTable(schema.id, TableId(other.name, "t"), names, types, schema.primary_key, names)


def pass_on(one: Database, other: Database) -> str:
    """Load `t` unread. Returns the form, "" where the ends have none alike."""
    schema, table = tables_of(one, other)
    names = table.source_columns
    snapshot = connectors.source(endpoint_of(one)).snapshot()
    with closing(MysqlLoader(endpoint_of(other), RULES)) as loader, closing(snapshot) as reader:
        assert isinstance(reader, RawReader)
        form = loader.raw_forms([table]).get(schema.id, "")
        reader.open(schema, "none")
        if form and reader.raw_form(schema, names) == form:
            generation = len(loader.chunks(JOB, schema.id, 1)) + 1
            loader.begin_generation(JOB, table, generation, [Bounds()], True)
            loader.load_raw(JOB, table, generation, 0, MARKS, form, reader.raw(schema, names, Bounds()))
            return form
    return ""


def rows(database: Database) -> list[tuple[Any, ...]]:
    names = [name for name, *_ in database.query("SHOW COLUMNS FROM t")]
    shown = ", ".join(f"`{name}` * 1e0" if name == "f" else f"HEX(`{name}`)" for name in names)
    return database.query(f"SELECT id, {shown}, t.* FROM t ORDER BY id")


def test_mysql_rows_go_unread_to_the_letter(ends: Made) -> None:
    one, other = ends(COLUMNS)
    with one.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")
        for row in ROWS:
            cursor.execute(f"INSERT INTO t VALUES ({row})")
    assert pass_on(one, other)
    assert rows(one) == rows(other) and len(rows(other)) == 4


@pytest.mark.parametrize(
    "value", ["'0000-00-00 00:00:00', 'a'", "'2024-00-01 00:00:00', 'a'", "NOW(), CONCAT('a', CHAR(0 USING utf8mb4))"]
)
def test_mysql_rows_that_the_job_s_rules_decide_about_do_not_go_unread(ends: Made, value: str) -> None:
    one, other = ends("id INT PRIMARY KEY, at DATETIME, word VARCHAR(10)")
    with one.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute(f"INSERT INTO t VALUES (1, NOW(), 'x'), (2, {value}), (3, NOW(), 'y')")
    with pytest.raises(RowRefused, match="rules of the job"):
        pass_on(one, other)
    assert rows(other) == []


def test_mysql_rows_that_do_not_go_unread_go_as_lines(ends: Made) -> None:
    """The chunk is read again, by the rules of the job."""
    one, other = ends("id INT PRIMARY KEY, at DATETIME NULL, word VARCHAR(10)")
    with one.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute("INSERT INTO t VALUES (1, '2024-01-01', 'x'), (2, '0000-00-00', 'y'), (3, NULL, NULL)")
    schema, table = tables_of(one, other)
    rules, target = replace(RULES, zero_date="null"), Roles(endpoint_of(other))
    with closing(target.loader(rules)) as loader:
        loader.begin_generation(JOB, table, 1, [Bounds()], False)
        forms = dict(cast(RawLoader, loader).raw_forms([table]))
    assert forms
    work = ChunkWork(JOB, connectors.source(endpoint_of(one)), cast(RowTarget, target), rules, forms=forms)
    piece = LoadPiece(LoadTable(schema, table), 0, Bounds())
    with work.read(piece) as (header, blocks):
        assert work.finish(piece, header, blocks) == (3,)
    assert other.query("SELECT id, CONCAT(at), word FROM t ORDER BY id") == [
        (1, "2024-01-01 00:00:00", "x"),
        (2, None, "y"),
        (3, None, None),
    ]


def test_mysql_rows_that_the_target_cuts_or_skips_are_refused(ends: Made) -> None:
    one, other = ends("id INT PRIMARY KEY, word VARCHAR(10)")
    one.execute("INSERT INTO t VALUES (1, 'ab'), (2, 'AB'), (3, 'longer')")
    other.execute("ALTER TABLE t MODIFY word VARCHAR(5)")
    with pytest.raises(RowRefused):
        pass_on(one, other)
    other.execute(
        "ALTER TABLE t MODIFY word VARCHAR(10) COLLATE utf8mb4_general_ci, DROP PRIMARY KEY, ADD PRIMARY KEY (word)"
    )
    with pytest.raises(RowRefused):
        pass_on(one, other)
    assert rows(other) == []


UNLIKE = (
    ("DATETIME(6)", "DATETIME(3)"),
    ("TIMESTAMP NULL", "DATETIME"),
    ("DECIMAL(10,4)", "DECIMAL(10,2)"),
    ("DECIMAL(10,4)", "INT"),
    ("FLOAT", "DOUBLE"),
    ("FLOAT(7,3)", "FLOAT(7,3)"),
    ("VARCHAR(10) CHARACTER SET latin1", "VARCHAR(10) CHARACTER SET latin1"),
    ("VARCHAR(10)", "VARBINARY(40)"),
    ("BIT(8)", "BIT(8)"),
    ("POINT", "POINT"),
)


def test_mysql_columns_that_are_not_alike_have_no_form(ends: Made) -> None:
    for there, here in UNLIKE:
        one, other = ends(f"id INT PRIMARY KEY, c {there}")
        other.execute(f"ALTER TABLE t MODIFY c {here}")
        assert pass_on(one, other) == "", there
        for database in (one, other):
            database.execute("DROP TABLE t")
