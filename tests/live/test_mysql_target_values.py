"""MySQL and MariaDB as targets: a value that goes in comes back as it was, or the server refuses it; both by LOAD DATA and by
statements, with the servers as judges."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch import connectors
from anabranch.connectors.mysql.target import printed
from anabranch.connectors.mysql.target.collations import by_bytes, collating
from anabranch.connectors.mysql.target.session import Connection, connect, run
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.typemap import KINDS, PRINTED, logical_type
from anabranch.contracts import Bounds, ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column
from anabranch.rows.arrow import arrow_type
from anabranch.rows.lines import parse_line, texts
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_target import RULES, OneColumn
from rigs.mysql_types import ALL
from rigs.postgresql_load import RULES as POSTGRESQL_RULES
from rigs.postgresql_types import rows_of, values_of

Values = st.SearchStrategy[Any]
pytestmark = pytest.mark.every_server("fractions")
needs_json = pytest.mark.every_server("JSON")
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
COLLATIONS = "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE COLLATION_NAME IS NOT NULL"
DAY = 86_400_000_000


def _ints(low: int, high: int) -> Values:
    return st.integers(low, high) | st.sampled_from((low, high, 0 if low <= 0 else low))


def _floats(form: str, width: int) -> Values:
    """Any bits that are a finite number."""
    bits = st.binary(min_size=width, max_size=width).map(lambda data: struct.unpack(form, data)[0])
    least, greatest = (2**-149, 2**128 - 2**104) if width == 4 else (5e-324, 1.7976931348623157e308)
    return bits.filter(np.isfinite) | st.sampled_from(
        (0.0, -0.0, 1.0, least, -float(greatest), 7.038530691851209e-26, 1e23)
    )


def _point(srid: int, x: float, y: float) -> bytes:
    head = struct.pack("<BII", 1, 0x20000001, srid) if srid else struct.pack("<BI", 1, 1)
    return head + struct.pack("<dd", x, y)


# Logical type -> Arrow values of it.
DRAWN: dict[str, tuple[LogicalType, Values]] = {
    "tinyint": (LogicalType(Kind.INT8), _ints(-128, 127)),
    "smallint": (LogicalType(Kind.INT16), _ints(-(1 << 15), (1 << 15) - 1)),
    "int": (LogicalType(Kind.INT32), _ints(-(1 << 31), (1 << 31) - 1)),
    "bigint": (LogicalType(Kind.INT64), _ints(-(1 << 63), (1 << 63) - 1)),
    "tinyint unsigned": (LogicalType(Kind.UINT8), _ints(0, 255)),
    "smallint unsigned": (LogicalType(Kind.UINT16), _ints(0, (1 << 16) - 1)),
    "int unsigned": (LogicalType(Kind.UINT32), _ints(0, (1 << 32) - 1)),
    "bigint unsigned": (LogicalType(Kind.UINT64), _ints(0, (1 << 64) - 1)),
    "decimal": (
        LogicalType(Kind.DECIMAL, precision=65, scale=30),
        st.decimals(min_value=-(10**35) + 1, max_value=10**35 - 1, places=30, allow_nan=False),
    ),
    "float": (LogicalType(Kind.FLOAT32), _floats("<f", 4)),
    "double": (LogicalType(Kind.FLOAT64), _floats("<d", 8)),
    "varchar": (LogicalType(Kind.TEXT, 40), WORDS),
    "longtext": (LogicalType(Kind.TEXT), WORDS),
    "varbinary": (LogicalType(Kind.BINARY, 40), st.binary(max_size=40)),
    "longblob": (LogicalType(Kind.BINARY), st.binary(max_size=200)),
    "bit(1)": (LogicalType(Kind.BIT, 1), _ints(0, 1)),
    "bit(17)": (LogicalType(Kind.BIT, 17), _ints(0, (1 << 17) - 1)),
    "bit(64)": (LogicalType(Kind.BIT, 64), _ints(0, (1 << 64) - 1)),
    "date": (LogicalType(Kind.DATE), _ints(-719162, 2932896)),
    "datetime": (LogicalType(Kind.TIMESTAMP), _ints(-719162 * DAY, 2932897 * DAY - 1)),
    "datetime(0)": (LogicalType(Kind.TIMESTAMP, fraction=0), _ints(-719162, 2932896).map(lambda day: day * DAY)),
    "timestamp": (LogicalType(Kind.INSTANT), _ints(1_000_000, (1 << 31) * 1_000_000 - 1)),
    "time": (LogicalType(Kind.DURATION), _ints(-3_020_399_000_000, 3_020_399_000_000)),
    "year": (LogicalType(Kind.YEAR), _ints(1901, 2155) | st.just(0)),
    "enum": (LogicalType(Kind.ENUM, values=("a", "B", "it's", "b\\", "ä{0}", "A")), st.sampled_from(("a", "A", "b\\"))),
    "set": (LogicalType(Kind.SET, values=("x", "Y", "it's")), st.sampled_from(("", "x", "x,Y,it's"))),
    "uuid": (LogicalType(Kind.UUID), st.uuids().map(str)),
    "geometry": (
        LogicalType(Kind.GEOMETRY),
        st.builds(_point, st.sampled_from((0, 3857)), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)),
    ),
}
# MySQL reads some doubles of a document with another last digit; those with few digits it does not.
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-1_000_000, 1_000_000).map(lambda n: n / 64)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def session(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Connection]:
    with at_target(source_database(mysql_family)) as connection:
        yield connection


@contextmanager
def at_target(database: Database) -> Iterator[Connection]:
    """Open a session as those at a target are, in a database whose tables compare texts by their bytes."""
    ((local,),) = database.query("SELECT @@GLOBAL.local_infile")
    database.execute("SET GLOBAL local_infile = ON")
    with closing(connect(endpoint_of(database), "anabranch-test", autocommit=True)) as connection:
        connection.decoders = {}  # answers as the server prints them
        collation = by_bytes({row[0] for row in _rows(connection, COLLATIONS)})
        run(connection, f"ALTER DATABASE `{database.name}` CHARACTER SET utf8mb4 COLLATE {collation}")
        run(connection, f"USE `{database.name}`")
        yield connection
    database.execute(f"SET GLOBAL local_infile = {local}")


def family_of(server: Server) -> str:
    return "mysql" if server.name.startswith("mysql") else "mariadb"


@pytest.mark.servers
def test_a_vector_comes_back_in_all_of_its_digits(
    mysql9: Server, source_database: Callable[[Server], Database]
) -> None:
    with at_target(source_database(mysql9)) as connection:
        column = OneColumn(connection, "mysql", LogicalType(Kind.VECTOR))
        told = ["cdcccc3d0000803f", "0000803f", None]
        assert column.loaded(told) == told == column.inserted(told)


@pytest.mark.parametrize("name", DRAWN)
def test_pitfall_33_51_53_any_value_comes_back(name: str, mysql_family: Server, session: Connection) -> None:
    type, values = DRAWN[name]
    column = OneColumn(session, family_of(mysql_family), type)

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(st.lists(values, min_size=1, max_size=60))
    def comes_back(drawn: list[Any]) -> None:
        told = [*texts(type, _array(type, drawn)).to_pylist(), None]
        assert column.canonical(column.loaded(told)) == column.canonical(told)
        assert column.canonical(column.inserted(told)) == column.canonical(told)

    comes_back()


def _array(type: LogicalType, drawn: list[Any]) -> Any:
    wanted = arrow_type(type)
    if type.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT):
        whole = pa.int32() if type.kind is Kind.DATE else pa.int64()
        return pa.array(drawn, whole).view(wanted)
    return pa.array(drawn, wanted)


@needs_json
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(document=DOCUMENTS)
def test_pitfall_38_any_document_comes_back_by_value(document: Any, mysql_family: Server, session: Connection) -> None:
    column = OneColumn(session, family_of(mysql_family), LogicalType(Kind.JSON))
    told = [json.dumps(document, ensure_ascii=False)]
    assert column.canonical(column.loaded(told)) == column.canonical(told)
    assert column.canonical(column.inserted(told)) == column.canonical(told)


# Texts that neither server has a value for, and that it would take for another one: each is refused by itself.
REFUSED: dict[str, tuple[LogicalType, tuple[str, ...]]] = {
    "date": (
        logical_type("date"),
        ("infinity", "-infinity", "4713-01-01 BC", "0044-03-15 BC", "5874897-12-31", "12024-02-09", "10000-01-01"),
    ),
    "timestamp": (
        logical_type("timestamp without time zone"),
        ("infinity", "0044-03-15 12:00:00 BC", "12024-02-09 10:00:00", "294276-12-31 23:59:59.999999"),
    ),
    "instant": (
        logical_type("timestamp with time zone"),
        ("-infinity", "0044-03-15 11:00:00+00 BC", "12024-02-09 10:00:00+00"),
    ),
    "real": (logical_type("real"), ("NaN", "Infinity", "-Infinity", "nan", "inf", "-inf")),
    "double": (logical_type("double precision"), ("NaN", "Infinity", "-inf", "1e309")),
    "numeric": (logical_type("numeric(10,3)"), ("NaN", "10000000.000")),
    "int": (LogicalType(Kind.INT32), ("2147483648", "-2147483649", "x")),
    "enum": (LogicalType(Kind.ENUM, values=("a", "b")), ("c", "A", "")),
    "enum of a PostgreSQL": (
        logical_type("public.mood", labels=("a", "b")),
        ("c", "A", "", "a ", "a\t", "0", "2", " 2", "+1", "2 "),
    ),
    "set": (LogicalType(Kind.SET, values=("a", "b")), ("c", "a,c")),
    "varchar": (LogicalType(Kind.TEXT, 3), ("abcd", "äöüß")),
    "year": (LogicalType(Kind.YEAR), ("1900", "2156")),
    "instant outside of timestamp": (
        LogicalType(Kind.INSTANT),
        ("1969-12-31 23:59:59.000000+00", "2200-01-01 00:00:00.000000+00"),
    ),
    "json": (LogicalType(Kind.JSON), ("{", "")),
    "decimal by choice": (
        LogicalType(Kind.DECIMAL, native="numeric", printed=True, target="decimal(10,3)"),
        ("0.1234", "12345678.1", "NaN", "1e3"),
    ),
    "varchar by choice": (LogicalType(Kind.TEXT, native="text", target="varchar(3)"), ("abcd", "ab  ", "    ")),
}  # fmt: skip


@needs_json
def test_pitfall_63_what_a_column_does_not_hold_is_refused(mysql_family: Server, session: Connection) -> None:
    for name, (type, told) in REFUSED.items():
        column = OneColumn(session, family_of(mysql_family), type)
        for text in told:
            with pytest.raises((pymysql.err.Error, ValueError), match=r"warnings|JSON"):
                pytest.fail(f"{name}: {text!r} became {column.loaded([text])}")
            with pytest.raises((pymysql.err.Error, ValueError)):
                pytest.fail(f"{name}: {text!r} became {column.inserted([text])}")


def test_pitfall_55_zero_dates_stand_as_they_are_where_the_job_keeps_them(
    mysql_family: Server, session: Connection
) -> None:
    rules = ValueRules(json="json", zero_date="-infinity")
    for kind in (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT):
        column = OneColumn(session, family_of(mysql_family), LogicalType(kind), rules=rules)
        assert column.loaded(["-infinity"]) == ["-infinity"] == column.inserted(["-infinity"])
        assert [row[0] for row in _rows(session, "SELECT v + 0 = 0 FROM one_column")] == ["1"]


def _rows(session: Connection, sql: str) -> list[tuple[Any, ...]]:
    run(session, sql)
    return list(session._result.rows)


# Types whose values partly stop the job: which ones do.
STOPS = {
    "numeric": None,
    "real": {"NaN", "-Infinity", "nan", "-inf"},
    "double precision": {"NaN", "Infinity", "nan", "inf"},
    "date": {"infinity", "-infinity", "4713-01-01 BC", "5874897-12-31"},
    "timestamp without time zone": {"infinity", "4713-01-01 00:00:00 BC", "294276-12-31 23:59:59.999999"},
    "timestamp with time zone": {"-infinity", "0044-03-15 11:00:00+00 BC"},
    "jsonb": {'{"a": "ä\\n", "b": 1' + "0" * 400 + "}"},
}


@needs_json
def test_pitfall_31_33_38_every_type_of_postgresql_comes_back_as_it_is_printed_or_stops(
    logical_postgresql: Server,
    mysql_family: Server,
    session: Connection,
    source_database: Callable[[Server], Database],
) -> None:
    family = family_of(mysql_family)
    for native, told in _printed(logical_postgresql, source_database).items():
        stops = STOPS.get(native, set())
        if stops is None:
            continue
        column = OneColumn(session, family, logical_type(native), rules=RULES)
        held = [text for text in told if text not in stops]
        assert column.canonical(column.loaded(held)) == column.canonical(held), native
        assert column.canonical(column.inserted(held)) == column.canonical(held), native
        for text in set(told) - set(held):
            if native == "jsonb" and family == "mariadb":
                continue  # it keeps the text
            with pytest.raises((pymysql.err.Error, ValueError)):
                pytest.fail(f"{native}: {text!r} became {column.inserted([text])}")


def _printed(server: Server, source_database: Callable[[Server], Database]) -> dict[str, list[str | None]]:
    """Every type of PostgreSQL with texts of its values as the load reads them."""
    database = source_database(server)
    values = values_of(int(server.version.partition(".")[0]))
    for number, (native, some) in enumerate(values.items()):
        database.execute(
            f"CREATE TABLE t{number} (id int PRIMARY KEY, v {native})",
            f"INSERT INTO t{number} VALUES {rows_of(native, some, 1)}",
        )
    connector = source(endpoint_of(database))
    found: dict[str, list[str | None]] = {}
    with closing(connector.catalog()) as catalog, closing(connector.snapshot()) as snapshot:
        tables = catalog.tables(lambda table: True)
        for number, native in enumerate(values):
            schema = tables[TableId("public", f"t{number}")]
            blocks = snapshot.lines(schema, ["v"], Bounds(), POSTGRESQL_RULES)
            found[native] = [text for block in blocks for row in block.splitlines() for text in parse_line(row)]
    return found


# Types of the catalogue itself, of which no table of a user has columns: they are texts, as types of one's own are.
INTERNAL = {"aclitem", "gtsvector", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "pg_dependencies"}
INTERNAL |= {"pg_mcv_list", "pg_ndistinct", "pg_node_tree", "pg_type"}
TYPES = """
SELECT format_type(oid, NULL) FROM pg_type
 WHERE typtype IN ('b', 'r', 'm') AND typcategory <> 'A' AND typnamespace = 'pg_catalog'::regnamespace
