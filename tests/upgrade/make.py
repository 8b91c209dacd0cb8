"""Make the kept files of a release: two jobs in the middle of their work, as that release leaves them.

    git worktree add ../release <tag of the release>      # with a .venv of its own
    cp tests/upgrade/make.py ../release/tests/upgrade/ && cd ../release
    .venv/bin/python tests/upgrade/make.py <folder to write>

It runs with the release's own code, because only that writes what it writes. The folder gets a job from a MariaDB and
one from a PostgreSQL, each with

    job.toml         the job file; places are named @SOURCE@ and @TARGET@
    home/            the job's home without locks; state.sql stands for its SQLite file state.db
    target.sql       the target database: schema `anabranch` and the user's tables, as plain SQL
    source.sql       the statements that made the source's tables (MySQL), so that another server can go on as that one
    log/             the last file of its log, in which the trail ends (MySQL)
    expected.json    what the release itself then made of it: rows, states, checkpoint

The jobs stand still behind their trail: tables that stream, one that is parked, one whose load is done but whose window
is open, one whose load was killed, a large transaction, a row that is set aside.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from anabranch.testing import packages
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server, start_mysql, start_postgresql
from anabranch.trail.reader import TrailReader
from rigs import scenario
from rigs.scenario import Scenario, wait_until
from rigs.scenario_postgresql import FromPostgres

NAME = "kept"  # of the databases at both ends, and of the job
CHUNK_ROWS = 40
# Load and apply without Spark, in chunks that are small enough for a killed load to have some of them.
QUICK = f"""
from anabranch import pace
from anabranch.job import parts
from anabranch.testing.torture.local import LocalEngine, Small

