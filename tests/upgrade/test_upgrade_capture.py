"""A whole job of the release before goes on: in place of the MySQL that it followed stands one with its name, rows and log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.testing import faults
from anabranch.testing.databases import Database, connect, unique_name
from anabranch.testing.recipes import give_away
from anabranch.testing.servers import Server, start_mysql
from rigs.scenario import wait_until
from rigs.upgrade import FOLDER, RELEASES, Kept

JOB = FOLDER / RELEASES[-1] / "from_mysql"
MORE = (
    "INSERT INTO parent VALUES (200, 1)",
    "INSERT INTO child VALUES (200, 200, 1)",
    "UPDATE child SET v = v + 1",
    "DELETE FROM parent WHERE id = 6",
    "UPDATE again SET v = v + 1 WHERE id < 50",
    "UPDATE half SET v = id",
    "DELETE FROM large WHERE id > 50",
    "INSERT INTO nokey VALUES (1, 'after')",
    "UPDATE kinds SET a = a + 1 WHERE a IS NOT NULL",
)


@pytest.fixture
def server(servers_directory: Path) -> Iterator[Server]:
    """A MySQL of this test alone: any other has a name and a log of its own."""
    with start_mysql(servers_directory / unique_name("upgrade")) as one:
        yield one
        one.stop(immediate=True)


def restore(server: Server) -> Database:
    """It gets the rows first, then the name and the log of the server that the kept job followed."""
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        for statement in ("SET sql_log_bin = 0", "CREATE DATABASE kept", "USE kept"):
            cursor.execute(statement)
        for statement in (JOB / "source.sql").read_text().split(";\n")[:-1]:
            cursor.execute(statement)
        cursor.execute("RESET MASTER")
    server.stop()
    data = server.datadir
    assert data is not None
    for file in data.glob("binlog.*"):
        file.unlink()
    logs = [Path(shutil.copy(file, data)) for file in sorted((JOB / "log").iterdir())]
    (data / "binlog.index").write_text("".join(f"./{file.name}\n" for file in logs))
    (data / "auto.cnf").write_text(f"[auto]\nserver-uuid={Kept.told(JOB)['server_uuid']}\n")
    for file in (*logs, data / "binlog.index", data / "auto.cnf"):
        give_away(file)
    server.start()
    return Database(server, "kept")


def test_upgrade_a_job_goes_on_capturing_loading_and_applying(
    server: Server, target_database: Database, tmp_path: Path
) -> None:
    source = restore(server)
    kept = Kept(JOB, target_database, tmp_path / "job", source)
    source.execute(*MORE)
    run = kept.job.start("run")
    before = kept.expected["checkpoint"]["before"]
    wait_until(lambda: kept.job.checkpoint()[2] > before, 60, "apply goes on", run.tail, run)
    faults.kill_tree(run.pid)
    source.execute("INSERT INTO parent VALUES (300, 1)")
    kept.job.run_until_caught_up(code=8)  # a table is parked, and rows are set aside, as before
    assert {table: state for table, state in kept.job.states().items() if state != "streaming"} == {"changed": "parked"}
    kept.job.assert_identical(without=("changed", "goods"))
    kept.job.close()
