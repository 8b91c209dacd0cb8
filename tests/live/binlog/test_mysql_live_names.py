"""Pitfall 39: names that are too long, that fold, that fall together; each on real servers at both ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.errors import TargetError
from anabranch.job import Job
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, unique_name
from anabranch.testing.servers import Server, start_mariadb, start_mysql
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import MysqlToMysql

Make = Callable[[Server], Database]
LONG_TABLE, LONG_COLUMN = "ü" * 64, "ä" * 63 + '"'


def job_of(directory: Path, source: Database, target: Database, rules: str, more: str = "") -> Job:
    path = directory / "names.toml"
    path.write_text(
        f'name = "names"\n[source]\nurl = "{source.server.url()}"\n[target]\nurl = "{target.url}"\n{rules}\n{more}'
    )
    return Job.from_file(path)


def test_pitfall_39_names_that_postgresql_would_cut_are_refused_with_what_to_write(
    mysql_family: Server, source_database: Make, target_database: Database, tmp_path: Path
) -> None:
    source = source_database(mysql_family)
    quoted = LONG_COLUMN.replace("`", "``")
    index, key = "i" * 64, "k" * 63
    source.execute(
        f"CREATE TABLE `{LONG_TABLE}` (id INT PRIMARY KEY, `{quoted}` INT, UNIQUE KEY `{index}` (`{quoted}`))",
        f"CREATE TABLE child (id INT PRIMARY KEY, CONSTRAINT `{key}1` FOREIGN KEY (id) REFERENCES `{LONG_TABLE}` (id))",
    )
    all_others = f'[[rules]]\ninclude = ["{source.name}.*"]\ntarget = "public.{{table}}"'
    job = job_of(tmp_path, source, target_database, all_others)
    failed = [result for result in job.preflight().failed if result.check == "target.names"]
    assert [result.message.split()[0] for result in failed] == [LONG_TABLE, LONG_COLUMN]
    with pytest.raises(TargetError, match="longer than 63 bytes"):
        job.schema_script()
    rule = (
        failed[0].hint.removeprefix("before the other rules: ").replace(", ", "\n").replace("[[rules]] ", "[[rules]]\n")
    )
    entry = failed[1].hint.replace(", ", "\n").replace("[[tables]] ", "[[tables]]\n")
    renamed = job_of(tmp_path, source, target_database, f"{rule}\n{all_others}", entry)
    assert not [result for result in renamed.preflight().failed if result.check == "target.names"]
    for step in renamed.schema_script().steps:  # indexes and keys are cut by themselves
        if step.sql:
            target_database.execute(step.sql)
    found = target_database.query(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " UNION ALL SELECT conname FROM pg_constraint WHERE contype = 'f'"
    )
    assert len(found) == 6 and all(len(name.encode()) <= 63 for (name,) in found)


def test_pitfall_39_tables_of_several_schemas_that_fall_together_are_refused(
    mariadb: Server, target_database: Database, tmp_path: Path
) -> None:
    """a_b.c and a.b_c by {schema}_{table}; Cased and cased are two everywhere."""
    databases = [Database(mariadb, name) for name in ("a_b", "a")]
    Database(mariadb, "information_schema").execute(*(f"CREATE DATABASE {one.name}" for one in databases))
    try:
        databases[0].execute("CREATE TABLE c (id INT PRIMARY KEY)", "CREATE TABLE C (id INT PRIMARY KEY)")
        databases[1].execute("CREATE TABLE b_c (id INT PRIMARY KEY)")
        rules = '[[rules]]\ninclude = ["a_b.*", "a.*"]\ntarget = "public.{schema}_{table}"'
        report = job_of(tmp_path, databases[0], target_database, rules).preflight()
        (failed,) = (result for result in report.failed if result.check == "job.targets")
        assert failed.message.endswith("public.a_b_c would get a.b_c, a_b.c") and "targets" in failed.hint
        rules = rules.replace("public.{schema}_{table}", "{schema}.{table}")
        job = job_of(tmp_path, databases[0], target_database, rules)
        assert not job.preflight().failed
        tables = [line for line in job.schema_script().lines() if line.startswith("CREATE TABLE")]
        assert [line.split()[2] for line in tables] == ['"a"."b_c"', '"a_b"."C"', '"a_b"."c"']
    finally:
        for one in databases:
            Database(mariadb, "information_schema").execute(f"DROP DATABASE {one.name}")


@pytest.fixture(scope="module", params=[start_mariadb, start_mysql])
def folding(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[Server]:
    """`lower_case_table_names = 1`; 2 is for file systems that fold names themselves: macOS."""
    server = request.param(servers_directory / unique_name("folding"), options=("--lower-case-table-names=1",))
    yield server
    server.stop(immediate=True)


@pytest.mark.one_case("start_mariadb")
def test_pitfall_39_a_server_that_folds_names(
    folding: Server, target_database: Database, tmp_path: Path, follow: Callable
) -> None:
    database = create_database(folding, "folding")
    database.execute("CREATE TABLE MixedCase (Id INT PRIMARY KEY, V INT)")
    follower = follow(database)
    follower.begin()
    items = follower.run("INSERT INTO MIXEDCASE VALUES (1, 2)", "TRUNCATE TABLE mixedCASE")
    assert follower.images("mixedcase")[0]["Id"] == 1
    source = connectors.source(Endpoint(folding.name, folding.host, folding.port, folding.user, folding.password))
    with closing(source.catalog()):
        (statement,) = (item for item in items if hasattr(item, "sql"))
        facts = source.dialect.facts(statement.sql, statement.schema)
    assert facts.kind == "truncate" and facts.tables == (TableId(database.name, "mixedcase"),)
    rules = f'[[rules]]\ninclude = ["{database.name}.MixedCase"]\ntarget = "public.{{table}}"'
    report = job_of(tmp_path, database, target_database, rules).preflight()
    ((unmatched),) = (result for result in report.warnings if result.check == "job.rules")
    assert unmatched.hint == f"did you mean {database.name}.mixedcase?"


@pytest.mark.one_case("start_mariadb")
def test_pitfall_61_a_target_that_folds_names(
    folding: Server, mariadb: Server, source_database: Make, tmp_path: Path
) -> None:
    """Two tables of the source would be one there. One alone is loaded, followed, compared and forgotten by the name it has."""
    database, there = source_database(mariadb), create_database(folding, "there")
    database.execute(
        "CREATE TABLE Orders (Id INT PRIMARY KEY, V INT)",
        "CREATE TABLE ORDERS (Id INT PRIMARY KEY, V INT)",
        "CREATE TABLE Items (Id INT PRIMARY KEY, Orders INT, FOREIGN KEY (Orders) REFERENCES Orders (Id) ON DELETE CASCADE)",
        "INSERT INTO Orders VALUES (1, 1), (2, 1)",
        "INSERT INTO Items VALUES (1, 1), (2, 2)",
    )
    made = MysqlToMysql(database, there, tmp_path / "job", name=unique_name("job"))
    here = JobHere(made)
    (failed,) = (result for result in here.job.preflight().failed if result.check == "target.names")
    assert sorted(failed.names) == sorted(f"{database.name}.{name}" for name in ("Orders", "ORDERS"))
    database.execute("DROP TABLE ORDERS")
    here.load()
    database.execute("UPDATE Orders SET V = 2", "DELETE FROM Orders WHERE Id = 2", "INSERT INTO Orders VALUES (3, 3)")
    here.stream()
    made.assert_identical()
    assert here.verify().identical
    here.load()  # nothing is left to do, and nobody takes the table for another one
    assert sorted(name for (name,) in there.query("SHOW TABLES")) == ["items", "orders", "scenario_mark"]
    here.job.drop(execute=True)


@pytest.mark.one_case("start_mariadb")
def test_pitfall_61_two_jobs_spell_the_name_of_one_table_otherwise(
    folding: Server, mariadb: Server, source_database: Make, tmp_path: Path
) -> None:
    """Each knows of the other, and does not empty what has its rows."""
    there, jobs = create_database(folding, "there"), []
    for name in ("Visit", "VISIT"):
        database = source_database(mariadb)
        database.execute(f"CREATE TABLE {name} (Id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES ({len(jobs)})")
        made = MysqlToMysql(database, there, tmp_path / database.name, name=unique_name("job"))
        rules = f'[[rules]]\ninclude = ["{database.name}.{name}"]\ntarget = "{there.name}.{{table}}"\n'
        made.write_job(rules=rules)
        jobs.append(JobHere(made))
    one, two = jobs
    one.load()
    one.stream()
    failed = [result.message for result in two.job.preflight().failed]
    assert len(failed) == 1 and "other jobs write to" in failed[0] and one.made.name in failed[0]
    built = "UPDATE anabranch.table_state SET facts = JSON_SET(facts, '$.built', 'yes') WHERE job = %s"
    there.query(built, [one.made.name])  # the apply that runs has time for that
    two.made.write_job('[load]\nexisting = "keep"\n', rules=rules)
    two.load()
    two.stream()
    with pytest.raises(TargetError, match="it is not emptied"):
        one.load(TableId(one.made.schema, "Visit"))
    assert sorted(there.query("SELECT * FROM visit")) == [(0,), (1,)]
    assert two.verify().identical and one.verify().identical
    for here in (two, one):
        here.job.drop(execute=True)