pace.use(pace.Pace(load_rows=({CHUNK_ROWS}, 1_000_000)))
parts.SparkEngine = lambda factory, runner="": LocalEngine(Small())
"""
SETTINGS = '[apply]\non_error = "set_aside"\n[load]\nparallel = 1\n'
NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT"
HUNDRED = NUMBERS.format(100) + " i, 0 FROM n"
MYSQL = (
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE goods (id INT PRIMARY KEY, name VARCHAR(40), price INT)",
    "CREATE TABLE kinds (id INT AUTO_INCREMENT PRIMARY KEY, a DECIMAL(30, 10), b VARBINARY(20), c DATETIME(6), d DOUBLE,"
    " e VARCHAR(100) CHARACTER SET utf8mb4, f BIT(5), g ENUM('no', 'yes'), h TIME(3), i YEAR, j TIMESTAMP NULL, k TEXT)",
    "CREATE TABLE nokey (a INT, b VARCHAR(10))",
    "CREATE TABLE large (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE changed (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE again (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE half (id INT PRIMARY KEY, v INT)",
    f"INSERT INTO parent {NUMBERS.format(20)} i, 0 FROM n",
    f"INSERT INTO child {NUMBERS.format(60)} i, 1 + i % 20, 0 FROM n",
    "INSERT INTO goods VALUES (1, 'one', 1), (2, 'two', 2), (3, 'three', 3)",
    "INSERT INTO kinds (a, b, c, d, e, f, g, h, i, j, k) VALUES (12345678901234567890.0123456789, x'00ff', '2024-02-29"
    " 12:00:00.5', 0.1, 'Größe 😀', b'10101', 'yes', '-12:34:56.789', 2024, '2024-02-29 12:00:00', 'text')",
    "INSERT INTO kinds () VALUES ()",
    "INSERT INTO nokey VALUES (1, 'a'), (1, 'a'), (2, NULL)",
    "INSERT INTO changed VALUES (1, 1)",
    f"INSERT INTO again {HUNDRED}",
    f"INSERT INTO half {HUNDRED}",
)
SET_ASIDE = (
    "UPDATE goods SET price = price + 98",  # 99, 100, 101: the target takes one of them
    "UPDATE goods SET price = 500 WHERE id = 2",
    "ALTER TABLE changed ADD COLUMN w INT",
    "INSERT INTO changed VALUES (2, 2, 2)",
)
# What the trail has and the target has not.
BEHIND = (
    "INSERT INTO parent VALUES (100, 1)",
    "INSERT INTO child VALUES (100, 100, 1), (101, 2, 1)",
    "UPDATE child SET v = v + 1 WHERE p = 3",
    "DELETE FROM parent WHERE id = 4",
    "UPDATE parent SET v = 7 WHERE id = 5",
    "INSERT INTO goods VALUES (4, 'four', 4)",
    "UPDATE goods SET price = 501 WHERE id = 2",
    "INSERT INTO kinds (a, b, e) VALUES (-1, '', ''), (0.5, x'80', 'ß')",
    "UPDATE kinds SET k = REPEAT('k', 300), d = -0e0 WHERE id = 1",
    "DELETE FROM kinds WHERE id = 2",
    "INSERT INTO nokey VALUES (1, 'a'), (3, 'c')",
    "DELETE FROM nokey WHERE a = 2",
    "UPDATE again SET v = 7 WHERE id % 10 = 0",
    "UPDATE half SET v = -1 WHERE id > 90",
)
LARGE = (  # more row images than a piece of the trail takes
    "BEGIN",
    f"INSERT INTO large {NUMBERS.format(1000)} i, i FROM n",
    *["UPDATE large SET v = -v"] * 10,
    "DELETE FROM large WHERE id > 100",
    "COMMIT",
)
AFTER = ("UPDATE large SET v = 0 WHERE id < 10", "TRUNCATE nokey", "INSERT INTO nokey VALUES (9, 'z')")

POSTGRESQL = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE TABLE kinds (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a numeric, b bytea, c timestamptz,"
    " d double precision, e text, f bit(5), g mood, h interval, i date, j jsonb, k text[], l uuid)",
    "CREATE TABLE parent (id int PRIMARY KEY, v int)",
    "CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES parent ON DELETE CASCADE)",
    "CREATE TABLE large (id int PRIMARY KEY, v int)",
    "CREATE TABLE changed (id int PRIMARY KEY, v int)",
    "INSERT INTO parent SELECT g, 0 FROM generate_series(1, 20) g",
    "INSERT INTO child SELECT g, 1 + g % 20 FROM generate_series(1, 60) g",
    r"INSERT INTO kinds (a, b, c, d, e, f, g, h, i, j, k, l) VALUES ('NaN', '\x00ff', '2024-02-29 12:00:00.5+02',"
    " '-infinity', 'Größe 😀', B'10101', 'glad', '1 mon -2 days 03:00', 'infinity', '{\"a\": [1, null]}', '{a,NULL,b}',"
    " '00000000-0000-0000-0000-00000000002a')",
    "INSERT INTO changed VALUES (1, 1)",
)
PARKS = ("ALTER TABLE changed ADD COLUMN w int", "INSERT INTO changed VALUES (2, 2, 2)")
POSTGRESQL_BEHIND = (
    "INSERT INTO parent VALUES (100, 1)",
    "INSERT INTO child VALUES (100, 100)",
    "DELETE FROM parent WHERE id = 4",
    "UPDATE child SET id = 1000 WHERE id = 10",
    "INSERT INTO kinds (a, c, i, k) VALUES (1e100, 'infinity', '0044-03-15 BC', '{{1,2},{3,4}}')",
    "UPDATE kinds SET e = repeat('k', 3000) WHERE id = 1",
    "UPDATE kinds SET d = 0.1 WHERE id = 1",  # e is unchanged and stored apart: the log does not have it
)
POSTGRESQL_LARGE = (
    "BEGIN",
    "INSERT INTO large SELECT g, g FROM generate_series(1, 2000) g",
    "UPDATE large SET v = -v WHERE id % 2 = 0",
    "DELETE FROM large WHERE id > 100",
    "COMMIT",
    "BEGIN",
    "UPDATE parent SET v = 9 WHERE id = 9",
    "PREPARE TRANSACTION 'undecided'",
)
OURS = ("checkpoint", "set_aside", "table_state")


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="anabranch-upgrade-") as made:
        place = Path(made)
        place.chmod(0o755)
        (place / "python").mkdir()
        (place / "python" / "sitecustomize.py").write_text(QUICK)
        os.environ["PYTHONPATH"] = str(place / "python")
        scenario.WITH_SPARK = ()
        with start_postgresql(place / "target") as target:
            with start_mysql(place / "mysql") as server:
                from_mysql(server, target, place, folder / "from_mysql")
            options = ("--wal-level=logical", "--max-prepared-transactions=10")
            with start_postgresql(place / "postgresql", options=options) as server:
                from_postgresql(server, target, place, folder / "from_postgresql")


def from_mysql(server: Server, target: Server, place: Path, folder: Path) -> None:
    made = Scenario(database(server), database(target), place / "a", NAME)
    made.source.execute(*MYSQL)
    made.write_job(SETTINGS)
    made.run_until_caught_up()
    made.target.execute("ALTER TABLE public.goods ADD CONSTRAINT cheap CHECK (price < 100) NOT VALID")
    made.source.execute(*SET_ASIDE)
    made.run_until_caught_up(code=8)
    capture = made.capture()
    killed = load(made, "half", "load.committed=exit@2")
    killed.wait()
    loaded = load(made, "again", "load.copied=delay:0.5")
    wait_until(lambda: made.states()["again"] == "loading", 60, "the load begins", loaded.tail, loaded)
    while loaded.is_alive:
        made.source.execute("UPDATE again SET v = v + 1 WHERE id % 10 = 0")
        time.sleep(0.4)
    assert loaded.wait().code == 0, loaded.tail()
    made.source.execute(*BEHIND)
    made.captured(capture)
    capture.stop()
    capture = made.capture()  # it begins another segment
    made.source.execute(*LARGE)
    made.captured(capture)
    capture.stop()
    capture = made.capture()
    made.source.execute("FLUSH BINARY LOGS", *AFTER)
    made.captured(capture)
    capture.stop()
    told = made.source.query("SELECT @@GLOBAL.gtid_executed, @@GLOBAL.server_uuid")[0]
    keep(made, folder, {"gtid_executed": told[0].replace("\n", ""), "server_uuid": told[1]})
    keep_log(server, made.source.query("SHOW MASTER STATUS")[0][0], folder / "log")
    marks = [f"INSERT INTO scenario_mark VALUES ({n})" for (n,) in made.source.query("SELECT id FROM scenario_mark")]
    done = (scenario.MARKS, *MYSQL, *SET_ASIDE, *BEHIND, *LARGE, *AFTER, *marks)
    (folder / "source.sql").write_text(";\n".join(done) + ";\n")


def keep_log(server: Server, file: str, folder: Path) -> None:
    assert server.datadir is not None
    folder.mkdir()
    shutil.copy(server.datadir / file, folder / file)


def load(made: Scenario, table: str, failpoints: str) -> scenario.Running:
    os.environ["ANABRANCH_FAILPOINTS"] = failpoints
    try:
        return made.start("load", "--table", f"{made.schema}.{table}")
    finally:
        del os.environ["ANABRANCH_FAILPOINTS"]


def from_postgresql(server: Server, target: Server, place: Path, folder: Path) -> None:
    made = FromPostgres(database(server), database(target), place / "b", NAME)
    made.source.execute(*POSTGRESQL)
    rules = '[[rules]]\ninclude = ["public.*"]\ntarget = "public.{table}"\n'
    made.write_job("[capture]\nstreaming = true\n", rules=rules)
    made.run_until_caught_up()
    made.source.execute(*PARKS)
    made.run_until_caught_up(code=8)
    for statements in (POSTGRESQL_BEHIND, POSTGRESQL_LARGE):
        capture = made.capture()
        made.source.execute(*statements)
        made.captured(capture)
        capture.stop()
    keep(made, folder, {})


def database(server: Server) -> Database:
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        if server.name == "postgresql":
            cursor.execute(f"DROP DATABASE IF EXISTS {NAME}")
        cursor.execute(f"CREATE DATABASE {NAME}")
    return Database(server, NAME)


def keep(made: Scenario, folder: Path, more: dict[str, Any]) -> None:
    """Write down the job, then let the release's own apply go on to the trail's end and write down what that gives."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "job.toml").write_text(named(made, made.job_file.read_text()))
    keep_home(made, folder / "home")
    (folder / "target.sql").write_text(named(made, dumped(made.target)))
    with TrailReader(made.trail) as reader:
        end = reader.end().position.sequence
    before = made.checkpoint()[2]
    assert before < end
    apply = made.start("apply")
    wait_until(lambda: made.checkpoint()[2] == end, 60, "apply is at the trail's end", apply.tail, apply)
    apply.stop()
    expected = {"checkpoint": {"before": before, "after": end}, **more, "states": made.states(), "rows": rows(made)}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


