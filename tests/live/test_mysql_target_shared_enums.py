"""Two jobs with a PostgreSQL each write into one table of a MySQL or MariaDB, and their enums have other labels: the column has
those of both, and nobody is told to make anew what holds rows of the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch.errors import RowRefused
from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import PostgresToMysql

SHARED = (
    "CREATE TYPE mood AS ENUM ({0})",
    "CREATE TABLE of_moods (id int PRIMARY KEY, m mood)",
    "INSERT INTO of_moods SELECT {1} + row_number() OVER (), m FROM unnest(enum_range(NULL::mood)) AS m",
)


@pytest.mark.one_family
def test_an_enum_of_two_jobs_gets_the_labels_of_both(
    mysql_family: Server, logical_postgresql: Server, tmp_path: Path
) -> None:
    there = create_database(mysql_family, "shared")
    sources = [create_database(logical_postgresql, "shared") for _ in range(2)]
    for source, labels, first in zip(sources, ("'a', 'b'", "'a', 'c'"), (100, 200), strict=True):
        source.execute(*(one.format(labels, first) for one in SHARED))
    one, two = (
        JobHere(PostgresToMysql(source, there, tmp_path / source.name, name=unique_name("job"))) for source in sources
    )
    two.made.write_job('[load]\nexisting = "keep"\n')
    one.load()
    one.stream()
    built = "UPDATE anabranch.table_state SET facts = JSON_SET(facts, '$.built', 'yes') WHERE job = %s"
    there.query(built, [one.made.name])  # the apply that runs has time for that

    # what two's column needs leaves one's labels
    failed = two.job.preflight().failed
    assert len(failed) == 1, failed
    wanted = r"column m is enum\('a','b'\) \(compared by .*_bin\), needed is enum\('a','c'\)"
    assert re.fullmatch(wanted, failed[0].message)
    assert "enum('a','b','c') CHARACTER SET utf8mb4 COLLATE" in failed[0].hint
    there.execute(failed[0].hint)
    two.load()
    two.stream()

    sources[0].execute("ALTER TYPE mood ADD VALUE 'x'", "INSERT INTO of_moods VALUES (103, 'x')")
    with pytest.raises(RowRefused, match=r"other jobs write to .*, too, and have other labels") as refused:
        one.stream()
    assert "--recreate" not in str(refused.value)
    (by_hand,) = re.findall("ALTER TABLE `.*?(?= adds these by hand)", str(refused.value))
    assert "enum('a','b','c','x')" in by_hand
    there.execute(by_hand)
    one.stream()
    sources[1].execute("UPDATE of_moods SET m = 'c' WHERE id = 201")
    two.stream()
    found = sorted(there.query(f"SELECT id, CAST(m AS CHAR) FROM `{there.name}`.of_moods"))
    assert found == [(101, "a"), (102, "b"), (103, "x"), (201, "c"), (202, "c")]
    assert {state for here in (one, two) for state in here.made.states().values()} == {"streaming"}
    for here in (two, one):
        here.job.drop(execute=True)
    for database in (there, *sources):
        drop_database(database)