"""


def test_every_type_of_a_postgresql_has_a_row_of_its_own_in_the_table(postgresql: Server) -> None:
    named = {name for (name,) in Database(postgresql, "postgres").query(TYPES)}
    types = {name: logical_type(name) for name in named | {*KINDS, *PRINTED}}
    by_text = {
        name for name, type in types.items() if type.kind is Kind.NATIVE and printed.name(name) not in printed.NAMED
    }
    assert by_text - INTERNAL == set()
    assert len(types) - len(by_text) >= 47, "as many as were captured when the table was made"
    for family in ("mysql", "mariadb"):
        assert all(MysqlTypes(family).fit(type, RULES).native for type in types.values())


def test_a_uuid_in_sixteen_bytes_and_an_instant_in_its_own_type(mysql_family: Server, session: Connection) -> None:
    rules = ValueRules(json="text", uuid="binary", instant="timestamp")
    family = family_of(mysql_family)
    uuid = OneColumn(session, family, LogicalType(Kind.UUID, target="binary(16)"), rules=rules)
    told = ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None]
    assert uuid.loaded(told) == told == uuid.inserted(told)
    type = LogicalType(Kind.INSTANT, native="timestamp with time zone", printed=True, target="timestamp")
    instant = OneColumn(session, family, type, rules=rules)
    told = ["2024-03-31 00:30:00.5+00", "1970-01-01 00:00:01+00"]
    assert instant.loaded(told) == told == instant.inserted(told)


@needs_json
@pytest.mark.parametrize("elder", ["mysql", "mariadb"])
def test_pitfall_34_35_37_every_type_of_the_family_comes_back_in_its_own_words(
    elder: str,
    mysql_family: Server,
    session: Connection,
    source_database: Callable[[Server], Database],
    request: pytest.FixtureRequest,
) -> None:
    family, known = family_of(mysql_family), {row[0] for row in _rows(session, COLLATIONS)}
    for column, told in _own(request.getfixturevalue(elder), source_database):
        assert column.type is not None
        native = MysqlTypes(family).column_fit(column, column.type, RULES).native
        if column.charset and column.type.kind is not Kind.JSON:
            native += f" {collating(column.charset, column.collation, known).sql}"
        there = OneColumn(session, family, column.type, native)
        assert there.canonical(there.loaded(told)) == there.canonical(told), column.native
        assert there.canonical(there.inserted(told)) == there.canonical(told), column.native


def _own(server: Server, source_database: Callable[[Server], Database]) -> Iterator[tuple[Column, list[str | None]]]:
    """Every type of MySQL or MariaDB with texts of its values as the load reads them."""
    database = source_database(server)
    for number, (native, some) in enumerate(ALL.items()):
        database.execute(f"CREATE TABLE t{number} (id int AUTO_INCREMENT PRIMARY KEY, v {native})")
        with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'")
            cursor.executemany(f"INSERT INTO t{number} (v) VALUES (%s)", [(value,) for value in (*some, None)])
            connection.commit()
    connector = connectors.source(endpoint_of(database))
    with closing(connector.catalog()) as catalog, closing(connector.snapshot()) as snapshot:
        tables = catalog.tables(lambda table: table.schema == database.name)
        for schema in tables.values():
            snapshot.open(schema, "none")
            blocks = snapshot.lines(schema, ["v"], Bounds(), RULES)
            told = [text for block in blocks for row in block.splitlines() for text in parse_line(row)]
            yield schema.column("v"), told