def keep_home(made: Scenario, folder: Path) -> None:
    leave_out = shutil.ignore_patterns("lock", "*.lock", "maintenance", "spark", "logs", "state.db*")
    shutil.copytree(made.home, folder, ignore=leave_out)
    with closing(sqlite3.connect(made.home / "state.db")) as state:
        version = state.execute("PRAGMA user_version").fetchone()[0]
        lines = [f"PRAGMA user_version = {version};", *state.iterdump()]
    (folder / "state.sql").write_text(named(made, "\n".join(lines) + "\n"))
    for path in (path for path in folder.rglob("*") if path.suffix not in (".segment", ".packed", ".staged")):
        if path.is_file() and path.name != "published":
            path.write_text(named(made, path.read_text()))


def named(made: Scenario, text: str) -> str:
    """Without what is this machine's: places, host, folders."""
    places = {"@SOURCE@": made.source.server, "@TARGET@": made.target.server}
    for name, server in places.items():
        text = text.replace(f"{server.host}:{server.port}", name)
    host = re.escape(socket.gethostname())
    return re.sub(rf"\b{host}\b", "a-host", text.replace(str(made.directory), "@FOLDER@"))


def dumped(target: Database) -> str:
    server = target.server
    program = packages.find_postgresql().program("pg_dump")
    command = [program, "--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges", "--no-comments"]
    command += [f"--host={server.host}", f"--port={server.port}", f"--username={server.user}", target.name]
    found = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "PGPASSWORD": server.password}
    )
    # what begins with \ is psql's, and not the server's
    lines = (line for line in found.stdout.splitlines() if line and not line.startswith(("\\", "--")))
    return "\n".join(lines) + "\n"


def rows(made: Scenario) -> dict[str, list[Any]]:
    """Of each of the user's tables how many rows it has, and the MD5 of their text in order."""
    query = (
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1"
    )
    return {name: digest(made.target, name) for (name,) in made.target.query(query)}


def digest(target: Database, table: str) -> list[Any]:
    with target.connect(options="-c timezone=UTC -c datestyle=ISO -c bytea_output=hex") as connection:
        found = connection.execute(f'SELECT t::text FROM public."{table}" AS t').fetchall()
    text = "\n".join(sorted(row for (row,) in found))
    return [len(found), hashlib.md5(text.encode()).hexdigest()]


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
