"""The load of a way in two jobs: the one that applies loads tables while the other one's load goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from urllib.parse import unquote

import pytest

from anabranch.config.reading import load_job
from anabranch.contracts import LogOptions
from anabranch.errors import SourceError
from anabranch.model.ids import TableId
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from anabranch.trail import load_readers, requests, retention
from anabranch.trail_end import manifests as trail_manifests
from anabranch.view.job_view import JobView
from anabranch.view.opened import source_of
from anabranch.view.refusals import refuse_switch_while_loading
from rigs.hops import Hops, another, hops
from rigs.scenario import SOURCE_SECRET, TARGET_SECRET, Running, Scenario, wait_until

Make = Callable[..., Scenario]
STALLED = "trail.load.manifest=delay:3600@3"  # of the third table, for as long as the test wants


@pytest.mark.quick
def test_tables_are_loaded_while_the_load_at_the_source_goes_on(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables are through at the source's site, which is held then: they come to the target. Both sites are killed."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    way = hops(made)
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", STALLED)
    run = way.here.start("run")
    monkeypatch.delenv("ANABRANCH_FAILPOINTS")
    applied = way.there.start("run")
    with Writer(made.source, seed=7, rate=20):
        two = wait_until(lambda: len(found := manifests(way)) == 2 and found, 120, "two manifests", run.tail, run)
        wait_until(lambda: loaded(way, two), 120, "their rows at the target", applied.tail, applied)
        assert not (way.trail / "load" / "complete.json").exists()
        wait_until(lambda: "2 tables of it are here" in way.there.cli("status").stdout, 60, "what it waits for")
        run.kill()
        applied.kill()
        run, applied = way.start()
        way.there.wait_streaming(applied, seconds=200)
    way.there.sync(applied, seconds=120)
    made.assert_identical()
    assert run.stop().code == applied.stop().code == 0


@pytest.mark.quick
def test_a_table_that_was_loaded_early_is_altered_while_the_load_at_the_source_goes_on(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Park the table with the reason, as in a job that has both ends: the stream cannot alter it yet. The others go on."""
    made = scenario(mariadb, *SCHEMA, *fill(2))
    way = hops(made)
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", STALLED)
    run = way.here.start("run")
    monkeypatch.delenv("ANABRANCH_FAILPOINTS")
    applied = way.there.start("run")
    two = wait_until(lambda: len(found := manifests(way)) == 2 and found, 120, "two manifests", run.tail, run)
    wait_until(lambda: loaded(way, two), 120, "their rows at the target", applied.tail, applied)
    table = min(two)
    made.source.execute(f"ALTER TABLE {table} ADD COLUMN extra INT", f"UPDATE {table} SET extra = 5")
    run.kill()
    run = way.here.start("run")
    way.there.wait_streaming(applied, seconds=200)
    way.there.sync(applied)
    states = way.there.states()
    assert states[table] == "parked" and "its load was not through" in way.there.reason(table)
    going = [one for one, state in states.items() if state == "streaming"]
    assert going and ("cell" in going) != (
        table == "cell"
    )  # it has no foreign key; which two are loaded first is not settled
    assert all("foreign keys" in way.there.reason(one) for one in {*states} - {*going, table})
    made.assert_identical(*going)
    assert run.stop(code=None).code in (0, 8) and applied.stop().code == 0


