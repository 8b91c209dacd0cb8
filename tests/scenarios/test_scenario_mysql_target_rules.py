"""A job with rules to a MySQL: columns that are left out, renamed and of another type, rows that others changed there and a
policy settles, what cannot be built, triggers. All of it as the command line says it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.scenario import wait_until
from rigs.scenario_mysql_target import AtMysql, job_at_mysql

TABLES = (
    "CREATE TABLE price (id INT PRIMARY KEY, v VARCHAR(20), at DATETIME(3))",
    "CREATE TABLE stock (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE shelf (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE person (id INT PRIMARY KEY, name VARCHAR(40), secret VARCHAR(40), paid DECIMAL(10,2), born DATE)",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, CONSTRAINT of_parent FOREIGN KEY (p) REFERENCES parent (id))",
    "CREATE TABLE essay (id INT PRIMARY KEY, body TEXT, UNIQUE KEY whole (body))",  # MariaDB has a hash of it
    "INSERT INTO price VALUES (1, 'a', '2026-01-01'), (2, 'b', '2026-01-01'), (3, 'c', '2026-01-01')",
    "INSERT INTO stock VALUES (1, 10), (2, 20)",
    "INSERT INTO shelf VALUES (1, 10), (2, 20)",
    "INSERT INTO person VALUES (1, 'Ann', 'x', 1.50, '2000-02-29'), (2, 'Bob', 'y', NULL, NULL)",
    "INSERT INTO parent VALUES (1)",
    "SET foreign_key_checks = 0",
    "INSERT INTO child VALUES (1, 1), (2, 99)",
    "SET foreign_key_checks = 1",
    "INSERT INTO essay VALUES (1, 'one')",
)
RULES = """
[[tables]]
name = "{0}.price"
on_conflict = "newest"
newest_by = "at"
[[tables]]
name = "{0}.stock"
on_conflict = "source_wins"
[[tables]]
name = "{0}.shelf"
on_conflict = "target_wins"
[[tables]]
name = "{0}.person"
columns = {{ drop = ["secret"], rename = {{ name = "called" }}, type = {{ paid = "varchar(30)" }} }}
[types.map]
"date" = "datetime"
"""
FIRES = '[apply]\ntriggers = "fire"\n'
AUDIT = "INSERT INTO audit VALUES ('{}', NEW.id)"


@pytest.fixture
def made(
    request: pytest.FixtureRequest,
    mariadb: Server,
    mysql: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> Iterator[AtMysql]:
    source = source_database(mariadb)
    source.execute(*TABLES)
    is_quick = not request.config.getoption("--spark")
    with job_at_mysql(source, mysql, tmp_path / "job", is_quick=is_quick) as made:
        yield made


@pytest.mark.quick
@pytest.mark.timeout(1200)
def test_a_job_with_rules_and_policies_to_a_mysql(made: AtMysql) -> None:
    write(made)
    made.run_until_caught_up()
    columns_are_as_the_job_says(made)
    status_says_what_stands_unproved_and_what_is_not_built(made)
    triggers_are_refused_by_name(made)
    write(made, FIRES)
    others_write_there(made)
    run = made.start("run")
    made.sync(run)
    found = wait_until(lambda: (s := made.status())["phase"] == "streaming" and s, 240, "it streams", run.tail, run)
    assert found["detail"] == "triggers of the target act on what is applied"  # its foreign keys are off
    run.stop()
    policies_have_settled_it(made)
    a_trigger_fires_unless_it_leaves_us_alone(made)


def write(made: AtMysql, text: str = "") -> None:
    made.write_job(RULES.format(made.schema) + text)


def columns_are_as_the_job_says(made: AtMysql) -> None:
    query = (
        "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    )
    found = dict(made.target.query(query, [made.there, "person"]))
    assert found == {"id": found["id"], "called": "varchar(40)", "paid": "varchar(30)", "born": "datetime"}
    rows = made.target.query("SELECT id, called, paid, CAST(born AS CHAR) FROM person ORDER BY id")
    assert rows == [(1, "Ann", "1.50", "2000-02-29 00:00:00"), (2, "Bob", None, None)]


def status_says_what_stands_unproved_and_what_is_not_built(made: AtMysql) -> None:
    shown = made.cli("status").stdout
    key = f"foreign key of_parent of {made.there}.child stands unvalidated: 1 row without a parent, as at the source"
    assert key in shown
    index = f"index whole of {made.schema}.essay is not built: "
    assert index in shown, shown
    assert "postgres" not in shown.lower()


def triggers_are_refused_by_name(made: AtMysql) -> None:
    made.target.execute(
        "CREATE TABLE audit (what VARCHAR(10), id INT)",
        f"CREATE TRIGGER fired AFTER INSERT ON stock FOR EACH ROW {AUDIT.format('stock')}",
        "CREATE TRIGGER guarded AFTER INSERT ON shelf FOR EACH ROW BEGIN IF @anabranch_applies IS NULL THEN "
        f"{AUDIT.format('shelf')}; END IF; END",
    )
    found = [one for one in made.cli("preflight", "--json", code=3).json["checks"] if one["check"].endswith("triggers")]
    (refused,) = [one for one in found if one["verdict"] == "failed"]
    assert "fired" in refused["message"] and f"DROP TRIGGER `{made.there}`.`fired`" in refused["hint"]
    assert any("guarded" in one["message"] and one["verdict"] == "ok" for one in found)


def others_write_there(made: AtMysql) -> None:
    made.target.execute(
        "DELETE FROM price WHERE id = 1",
        "UPDATE price SET at = '2026-06-01' WHERE id = 2",
        "DELETE FROM stock WHERE id = 1",
        "INSERT INTO stock VALUES (3, 99)",
        "DELETE FROM shelf WHERE id = 1",
        "INSERT INTO shelf VALUES (3, 99)",
        "DELETE FROM audit",
    )
    made.source.execute(
        *(f"UPDATE price SET v = '{v}2', at = '2026-02-01' WHERE id = {n}" for n, v in enumerate("abc", 1)),
        *(f"UPDATE {table} SET n = 11 WHERE id = 1" for table in ("stock", "shelf")),
        *(f"INSERT INTO {table} VALUES (3, 30), (4, 40)" for table in ("stock", "shelf")),
        "UPDATE person SET name = 'Eve', secret = 'z', paid = 2.75, born = '1999-12-31' WHERE id = 1",
        "INSERT INTO person VALUES (3, 'Cy', 'w', -0.10, '2024-02-29')",
    )


def policies_have_settled_it(made: AtMysql) -> None:
    rows = made.target.query("SELECT id, v, MONTH(at) FROM price ORDER BY id")
    assert rows == [(1, "a2", 2), (2, "b", 6), (3, "c2", 2)]
    assert made.target.query("SELECT * FROM stock ORDER BY id") == [(1, 11), (2, 20), (3, 30), (4, 40)]
    assert made.target.query("SELECT * FROM shelf ORDER BY id") == [(2, 20), (3, 99), (4, 40)]
    rows = made.target.query("SELECT id, called, paid, CAST(born AS CHAR) FROM person WHERE id <> 2 ORDER BY id")
    assert rows == [(1, "Eve", "2.75", "1999-12-31 00:00:00"), (3, "Cy", "-0.10", "2024-02-29 00:00:00")]
    found = made.cli("conflicts", "ls", "--json").json["conflicts"]
    assert {told(one) for one in found} == {
        ("price", "1", "update", "missing", "source"),
        ("price", "2", "update", "newer", "target"),
        ("stock", "1", "update", "missing", "source"),
        ("stock", "3", "insert", "exists", "source"),
        ("shelf", "1", "update", "missing", "ignored"),
        ("shelf", "3", "insert", "exists", "target"),
    }
    number = next(str(one["number"]) for one in found if one["kind"] == "newer")
    shown = made.cli("conflicts", "show", number).stdout
    assert "the target's row is newer: it was kept" in shown and "2026-06-01" in shown and "b2" in shown


def told(one: dict[str, Any]) -> tuple[str, ...]:
    return (one["source"].partition(".")[2], one["key"]["id"], one["operation"], one["kind"], one["decision"])


def a_trigger_fires_unless_it_leaves_us_alone(made: AtMysql) -> None:
    found = made.target.query("SELECT what, id FROM audit ORDER BY id, what")
    assert ("stock", 4) in found and {what for what, _ in found} == {"stock"}, found
