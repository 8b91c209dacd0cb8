"""A MySQL or MariaDB as the target, through the command line, from every source: loaded, followed, killed, resumed, verified,
repaired."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.scenario import Scenario, repeating
from rigs.scenario_mysql_target import AtMysql, job_at_mysql

PAIRS = (("mysql", "mariadb"), ("logical_postgresql", "mysql"))  # in `make test`
OTHERS = (("mysql", "mysql"), ("mariadb", "mysql"), ("mariadb", "mariadb"), ("logical_postgresql", "mariadb"))
MYSQL = (
    "CREATE TABLE parent (id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, UNIQUE KEY (name))",
    "CREATE TABLE item (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, parent INT, price DECIMAL(10,2), note TEXT, raw BLOB,"
    " at DATETIME(6), changed TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, kind ENUM('a','b'),"
    " facts JSON, doubled DECIMAL(12,2) AS (price * 2) VIRTUAL, FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE noise (n INT, text VARCHAR(40))",
    *(f"INSERT INTO parent VALUES ({n}, 'parent {n}')" for n in range(1, 11)),
    "INSERT INTO item (id, parent, price, note, raw, at, kind, facts) VALUES "
    + ", ".join(
        f"({n}, {1 + n % 10}, {n}.25, 'tab\\tnew\\nback\\\\slash {n}', x'00{n % 100:02}ff5c09',"
        f" '2024-02-29 12:00:00.00{n % 10}', 'a', '{{\"n\": {n}, \"x\": [1.5, null]}}')"
        for n in range(1, 500)
    ),
    "INSERT INTO noise VALUES (1, 'x'), (1, 'x'), (NULL, NULL), (2, '')",
)
POSTGRESQL = (
    "CREATE TABLE parent (id int PRIMARY KEY, name varchar(40) NOT NULL UNIQUE)",
    "CREATE TABLE item (id bigint PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE, price numeric(10,2), note text,"
    " raw bytea, at timestamp, flag boolean)",
    "CREATE TABLE noise (n int, text varchar(40))",
    "ALTER TABLE noise REPLICA IDENTITY FULL",
    "INSERT INTO parent SELECT n, 'parent ' || n FROM generate_series(1, 10) n",
    "INSERT INTO item SELECT n, 1 + n % 10, n + 0.25, E'tab\\tnew\\nback\\\\slash ' || n, '\\x00ff5c09',"
    " '2024-02-29 12:00:00.5', n % 2 = 0 FROM generate_series(1, 499) n",
    "INSERT INTO noise VALUES (1, 'x'), (1, 'x'), (NULL, NULL), (2, '')",
)
# Keys that swap and rotate inside a statement or a transaction, rows that go with their parent, equal rows, a TRUNCATE.
CHANGES = (
    "UPDATE parent SET name = 'aside' WHERE id = 1",
    "UPDATE parent SET name = 'parent 1' WHERE id = 2",
    "UPDATE parent SET name = 'parent 2' WHERE id = 1",
    "DELETE FROM parent WHERE id = 9",
    "UPDATE item SET note = 'changed', price = price + 1 WHERE id < 50",
    "UPDATE item SET id = id + 100000 WHERE id BETWEEN 100 AND 120",
    "DELETE FROM item WHERE id BETWEEN 200 AND 220",
    "INSERT INTO noise VALUES (1, 'x'), (7, 'seven')",
    "UPDATE noise SET text = 'two' WHERE n = 2",
)


@pytest.fixture(
    params=[*PAIRS, *(pytest.param(pair, marks=pytest.mark.long) for pair in OTHERS)],
    ids=lambda pair: " to ".join(pair),
)
def pair(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[AtMysql]:
    source, target = (request.getfixturevalue(name) for name in request.param)
    database = source_database(source)
    database.execute(*(POSTGRESQL if source.name == "postgresql" else MYSQL))
    is_quick = not request.config.getoption("--spark")
    with job_at_mysql(database, target, tmp_path / "job", is_quick=is_quick) as made:
        yield made


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_a_job_to_a_mysql_is_killed_and_verified_and_repaired(pair: AtMysql) -> None:
    made = pair
    run = made.start("run")
    made.wait_streaming(run)
    made.sync(run)
    made.assert_identical()
    made.source.execute(*CHANGES)
    with repeating(_writes(made), 0.01):
        made.sync(run)
        run.kill()
        run = made.start("run")
        made.sync(run)
        run.part("apply")
        run.signal(signal.SIGTERM)
        run.wait(240)
        run = made.start("run")
        made.sync(run)
    made.source.execute("TRUNCATE TABLE noise", "INSERT INTO noise VALUES (3, 'after')")
    made.sync(run)
    made.assert_identical()
    made.cli("verify", seconds=240)
    _damage(made.target)
    found = made.cli("verify", "--json", code=4, seconds=240).json
    assert {one["source"].partition(".")[2] for one in found["tables"] if not one["identical"]} == {"item"}
    made.cli("verify", "--repair", seconds=240)
    made.sync(run)
    made.cli("verify", seconds=240)
    made.assert_identical()
    run.stop()


def _writes(made: Scenario) -> Callable[[], Any]:
    number = iter(range(1_000_000, 2_000_000))

    def write() -> None:
        with closing(made.source.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
            n = next(number)
            cursor.execute(f"INSERT INTO item (id, parent, price, note) VALUES ({n}, 1, 1.00, 'n {n}')")
            cursor.execute(f"UPDATE item SET price = price + 1 WHERE id = {1 + n % 40}")
            cursor.execute(f"DELETE FROM item WHERE id = {n - 5}")
            connection.commit()

    return write


def _damage(target: Database) -> None:
    target.execute(
        "SET foreign_key_checks = 0",
        "UPDATE item SET note = 'wrong' WHERE id BETWEEN 10 AND 20",
        "DELETE FROM item WHERE id BETWEEN 30 AND 35",
        "INSERT INTO item (id, parent, note) VALUES (5000000, 1, 'surplus')",
    )


@pytest.mark.quick
@pytest.mark.timeout(900)
def test_one_trail_fills_a_postgresql_and_a_mysql(
    mariadb: Server, mysql: Server, scenario: Callable[..., Scenario]
) -> None:
    made = scenario(mariadb, *MYSQL, name=unique_name("job"))
    there = create_database(mysql, "there")
    try:
        rules = f'[[rules]]\ninclude = ["{made.schema}.*"]\ntarget = "{there.name}.{{table}}"\n'
        made.write_job(f'[[targets]]\nname = "elder"\nurl = "{mysql.url()}"\n', rules=rules)
        made.run_until_caught_up()
        made.source.execute(*CHANGES, "TRUNCATE TABLE noise", "INSERT INTO noise VALUES (3, 'after')")
        made.run_until_caught_up()
        made.cli("verify", seconds=240)
        for table in ("parent", "item", "noise"):
            count = f"SELECT COUNT(*) FROM {there.name}.{table}"
            wanted = made.source.query(f"SELECT COUNT(*) FROM {table}")
            assert there.query(count) == made.target.query(count) == wanted
        script = made.cli("schema", "print", "--target", "elder").stdout
        assert "ENGINE" in script.upper()
        made.cli("drop", "--execute", code=None)
    finally:
        drop_database(there)
