"""The page of definitions at a MySQL or MariaDB (docs/structures_at_mysql.json) says what `schema print` prints: each row is
made at a real source, printed for both families, and carried out there. With ANABRANCH_RECORD=1 what is printed is written
into the page's data; what it means for people stays as it is."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from anabranch.job.printing import script
from anabranch.model.steps import DdlStep
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import job_at_mysql

DATA = Path(__file__).parents[2] / "docs" / "structures_at_mysql.json"
OWN = "id int PRIMARY KEY, a int, b int NOT NULL, c varchar(20)"
SETUP = {
    "mysql": ("CREATE TABLE parent (id int PRIMARY KEY)",),
    "mariadb": ("CREATE TABLE parent (id int PRIMARY KEY)", "CREATE SEQUENCE numbers"),
    "postgresql": (
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE pair (a int, b int, PRIMARY KEY (a, b))",
        "CREATE SEQUENCE numbers",
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    ),
}
FAMILIES = ("mysql", "mariadb")
SOURCES = {"mysql": "mysql", "mariadb": "mariadb", "postgresql": "logical_postgresql"}
USUAL = r" ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=\w+ COLLATE=\w+"
_TABLE = re.compile(r"\br\d+(?![0-9])")


def shown(text: str, databases: Sequence[str]) -> str:
    """Return a statement as the page has it: without its database, its table named t, its space as in a line."""
    for database in databases:
        text = text.replace(f"`{database}`.", "").replace(f"{database}.", "")
    return _TABLE.sub("t", " ".join(text.split()))


def carried_out(steps: Sequence[DdlStep], target: Database) -> dict[str, str]:
    """Carry out what is printed, in one session. Returns what the server says to statements that it refuses."""
    refused: dict[str, str] = {}
    with closing(target.connect()) as connection, connection.cursor() as cursor:
        for step in steps:
            try:
                cursor.execute(step.sql or "DO 0")
            except pymysql.err.Error as error:
                refused[step.sql] = str(error.args[0])
    return refused


def told(steps: Sequence[DdlStep], made: str, databases: Sequence[str], refused: dict[str, str]) -> list[str]:
    """Return what is printed of a row: its column, or all of a table that is made for it, what is altered, what is left out."""
    found: list[str] = []
    for step in steps:
        if step.sql in refused:
            found.append(
                f"-- {shown(step.sql, databases).replace('ALTER TABLE `t` ', '')}: refused [{refused[step.sql]}]"
            )
        elif not step.sql:
            found.append(f"-- {shown(step.note, databases)}")
        elif step.sql.startswith("CREATE TABLE"):
            _, *lines = (line.strip().removesuffix(",") for line in step.sql.split("\n"))
            *columns, end = [shown(line, databases) for line in lines]
            own = [
                one for one in columns if one.startswith("`x`") or re.match(r"(UNIQUE |FULLTEXT )?KEY|CONSTRAINT", one)
            ]
            usual = "" if "ROW_FORMAT" in made else USUAL
            found += own if "{own}" in made else [f"({', '.join(columns)}{re.sub(usual, '', end)}"]
        else:
            found.append(shown(step.sql, databases).replace("ALTER TABLE `t` ", ""))
    return found


@pytest.mark.parametrize("source", SOURCES)
def test_the_page_of_definitions_says_what_is_printed(
    source: str, request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    data: dict[str, list[dict[str, Any]]] = json.loads(DATA.read_text())
    rows, database = data[source], source_database(request.getfixturevalue(SOURCES[source]))
    database.execute(*SETUP[source])
    for number, row in enumerate(rows):
        database.execute(*(one.replace("{own}", OWN).replace("{t}", f"r{number}") for one in row["made"]))
    found: list[dict[str, Any]] = [dict(row) for row in rows]
    for family in FAMILIES:
        with job_at_mysql(database, request.getfixturevalue(family), tmp_path / family, is_quick=True) as made:
            steps = script(JobHere(made).job, None).steps
            refused = carried_out(steps, made.target)
            for number, row in enumerate(found):
                mine = [one for one in steps if one.table and one.table.name == f"r{number}"]
                row[family] = told(mine, row["made"][0], (made.there, database.name), refused)
    if os.environ.get("ANABRANCH_RECORD"):
        DATA.write_text(json.dumps(data | {source: found}, indent=1, ensure_ascii=False) + "\n")
    for row in found:
        for family in FAMILIES:
            is_whole = not any(one.startswith("-- ") for one in row[family])
            assert is_whole or row["fidelity"][family] != "exact", row
    wrong = [pair for pair in zip(rows, found, strict=True) if pair[0] != pair[1]]
    assert not wrong or os.environ.get("ANABRANCH_RECORD"), wrong
