"""Programs of exBase read `kafkaoffset`: its columns, its rows as a job goes on, what has its name already, and its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anabranch.model.checks import CheckVerdict
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import job_at_mysql
from rigs.users import user_at

Make = Callable[[Server], Database]
ASKED = "[compat]\nexbase = true\n"
TABLE = ("CREATE TABLE orders (id int PRIMARY KEY, name varchar(40))", "INSERT INTO orders VALUES (1, 'a')")
COLUMNS = ["jobid", "topic", "lastoffset", "lastsuboffset", "last_scn_number", "scnnumber", "transaction_id", "applytime",
           "updatetime", "commitposition"]  # fmt: skip
TYPES = ["character varying(128)", "character varying(64)", "bigint", "bigint", "bigint", "bigint", "text",
         "timestamp without time zone", "timestamp without time zone", "text"]  # fmt: skip
AT_MYSQL = ["varchar(128)", "varchar(64)", "mediumtext", "mediumtext", "mediumtext", "mediumtext", "varchar(128)"]
DESCRIBED = """
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
 WHERE a.attrelid = 'public.kafkaoffset'::regclass AND a.attnum > 0 ORDER BY a.attnum
"""


def compat(made: Scenario) -> list[tuple[str, str]]:
    results = JobHere(made).job.preflight().results
    return [(one.verdict, one.hint) for one in results if one.check == "target.compat"]


@pytest.mark.quick
def test_postgresql_shows_progress_as_kafkaoffset(mysql: Server, scenario: Callable[..., Scenario]) -> None:
    made = scenario(mysql, *TABLE)
    assert compat(made) == [], "nobody has asked for it"
    made.write_job(ASKED)
    made.target.execute("CREATE TABLE public.kafkaoffset (jobid text)")
    ((verdict, hint),) = compat(made)
    assert verdict == CheckVerdict.FAILED
    made.target.execute(hint.partition(",")[0])
    assert [verdict for verdict, _ in compat(made)] == [CheckVerdict.OK]
    here = JobHere(made)
    here.load()
    assert list(map(tuple, made.target.query(DESCRIBED))) == list(zip(COLUMNS, TYPES, strict=True))
    here.stream()
    ((job, offset, position, scn, *unknown),) = rows(made, "public.kafkaoffset")
    assert job == f"{made.name}#incremental" and (offset, position) == checkpoint(made)
    assert scn is None and set(unknown) == {None}, "the source is no PostgreSQL, the server keeps no times of commits"
    made.source.execute("INSERT INTO orders VALUES (2, 'b')")
    here.stream()
    assert rows(made, "public.kafkaoffset")[0][1] == checkpoint(made)[0] > offset
    made.cli("drop", "--execute")
    assert made.target.query("SELECT to_regclass('public.kafkaoffset'), to_regclass('anabranch.checkpoint')")[0] == (
        None, None,
    )  # fmt: skip
    assert made.target.query("SELECT to_regclass('public.kafkaoffset_before') IS NOT NULL")[0][0], "another's stays"


@pytest.mark.quick
def test_mysql_shows_progress_as_kafkaoffset(
    logical_postgresql: Server, mysql: Server, source_database: Make, tmp_path: Path
) -> None:
    shows_progress(logical_postgresql, mysql, source_database, tmp_path)


@pytest.mark.quick
def test_mariadb_shows_progress_as_kafkaoffset(
    logical_postgresql: Server, mariadb: Server, source_database: Make, tmp_path: Path
) -> None:
    shows_progress(logical_postgresql, mariadb, source_database, tmp_path)


def shows_progress(server: Server, at: Server, source_database: Make, directory: Path) -> None:
    source = source_database(server)
    source.execute(*TABLE)
    with job_at_mysql(source, at, directory / "job", is_quick=True) as made, someone(made) as user:
        view = f"`{user}`.kafkaoffset"
        made.target.execute(f"CREATE DATABASE `{user}`", f"CREATE TABLE {view} (jobid int)")
        ((verdict, hint),) = compat(made)
        assert verdict == CheckVerdict.FAILED and hint.startswith("GRANT SELECT, CREATE, CREATE VIEW, SHOW VIEW, DROP")
        made.target.execute(hint)
        ((verdict, hint),) = compat(made)
        assert verdict == CheckVerdict.FAILED and hint.startswith("RENAME TABLE")
        made.target.execute(hint.partition(",")[0])
        here = JobHere(made)
        here.load()
        here.stream()
        described = [(str(row[0]), str(row[1])) for row in made.target.query(f"DESCRIBE {view}")]
        assert [name for name, _ in described] == COLUMNS
        assert [type for _, type in described][: len(AT_MYSQL)] == AT_MYSQL
        before = next(row for row in rows(made, view) if row[0] == f"{made.name}#incremental")
        offset, position = checkpoint(made)
        high, low = (int(part, 16) for part in position.split("/"))
        assert before[1:4] == (str(offset), position, str((high << 32) + low)) and set(before[4:]) == {None}
        made.cli("drop", "--execute")


@contextmanager
def someone(made: Scenario) -> Iterator[str]:
    """Let the job write as a user who may do what a job needs, and has no database of its own."""
    with user_at(made.target) as who:
        made.target.execute(
            *(f"GRANT ALL ON `{place}`.* TO '{who[0]}'@'%'" for place in (made.there, "anabranch")),
        )
        made.target_user = who
        made.write_job(ASKED)
        try:
            yield who[0]
        finally:
            made.target.execute(f"DROP DATABASE IF EXISTS `{who[0]}`")


def rows(made: Scenario, view: str) -> list[tuple[object, ...]]:
    shown = (
        "jobid, lastoffset, commitposition, last_scn_number, topic, lastsuboffset, scnnumber, transaction_id, applytime"
    )
    return [tuple(row) for row in made.target.query(f"SELECT {shown}, updatetime FROM {view}")]


def checkpoint(made: Scenario) -> tuple[int, str]:
    query = "SELECT sequence, position FROM anabranch.checkpoint WHERE job = %s"
    sequence, position = made.target.query(query, [made.name])[0]
    return sequence, position
