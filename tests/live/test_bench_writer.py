"""The writer of the benchmark's cut-overs: what it says is committed is what its table has, row by row."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.testing.databases import create_database, drop_database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server

sys.path.append(str(Path(__file__).parents[2]))  # bench is no part of the package

from bench import cutover
from bench.postgresql import PostgresStand
from bench.stand import Stand

ROWS, WRITTEN = 1_000, 200


@pytest.mark.parametrize(("server", "stand"), [("mysql", Stand), ("postgresql", PostgresStand)])
def test_what_is_acknowledged_is_what_the_table_has(
    server: str, stand: type[Stand], request: pytest.FixtureRequest
) -> None:
    one: Server = request.getfixturevalue(server)
    database = create_database(one, "writer")
    database.execute(stand.ledger(stand.__new__(stand)))
    cutover.fill(database, ROWS)
    assert database.query("SELECT min(id), max(id), count(*) FROM ledger") == [(1, ROWS, ROWS)]
    command = [sys.executable, "-m", "bench.fenced_writer", one.url(database.name), "400", str(ROWS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(cutover.__file__).parents[1]
    ) as writer:
        changed = "SELECT count(*) FROM ledger WHERE written > 0"
        until(lambda: database.query(changed)[0][0] > WRITTEN, "rows are written")
        told = writer.communicate()[0]
    assert writer.returncode == 0
    wanted = {(int(key), int(written)) for key, _, written in (line.partition(" ") for line in told.splitlines())}
    assert set(database.query("SELECT id, written FROM ledger WHERE written > 0")) == wanted
    assert min(wanted)[0] <= ROWS < max(wanted)[0], "rows are changed, and others added"
    drop_database(database)
