"""Unique keys of a table whose rows contend are read into memory once, on real MySQL and MariaDB (decision 262)."""

from __future__ import annotations

from contextlib import closing

import pytest

from anabranch.connectors.mysql.target import reading_in
from anabranch.connectors.mysql.target.reading_in import BUFFERING, BUFFERS_DELETES, MANY, ReadingIn, read_in
from anabranch.connectors.mysql.target.session import ask, connect, run
from anabranch.model.ids import TableId
from anabranch.rows.net import TableNet, TargetTable
from anabranch.testing.servers import Server
from rigs.mysql_writer import INT, Applying, applying_at, rows, updates

SEATS = 2 * MANY
TABLE = "id INT PRIMARY KEY, u INT NOT NULL UNIQUE, v INT NULL, w INT NULL, UNIQUE KEY `of ``two``` (v, u), KEY (w)"
# As the statements of the product, for a machine that may be slow.
PATIENT = {
    "mysql": "SELECT /*+ MAX_EXECUTION_TIME(300000) */ 1 FROM",
    "mariadb": "SET STATEMENT max_statement_time = 300 FOR SELECT 1 FROM",
}
READ = "SHOW {} STATUS LIKE 'Handler_read_next'"


def test_unique_keys_of_rows_that_contend_are_read_once(
    mysql_family: Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_in, "LIMITED", PATIENT)
    with applying_at(mysql_family, request.node.name) as applying:
        columns = {"id": INT, "u": INT, "v": INT, "w": INT}
        seats = applying.create("seats", TABLE, columns)
        before = [(number, number, number, number) for number in range(SEATS)]
        applying.merge(TableNet(seats, inserts=rows(seats, tuple(columns), *before)))
        with closing(connect(applying.endpoint, "test", autocommit=True)) as connection:
            buffering = ask(connection, BUFFERING)
            does_read = bool(buffering) and buffering[0][1] in BUFFERS_DELETES
            assert read_in(connection, seats.target) == 2 * does_read
            assert int(ask(connection, READ.format("SESSION"))[0][1]) >= 2 * (SEATS - 1) * does_read
            run(connection, f"DROP TABLE IF EXISTS `{seats.target.schema}`.gone")
            assert read_in(connection, TableId(seats.target.schema, "gone")) == 0
        first = _read_by(applying, seats)
        assert (first >= 2 * (SEATS - 1)) is does_read
        assert applying.rows("SELECT * FROM seats ORDER BY id") == [(n, n ^ 1, n, n) for n in range(SEATS)]
        assert _read_by(applying, seats) < SEATS
        assert applying.rows("SELECT * FROM seats ORDER BY id") == before


def _read_by(applying: Applying, seats: TargetTable) -> int:
    """Let neighbours swap what they hold in `u`, and return how many entries in a row the server has read meanwhile."""
    there = applying.rows("SELECT id, u ^ 1, v, w FROM seats ORDER BY id")
    swap = updates(seats, [row[0] for row in there], ("u", "v", "w"), *(row[1:] for row in there), contends=True)
    ((_, before),) = applying.rows(READ.format("GLOBAL"))
    applying.merge(TableNet(seats, updates=(swap,)))
    ((_, after),) = applying.rows(READ.format("GLOBAL"))
    return int(after) - int(before)


def test_a_table_is_named_once_and_only_where_many_rows_have_contended() -> None:
    one, other, reading = TableId("shop", "one"), TableId("shop", "other"), ReadingIn()
    reading.contended(one, MANY - 1)
    assert reading.wanted() == []
    reading.contended(one, 1)
    reading.contended(other, MANY)
    assert reading.wanted() == [one, other]
    reading.contended(one, MANY)
    assert reading.wanted() == []