@pytest.mark.quick
def test_another_server_is_refused_until_the_trail_has_what_loaded_rows_have(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their load is through at the source's site as soon as they are read, and capture may be behind."""
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    way = hops(made)
    way.here.run_until_caught_up()
    monkeypatch.setenv(SOURCE_SECRET, mariadb.password or "none")
    job = JobView(load_job(way.here.job_file), way.here.job_file)
    refuse_switch_while_loading(job, "one", "other")
    made.source.execute("INSERT INTO item VALUES (2)")
    with closing(source_of(job).log(LogOptions(reader_id=77, flush_interval=0.1))) as log:
        high = log.end().resume
    table = TableId(made.schema, "item")
    found = trail_manifests.load(way.trail, table)
    assert found is not None
    trail_manifests.save(way.trail, replace(found, chunks=tuple(replace(one, high=high) for one in found.chunks)))
    with pytest.raises(SourceError, match=f"{table} have not finished loading"):
        refuse_switch_while_loading(job, "one", "other")
    way.here.run_until_caught_up()
    refuse_switch_while_loading(job, "one", "other")


GOING = ("trail.load.taken=exit@2", "trail.load.gone=exit@2")


@pytest.mark.quick
def test_files_of_a_load_go_behind_the_last_who_applies_it(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs apply the trail, one after the other: files stay for the second. A third one comes too late, and says so."""
    made = scenario(mariadb, *SCHEMA, *fill(2))
    way = hops(made)
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", ";".join(GOING))
    monkeypatch.setenv("ANABRANCH_FAILPOINTS_LOG", str(made.directory / "reached"))
    monkeypatch.setenv(TARGET_SECRET, made.target.server.password or "none")
    second, late = another(way, "second"), another(way, "late")
    way.here.run_until_caught_up()
    retention.register(way.trail, second.names, 0)
    way.there.run_until_caught_up()
    way.there.cli("load")  # what was killed behind the last table says now what is there
    assert set(files(way)) == {name for load in load_readers.stored(way.trail) for name in load.files}
    assert {reader for load in load_readers.unread(way.trail) for reader in load.awaited} == {second.names}
    second.run_until_caught_up()
    second.cli("load")
    assert not files(way)
    late.run_until_caught_up(code=8)
    table = f"{made.schema}.cell"
    assert set(late.states().values()) == {"parked"} and "the load's files are gone" in late.reason("cell")
    assert f"anabranch load JOB --table {table}" in late.reason("cell")
    made.source.execute("UPDATE cell SET value = 11")
    run = way.here.start("run")
    for job in (late, second, way.there):  # the first one asks for a load, the others find it
        assert job is late or files(way)
        job.cli("load", "--table", table)
        job.run_until_caught_up(code=8 if job is late else 0)
        assert job.states()["cell"] == "streaming"
    wait_until(lambda: not files(way), 60, "files of the load are gone behind the last", run.tail, run)
    made.assert_identical()
    assert run.stop().code == 0
    acted = (made.directory / "reached").read_text()
    assert all(name in acted for name in GOING), acted


@pytest.mark.quick
def test_a_load_that_is_refused_asks_for_no_files(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse a load of several tables for one of them: no table is asked for, the files of all go once another job has them."""
    made = scenario(mariadb, *SCHEMA, *fill(2))
    way = hops(made)
    monkeypatch.setenv(TARGET_SECRET, made.target.server.password or "none")
    second, name = another(way, "second"), JobView(load_job(way.there.job_file), way.there.job_file).names.apply
    way.here.run_until_caught_up()
    retention.register(way.trail, second.names, 0)
    way.there.run_until_caught_up()
    way.there.cli("load")
    before = load_readers.read(way.trail, name)
    assert files(way) and before.tables[f"{made.schema}.cell"].is_done
    made.target.execute(
        'INSERT INTO anabranch.table_state SELECT (jsonb_populate_record(t, \'{"job": "other"}\')).*'
        " FROM anabranch.table_state AS t WHERE target_table LIKE '%cell'"
    )
    for tables in (["cell"], ["visit", "cell"]):
        asked = [word for table in tables for word in ("--table", f"{made.schema}.{table}")]
        assert "other jobs write to public.cell" in way.there.cli("load", *asked, code=6).stderr
        assert load_readers.read(way.trail, name) == before
    retention.unregister(way.trail, second.names)
    load_readers.sweep(way.trail)
    assert not files(way)


@pytest.mark.quick
def test_a_table_is_loaded_again_at_both_sites_by_one_command(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load at the source's site fails once, and is refused with its reason; then the run there is killed at its answer."""
    made = scenario(mariadb, *SCHEMA, *fill(2))
    way = hops(made)
    way.until_caught_up()
    way.there.cli("load")
    assert not files(way)
    applied, table = way.there.start("run"), f"{made.schema}.cell"
    monkeypatch.setenv("ANABRANCH_FAILPOINTS_LOG", str(made.directory / "reached"))
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", "load.generation=raise:SourceError")
    run = way.here.start("run")
    monkeypatch.delenv("ANABRANCH_FAILPOINTS")
    refused = way.there.cli("load", "--table", table, code=5).stderr
    assert "the load at the source's site ended with code 5: " in refused, refused
    assert way.there.states()["cell"] == "streaming" and run.is_alive
    assert run.stop().code == 0
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", "trail.load.asked=exit")
    run = way.here.start("run")
    made.target.execute("DELETE FROM public.cell WHERE x % 2 = 0")
    asked = way.there.start("load", "--table", table)
    wait_until(lambda: not run.is_alive, 120, "the run that is killed behind the load", run.tail)
    assert asked.is_alive
    run = way.here.start("run")
    assert asked.wait().code == 0
    made.source.execute("UPDATE cell SET value = 12")
    way.there.wait_streaming(applied)
    way.there.sync(applied)
    made.assert_identical()
    assert not requests.pending(way.trail, requests.LOADS)
    assert run.stop().code == applied.stop().code == 0


@pytest.mark.quick
def test_a_load_waits_for_those_who_apply_it_where_its_files_are_limited(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is less than one table has. Nobody applies at first; then both are killed at their loads. Each table takes
    longer than a look at what is there holds: as small as they are, all could begin before a slow machine looks again."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    way = hops(made, at_capture="[trail]\nload_limit_gb = 0.000001\n")
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", "trail.load.manifest=delay:3")
    run = way.here.start("run")
    for _ in range(2):
        waits(way.here, run, "no job applies the trail yet")
        assert manifests(way) and not (way.trail / "load" / "complete.json").exists()
        before = files(way)
        run.kill()
        run = way.here.start("run")
    waits(way.here, run, "load_limit_gb")
    assert files(way) == before
    monkeypatch.delenv("ANABRANCH_FAILPOINTS")
    applied = way.there.start("run")
    wait_until(lambda: way.there.states() and before[0] not in files(way), 120, "files that go", applied.tail, applied)
    applied.kill()
    run.kill()
    run, applied = way.start()
    with Writer(made.source, seed=9, rate=20):
        way.there.wait_streaming(applied, seconds=240)
    way.there.sync(applied, seconds=120)
    made.assert_identical()
    wait_until(lambda: not files(way), 60, "all files of the load are gone", applied.tail, applied)
    assert run.stop().code == applied.stop().code == 0


def waits(job: Scenario, run: Running, text: str) -> None:
    wait_until(lambda: text in job.cli("status").stdout, 120, f"status says {text}", run.tail, run)


def files(way: Hops) -> list[str]:
    return sorted(one.relative_to(way.trail).as_posix() for one in (way.trail / "load").rglob("*.arrow"))


def manifests(way: Hops) -> dict[str, int]:
    """Return the rows of tables that are in the trail as a whole, by name."""
    found = {}
    for file in (way.trail / "load").glob("*/manifest.json"):
        rows = sum(chunk["rows"] for chunk in json.loads(file.read_text())["chunks"])
        found[unquote(file.parent.name).partition(".")[2]] = rows
    return found


def loaded(way: Hops, tables: dict[str, int]) -> bool:
    """Return whether the job that applies has handed these tables over with so many rows."""
    query = "SELECT source_table, rows_loaded FROM anabranch.table_state WHERE job = %s AND high <> ''"
    if not way.there.states():
        return False
    there = {table.partition(".")[2]: rows for table, rows in way.there.target.query(query, [way.there.name])}
    return all(there.get(table) == rows for table, rows in tables.items())
