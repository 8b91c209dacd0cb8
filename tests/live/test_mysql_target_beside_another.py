"""A job with a MySQL or MariaDB and another target: a table that is made anew at one of them is made by the source's types of
now, whatever the trail was begun with for both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.connectors.postgresql.source import definitions
from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.errors import ConfigError, RowRefused, TrailError
from anabranch.job import Job
from anabranch.model.ids import TableId
from anabranch.testing.databases import create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import PostgresToMysql

TABLE = TableId("public", "of_moods")
MADE = (
    "CREATE TYPE mood AS ENUM ('a', 'b')",
    "CREATE DOMAIN amount AS bigint",
    "CREATE TABLE of_moods (id int PRIMARY KEY, m mood, n amount)",
    "INSERT INTO of_moods VALUES (1, 'a', 1), (2, 'b', 2)",
    "CREATE TYPE hue AS ENUM ('red', 'green')",
    "CREATE TABLE of_hues (id int PRIMARY KEY, h hue)",
    "INSERT INTO of_hues VALUES (1, 'red'), (2, 'green')",
)


@dataclass
class AtOne(JobHere):
    """The job as [target] sees it."""

    @property
    def job(self) -> Job:
        return JobHere(self.made).job.on("target")


@contextmanager
def dying_at(point: str) -> Iterator[None]:
    """End what is done meanwhile at a failpoint, as if its process had been killed there."""
    failpoints.arm({failpoints.VARIABLE: f"{point}=raise:TrailError"})
    try:
        with pytest.raises(TrailError):
            yield
    finally:
        failpoints.arm({})


@pytest.mark.long
@pytest.mark.one_family
def test_a_table_is_made_anew_by_the_types_of_now(
    mysql_family: Server,
    postgresql: Server,
    logical_postgresql: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database, there = create_database(logical_postgresql, "beside"), create_database(mysql_family, "beside")
    other = create_database(postgresql, "beside")
    database.execute(*MADE)
    made = PostgresToMysql(database, there, tmp_path, name=unique_name("job"))
    monkeypatch.setenv("OTHER_SECRET", postgresql.password)
    place = f"{postgresql.user}:${{OTHER_SECRET}}@{postgresql.host}:{postgresql.port}/{other.name}"
    made.write_job(f'[[targets]]\nname = "other"\nurl = "postgresql://{place}"\n')
    here = AtOne(made)

    def found() -> tuple[list[object], dict[str, str]]:
        query = "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        types = {name: str(native) for name, native in made.target.query(query, [there.name, TABLE.name])}
        return sorted(made.target.query(f"SELECT * FROM `{there.name}`.of_moods")), types

    with monkeypatch.context() as before:  # a release that knew the name of such a type alone
        before.setattr(definitions, "logical_type", lambda native, *_: logical_type(native))
        here.load()
        here.stream()
    assert {found()[1][name] for name in "mn"} == {"longtext"}
    with pytest.raises(ConfigError, match=r"column m is longtext, needed is enum\('a','b'\)"):
        here.load(TABLE)
    here.load(TABLE, recreate=True)
    database.execute("INSERT INTO of_moods VALUES (3, 'b', 3)")
    here.stream()
    rows, types = found()
    assert rows == [(1, "a", 1), (2, "b", 2), (3, "b", 3)]
    assert types["m"] == "enum('a','b')" and types["n"].startswith("bigint")
    here.load(TABLE)  # nothing is other than it would be made
    here.stream()

    database.execute("ALTER TYPE mood ADD VALUE '2'", "INSERT INTO of_moods VALUES (4, '2', 4)")
    with pytest.raises(RowRefused, match="lacks labels that the source has: '2'"):
        here.stream()
    with pytest.raises(ConfigError, match=r"column m is enum\('a','b'\), needed is longtext"):
        here.load(TABLE)
    here.load(TABLE, recreate=True)
    database.execute("UPDATE of_moods SET m = '2' WHERE id = 1")
    here.stream()
    rows, types = found()
    assert rows == [(1, "2", 1), (2, "b", 2), (3, "b", 3), (4, "2", 4)] and types["m"] == "longtext"
    hues = TableId("public", "of_hues")
    here.load(hues, recreate=True)  # and before it streams there is a label that its column cannot have
    database.execute("ALTER TYPE hue ADD VALUE '2'", "INSERT INTO of_hues VALUES (3, '2')")
    with pytest.raises(RowRefused, match="lacks labels"):
        here.stream()
    with dying_at("load.table.created"):
        here.load(hues, recreate=True)
    assert made.states()["of_hues"] == "pending", "made anew, and its load died: it does not join without rows"
    here.load(hues, recreate=True)
    here.stream()
    assert here.verify(by_rows=True).identical
    JobHere(made).job.drop(execute=True)
    for one in (there, other, database):
        drop_database(one)
