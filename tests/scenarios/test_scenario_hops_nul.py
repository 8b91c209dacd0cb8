"""A zero character in text goes through the load of a trail: a MySQL keeps it, a PostgreSQL refuses it with the row's key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.hops import hops
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import job_at_mysql

SCHEMA = "CREATE TABLE note (id int PRIMARY KEY, word varchar(40))"
ROWS = "INSERT INTO note VALUES (1, 'a'), (7, 'b\\0c')"


@pytest.mark.quick
def test_a_zero_character_is_refused_where_a_trail_is_applied_to_a_postgresql(
    mariadb: Server, scenario: Callable[..., Scenario]
) -> None:
    made = scenario(mariadb, SCHEMA, ROWS)
    way = hops(made)
    way.here.run_until_caught_up()
    refused = way.there.cli("run", "--until-caught-up", code=5).stderr
    assert "column word of the row with id=7 holds a zero character in text" in refused
    assert f"at the source's site: anabranch load JOB --table {made.schema}.note" in refused
    assert not made.target.query(f"SELECT 1 FROM {made.there}.note")
    made.source.execute("UPDATE note SET word = 'bc' WHERE id = 7")
    way.here.cli("load", "--table", f"{made.schema}.note")
    way.until_caught_up()
    made.assert_identical("note")


@pytest.mark.quick
def test_a_zero_character_comes_through_a_trail_to_a_mysql(
    mariadb: Server, mysql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = source_database(mariadb)
    database.execute(SCHEMA, ROWS)
    with job_at_mysql(database, mysql, tmp_path / "job", is_quick=True) as made:
        way = hops(made)
        way.until_caught_up()
        made.source.execute("INSERT INTO note VALUES (8, 'd\\0')")
        way.until_caught_up()
        query = f"SELECT id, HEX(word) FROM `{made.there}`.note ORDER BY id"
        assert made.target.query(query) == [(1, "61"), (7, "620063"), (8, "6400")]
        run, applied = way.start()
        way.there.wait_streaming(applied)
        assert way.there.cli("verify").code == 0
        assert run.stop().code == applied.stop().code == 0
