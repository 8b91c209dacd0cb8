"""Parked tables that foreign keys connect: every command that is printed for them works as it stands, and brings them back.

The source's log does not show what its foreign keys do, so that a child cannot be loaded while its parent is away.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.scenario import PARKS_ADDED, Result, Scenario
from rigs.scenario_mysql_target import job_at_mysql

TABLES = (
    "CREATE TABLE parent (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE leaf (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE SET NULL)",
    "CREATE TABLE alone (id INT PRIMARY KEY, v INT)",
    "INSERT INTO parent VALUES (1, 1), (2, 2), (3, 3)",
    "INSERT INTO child VALUES (10, 1), (20, 2), (30, 3)",
    "INSERT INTO leaf VALUES (100, 1), (200, 2), (300, 3)",
)
COMMAND = re.compile(r"anabranch load JOB(?: --[a-z-]+(?: [^\s;-]\S*)?)+")


@pytest.fixture(params=["postgresql", "mysql"], ids="to a {}".format)
def made(
    request: pytest.FixtureRequest, mariadb: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[Scenario]:
    if request.param == "postgresql":
        yield request.getfixturevalue("scenario")(mariadb, *TABLES)
        return
    source = source_database(mariadb)
    source.execute(*TABLES)
    is_quick = not request.config.getoption("--spark")
    with job_at_mysql(source, request.getfixturevalue("mysql"), tmp_path / "job", is_quick=is_quick) as made:
        yield made


@pytest.mark.quick
def test_printed_commands_bring_linked_tables_back(made: Scenario) -> None:
    made.write_job(PARKS_ADDED)
    run = made.start("run")
    made.wait_streaming(run)
    a_refused_load_of_a_child_names_the_command(made)
    the_list_names_what_brings_each_back(made)
    a_parent_that_streams_goes_with_its_children(made)
    run.stop()
    what_plan_prints_brings_an_edited_job_in(made)


def a_refused_load_of_a_child_names_the_command(made: Scenario) -> None:
    altered(made, "parent", "a")
    refused = made.cli("load", "--table", f"{made.schema}.child", code=2)
    assert "would drop" in refused.stderr and "parents first" in refused.stderr
    assert set(parked(made)) == {"parent", "child", "leaf"}
    printed(made, only_command(refused.stderr))
    assert set(parked(made)) == {"leaf"}
    printed(made, only_command(made.reason("leaf")))  # as it stood when its parent was away
    streams(made)


def the_list_names_what_brings_each_back(made: Scenario) -> None:
    altered(made, "child", "b")
    found = parked(made)
    assert [word for word in shlex.split(found["child"]) if "." in word] == [
        f"{made.schema}.{table}" for table in ("parent", "child")
    ]
    assert "--recreate" in found["child"] and found["child"] in made.cli("parked", "ls").stdout
    printed(made, found["child"])
    printed(made, parked(made)["leaf"])
    streams(made)


def a_parent_that_streams_goes_with_its_children(made: Scenario) -> None:
    refused = made.cli("load", "--table", f"{made.schema}.parent", code=2)
    assert "--with-children" in refused.stderr
    printed(made, only_command(refused.stderr))
    streams(made)


def what_plan_prints_brings_an_edited_job_in(made: Scenario) -> None:
    made.write_job(f'{PARKS_ADDED}[[tables]]\nname = "{made.schema}.child"\ncolumns = {{ drop = ["b"] }}\n')
    shown = made.cli("plan", "--execute").stdout
    run = made.start("run")
    found = COMMAND.findall(shown)
    assert len(found) == 1, shown
    assert found[0] in made.reason("leaf")
    printed(made, found[0])
    made.wait_streaming(run)
    made.sync(run)
    assert set(made.states().values()) == {"streaming"}
    made.assert_identical(*(name for name in made.source_tables() if name != "child"))
    run.stop()


def altered(made: Scenario, table: str, column: str) -> None:
    made.source.execute(
        f"ALTER TABLE {table} ADD {column} INT",
        f"UPDATE {table} SET {column} = 7",
        "DELETE FROM parent WHERE id = (SELECT min(id) FROM (SELECT id FROM parent) AS p)",
    )
    made.sync()
    assert set(parked(made)) == {"parent", "child", "leaf"}


def parked(made: Scenario) -> dict[str, str]:
    """Return the parked tables, each with the command that brings it back."""
    found = made.cli("parked", "ls", "--json").json["parked"]
    return {one["source"].rpartition(".")[2]: one["back_by"] for one in found}


def only_command(text: str) -> str:
    """Return the one command of a text that is not in a line of the log."""
    found = dict.fromkeys(COMMAND.findall("\n".join(line for line in text.splitlines() if not line.startswith("{"))))
    assert len(found) == 1, text
    return next(iter(found))


def printed(made: Scenario, command: str, code: int = 0) -> Result:
    """Carry out a command as it was printed, with the job's file in place of JOB."""
    verb, job, *words = shlex.split(command)[1:]
    assert job == "JOB"
    return made.cli(verb, *words, code=code, seconds=240)


def streams(made: Scenario) -> None:
    made.wait_streaming()
    made.sync()
    assert set(made.states().values()) == {"streaming"}
    made.assert_identical()
