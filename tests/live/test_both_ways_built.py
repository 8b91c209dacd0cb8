"""Keys and defaults that one job builds at a MySQL or MariaDB, while another job reads there: its tables go on, and rows that
such a key changes unseen from then on change at the other end, too (K1, K21)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.model.ddl_changes import Outcome
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database
from rigs.both_ways import End, Way, built, pair, settle

TABLES = (
    "CREATE TABLE root (id int PRIMARY KEY, v varchar(20) DEFAULT 'none')",
    "CREATE TABLE branch (id int PRIMARY KEY, up int, again int, at timestamp DEFAULT CURRENT_TIMESTAMP,"
    " w varchar(40) DEFAULT (concat('made', 'here')),"
    " CONSTRAINT goes_along FOREIGN KEY (up) REFERENCES root (id) ON DELETE CASCADE ON UPDATE CASCADE,"
    " CONSTRAINT is_cleared FOREIGN KEY (again) REFERENCES root (id) ON DELETE SET NULL)",
    "CREATE INDEX by_v ON root (v)",
    "CREATE TABLE leaf (id int PRIMARY KEY, of_ int NOT NULL,"
    " CONSTRAINT of_branch FOREIGN KEY (of_) REFERENCES branch (id) ON DELETE CASCADE)",
    "INSERT INTO root (id) VALUES (1), (2), (3), (4), (5)",
    "INSERT INTO branch (id, up, again) VALUES (10, 1, 2), (20, 2, 1), (30, 3, 3), (40, 4, 5)",
    "INSERT INTO leaf VALUES (100, 10), (200, 20), (300, 30)",
)
ENDS = {
    "postgresql and mysql": ("logical_postgresql", "mysql"),
    "postgresql and mariadb": ("logical_postgresql", "mariadb"),
    "mysql and mariadb": ("mysql", "mariadb"),
    "mariadb and mysql": ("mariadb", "mysql"),
}
ALL = ("root", "branch", "leaf")


@pytest.fixture
def ends(request: pytest.FixtureRequest) -> Iterator[Callable[..., list[End]]]:
    """A database with the tables on the first server, and an empty one on the second."""
    made: list[Database] = []

    def make(*fixtures: str) -> list[End]:
        made.extend(create_database(request.getfixturevalue(fixture), "built") for fixture in fixtures)
        made[0].execute(*TABLES)
        return [End(database) for database in made]

    yield make
    for database in made:
        drop_database(database)


@pytest.fixture
def ways(ends: Callable[..., list[End]], request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Way, Way]]:
    """A job that has loaded its tables and built nothing yet, and its way back, which begins here."""
    here, there = ends(*request.param)
    out, back = pair(here, there, tmp_path)
    back.write('[load]\nexisting = "take_over"\n[ddl]\naction = "park"\n')
    out.here.load()
    back.job.arm()
    yield out, back
    out.drop()
    back.drop()


def _states(way: Way) -> dict[str, str]:
    return {one["source"].split(".")[-1]: one["state"] for one in way.job.status()["targets"][0]["tables"]}


def _keys(end: End) -> set[str]:
    query = "SELECT constraint_name FROM information_schema.referential_constraints WHERE constraint_schema = %s"
    return {str(name) for (name,) in end.database.query(query, [end.schema])}


def _are_equal(out: Way) -> None:
    for table in ALL:
        query = (
            f"SELECT * FROM {table} ORDER BY 1"
            if table != "branch"
            else "SELECT id, up, again, w FROM branch ORDER BY 1"
        )
        assert out.source.database.query(query) == out.target.database.query(query), table


@pytest.mark.parametrize("ways", ENDS.values(), ids=ENDS, indirect=True)
def test_rule_21_tables_go_on_behind_keys_that_the_other_job_builds(ways: tuple[Way, Way]) -> None:
    """Rows in front of the keys, which no key changes, and behind them, which the keys change unseen."""
    out, back = ways
    there = out.target.database
    assert _keys(out.target) == set()
    there.execute("DELETE FROM root WHERE id = 5", "INSERT INTO root (id) VALUES (6)")  # no key clears a row of branch
    there.execute("UPDATE branch SET again = NULL WHERE again = 5")
    built(out)
    assert _keys(out.target) == {"goes_along", "is_cleared", "of_branch"}
    there.execute(
        "DELETE FROM root WHERE id = 1", "UPDATE root SET id = 33 WHERE id = 4", "DELETE FROM root WHERE id = 2"
    )
    there.execute("INSERT INTO branch (id, up) VALUES (50, 33), (60, 3)", "DELETE FROM branch WHERE id = 30")
    settle(out, back)
    assert set(_states(back).values()) == {"streaming"}, _states(back)
    _are_equal(out)
    assert out.target.rows("leaf") == []
    noted = {
        one.statement.split("ADD CONSTRAINT")[-1].split()[0].strip("`"): one.outcome for one in back.job.ddl_changes()
    }
    assert noted["goes_along"] is noted["of_branch"] is Outcome.IGNORED


@pytest.mark.parametrize("ways", ENDS.values(), ids=ENDS, indirect=True)
@pytest.mark.one_case("postgresql and mariadb", "mariadb and mysql")
def test_rule_21_keys_that_a_load_takes_off_and_puts_back_park_nothing_there(ways: tuple[Way, Way]) -> None:
    """Rows that users change while the keys are away, and behind them; the load's own rows do not go back."""
    out, back = ways
    built(out)
    settle(out, back)
    out.here.load(TableId(out.source.schema, "leaf"))
    assert "of_branch" not in _keys(out.target)
    out.target.database.execute("DELETE FROM leaf WHERE id = 300", "DELETE FROM branch WHERE id = 30")
    built(out)
    assert _keys(out.target) == {"goes_along", "is_cleared", "of_branch"}
    out.target.database.execute("DELETE FROM root WHERE id = 1", "INSERT INTO root (id) VALUES (7)")
    settle(out, back)
    assert set(_states(back).values()) == {"streaming"}, _states(back)
    _are_equal(out)
    assert (10,) not in out.source.database.query("SELECT id FROM branch")


