"""A way in two jobs with a trail between them: neither reaches the other one's database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, TABLES, Writer, fill
from rigs.hops import hops
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import job_at_mysql

Make = Callable[..., Scenario]
POSTGRESQL = (
    "CREATE TABLE parent (id int PRIMARY KEY, name varchar(40) NOT NULL UNIQUE)",
    "CREATE TABLE item (id bigint PRIMARY KEY, parent int REFERENCES parent ON DELETE CASCADE, price numeric(10,2), note text,"
    " raw bytea, at timestamp, flag boolean)",
    "CREATE TABLE noise (n int, text varchar(40))",
    "ALTER TABLE noise REPLICA IDENTITY FULL",
    "INSERT INTO parent SELECT n, 'parent ' || n FROM generate_series(1, 10) n",
    "INSERT INTO item SELECT n, 1 + n % 10, n + 0.25, E'tab\\tnew\\nback\\\\slash ' || n, '\\x00ff5c09',"
    " '2024-02-29 12:00:00.5', n % 2 = 0 FROM generate_series(1, 499) n",
    "INSERT INTO noise VALUES (1, 'x'), (1, 'x'), (NULL, NULL), (2, '')",
)
CHANGES = (
    "UPDATE parent SET name = 'aside' WHERE id = 1",
    "DELETE FROM parent WHERE id = 9",
    "UPDATE item SET note = 'changed', raw = '\\xff' WHERE id < 50",
    "UPDATE item SET id = id + 100000 WHERE id BETWEEN 100 AND 120",
    "INSERT INTO noise VALUES (1, 'x'), (7, 'seven')",
)


@pytest.mark.quick
def test_one_job_captures_and_another_applies(mysql_family: Server, scenario: Make) -> None:
    made = scenario(mysql_family, *SCHEMA, *fill(20))
    way = hops(made)
    with Writer(made.source, seed=3, rate=50):
        run, applied = way.start()
        way.there.wait_streaming(applied, seconds=200)
        way.there.sync(applied, seconds=120)
    way.there.sync(applied, seconds=120)
    made.assert_identical()
    assert set(way.there.states()) == {*TABLES, "scenario_mark"}
    assert run.stop().code == 0
    assert applied.stop().code == 0


@pytest.mark.quick
def test_a_table_is_loaded_again_at_both_sites(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *SCHEMA, *fill(5))
    way = hops(made)
    run, applied = way.start()
    way.there.wait_streaming(applied)
    way.there.sync(applied)
    made.target.execute("DELETE FROM public.cell WHERE x % 2 = 0")
    table = f"{made.schema}.cell"
    way.here.cli("load", "--table", table)
    made.source.execute("UPDATE cell SET value = 7 WHERE x % 2 = 1")
    way.there.cli("load", "--table", table)
    way.there.wait_streaming(applied)
    way.there.sync(applied)
    made.assert_identical()
    assert run.stop().code == applied.stop().code == 0


@pytest.mark.quick
def test_every_value_of_a_postgresql_comes_through_a_trail_to_a_mysql(
    logical_postgresql: Server, mysql: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = source_database(logical_postgresql)
    database.execute(*POSTGRESQL)
    with job_at_mysql(database, mysql, tmp_path / "job", is_quick=True) as made:
        way = hops(made, at_apply='[apply]\nrunner = "continuous"\n')
        run, applied = way.start()
        way.there.wait_streaming(applied)
        for statement in CHANGES:
            database.execute(statement)
        way.there.sync(applied)
        made.assert_identical()
        assert run.stop().code == applied.stop().code == 0


KILLED = ("trail.load.file", "trail.load.manifest", "trail.load.through", "load.committed", "load.done")


@pytest.mark.quick
def test_what_is_killed_while_it_loads_goes_on(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scenario(mariadb, *SCHEMA, *fill(5))
    way = hops(made)
    faults = ";".join(f"{name}=exit" for name in KILLED)
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", faults)
    monkeypatch.setenv("ANABRANCH_FAILPOINTS_LOG", str(made.directory / "reached"))
    run, applied = way.start()
    way.there.wait_streaming(applied, seconds=200)
    way.there.sync(applied)
    made.assert_identical()
    assert run.stop().code == applied.stop().code == 0
    acted = (made.directory / "reached").read_text()
    assert all(f"{name}=exit" in acted for name in KILLED), acted


@pytest.mark.quick
def test_what_would_lose_rows_or_change_them_is_refused(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, *SCHEMA, *fill(1))
    way = hops(made)
    way.here.run_until_caught_up()
    made.source.execute("ALTER TABLE cell ADD COLUMN extra INT", "UPDATE cell SET extra = 1")
    way.here.run_until_caught_up()
    way.there.run_until_caught_up(code=8)
    assert {table for table, state in way.there.states().items() if state != "streaming"} == {"cell"}
    assert "its rows in the trail are of definition 1, the trail is at 2" in way.there.reason("cell")
    other, said = replace(way.here, name="other"), way.here.job_file.read_text()
    other.job_file.write_text(said.replace(f'name = "{way.here.name}"', 'name = "other"'))
    assert f"is that of the job {way.here.name}" in other.cli("capture", code=7).stderr
    before = way.there.job_file.read_text()
    way.there.job_file.write_text(f'{before}\n[types]\nnul = "strip"\n')
    assert "[types] nul: here the file says otherwise" in way.there.cli("load", code=2).stderr
    way.there.job_file.write_text(before)
    for job in (way.here, way.there):
        for asked in (("cutover", "--plan"), ("reverse",), ("types",)):
            assert "needs both databases" in job.cli(*asked, code=2).stderr
    assert "--repair needs the source itself" in way.there.cli("verify", "--repair", code=2).stderr
    assert "without options" in way.here.cli("verify", "--repair", code=2).stderr
    assert "read by others: apply@" in way.here.cli("drop", "--execute", code=7).stderr
    assert "refused" not in way.there.cli("status").stdout
    way.there.cli("drop", "--execute")
    way.here.cli("drop", "--execute")
    assert not way.trail.exists()
