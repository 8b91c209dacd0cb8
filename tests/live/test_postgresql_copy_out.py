"""Rows that COPY gives, taken beside libpq and by it: whole lines, errors with their code, and a connection that goes on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import sql

from anabranch.connectors.postgresql import copy_out
from anabranch.connectors.postgresql.connection import Connection, connect
from anabranch.connectors.postgresql.copy_out import BLOCK_BYTES, copied
from anabranch.connectors.postgresql.errors import translated
from anabranch.errors import TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.testing.faults import Proxy


@pytest.fixture
def connection(endpoint: Endpoint) -> Iterator[Connection]:
    with closing(connect(endpoint, "test", autocommit=True)) as made:
        yield made


def rows(connection: Connection, query: str, how: str = "") -> Iterator[bytes]:
    return copied(connection, sql.SQL(f"COPY ({query}) TO STDOUT {how}"))  # type: ignore[arg-type]  # a text of the test's


def test_blocks_are_of_whole_lines_and_the_connection_goes_on(connection: Connection, decoding: str) -> None:
    assert copy_out._is_plain(connection) == (decoding == "native")
    found = list(rows(connection, "SELECT n, repeat('x', n % 300) FROM generate_series(1, 20000) n"))
    assert len(found) > 5 and all(block.endswith(b"\n") and len(block) >= BLOCK_BYTES for block in found[:-1])
    assert [int(line.split(b"\t")[0]) for line in b"".join(found).splitlines()] == list(range(1, 20001))
    assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(
    ("query", "length"),
    [
        ("SELECT 1 WHERE false", 0),
        ("SELECT ''", 1),
        ("SELECT repeat('y', 30000000)", 30000001),
        ("SELECT repeat('z', 262143) FROM generate_series(1, 9)", 9 * 262144),
    ],
)
def test_no_row_and_long_rows(connection: Connection, query: str, length: int) -> None:
    assert sum(map(len, rows(connection, query))) == length


def test_a_binary_stream_is_the_server_s(connection: Connection) -> None:
    query = "SELECT n, n::text FROM generate_series(1, 70000) n"
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()) as copy:
        expected = b"".join(map(bytes, copy))
    assert b"".join(rows(connection, query, "(FORMAT binary)")) == expected


def test_an_error_has_its_code_and_the_connection_goes_on(connection: Connection) -> None:
    for at in (1, 20, 3000, 30000):  # the error comes alone, in one piece with rows, and long behind the first of them
        with pytest.raises(psycopg.errors.DivisionByZero, match="division by zero"):
            list(rows(connection, f"SELECT 1 / ({at} - n) FROM generate_series(1, 40000) n"))
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.errors.UndefinedTable):
        list(rows(connection, "SELECT 1 FROM nothing_of_this_name"))
    raises = (
        "CREATE FUNCTION odd() RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE 'odd one' USING ERRCODE = 'ZZ987'; END$$"
    )
    connection.execute(raises.encode())
    with pytest.raises(psycopg.DatabaseError, match="odd one") as told:
        list(rows(connection, "SELECT odd()"))
    assert told.value.sqlstate == "ZZ987"
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_notices_and_settings_between_rows_are_passed_over(connection: Connection) -> None:
    connection.execute(
        b"CREATE FUNCTION loud(n int) RETURNS int LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'row %', n;"
        b" PERFORM set_config('application_name', 'test' || n, false); RETURN n; END$$"
    )
    connection.execute("SET client_min_messages = notice")
    assert b"".join(rows(connection, "SELECT loud(n) FROM generate_series(1, 300) n")).count(b"\n") == 300


def test_a_transaction_stays_and_an_error_ends_it(connection: Connection) -> None:
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert b"".join(rows(connection, "SELECT 7")) == b"7\n"
    with pytest.raises(psycopg.errors.DivisionByZero):
        list(rows(connection, "SELECT 1 / 0"))
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        connection.execute("SELECT 1")
    connection.execute("ROLLBACK")
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_who_leaves_early_leaves_no_rows_behind(connection: Connection) -> None:
    reading = rows(connection, "SELECT repeat('x', 1000) FROM generate_series(1, 100000)")
    next(reading)
    reading.close()
    del reading
    gc.collect()
    with suppress(psycopg.OperationalError):  # it is closed, or it goes on as it should
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_session_that_is_ended(endpoint: Endpoint, target_database: Any) -> None:
    many = "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)"
    with closing(connect(endpoint, "ended", autocommit=True)) as connection:
        reading = rows(connection, many)
        next(reading)
        target_database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%ended%'"
        )
        with pytest.raises(psycopg.Error):
            list(reading)


def test_pitfall_44_a_line_that_is_cut_is_a_line_that_is_cut(endpoint: Endpoint) -> None:
    with Proxy(endpoint.host, endpoint.port) as line:
        there = replace(endpoint, port=line.port)
        with closing(connect(there, "cut", autocommit=True)) as connection:
            reading = rows(connection, "SELECT repeat('x', 1000) FROM generate_series(1, 1000000)")
            next(reading)
            line.cut()
            with pytest.raises(TargetUnavailable), translated("read"):
                list(reading)
            assert connection.closed
