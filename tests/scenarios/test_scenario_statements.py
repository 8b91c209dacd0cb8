"""What capture makes of statements in the log: each row by the definition of its place, each table parked that cannot be
followed (K19, K33). Without Spark; what apply makes of them is in test_scenario_parking.py."""

from __future__ import annotations

from collections.abc import Callable

from anabranch.testing.servers import Server
from anabranch.trail.show import ShownRow
from rigs.scenario import Scenario

Make = Callable[..., Scenario]
ITEM = "CREATE TABLE item (id INT PRIMARY KEY, n INT)"


def test_pitfall_21_rows_are_read_by_the_definition_of_their_place(mysql_family: Server, scenario: Make) -> None:
    """Capture was down meanwhile: what came before the statement is decoded as it was then, what came after is left."""
    made = scenario(mysql_family, ITEM)
    made.capture().stop()
    made.source.execute(
        "INSERT INTO item VALUES (1, 10)",
        "ALTER TABLE item DROP COLUMN n, ADD COLUMN words VARCHAR(20) FIRST",
        "INSERT INTO item VALUES ('new', 2)",
    )
    capture = made.capture()
    made.captured(capture)
    before, parked = made.trail_rows("item")
    assert before.values == {"id": "1", "n": "10"}
    assert parked.operation == "park" and parked.note.startswith("ALTER TABLE item DROP COLUMN n")
    capture.stop()


def test_pitfall_22_and_30_what_changes_rows_or_names_unseen_parks(mysql_family: Server, scenario: Make) -> None:
    """Partitions that go, tables that change places as gh-ost does it, a table that is dropped and made again."""
    made = scenario(
        mysql_family,
        "CREATE TABLE parted (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION low VALUES LESS THAN (10),"
        " PARTITION high VALUES LESS THAN MAXVALUE)",
        "CREATE TABLE swapped (id INT PRIMARY KEY)",
        "CREATE TABLE again (id INT PRIMARY KEY)",
        "CREATE TABLE other (id INT PRIMARY KEY)",
    )
    capture = made.capture()
    made.source.execute(
        "INSERT INTO parted VALUES (1), (100)",
        "ALTER TABLE parted TRUNCATE PARTITION low",
        "CREATE TABLE _swapped_gho LIKE swapped",
        "INSERT INTO _swapped_gho VALUES (1)",
        "RENAME TABLE swapped TO _swapped_del, _swapped_gho TO swapped",
        "INSERT INTO swapped VALUES (2)",
        "DROP TABLE again",
        "CREATE TABLE again (id INT PRIMARY KEY)",
        "INSERT INTO again VALUES (3)",
        "INSERT INTO other VALUES (4)",
    )
    made.captured(capture)
    assert operations(made.trail_rows("parted")) == ["insert", "insert", "park"]
    assert operations(made.trail_rows("swapped")) == operations(made.trail_rows("again")) == ["park"]
    assert "_swapped_gho" in made.trail_rows("swapped")[0].note  # at the latest by the RENAME
    parks = set(operations(made.trail_rows("_swapped_gho")))  # once more, where it was noticed that it is gone
    assert parks == {"park"}, "created after start, its rows are left out"
    assert operations(made.trail_rows("other")) == ["insert"]
    capture.stop()


def test_rule_33_a_memory_table_that_a_restart_emptied_is_a_truncate(own_source: Server, scenario: Make) -> None:
    made = scenario(own_source, "CREATE TABLE fleeting (id INT PRIMARY KEY) ENGINE=MEMORY")
    capture = made.capture()
    made.source.execute("INSERT INTO fleeting VALUES (1), (2)")
    made.captured(capture)
    own_source.stop(immediate=True)
    own_source.start()
    made.source.execute("INSERT INTO fleeting VALUES (3)")
    made.captured(capture)
    assert operations(made.trail_rows("fleeting")) == ["insert", "insert", "truncate", "insert"]
    capture.stop()


def operations(rows: list[ShownRow]) -> list[str]:
    return [row.operation for row in rows]
