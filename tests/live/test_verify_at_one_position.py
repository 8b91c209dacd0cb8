"""Verification at one position beside writers: apply is held for a moment, and both ends are read in snapshots of one place.
Where that cannot be, the result says why, and is right all the same. Without Spark."""

from __future__ import annotations

import io
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from anabranch.apply.run import FOR_VERIFICATION
from anabranch.job import verifying
from anabranch.job.watching import ApplyWatcher
from anabranch.model.ids import TableId
from anabranch.state.store import StateStore
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.in_time import PATIENCE, in_time, until
from anabranch.trail.holding import Hold
from anabranch.trail.reader import TrailReader
from anabranch.verify import both_ends, exact
from anabranch.verify.again import LEFT_OUT
from anabranch.verify.digest import GONE
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.wanted import Sample
from rigs.job_here import JobHere
from rigs.scenario import PARKS_ADDED, Scenario
from rigs.scenario_mysql_target import MysqlToMysql, PostgresToMysql
from rigs.scenario_postgresql import FromPostgres

TABLES = (
    "CREATE TABLE hot (id int PRIMARY KEY, n int NOT NULL)",
    "CREATE TABLE bag (n int, word varchar(20))",
    "CREATE TABLE still (id int PRIMARY KEY, word varchar(20))",
    "CREATE TABLE odd (id int PRIMARY KEY, word varchar(20))",
    "INSERT INTO hot VALUES " + ", ".join(f"({n}, 0)" for n in range(1, 21)),
    "INSERT INTO bag VALUES (1, 'a'), (1, 'a'), (2, 'b')",
    "INSERT INTO still VALUES " + ", ".join(f"({n}, 'still {n}')" for n in range(1, 51)),
)
# The four pairs of families: a PostgreSQL shares a snapshot, of the others one connection alone reads in one.
PAIRS = {
    ("logical_postgresql", "postgresql"): FromPostgres,
    ("logical_postgresql", "mysql"): PostgresToMysql,
    ("mysql", "postgresql"): Scenario,
    ("mariadb", "mariadb"): MysqlToMysql,
}
OLD = ("CREATE TABLE old (id int PRIMARY KEY, word varchar(20)) ENGINE = MyISAM", "INSERT INTO old VALUES (1, 'a')")
MOST = 30.0  # seconds: a busy machine is to have the time


# Its source is read as that of the first pair, its target as that of the last one.
LONG = [("logical_postgresql", "mysql")]


@pytest.fixture(
    params=[pytest.param(pair, marks=pytest.mark.long) if pair in LONG else pair for pair in PAIRS], ids=" to ".join
)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobHere]:
    source, target = (create_database(request.getfixturevalue(name), "exact") for name in request.param)
    source.execute(*TABLES, *(OLD if request.param[0] != "logical_postgresql" else ()))
    made = JobHere(PAIRS[request.param](source, target, tmp_path, name=unique_name("job")))
    made.made.write_job(PARKS_ADDED)
    made.load()
    made.stream()
    yield made
    made.job.drop(execute=True)
    drop_database(source)
    drop_database(target)


@contextmanager
def writer(database: Database) -> Iterator[None]:
    """Two rows change their values together, and equal rows come and go: no two moments are alike."""
    is_over, draw = threading.Event(), random.Random(1)

    def write() -> None:
        with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
            while not is_over.wait(0.003):
                one, other = draw.sample(range(1, 21), 2)
                cursor.execute(f"UPDATE hot SET n = n + 1 WHERE id = {one}")
                cursor.execute(f"UPDATE hot SET n = n - 1 WHERE id = {other}")
                cursor.execute(f"INSERT INTO bag VALUES ({draw.randrange(5)}, 'x')")
                cursor.execute(f"DELETE FROM bag WHERE n = {draw.randrange(5)} AND word = 'x'")
                connection.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def noted(here: JobHere) -> Iterator[ApplyWatcher]:
    """Provide a watcher that notes for `status` what apply tells, as the part of a job does."""
    me = ("apply", os.getpid(), os.uname().nodename)
    with closing(StateStore(here.job.config.home)) as state:
        state.part(*me)
        yield ApplyWatcher(state)
        state.part_ended(*me)


def named(found: Verification) -> dict[str, TableResult]:
    return {one.source.partition(".")[2]: one for one in found.tables}


