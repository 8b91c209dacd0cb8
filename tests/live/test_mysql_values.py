"""MySQL and MariaDB: a row has one text form, whether the load reads it or the log brings it (pitfall 29, K34)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anabranch import connectors
from anabranch.connectors.mysql.source import load
from anabranch.contracts import Bounds, LogOptions, SourceConnector, ValueRules
from anabranch.errors import ValueRefused
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, Chunk
from anabranch.rows.lines import lines
from anabranch.testing.databases import Database
from anabranch.testing.features import knows, spelled, takes
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import Server
from rigs.mysql_types import ALL

pytestmark = pytest.mark.every_server
Make = Callable[[Server], Database]


@pytest.fixture(params=["columns", "lines"], autouse=True)
def asked_for(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values as they are, where compiled code joins them, or lines that the server joins."""
    if request.param == "lines":
        monkeypatch.setattr(load, "compiled_columns", lambda kinds: None)


def endpoint(database: Database, scheme: str = "") -> Endpoint:
    server = database.server
    return Endpoint(scheme or server.name, server.host, server.port, server.user, server.password, database.name)


def source_of(database: Database) -> SourceConnector:
    return connectors.source(endpoint(database))


def definitions(source: SourceConnector, database: Database) -> dict[str, TableSchema]:
    with closing(source.catalog()) as catalog:
        return {t.name: s for t, s in catalog.tables(lambda t: t.schema == database.name).items()}


def end_of(source: SourceConnector) -> LogMark:
    with closing(source.catalog()) as catalog:
        return catalog.mark()


def loaded(source: SourceConnector, table: TableSchema, rules: ValueRules | None = None) -> bytes:
    columns = [column.name for column in table.columns]
    with closing(source.snapshot()) as snapshot:
        snapshot.open(table, "none")
        return b"".join(snapshot.lines(table, columns, Bounds(), rules or ValueRules()))


def logged(source: SourceConnector, after: LogMark, tables: Sequence[TableSchema], rows: int) -> dict[str, bytes]:
    """The lines of the row images that the log has after a mark, by table."""
    by_id = {table.id: table for table in tables}
    found, seen, deadline = dict.fromkeys((t.id.name for t in tables), b""), 0, time.monotonic() + 180
    with closing(source.log(LogOptions(4711, 0.02))) as reader:
        reader.start(after, by_id.get)
        while seen < rows:
            in_time(deadline, f"only {seen} of {rows} rows came")
            item = reader.read(1.0)
            for part in item.tables if isinstance(item, Chunk) else ():
                types = [column.type for column in by_id[part.table].columns]
                found[part.table.name] += lines(types, part.batch.columns[META:])
                seen += part.batch.num_rows
    return found


