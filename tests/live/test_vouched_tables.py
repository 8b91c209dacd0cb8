"""A table whose rows a backup has brought streams without a load, from the place of the backup: what the source has changed
behind it arrives, and nothing of before is done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.errors import ConfigError, PreflightFailed, SchemaError
from anabranch.failpoints import VARIABLE, FailpointReached
from anabranch.job import Job
from anabranch.lifecycle.beginning import begin_trail_if_none
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import source_of
from anabranch.view.options import log_options
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import MysqlToMysql, PostgresToMysql
from rigs.scenario_postgresql import FromPostgres

PAIRS = {
    ("mariadb", "postgresql"): Scenario,
    ("mysql", "mysql"): MysqlToMysql,
    ("postgresql", "postgresql"): FromPostgres,
    ("postgresql", "mysql"): PostgresToMysql,
}
TABLE = "(id int PRIMARY KEY, v varchar(20))"


LONG = ("postgresql", "mysql")


@pytest.fixture(
    params=[pytest.param(pair, id=" to ".join(pair), marks=pytest.mark.long if pair == LONG else ()) for pair in PAIRS]
)
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    """A job whose source has rows, and whose trail has begun behind the first of them; its target has nothing."""
    of, to = request.param
    source = source_database(request.getfixturevalue("logical_postgresql" if of == "postgresql" else of))
    target = create_database(request.getfixturevalue(to), "vouched")
    source.execute(
        *(f"CREATE TABLE {name} {TABLE}" for name in ("item", "other")),
        *(f"INSERT INTO {name} VALUES (1, 'one'), (2, 'two'), (3, 'three')" for name in ("item", "other")),
    )
    made = JobHere(PAIRS[request.param](source, target, tmp_path, name=unique_name("job")))
    begin_trail_if_none(made.job)
    source.execute("INSERT INTO item VALUES (4, 'in both')")
    yield made
    failpoints.arm({})
    made.job.drop(execute=True)
    drop_database(target)


def _now(here: JobHere) -> LogMark:
    job = here.job
    with closing(source_of(job).log(log_options(job, trail_uuid(job) or ""))) as reader:
        return reader.end()


def _backup(here: JobHere, table: str) -> tuple[str, list[tuple[int, str]]]:
    """The place of the source's log, and the rows there: nobody writes meanwhile."""
    return _now(here).native, here.made.source.query(f"SELECT id, v FROM {table}")


def _restored(here: JobHere, table: str, rows: list[tuple[int, str]]) -> None:
    made = here.made
    made.target.execute(
        f"DROP TABLE IF EXISTS {made.there}.{table}",
        f"CREATE TABLE {made.there}.{table} {TABLE}",
        *(f"INSERT INTO {made.there}.{table} VALUES ({key}, '{text}')" for key, text in rows),
    )


def _changes(here: JobHere, table: str, key: int) -> None:
    """Changes that cannot be carried out twice, or out of order."""
    here.made.source.execute(
        f"UPDATE {table} SET v = 'changed {key}' WHERE id = 2",
        f"INSERT INTO {table} VALUES ({key}, 'came')",
        f"DELETE FROM {table} WHERE id = {key - 1}",
    )


def _named(here: JobHere, table: str) -> str:
    return f"{here.made.schema}.{table}"


def _told(job: Job, table: str) -> tuple[object, ...]:
    (found,) = [one for one in job.status()["targets"][0]["tables"] if one["source"] == table]
    return found["state"], found["rows_loaded"], found["vouched"]["place"]


@pytest.mark.one_case("mysql to mysql", "postgresql to postgresql")
def test_rule_05_a_new_job_begins_behind_a_backup_and_loads_the_rest(here: JobHere) -> None:
    """The call dies before the target knows of it, and is made again."""
    here.made.target.execute(f"CREATE SCHEMA IF NOT EXISTS {here.made.there}")
    place, rows = _backup(here, "item")
    _changes(here, "item", 5)
    here.capture()
    item = _named(here, "item")
    with pytest.raises(ConfigError, match=r"there is no \S+item at the target"):
        here.job.vouch_for(item, place)
    _restored(here, "item", rows)
    failpoints.arm({VARIABLE: "load.vouched=raise"})
    with pytest.raises(FailpointReached):
        here.job.vouch_for(item, place)
    failpoints.arm({})
    found = here.job.vouch_for(item, place)
    assert found is not None and found.place == place
    _changes(here, "item", 6)
    here.load()
    here.stream()
    here.made.assert_identical()
    assert here.verify().identical
    assert _told(here.job, item) == ("streaming", 0, place)
    with pytest.raises(ConfigError, match="1@nowhere"):
        here.job.vouch_for(item, "1@nowhere")


