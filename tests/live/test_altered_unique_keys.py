"""Unique keys that a MySQL or MariaDB makes, drops and renames come to the target where the job file says so, with rows behind
them that need them, or that they would refuse."""

from __future__ import annotations

import pytest

from anabranch import failpoints
from anabranch.model.ddl_changes import DdlRule, Outcome
from rigs.job_here import JobHere
from rigs.streams import Streams

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), n INT, m INT, UNIQUE KEY by_m (m), KEY by_v (v))",
    "INSERT INTO item (id, v, n, m) VALUES (1, 'one', 1, 1), (2, 'two', 2, 2)",
    "CREATE TABLE whole (id INT PRIMARY KEY)",
    "INSERT INTO whole VALUES (1)",
    "CREATE TABLE part (id INT PRIMARY KEY, n INT, UNIQUE KEY by_n (n), FOREIGN KEY (n) REFERENCES whole (id))",
    "INSERT INTO part VALUES (1, 1)",
)
PAIRS = [
    ("mariadb", "postgresql"),
    ("mysql", "mariadb"),
    *(pytest.param(pair, marks=pytest.mark.long) for pair in (("mysql", "postgresql"), ("mariadb", "mysql"))),
]
APPLY = '[ddl]\nunique_keys = "apply"\nindexes = "apply"\nrename_table = "apply"\n'
# The source's names of unique keys of the target's table beside the primary one.
KEYS = {
    "postgresql": """
        SELECT substr(i.relname, length(%s) + 2) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
          JOIN pg_class t ON t.oid = x.indrelid JOIN pg_namespace s ON s.oid = t.relnamespace
         WHERE t.relname = %s AND s.nspname = %s AND x.indisunique AND NOT x.indisprimary AND x.indisvalid""",
    "mysql": """
        SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS
         WHERE %s = TABLE_NAME AND TABLE_NAME = %s AND TABLE_SCHEMA = %s AND INDEX_NAME <> 'PRIMARY' AND NON_UNIQUE = 0""",
}


@pytest.fixture(params=PAIRS, ids=" to ".join)
def here(request: pytest.FixtureRequest, streams: Streams) -> JobHere:
    """A job that streams a table, with the keys that it has."""
    return streams(request.param, TABLES, APPLY, is_built=True)


def _keys(here: JobHere, table: str = "item") -> set[str]:
    target = here.made.target
    kind = "postgresql" if target.server.name == "postgresql" else "mysql"
    return {str(name) for (name,) in target.query(KEYS[kind], [table, table, here.made.there])}


def _builds(here: JobHere, table: str = "item") -> None:
    here.capture()
    here.apply(is_built=True)
    assert here.made.states()[table] == "streaming", here.made.reason(table)
    here.made.assert_identical(table)


def test_unique_keys_come_and_go_with_those_of_the_source(here: JobHere) -> None:
    """Rows exchange their values under a key that has come, and have the same value where one has gone, all in one backlog."""
    assert _keys(here) == {"by_m"}
    here.made.source.execute(
        "CREATE UNIQUE INDEX by_n ON item (n)",
        "UPDATE item SET n = 9 WHERE id = 1",
        "UPDATE item SET n = 1 WHERE id = 2",
        "UPDATE item SET n = 2 WHERE id = 1",
        "ALTER TABLE item DROP KEY by_m",
        "UPDATE item SET m = 7",  # the key would refuse it
        "ALTER TABLE item ADD CONSTRAINT gone UNIQUE (v), ADD UNIQUE KEY both_of (v, n)",
        "ALTER TABLE item DROP INDEX gone, ADD KEY by_m (m)",
        "INSERT INTO item (id, v, n) VALUES (3, 'two', 3), (4, 'two', 4)",
    )
    _builds(here)
    assert _keys(here) == {"by_n", "both_of"}
    noted = here.job.ddl_changes(f"{here.made.schema}.item")
    assert {one.outcome for one in noted} == {Outcome.ALTERED} and noted[0].rule == DdlRule(
        "[ddl] unique_keys", "apply"
    )
    assert noted[-1].rule == DdlRule("[ddl] indexes, unique_keys", "apply")
    here.made.source.execute("UPDATE item SET n = n + 1 ORDER BY n DESC", "UPDATE item SET n = n - 1 ORDER BY n")
    _builds(here)