def test_pitfall_29_34_load_and_log_agree(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    made = {f"t{i}": native for i, native in enumerate(ALL) if takes(mysql_family, native)}
    for table, native in made.items():
        column = spelled(mysql_family, native)
        database.execute(f"CREATE TABLE {table} (id int auto_increment primary key, v {column}, after_it varchar(3))")
    source, mark = source_of(database), end_of(source_of(database))
    insert(database, {table: [*ALL[native], None] for table, native in made.items()})
    found = definitions(source, database)
    from_log = logged(source, mark, list(found.values()), sum(len(ALL[native]) + 1 for native in made.values()))
    with closing(source.snapshot()) as snapshot:
        snapshot.open(found["t0"], "none")
        for table, native in made.items():
            from_load = b"".join(snapshot.lines(found[table], ["id", "v", "after_it"], Bounds(), ValueRules()))
            assert from_log[table].splitlines() == from_load.splitlines(), native
            assert from_log[table].count(b"\n") == len(ALL[native]) + 1, native


def insert(database: Database, values: Mapping[str, Sequence[object]]) -> None:
    """Into each table, in one transaction."""
    with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'")
        for table, some in values.items():
            cursor.executemany(f"INSERT INTO {table} (v, after_it) VALUES (%s, 'end')", [(value,) for value in some])
        connection.commit()


def test_pitfall_35_37_what_a_session_s_modes_change(mysql_family: Server, source_database: Make) -> None:
    """A value that ENUM refused has number 0; CHAR is read without its padding whatever the server's mode is."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key, e enum('x','y'), s set('x','y'), c char(5), v varchar(5))")
    source, mark = source_of(database), end_of(source_of(database))
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET SESSION sql_mode = 'PAD_CHAR_TO_FULL_LENGTH', @modes = @@GLOBAL.sql_mode")
        cursor.execute("INSERT IGNORE INTO t VALUES (1, 'no', 'no,x', 'a  ', 'a  '), (2, 0, '', '', '')")
        cursor.execute("SET GLOBAL sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'")
        try:
            table = definitions(source, database)["t"]
            assert loaded(source, table) == b"1\t\tx\ta\ta  \n2\t\t\t\t\n"
        finally:
            cursor.execute("SET GLOBAL sql_mode = @modes")
    assert logged(source, mark, [table], 2)["t"] == loaded(source, table)


# A zone of the year 2024 in central Europe; transitions in seconds since 1970 UTC.
# https://dev.mysql.com/doc/refman/8.0/en/time-zone-support.html
SUMMER = (
    "INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (77, 'N')",
    "INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('Test/Summer', 77)",
    "INSERT INTO mysql.time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation)"
    " VALUES (77, 0, 3600, 0, 'CET'), (77, 1, 7200, 1, 'CEST')",
    "INSERT INTO mysql.time_zone_transition (Time_zone_id, Transition_time, Transition_type_id)"
    " VALUES (77, 1711846800, 1), (77, 1729990800, 0)",
)
NO_SUMMER = tuple(
    f"DELETE FROM mysql.time_zone{table} WHERE Time_zone_id = 77"
    for table in ("_transition", "_transition_type", "_name", "")
)


def test_pitfall_31_timestamps_are_instants_in_every_zone(mysql_family: Server, source_database: Make) -> None:
    """Half past two comes twice when summer ends; sessions write in zones of their own, and the server's own is neither."""
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (id int primary key, ts timestamp null default current_timestamp, dt datetime null)", *SUMMER
    )
    source, mark = source_of(database), end_of(source_of(database))
    summer = "SET SESSION time_zone = 'Test/Summer'"
    try:
        for number, (zone, value) in enumerate(
            [
                (summer, "'2024-03-31 01:59:59'"),
                (summer, "'2024-03-31 03:00:00'"),
                (f"{summer}, timestamp = 1729989000", "DEFAULT"),  # the first half past two
                (f"{summer}, timestamp = 1729992600", "DEFAULT"),  # the second
                ("SET SESSION time_zone = '+02:00'", "'2024-10-27 02:30:00'"),
                ("SET SESSION time_zone = '+01:00'", "'2024-10-27 02:30:00'"),
                ("SET SESSION time_zone = '-11:00'", "'2024-10-26 15:30:00'"),
            ]
        ):
            database.execute(zone, f"INSERT INTO t VALUES ({number}, {value}, '2024-03-31 02:30:00')")
        database.execute("SET GLOBAL time_zone = 'Test/Summer'")
        table = definitions(source, database)["t"]
        found = loaded(source, table)
        assert logged(source, mark, [table], 7)["t"] == found
    finally:
        database.execute("SET GLOBAL time_zone = 'SYSTEM'", *NO_SUMMER)
    first, second = "2024-10-27 00:30:00+00", "2024-10-27 01:30:00+00"
    rows = [line.split("\t") for line in found.decode().replace(".000000", "").splitlines()]
    assert [ts for _, ts, _ in rows] == [
        "2024-03-31 00:59:59+00", "2024-03-31 01:00:00+00", first, second, first, second, "2024-10-27 02:30:00+00"
    ]  # fmt: skip
    assert {dt for *_, dt in rows} == {"2024-03-31 02:30:00"}, "a DATETIME has no zone, and no gap"


def test_pitfall_31_33_35_expected_texts(mysql_family: Server, source_database: Make) -> None:
    """Written out by hand, so that load and log cannot both be wrong in the same way."""
    database = source_database(mysql_family)
    digits, tenth, tenths = ("(1)", ".6", ".4") if knows(mysql_family, "fractions") else ("", ".0", ".0")
    database.execute(
        "CREATE TABLE t (i int primary key, f float, d double, n decimal(6,3), b varbinary(9), t bit(4), y year,"
        f" dt datetime{digits}, ts timestamp null, du time{digits}, e enum('x','y'), s text, z int(5) zerofill)",
        "SET SESSION time_zone = '+05:00'",
        f"INSERT INTO t VALUES (1, 16777215, '-0.0', 1.5, 'a\\\\b', b'101', 2024, '2024-01-02 03:04:05{tenth}',"
        f" NULL, '-1:02:03{tenths}', 'y', 'a\\tb\\\\', 42), (2, 0.1, 1e0, -1, '', 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        "UPDATE t SET ts = FROM_UNIXTIME(86399) WHERE i = 1",
    )
    source = source_of(database)
    found = loaded(source, definitions(source, database)["t"]).decode().splitlines()
    zero = "-0" if mysql_family.name == "mysql" else "0"  # MariaDB stores no negative zero
    assert found[0].split("\t") == [
        "1", "16777215", zero, "1.500", "\\\\x615c62", "0101", "2024", f"2024-01-02 03:04:05{tenth}00000",
        "1970-01-01 23:59:59.000000+00", f"-01:02:03{tenths}00000", "y", "a\\tb\\\\", "42",
    ]  # fmt: skip
    assert found[1].split("\t") == ["2", "0.1", "1", "-1.000", "\\\\x", "0000", *["\\N"] * 7]