@pytest.mark.one_case("mariadb to postgresql")
def test_rule_05_a_table_that_streams_is_restored_and_goes_on(here: JobHere) -> None:
    """From a backup that is behind, and then from now, of a table that was not in the trail; all beside a job that runs."""
    made, source = here.made, here.made.source
    here.load()
    here.stream()
    _changes(here, "item", 5)
    place, rows = _backup(here, "item")
    _changes(here, "item", 6)
    here.stream()
    source.execute("INSERT INTO other VALUES (9, 'of others')")
    _restored(here, "item", rows)
    item = _named(here, "item")
    here.job.vouch_for(item, place)
    here.stream()
    made.assert_identical()
    with TrailReader(here.job.trail) as trail:
        position = str(trail.end().position)
    rows = source.query("SELECT id, v FROM item")
    source.execute("DELETE FROM item WHERE id = 1")
    here.stream()
    _restored(here, "item", rows)
    here.job.vouch_for(item, position)
    here.stream()
    made.assert_identical()

    source.execute(f"CREATE TABLE late {TABLE}", "INSERT INTO late VALUES (1, 'one'), (2, 'two'), (4, 'four')")
    here.stream()
    late = _named(here, "late")
    with pytest.raises(SchemaError, match="no rows of it from any place"):
        here.job.vouch_for(late, _now(here).native)
    _restored(here, "late", source.query("SELECT id, v FROM late"))
    with here.running():
        here.job.vouch_for(late)
    _changes(here, "late", 5)
    here.stream()
    made.assert_identical()
    assert here.verify().identical


@pytest.mark.one_case("mysql to mysql", "postgresql to postgresql")
def test_rule_05_a_place_that_the_trail_does_not_have_is_refused(here: JobHere) -> None:
    made, item = here.made, _named(here, "item")
    place, rows = _backup(here, "item")
    here.load()
    here.stream()
    assert made.states()["item"] == "streaming"
    for wrong, why in (("4711", "the trail has no 4711"), ("nowhere", "nowhere"), (_later(place), "has not come to")):
        with pytest.raises(ConfigError, match=why):
            here.job.vouch_for(item, wrong)
    made.source.execute("ALTER TABLE item ADD COLUMN n int", "INSERT INTO item VALUES (7, 'seven', 7)")
    here.stream()
    made.assert_identical()
    with pytest.raises(ConfigError, match="by the definition of now behind"):
        here.job.vouch_for(item, place)
    _restored(here, "item", rows)
    with pytest.raises(PreflightFailed, match="column n is missing"):
        here.job.vouch_for(item, _now(here).native)


@pytest.mark.parametrize("here", [("mariadb", "postgresql")], indirect=True, ids=" to ".join)
def test_rule_05_a_parked_table_can_be_resumed_where_the_call_dies(here: JobHere) -> None:
    """The trail is kept from where it stands, until the target knows the place."""
    made, source, item = here.made, here.made.source, _named(here, "item")
    made.write_job('[apply]\non_error = "park"\n')
    here.load()
    here.stream()
    made.target.execute(f"ALTER TABLE {made.there}.item ADD CONSTRAINT small CHECK (id < 50)")
    source.execute("INSERT INTO item VALUES (60, 'sixty')")
    here.stream()
    assert made.states()["item"] == "parked"
    hold = here.job.names.table(TableId.parse(item))
    held = retention.readers(here.job.trail)[hold].sequence
    _changes(here, "item", 5)
    here.stream()
    place, _ = _backup(here, "item")
    failpoints.arm({VARIABLE: "load.vouched=raise"})
    with pytest.raises(FailpointReached):
        here.job.vouch_for(item, place)
    failpoints.arm({})
    assert retention.readers(here.job.trail)[hold].sequence == held
    made.target.execute(f"ALTER TABLE {made.there}.item DROP CONSTRAINT small")
    assert here.job.resume(item)
    here.stream()
    made.assert_identical()
    assert hold not in retention.readers(here.job.trail)


def _later(place: str) -> str:
    """A place some way behind this one."""
    if ":" in place:
        file, _, offset = place.rpartition(":")
        return f"{file}:{int(offset) + 100_000_000}"
    high, _, low = place.partition("/")
    return f"{int(high, 16) + 1:X}/{low}"


@pytest.mark.one_case("mysql to mysql")
def test_rule_14_a_set_of_transactions_is_a_place(here: JobHere) -> None:
    """GTIDs of a MySQL or MariaDB, or a snapshot of a PostgreSQL, with changes on both sides of it."""
    made, source, item = here.made, here.made.source, _named(here, "item")
    if source.server.name == "postgresql":
        (said,) = source.query("SELECT pg_current_snapshot()::text")[0]
    else:
        name = "gtid_current_pos" if source.server.name == "mariadb" else "gtid_executed"
        (said,) = source.query(f"SELECT @@GLOBAL.{name}")[0]
    if not said:
        with pytest.raises(ConfigError, match="neither a place"):
            here.job.vouch_for(item, "0-1-1")
        return
    _, rows = _backup(here, "item")
    _changes(here, "item", 5)
    here.capture()
    made.target.execute(f"CREATE SCHEMA IF NOT EXISTS {made.there}")
    _restored(here, "item", rows)
    wrong, why = str(said).replace("\n", "").replace(":1-", ":2-", 1), "it lacks .*:1, which is from before the trail"
    if source.server.name == "postgresql":
        wrong, why = f"1:{int(str(said).split(':')[1]) + 100_000}:", "has not come to transaction"
    if wrong != said:  # of a MariaDB's set nothing can be missing in the middle
        with pytest.raises(ConfigError, match=why):
            here.job.vouch_for(item, wrong)
    here.job.vouch_for(item, str(said).replace("\n", ""))
    here.load()
    here.stream()
    made.assert_identical()
    assert here.verify().identical
