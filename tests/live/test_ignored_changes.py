"""Note at the target what a MySQL or MariaDB changes beside columns and nobody follows: the table goes on as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.model.ddl_changes import DdlRule, Outcome
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql

TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE item (id INT PRIMARY KEY, n INT, t TEXT)",
    "INSERT INTO parent VALUES (1)",
    "INSERT INTO item VALUES (1, 1, 'one'), (2, 1, 'two')",
)
STATEMENTS = (
    ("ALTER TABLE item ADD CONSTRAINT positive CHECK (n > 0), COMMENT = 'x'", "checks, comments"),
    ("ALTER TABLE item ADD CONSTRAINT of_parent FOREIGN KEY (n) REFERENCES parent (id)", "foreign_keys"),
    ("CREATE FULLTEXT INDEX words ON item (t)", "full-text and spatial indexes"),
    ("CREATE INDEX by_n ON item (n)", "indexes"),
    ("ALTER TABLE item DROP FOREIGN KEY of_parent", "foreign_keys"),
    ("ALTER TABLE item DROP INDEX words, DROP CONSTRAINT positive", "indexes, constraints"),
    ("ALTER TABLE item PARTITION BY HASH (id) PARTITIONS 2", "partitions"),
)


@pytest.mark.parametrize("pair", [("mariadb", "postgresql"), ("mysql", "mariadb")], ids=" to ".join)
def test_what_is_not_followed_is_noted_and_parks_nothing(
    pair: tuple[str, str],
    request: pytest.FixtureRequest,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> None:
    """One note for each statement, also where the process ends on the way; none of a table that is not there yet."""
    of, to = map(request.getfixturevalue, pair)
    source, target = source_database(of), create_database(to, "ignored")
    source.execute(*TABLES)
    here = JobHere(
        (Scenario if to.name == "postgresql" else MysqlToMysql)(source, target, tmp_path, name=unique_name("job"))
    )
    here.made.write_job("")
    here.load()
    here.stream()
    for number, (statement, _) in enumerate(STATEMENTS, 10):
        source.execute(statement, f"INSERT INTO item VALUES ({number}, 1, 'more')")
    here.capture()
    for place in ("apply.ddl.noted", "apply.committed"):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        try:
            here.apply()
        except failpoints.FailpointReached:
            pass
        finally:
            failpoints.arm({})
    here.stream()
    assert here.made.states()["item"] == "streaming", here.made.reason("item")
    here.made.assert_identical("item")
    noted = here.job.ddl_changes(f"{here.made.schema}.item")
    assert [one.why.rpartition(": ")[2] for one in noted] == [kinds for _, kinds in STATEMENTS]
    assert {one.outcome for one in noted} == {Outcome.IGNORED} and noted[0].rule == DdlRule(
        "[ddl] checks, comments", "ignore"
    )
    assert noted[3].rule == DdlRule("[ddl] indexes", "ignore") and noted[3].statement == STATEMENTS[3][0]
    here.job.drop(execute=True)
    drop_database(target)