@pytest.mark.one_case("mysql to mariadb")
def test_rule_17_a_kill_on_the_way_of_a_unique_key_is_made_good(here: JobHere) -> None:
    """Between the statement and its record, and between the build and what is noted of it. Rows behind it have equal values."""
    places = ("apply.altering", "apply.altered.apart", "apply.altered", "apply.committed", "apply.built")
    for number, place in enumerate(places):
        here.made.source.execute(
            f"ALTER TABLE item DROP INDEX {f'u{number - 1}' if number else 'by_m'}, ADD UNIQUE u{number} (n)",
            f"UPDATE item SET m = {number}",
            f"UPDATE item SET n = {number * 10} + id",
        )
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.capture()
            here.apply(is_built=True)
        except failpoints.FailpointReached:
            pass
        finally:
            failpoints.arm({})
        _builds(here)
        assert _keys(here) == {f"u{number}"}, place


def test_a_key_that_rows_of_the_target_break_is_not_built_and_parks_nothing(here: JobHere) -> None:
    made = here.made
    made.target.execute(f"INSERT INTO {made.there}.item (id, v, n, m) VALUES (50, 'x', 5, 50), (51, 'x', 5, 51)")
    made.source.execute("ALTER TABLE item ADD UNIQUE by_n (n)", "INSERT INTO item (id, n) VALUES (9, 9)")
    here.capture()
    here.apply(is_built=True)
    assert made.states()["item"] == "streaming" and _keys(here) == {"by_m"}
    tables = here.job.status()["targets"][0]["tables"]
    said = next(table["not_built"] for table in tables if table["source"].endswith(".item"))
    assert "by_n" in "".join(said)
    made.target.execute(f"DELETE FROM {made.there}.item WHERE id >= 50")
    made.assert_identical("item")


@pytest.mark.one_case("mysql to mariadb")
def test_keys_are_left_alone_as_the_file_has_it_and_the_notes_say_so(here: JobHere) -> None:
    made = here.made
    made.write_job('[ddl]\nindexes = "apply"\nadd_column = "apply"\n')
    made.source.execute(
        "ALTER TABLE item ADD COLUMN c INT, ADD UNIQUE by_c (c)", "INSERT INTO item (id, c) VALUES (9, 9)"
    )
    made.source.execute("ALTER TABLE item ADD KEY by_n (n), DROP KEY by_m", "INSERT INTO item (id, m) VALUES (10, 10)")
    _builds(here)
    assert _keys(here) == {"by_m"}
    noted = here.job.ddl_changes(f"{made.schema}.item")
    assert noted[0].why == 'unique_keys = "ignore": add index by_c'
    assert noted[1].why == 'built while rows go on: by_n; unique_keys = "ignore": drop index by_m'


@pytest.mark.one_case("mariadb to postgresql")
def test_an_index_is_found_by_the_name_of_the_table_that_was_renamed(here: JobHere) -> None:
    here.made.source.execute("RENAME TABLE item TO thing", "UPDATE thing SET m = 5 WHERE id = 1")
    _builds(here, "thing")
    assert _keys(here, "thing") == {"by_m"}
    here.made.source.execute("ALTER TABLE thing DROP INDEX by_m, ADD UNIQUE by_n (n)", "UPDATE thing SET m = 6")
    _builds(here, "thing")
    assert _keys(here, "thing") == {"by_n"}


def test_a_plan_shows_what_becomes_of_a_unique_key(here: JobHere) -> None:
    found = here.job.plan_ddl("CREATE UNIQUE INDEX by_n ON item (n)")
    assert found.outcome is Outcome.ALTERED and found.altering and "UNIQUE" in found.altering.statements[0]
    dropped = here.job.plan_ddl("ALTER TABLE item DROP INDEX by_m")
    assert dropped.altering and "by_m" in dropped.altering.statements[0]
    here.made.write_job("")
    assert here.job.plan_ddl("DROP INDEX by_m ON item").outcome is Outcome.IGNORED


@pytest.mark.one_case("mysql to mariadb")
def test_a_key_that_a_foreign_key_needs_is_gone_before_the_rows_that_it_would_refuse(here: JobHere) -> None:
    here.made.source.execute(
        "ALTER TABLE part DROP INDEX by_n, ADD INDEX of_whole (n)", "INSERT INTO part VALUES (2, 1), (3, 1)"
    )
    _builds(here, "part")
    assert _keys(here, "part") == set()
