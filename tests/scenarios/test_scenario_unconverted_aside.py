"""Values of the source that no target holds: with `on_error`, their rows are set aside or their table parks, and the rest goes
on (K26)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch import failpoints
from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario, wait_until

Make = Callable[..., Scenario]
TABLES = (
    "CREATE TABLE visit (id INT PRIMARY KEY, d DATE, note VARCHAR(20), at TIMESTAMP NULL, UNIQUE KEY (note))",
    "CREATE TABLE other (id INT PRIMARY KEY, v INT)",
    "INSERT INTO visit VALUES (1, '2024-01-01', 'one', NULL), (2, '2024-01-02', 'two', NULL), (3, NULL, 'three', NULL)",
    "INSERT INTO other VALUES (1, 1)",
)
ANY_DATE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'"


def write(made: Scenario, *statements: str) -> None:
    """In a session that takes any date, one transaction each."""
    with made.source.connect() as connection, connection.cursor() as cursor:
        for statement in (ANY_DATE, *statements):
            cursor.execute(statement)
        connection.commit()


def waiting(made: Scenario) -> list[tuple[str, str, dict[str, str]]]:
    """Change, key and what could not be converted, of what is set aside."""
    query = "SELECT operation, key, unconverted FROM anabranch.set_aside WHERE discarded_at IS NULL ORDER BY number"
    return [(operation, key["id"], unconverted) for operation, key, unconverted in made.target.query(query)]


@pytest.mark.quick
@pytest.mark.timeout(600)
@pytest.mark.one_family
def test_rule_26_rows_that_cannot_be_converted_are_set_aside(mysql_family: Server, scenario: Make) -> None:
    made = scenario(mysql_family, *TABLES)
    made.write_job('[apply]\non_error = "set_aside"\n')
    run = made.start("run")
    made.wait_streaming(run)
    rule_26_the_row_waits_and_the_rest_goes_on(made, run)
    rule_26_what_cannot_be_converted_still_is_not_released(made, run)
    rule_26_a_row_that_was_corrected_comes_back(made, run)
    rule_26_a_unique_value_of_such_a_row_parks_who_takes_it(made, run)
    run.stop()


def rule_26_the_row_waits_and_the_rest_goes_on(made: Scenario, run: Running) -> None:
    write(
        made,
        "INSERT INTO visit VALUES (4, '0000-00-00', 'four', NULL), (5, '2024-05-05', 'five', NULL)",
        "UPDATE visit SET d = '2024-00-15' WHERE id = 1",
        "UPDATE other SET v = 2",
        "DELETE FROM visit WHERE id = 3",
    )
    made.sync(run)
    assert made.target.query("SELECT id, d::text, note FROM public.visit ORDER BY id") == [
        (1, "2024-01-01", "one"),
        (2, "2024-01-02", "two"),
        (5, "2024-05-05", "five"),
    ]
    made.assert_identical("other")
    assert waiting(made) == [
        ("insert", "4", {"d": "0000-00-00, which is no date"}),
        ("update", "1", {"d": "2024-00-15, which is no date"}),
    ]
    shown = made.cli("parked", "show", f"{made.schema}.visit").stdout
    assert "column d holds 2024-00-15, which is no date" in shown and "(0000-00-00, which is no date)" in shown


def rule_26_what_cannot_be_converted_still_is_not_released(made: Scenario, run: Running) -> None:
    write(made, "UPDATE visit SET note = '4' WHERE id = 4")
    made.sync(run)
    made.cli("parked", "release", f"{made.schema}.visit", "--all")
    query = "SELECT count(*) FROM anabranch.set_aside WHERE reason LIKE 'still refused: column d holds %'"
    wait_until(lambda: made.target.query(query) == [(2,)], 60, "both rows are refused again", run.tail, run)
    assert [(change, key) for change, key, _ in waiting(made)] == [("insert", "4"), ("update", "1"), ("update", "4")]


def rule_26_a_row_that_was_corrected_comes_back(made: Scenario, run: Running) -> None:
    write(made, "UPDATE visit SET d = '2024-04-04' WHERE id = 4", "DELETE FROM visit WHERE id = 1")
    made.sync(run)
    made.cli("parked", "release", f"{made.schema}.visit", "--all")
    wait_until(lambda: not waiting(made), 60, "all rows are released", run.tail, run)
    made.assert_identical("visit", "other")
    wait_until(lambda: "set_aside" not in made.facts("visit"), 60, "none is counted any more", run.tail, run)


def rule_26_a_unique_value_of_such_a_row_parks_who_takes_it(made: Scenario, run: Running) -> None:
    write(made, "INSERT INTO visit VALUES (6, '0000-00-00', 'six', NULL)")
    made.sync(run)
    write(made, "DELETE FROM visit WHERE id = 6", "INSERT INTO visit VALUES (7, NULL, 'six', NULL)")
    wait_until(lambda: made.states()["visit"] == "parked", 60, "the table is parked", run.tail, run)
    assert "is set aside" in made.reason("visit")


@pytest.mark.quick
@pytest.mark.timeout(600)
def test_rule_26_a_table_with_such_a_row_parks_alone(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *TABLES)
    made.write_job('[apply]\non_error = "park"\nmode = "transaction"\n')
    run = made.start("run")
    made.wait_streaming(run)
    others = [f"UPDATE other SET v = {number}" for number in range(2, 22)]
    write(made, *others, "UPDATE visit SET d = '0000-00-00', note = 'bad' WHERE id = 1", *others)
    wait_until(lambda: made.states()["visit"] == "parked", 60, "the table is parked", run.tail, run)
    assert "column d holds 0000-00-00, which is no date" in made.reason("visit")
    made.sync(run)
    made.assert_identical("other")
    assert made.target.query("SELECT d::text, note FROM public.visit WHERE id = 1") == [("2024-01-01", "one")]
    run.stop()


LOADED = (
    ANY_DATE,
    *TABLES,
    "INSERT INTO visit VALUES (4, '0000-00-00', 'four', NULL), (5, '2024-05-05', 'five', NULL)",
    "UPDATE visit SET d = '2024-02-00' WHERE id = 1",
)


@pytest.mark.quick
@pytest.mark.timeout(600)
@pytest.mark.one_family
def test_rule_26_the_load_sets_rows_aside_that_cannot_be_converted(mysql_family: Server, scenario: Make) -> None:
    made = scenario(mysql_family, *LOADED)
    made.write_job('[apply]\non_error = "set_aside"\n')
    run = made.start("run")
    made.wait_streaming(run)
    rule_26_the_load_lacks_those_rows_alone(made, run)
    rule_26_verify_counts_them(made)
    rule_26_what_comes_for_them_waits(made, run)
    rule_26_corrected_rows_are_released(made, run)
    rule_26_another_load_forgets_them(made, run)
    run.stop()


def rule_26_the_load_lacks_those_rows_alone(made: Scenario, run: Running) -> None:
    made.sync(run)
    assert made.target.query("SELECT id FROM public.visit ORDER BY id") == [(2,), (3,), (5,)]
    made.assert_identical("other")
    assert sorted((change, key) for change, key, _ in waiting(made)) == [("insert", "1"), ("insert", "4")]
    assert made.facts("visit")["set_aside"] == "2"
    assert "(read by the load)" in made.cli("parked", "ls").stdout


def rule_26_verify_counts_them(made: Scenario) -> None:
    for arguments in ((), ("--by-rows",)):
        verified = made.cli("verify", *arguments, code=8, seconds=240)
        assert "2 row changes set aside" in verified.stdout
        assert all(f"id={number}" in verified.stdout for number in (1, 4)), verified.stdout


def rule_26_what_comes_for_them_waits(made: Scenario, run: Running) -> None:
    write(made, "UPDATE visit SET note = '4' WHERE id = 4", "UPDATE visit SET note = '5' WHERE id = 5")
    made.sync(run)
    assert made.target.query("SELECT id, note FROM public.visit WHERE id > 3") == [(5, "5")]
    assert [(change, key) for change, key, _ in waiting(made)][2:] == [("update", "4")]


def rule_26_corrected_rows_are_released(made: Scenario, run: Running) -> None:
    write(made, "UPDATE visit SET d = '2024-04-04' WHERE id = 4")
    made.sync(run)
    made.cli("parked", "release", f"{made.schema}.visit", "--all")
    wait_until(lambda: len(waiting(made)) == 1, 60, "one row is released", run.tail, run)
    rows = "SELECT id, d::text, note FROM public.visit WHERE id IN (1, 4)"
    assert made.target.query(rows) == [(4, "2024-04-04", "4")]


def rule_26_another_load_forgets_them(made: Scenario, run: Running) -> None:
    write(made, "UPDATE visit SET d = NULL WHERE id = 1")
    made.cli("load", "--table", f"{made.schema}.visit", seconds=240)
    wait_until(lambda: made.states()["visit"] == "streaming", 240, "the table streams again", run.tail, run)
    made.sync(run)
    made.assert_identical("visit", "other")
    assert not waiting(made)


@pytest.mark.quick
@pytest.mark.timeout(600)
def test_rule_26_a_load_parks_the_table_of_a_row_that_may_not_be_set_aside(mariadb: Server, scenario: Make) -> None:
    """Without a key nobody could name the row; the others are loaded."""
    made = scenario(
        mariadb, *LOADED, "CREATE TABLE log (d DATE)", "INSERT INTO log VALUES ('0000-00-00'), ('2024-01-01')"
    )
    made.write_job('[apply]\non_error = "set_aside"\n')
    run = made.start("run")
    wait_until(lambda: made.states().get("log") == "parked", 240, "the table is parked", run.tail, run)
    assert "column d of a row without a key holds the date '0000-00-00'" in made.reason("log")
    wait_until(lambda: made.states()["visit"] == "streaming", 240, "the others stream", run.tail, run)
    made.sync(run)
    made.assert_identical("other")
    assert len(waiting(made)) == 2
    run.stop()


@pytest.mark.quick
@pytest.mark.timeout(600)
def test_rule_26_what_a_load_has_set_aside_is_known_where_another_one_ends_it(
    mysql: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scenario(mysql, *LOADED)
    made.write_job('[apply]\non_error = "set_aside"\n')
    capture = made.capture()
    monkeypatch.setenv(failpoints.VARIABLE, "load.handover=exit")  # the pieces are there, and nobody was told
    made.cli("load", code=failpoints.EXIT_CODE, seconds=240)
    monkeypatch.delenv(failpoints.VARIABLE)
    capture.stop()
    made.write_job('[apply]\non_error = "park"\n')
    run = made.start("run")
    made.wait_streaming(run)
    assert made.facts("visit")["set_aside"] == "2"
    rule_26_what_comes_for_them_waits(made, run)
    run.stop()


@pytest.mark.quick
@pytest.mark.timeout(600)
def test_rule_26_a_table_parks_for_a_key_with_a_zero_character(mysql: Server, scenario: Make) -> None:
    made = scenario(
        mysql,
        "CREATE TABLE before_load (name VARCHAR(9) PRIMARY KEY)",
        "CREATE TABLE behind_load (name VARCHAR(9) PRIMARY KEY)",
        "INSERT INTO before_load VALUES (CONCAT('a', CHAR(0)))",
    )
    made.write_job('[apply]\non_error = "set_aside"\n')
    run = made.start("run")
    made.wait_streaming(run)
    assert "a\\0" in made.reason("before_load")
    write(made, "INSERT INTO behind_load VALUES (CONCAT('a', CHAR(0)))")
    made.sync(run)
    assert made.states()["behind_load"] == "parked" or made.facts("behind_load")["set_aside"] == "1"
    run.stop()


@pytest.mark.quick
@pytest.mark.timeout(600)
def test_rule_26_27_a_filter_is_not_asked_about_what_the_load_has_read(mysql: Server, scenario: Make) -> None:
    made = scenario(mysql, *TABLES)
    made.write_job(
        f'[apply]\non_error = "set_aside"\n[[tables]]\nname = "{made.schema}.visit"\nwhere = "d IS NOT NULL"\n'
    )
    capture = made.capture()
    write(made, "UPDATE visit SET d = '0000-00-00' WHERE id = 1", "UPDATE visit SET d = '2024-04-04' WHERE id = 1")
    made.captured(capture)
    capture.stop()
    run = made.start("run")
    made.wait_streaming(run)
    made.sync(run)
    assert made.states()["visit"] == "streaming", made.reason("visit")
    assert made.target.query("SELECT id, d::text FROM public.visit ORDER BY id") == [
        (1, "2024-04-04"),
        (2, "2024-01-02"),
    ]
    run.stop()


@pytest.mark.quick
@pytest.mark.timeout(600)
def test_rule_26_a_load_parks_the_table_of_the_row_not_one_whose_target_has_its_name(
    mysql: Server, scenario: Make
) -> None:
    made = scenario(
        mysql,
        *(ANY_DATE, "CREATE TABLE a (id INT PRIMARY KEY, d DATE)", "CREATE TABLE b (id INT PRIMARY KEY)"),
        *("INSERT INTO a VALUES (1, '0000-00-00')", "INSERT INTO b VALUES (1)"),
    )
    names = {"b": f"{made.schema}.a", "a": f"{made.schema}.c", "scenario_mark": "public.scenario_mark"}
    rules = [
        f'[[rules]]\ninclude = ["{made.schema}.{table}"]\ntarget = "{target}"\n' for table, target in names.items()
    ]
    made.write_job('[apply]\non_error = "park"\n', rules="".join(rules))
    run = made.start("run")
    made.wait_streaming(run)
    assert (made.states()["a"], made.states()["b"]) == ("parked", "streaming")
    assert "column d of the row with id=1" in made.reason("a")
    run.stop()
