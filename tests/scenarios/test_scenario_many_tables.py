"""Two thousand tables in one job: what is asked per table must not be asked of all tables each time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Scenario, timed

Make = Callable[..., Scenario]
TABLES = 2000


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_thousand_tables(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb)
    with made.source.connect() as connection, connection.cursor() as cursor, timed("make the tables"):
        for n in range(TABLES):
            cursor.execute(
                f"CREATE TABLE t{n:04} (id INT AUTO_INCREMENT PRIMARY KEY, v INT DEFAULT 3 CHECK (v > 0), KEY (v))"
                f" COMMENT 'no {n}'"
            )
            cursor.execute(f"INSERT INTO t{n:04} (v) VALUES ({n + 1})")
    with timed("preflight"):
        made.cli("preflight")
    with timed("schema print"):
        printed = made.cli("schema", "print").stdout
    assert printed.count("CREATE TABLE") == TABLES + 1 and printed.count("CREATE INDEX") == TABLES
    with timed("load, stream, build"):
        made.run_until_caught_up(seconds=900)
    with timed("status"):
        assert {table["state"] for table in made.status()["targets"][0]["tables"]} == {"streaming"}
    with made.source.connect() as connection, connection.cursor() as cursor, timed("change every table"):
        for n in range(TABLES):
            cursor.execute(f"UPDATE t{n:04} SET v = v + 1")
    with timed("start again, catch up"):
        made.run_until_caught_up(seconds=900)
    with timed("preflight of the job that has begun"):
        made.cli("preflight")
    values = " UNION ALL ".join(f"SELECT v FROM public.t{n:04}" for n in range(TABLES))
    assert made.target.query(f"SELECT count(*), sum(v) FROM ({values}) AS t") == [(TABLES, sum(range(2, TABLES + 2)))]
    assert made.target.query("SELECT count(*) FROM pg_indexes WHERE indexname ~ '^t[0-9]{4}_v$'") == [(TABLES,)]