@pytest.mark.servers
def test_pitfall_35_years_of_two_digits(mysql55: Server, source_database: Make) -> None:
    """https://dev.mysql.com/doc/refman/5.5/en/migrating-from-year2.html: MySQL 5.6 makes no more of them."""
    database = source_database(mysql55)
    database.execute("CREATE TABLE t (id int auto_increment primary key, v year(2))")
    source, mark = source_of(database), end_of(source_of(database))
    database.execute("INSERT INTO t (v) VALUES (0), ('00'), (1), (69), (70), (99), (2012), (1999), (NULL)")
    table = definitions(source, database)["t"]
    found = loaded(source, table)
    assert [line.split(b"\t")[1] for line in found.splitlines()] == [
        b"2000", b"2000", b"2001", b"2069", b"1970", b"1999", b"2012", b"1999", b"\\N",
    ]  # fmt: skip
    assert logged(source, mark, [table], 9)["t"] == found


@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.tuples(
            st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
            st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
            st.none() | st.binary(max_size=40),
            st.none() | st.decimals(-(10**12), 10**12, allow_nan=False, places=9),
        ),
        min_size=1,
        max_size=40,
    )
)
@pytest.mark.one_case("columns-mysql", "lines-mariadb")
def test_mysql_live_any_rows_agree(
    mysql_family: Server, source_database: Make, rows: list[tuple[str | None, float, float, bytes, Decimal]]
) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (id int auto_increment primary key, s varchar(60), f float, d double, b varbinary(60),"
        " n decimal(30,9)) CHARACTER SET utf8mb4"
    )
    source, mark = source_of(database), end_of(source_of(database))
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.executemany("INSERT INTO t (s, f, d, b, n) VALUES (%s, %s, %s, %s, %s)", rows)
    table = definitions(source, database)["t"]
    assert logged(source, mark, [table], len(rows))["t"] == loaded(source, table)


# --- values that do not fit -------------------------------------------------------------------------------------------


NO_DAYS = ("2024-02-31", "2024-02-30", "2023-02-29", "1900-02-29", "2024-04-31", "2024-11-31")
DAYS = ("2024-02-29", "2000-02-29", "2024-12-31")


def zero_dates(database: Database) -> None:
    database.execute("CREATE TABLE t (id int, d date, ts timestamp null, s text, primary key (id))")
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute(
            "INSERT INTO t VALUES (7, '2024-00-15', '0000-00-00', '0000-00-00'), (8, '0000-00-00', NULL, '')"
        )
        for number, day in enumerate((*NO_DAYS, *DAYS), 10):
            cursor.execute(f"INSERT INTO t VALUES ({number}, '{day}', NULL, '')")


def test_pitfall_32_zero_date_stops_with_the_key(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    zero_dates(database)
    source = source_of(database)
    with pytest.raises(ValueRefused) as refused:
        loaded(source, definitions(source, database)["t"])
    assert "column d of the row with id=7 holds the date '2024-00-15'" in str(refused.value)
    assert 'zero_date = "null"' in refused.value.hint


def test_pitfall_32_zero_date_null(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    zero_dates(database)
    source = source_of(database)
    found = loaded(source, definitions(source, database)["t"], ValueRules(zero_date="null"))
    lines = found.decode().splitlines()
    assert lines[:2] == ["7\t\\N\t\\N\t0000-00-00", "8\t\\N\t\\N\t"]
    assert [line.split("\t")[1] for line in lines[2:]] == ["\\N"] * len(NO_DAYS) + list(DAYS)


def test_pitfall_36_nul_in_text(mysql_family: Server, source_database: Make) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (a int, b varchar(9) character set latin1, c varbinary(3), primary key (a, b))",
        "INSERT INTO t VALUES (1, 'ä', x'00'), (2, 'x\\0y', x'0001')",
    )
    source = source_of(database)
    table = definitions(source, database)["t"]
    with pytest.raises(ValueRefused, match=r"column b of the row with a=2, b=x.y holds a zero character"):
        loaded(source, table)
    assert loaded(source, table, ValueRules(nul="strip")) == "1\tä\t\\\\x00\n2\txy\t\\\\x0001\n".encode()
