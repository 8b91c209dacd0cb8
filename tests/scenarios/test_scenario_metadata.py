"""A table that has its columns in another order than the trail thinks, in a log that does not name columns: it parks,
whether the log says that it was altered or not. Capture alone shows it, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from anabranch.testing.databases import connect
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from rigs.scenario import Scenario

Make = Callable[..., Scenario]
LEFT_RIGHT = "CREATE TABLE {0} (id INT PRIMARY KEY, lft VARCHAR(9), rgt VARCHAR(9))"
RIGHT_LEFT = "CREATE TABLE {0} (id INT PRIMARY KEY, rgt VARCHAR(9), lft VARCHAR(9))"
INSERT = "INSERT INTO {0} (id, lft, rgt) VALUES ({1}, 'L', 'R')"
TABLES = ("quiet", "told", "signs", "same")


@contextmanager
def little_metadata(server: Server) -> Iterator[None]:
    """No names, no signs, where the server would log them."""
    if not knows(server, "row metadata"):
        yield
        return
    with closing(connect(server)) as connection, closing(connection.cursor()) as cursor:
        least = "NO_LOG" if server.name == "mariadb" else "MINIMAL"
        cursor.execute(f"SET GLOBAL binlog_row_metadata = '{least}'")
        try:
            yield
        finally:
            cursor.execute("SET GLOBAL binlog_row_metadata = 'FULL'")


OTHERS = [pytest.param(name, marks=pytest.mark.servers) for name in ("mariadb", "mysql55", "mysql56", "mysql9")]


@pytest.mark.parametrize("name", ["mysql", *OTHERS])
def test_rule_19_columns_in_another_order_park(name: str, request: pytest.FixtureRequest, scenario: Make) -> None:
    server: Server = request.getfixturevalue(name)
    with little_metadata(server):
        made = scenario(server, *(LEFT_RIGHT.format(table) for table in TABLES))
        made.capture().stop()
        made.source.execute(*(INSERT.format(table, 1) for table in TABLES))
        behind_the_logs_back(made)
        made.source.execute("DROP TABLE told", RIGHT_LEFT.format("told"))
        made.source.execute(*(INSERT.format(table, 2) for table in ("quiet", "told", "same")))
        made.source.execute("INSERT INTO signs VALUES (4000000000, 'L', 'R')")
        capture = made.capture()
        made.captured(capture)
        capture.stop()
    told = {table: [row.values for row in made.trail_rows(table) if row.operation == "insert"] for table in TABLES}
    parked = {table.name: why for table, why in made.parked().items()}
    assert set(parked) == {"quiet", "told", "signs"}
    assert "no statement of the log says so" in parked["quiet"] and "no statement" in parked["signs"]
    assert "drop at the source" in parked["told"]
    for table in TABLES:
        assert all(row["lft"] == "L" and row["rgt"] == "R" for row in told[table]), told[table]
    assert [len(told[table]) for table in TABLES] == [0, 1, 0, 2]


def behind_the_logs_back(made: Scenario) -> None:
    made.source.execute(
        "SET SESSION sql_log_bin = 0",
        "DROP TABLE quiet",
        RIGHT_LEFT.format("quiet"),
        "INSERT INTO quiet VALUES (1, 'R', 'L')",
        "ALTER TABLE signs MODIFY id INT UNSIGNED",
        "ALTER TABLE same COMMENT 'as it was'",
    )
