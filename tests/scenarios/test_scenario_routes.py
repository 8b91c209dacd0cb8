"""Choices of the job file, each through load and stream: filters, columns, one target transaction per source transaction,
executors that stage, partial row images, TRUNCATE as DELETE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, TABLES, Writer, fill
from rigs.scenario import HALVES, Running, Scenario, pitfall_14_no_half_transaction_is_seen, wait_until

Make = Callable[..., Scenario]
PERSON = (
    "CREATE TABLE person (id INT PRIMARY KEY, land VARCHAR(2) NOT NULL, age INT NULL, name VARCHAR(40), secret TEXT)",
    "INSERT INTO person VALUES (1,'DE',30,'Ute','s'),(2,'de',31,'Uwe','s'),(3,'AT',NULL,'Eva','s'),(4,'DE',17,'Jo','s'),"
    "(5,'DE',NULL,'Nil','s')",
    "CREATE TABLE plain (id INT PRIMARY KEY, n INT)",
    'CREATE TABLE `Order."ß` (`Sélect` INT PRIMARY KEY, `a "b"` INT, `%s{0}` TEXT)',
    "INSERT INTO `Order.\"ß` VALUES (1, 1, 'loaded'), (2, 2, 'loaded')",
)
FILTER = "land = 'DE' AND age >= 18"
CHOICES = """
[apply]
mode = "transaction"
[[tables]]
name = "{0}.person"
where = "{1}"
columns.drop = ["secret"]
columns.rename = {{ name = "full_name", age = "years" }}
"""


@pytest.mark.long
def test_filters_columns_and_one_transaction_each(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *PERSON)
    made.write_job(CHOICES.format(made.source.name, FILTER))
    run = made.start("run")
    made.wait_streaming(run)
    assert people(made) == expected(made) == [(1, "DE", 30, "Ute")]
    rule_27_rows_move_in_and_out_of_the_filter(made, run)
    every_transaction_has_one_of_its_own(made, run)
    pitfall_39_odd_names_are_names(made, run)
    columns = "SELECT column_name FROM information_schema.columns WHERE table_name = 'person' ORDER BY ordinal_position"
    assert made.target.query(columns) == [("id",), ("land",), ("years",), ("full_name",)]
    assert run.stop().code == 0
    rule_32_a_changed_filter_is_refused(made)
    rule_27_a_filter_needs_full_images(made)


def rule_27_rows_move_in_and_out_of_the_filter(made: Scenario, run: Running) -> None:
    made.source.execute(
        "UPDATE person SET age = 18 WHERE id = 4",
        "UPDATE person SET land = 'DE', age = 40 WHERE id = 3",
        "UPDATE person SET land = 'CH' WHERE id = 1",
        "UPDATE person SET age = 50 WHERE id = 5",
        "UPDATE person SET age = NULL WHERE id = 5",
        "UPDATE person SET id = 40 WHERE id = 4",
        "UPDATE person SET secret = 'changed'",
        "INSERT INTO person VALUES (6,'DE',60,'In','s'),(7,'FR',60,'Out','s')",
        "DELETE FROM person WHERE id IN (7, 2)",
    )
    made.sync(run)
    assert people(made) == expected(made) == [(3, "DE", 40, "Eva"), (6, "DE", 60, "In"), (40, "DE", 18, "Jo")]


def every_transaction_has_one_of_its_own(made: Scenario, run: Running) -> None:
    for number in range(20):
        made.source.execute(f"INSERT INTO plain VALUES ({number}, {number})")
    made.sync(run)
    assert made.target.query("SELECT count(DISTINCT xmin::text) FROM public.plain") == [(20,)]


def pitfall_39_odd_names_are_names(made: Scenario, run: Running) -> None:
    made.source.execute(
        "UPDATE `Order.\"ß` SET `Sélect` = 3, `%s{0}` = 'moved' WHERE `Sélect` = 1",
        'DELETE FROM `Order."ß` WHERE `Sélect` = 2',
        "INSERT INTO `Order.\"ß` VALUES (4, NULL, '')",
    )
    made.sync(run)
    query = """SELECT "Sélect", "a ""b\""", "%s{0}" FROM public."Order.""ß" ORDER BY 1"""
    assert made.target.query(query) == [(3, 1, "moved"), (4, None, "")]


def rule_32_a_changed_filter_is_refused(made: Scenario) -> None:
    made.write_job(CHOICES.format(made.source.name, "land = 'DE'"))
    refused = made.cli("run", code=2)
    assert "where" in refused.stderr and "person" in refused.stderr
    made.write_job(CHOICES.format(made.source.name, FILTER))


def rule_27_a_filter_needs_full_images(made: Scenario) -> None:
    """Of a session that logs partial ones the first change that would need more stops the job, by name."""
    with made.source.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_row_image = 'MINIMAL'")
        cursor.execute("UPDATE person SET age = 99 WHERE id = 6")
    result = made.start("run").wait(120)
    assert result.code in (5, 6), result.stderr[-2000:]
    assert "person" in result.stderr and "image" in result.stderr
    assert people(made)[1] == (6, "DE", 60, "In")


def people(made: Scenario) -> list[tuple[Any, ...]]:
    return made.target.query("SELECT id, land, years, full_name FROM public.person ORDER BY id")


def expected(made: Scenario) -> list[tuple[Any, ...]]:
    """Spark's comparison minds the case, MySQL's does not."""
    where = "BINARY land = 'DE' AND age >= 18"
    return made.source.query(f"SELECT id, land, age, name FROM person WHERE {where} ORDER BY id")


@pytest.mark.long
def test_executors_stage_partial_images(mysql: Server, scenario: Make) -> None:
    """`stage_rows = 1`: every epoch goes through Spark tasks and staging tables (K10). One session logs MINIMAL images, one
    NOBLOB (K20)."""
    made = scenario(mysql, *SCHEMA, *fill(2), *HALVES)
    made.write_job('[apply]\nstage_rows = 1\ntruncate = "delete"\n')
    images = ("SET SESSION binlog_row_image = 'MINIMAL'", "SET SESSION binlog_row_image = 'NOBLOB'")
    with Writer(made.source, seed=11, rate=30, sessions=images):
        run = made.start("run")
        made.wait_streaming(run, seconds=200)
        with pitfall_14_no_half_transaction_is_seen(made):
            rule_10_staging_tables_come_and_go(made, run)
            made.sync(run, seconds=120)
    made.sync(run, seconds=120)
    made.assert_identical()
    rule_16_truncate_as_delete_waits_for_readers(made, run)
    run.stop()
    assert set(made.states()) == {*TABLES, "scenario_mark", "half", "other_half"} and set(made.states().values()) == {
        "streaming"
    }


def rule_10_staging_tables_come_and_go(made: Scenario, run: Running) -> None:
    staged = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%anabranch%stage_%' AND query LIKE 'COPY%'"
    wait_until(lambda: made.target.query(staged)[0][0], 60, "a COPY into a staging table", run.tail, run)


def rule_16_truncate_as_delete_waits_for_readers(made: Scenario, run: Running) -> None:
    """A snapshot from before still sees the rows, which a TRUNCATE would have taken from it."""
    with made.target.connect(autocommit=False) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        before = connection.execute("SELECT count(*) FROM public.tick").fetchone()
        made.source.execute("TRUNCATE TABLE tick")
        made.sync(run)
        assert made.target_rows("tick") == []
        assert before and before[0] > 0 and connection.execute("SELECT count(*) FROM public.tick").fetchone() == before