def exactly(here: JobHere, *may_differ: str, **wanted: Any) -> Verification:
    """Verify until both ends were read at one position: a busy machine may need longer than apply may be held."""
    late = time.monotonic() + PATIENCE
    while not (found := here.verify(max_pause=MOST, **wanted)).exact:
        assert not [str(one) for name, one in named(found).items() if one.differs and name not in may_differ]
        in_time(late, found.not_exact)
    return found


@pytest.mark.timeout(600)
@pytest.mark.one_case("logical_postgresql to postgresql", "mariadb to mariadb")
def test_rule_25_both_ends_are_read_at_one_position(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (verifying, both_ends):  # nothing is pending because this machine is slow
        monkeypatch.setattr(module, "PATIENCE", PATIENCE)
    with noted(here) as watcher, here.running(watcher) as (_, apply), writer(here.made.source):
        all_of_it_is_equal_also_what_has_no_key_and_never_rests(here)
        what_differs_is_found(here)
        a_way_back_that_is_not_armed_takes_nothing(here)
        two_at_once(here)
        nothing_is_applied_while_it_is_held(here)
        a_table_that_is_emptied_is_not_exact_alone(here, monkeypatch)
        a_table_that_parks_meanwhile_is_told(here, monkeypatch)
        apply.reached()
        where_nothing_is_applied_it_is_not_exact(here)


def all_of_it_is_equal_also_what_has_no_key_and_never_rests(here: JobHere) -> None:
    found = exactly(here)
    assert [str(one) for one in found.tables if not one.identical] == [] and found.exit_code == 0
    assert found.paused > 0 and "@" in found.exact and not found.not_exact
    assert found.to_json()["exact"] == found.exact and found.to_json()["paused"] > 0
    tables, text = named(found), io.StringIO()
    found.write(text)
    if old := tables.pop("old", None):  # its engine has no snapshots
        assert (old.exact, old.not_exact) == ("", exact.NO_TRANSACTIONS) and "@" in old.until
        assert f"{old}; looked again until {old.until}\n" in text.getvalue()
        assert f"not exact, looked again until {old.until}: {old.source}: {exact.NO_TRANSACTIONS}" in text.getvalue()
    assert {(one.exact, one.not_exact) for one in tables.values()} == {(found.exact, "")}
    assert f"{tables['bag']}; exact at {found.exact}\n" in text.getvalue()
    assert here.verify(patterns=(f"{here.made.schema}.still",)).exact == "", "nobody asked for it"
    part = exactly(here, sample=Sample(0.5, 1), patterns=(f"{here.made.schema}.hot",))
    assert part.identical and part.sample is not None


def what_differs_is_found(here: JobHere) -> None:
    there = here.made.there
    here.made.target.execute(f"UPDATE {there}.still SET word = 'still 8' WHERE id = 7")
    found = named(exactly(here, "still"))
    assert (found["still"].different, found["still"].sample[0].key) == (1, {"id": "7"})
    assert [name for name, one in found.items() if one.differs] == ["still"]
    here.made.target.execute(f"UPDATE {there}.still SET word = 'still 7' WHERE id = 7")


def a_way_back_that_is_not_armed_takes_nothing(here: JobHere) -> None:
    """A job that is left out and has nothing at the source changes no row there. Of an origin that is no job nobody knows."""
    there, text = here.made.there, here.made.job_file.read_text()
    with leaving_out(here, "anabranch:way-back"):
        what_differs_is_found(here)
        here.made.target.execute(f"UPDATE {there}.still SET word = 'still 8' WHERE id = 7")
        found = named(here.verify(patterns=(f"{here.made.schema}.still",)))["still"]
        assert (found.different, found.differs, found.pending) == (1, True, 0)
    with leaving_out(here, "server:77"):
        found = named(here.verify(max_pause=MOST, patterns=(f"{here.made.schema}.still",)))["still"]
        assert (found.different, found.pending, found.why) == (0, 1, LEFT_OUT) and found.not_exact == exact.LEAVES_OUT
    here.made.target.execute(f"UPDATE {there}.still SET word = 'still 7' WHERE id = 7")
    assert here.made.job_file.read_text() == text


@contextmanager
def leaving_out(here: JobHere, origin: str) -> Iterator[None]:
    text = here.made.job_file.read_text()
    here.made.job_file.write_text(text.replace("[target]\n", f'leave_out = ["{origin}"]\n[target]\n', 1))
    try:
        yield
    finally:
        here.made.job_file.write_text(text)


def two_at_once(here: JobHere) -> None:
    """The second one does not wait: it looks again."""
    job = here.job
    with closing(Hold(job.names.held(job.trail), 1 << 60, 60.0)):
        found = here.verify(max_pause=MOST, patterns=(f"{here.made.schema}.still",))
    assert found.identical and not found.exact and "held by another verification" in found.not_exact


def nothing_is_applied_while_it_is_held(here: JobHere) -> None:
    """Nor lost: it comes as soon as apply is let go, and at once where the time is over."""
    job, target = here.job, here.made.target
    newest = f"SELECT count(*) FROM {here.made.there}.still WHERE id = 1000"
    hold = Hold(job.names.held(job.trail), 0, 60.0)
    with TrailReader(job.trail) as trail:
        before = trail.end().position.sequence
        here.made.source.execute("INSERT INTO still VALUES (1000, 'held')")
        until(lambda: trail.end().position.sequence > before + 20, "capture has it")
    until(lambda: waits_for_it(here) or time.monotonic() - hold.began > 55, "status says what apply waits for")
    is_there, lasted = target.query(newest) == [(1,)], time.monotonic() - hold.began
    assert not is_there or lasted > 55, "nobody holds apply for longer than a minute"
    hold.close()
    until(lambda: target.query(newest) == [(1,)], "it is applied")
    here.made.source.execute("DELETE FROM still WHERE id = 1000")
    with closing(Hold(job.names.held(job.trail), 0, 0.2)):
        until(lambda: target.query(newest) == [(0,)], "it is applied although apply is held")


def waits_for_it(here: JobHere) -> bool:
    found = here.job.status()
    return (found["phase"], found["detail"]) == ("waiting", FOR_VERIFICATION)


def a_table_that_is_emptied_is_not_exact_alone(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the source behind the snapshot, which does not keep its rows."""
    opened = exact.Opening._held

    def emptied(self: Any, *ends: Any) -> Any:
        found = opened(self, *ends)
        if found.shared is not None:
            here.made.source.execute("TRUNCATE still")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(exact.Opening, "_held", emptied)
        found = exactly(here, by_rows=True)
    tables = named(found)
    assert tables["still"].not_exact.startswith(GONE) and not tables["still"].exact
    others = {tables[name].exact for name in ("hot", "bag", "odd")}
    assert others == {found.exact} and not [str(one) for one in found.tables if one.differs]


def a_table_that_parks_meanwhile_is_told(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply comes to where it parks while it is held up to a position behind that; then it is parked from the start."""
    held, odd = exact.Opening._shared, f"{here.made.schema}.odd"

    def altered(self: Any, *ends: Any) -> Any:
        if TableId.parse(odd) not in parked(here):
            here.made.source.execute("ALTER TABLE odd ADD COLUMN more int", "INSERT INTO odd (id) VALUES (1)")
            until(lambda: TableId.parse(odd) in parked(here), "capture has parked it")
        return held(self, *ends)

    with monkeypatch.context() as patched:
        patched.setattr(exact.Opening, "_shared", altered)
        for found in (exactly(here), exactly(here)):
            assert [one.source for one in found.parked] == [odd] and "odd" not in named(found)
            assert not [str(one) for one in found.tables if one.differs]


def parked(here: JobHere) -> Mapping[TableId, str]:
    with TrailReader(here.job.trail) as trail:
        return trail.history.parked()


def where_nothing_is_applied_it_is_not_exact(here: JobHere) -> None:
    """As where apply has just been killed: its end is waited for no longer than it might have been held."""
    job = here.job
    with TrailReader(job.trail) as trail:
        before = trail.end().position.sequence
        until(lambda: trail.end().position.sequence > before + 20, "more is captured than was applied")
    found = here.verify(max_pause=0.3, patterns=(f"{here.made.schema}.still",), budget=3.0)
    assert not found.exact and not [str(one) for one in found.tables if one.differs]
    assert found.not_exact in (exact.IN_NO_TIME.format(0.3), exact.NO_PLACE)