@pytest.mark.parametrize("ways", ENDS.values(), ids=ENDS, indirect=True)
@pytest.mark.one_case("postgresql and mysql")
def test_rule_21_a_key_of_somebody_else_that_acts_parks_its_tables(ways: tuple[Way, Way]) -> None:
    """Also one that says in a comment, not at its end, that it is a job's."""
    out, back = ways
    key = "ALTER TABLE branch ADD CONSTRAINT goes_along FOREIGN KEY (up) REFERENCES root (id) ON DELETE CASCADE"
    out.target.database.execute(f"/* anabranch:{out.name} */ {key}")
    settle(back)
    assert _states(back) == {"root": "streaming", "branch": "parked", "leaf": "streaming"}


@pytest.mark.parametrize("ways", ENDS.values(), ids=ENDS, indirect=True)
@pytest.mark.one_case("postgresql and mysql", "postgresql and mariadb")
def test_rule_21_a_key_that_was_not_logged_parks_its_table_without_a_statement(ways: tuple[Way, Way]) -> None:
    """Behind a start, where the log has been read to its end; no table is altered by a statement that is logged."""
    out, back = ways
    key = "ALTER TABLE branch ADD CONSTRAINT goes_along FOREIGN KEY (up) REFERENCES root (id) ON DELETE CASCADE"
    settle(back)
    assert set(_states(back).values()) == {"streaming"}
    out.target.database.execute("SET SESSION sql_log_bin = 0", key, "SET SESSION sql_log_bin = 1")
    out.target.database.execute("INSERT INTO root (id) VALUES (7)")
    settle(back)  # the log comes to where it is
    settle(back)
    assert _states(back) == {"root": "streaming", "branch": "parked", "leaf": "streaming"}
