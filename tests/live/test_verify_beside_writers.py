"""Verification beside a running job while writers go on: never a false difference, every real one is found, and what
nobody can tell is pending. Without Spark."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from anabranch.contracts import Bounds
from anabranch.errors import ConfigError, StateError
from anabranch.job import verifying
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.in_time import in_time, until
from anabranch.trail.holding import LONGEST, Hold
from anabranch.trail.reader import TrailReader
from anabranch.verify import again, both_ends, report, sampling, since
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.sampling import drawn
from anabranch.verify.wanted import Sample
from anabranch.view.running import Part
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import PostgresToMysql

HOT, MANY = 4, 400
TABLES = (
    "CREATE TABLE hot (id INT PRIMARY KEY, n INT NOT NULL, word VARCHAR(20))",
    "CREATE TABLE many (id INT PRIMARY KEY, n INT NOT NULL, word VARCHAR(20))",
    "CREATE TABLE still (id INT PRIMARY KEY, word VARCHAR(20))",
    "CREATE TABLE bag (n INT, word VARCHAR(20))",
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, parent_id INT, FOREIGN KEY (parent_id) REFERENCES parent (id) ON DELETE CASCADE)",
    "INSERT INTO hot VALUES " + ", ".join(f"({n}, 0, 'hot {n}')" for n in range(HOT)),
    "INSERT INTO many VALUES " + ", ".join(f"({n}, 0, 'many {n}')" for n in range(MANY)),
    "INSERT INTO still VALUES " + ", ".join(f"({n}, 'still {n}')" for n in range(50)),
    "INSERT INTO bag VALUES (1, 'a'), (1, 'a'), (2, 'b')",
)
VERIFICATIONS, PATIENCE = 3, 200.0
REST, LONGEST_REST = 0.005, 0.3  # seconds between two transactions of a writer


def writing(number: int, draw: random.Random) -> Iterator[Sequence[str]]:
    """Transactions without end; those of two writers meet in the hot rows alone."""
    while True:
        key, count = draw.randrange(HOT), draw.randrange(1000)
        yield [f"UPDATE hot SET n = n + 1, word = 'w{count}' WHERE id = {key}"]
        one = draw.randrange(MANY // 2) * 2 + number
        yield [f"UPDATE many SET n = {count} WHERE id = {one}", f"UPDATE hot SET n = {count} WHERE id = {key}"]
        yield [f"DELETE FROM many WHERE id = {one}"]
        yield [f"INSERT INTO many VALUES ({one}, {count}, 'again')"]
        yield [
            f"UPDATE many SET id = {one + 10_000} WHERE id = {one}",
            f"UPDATE many SET id = {one} WHERE id = {one + 10_000}",
        ]
        yield [f"INSERT INTO bag VALUES ({count}, 'c')", f"DELETE FROM bag WHERE n = {draw.randrange(1000)}"]
        parent = 1000 * draw.randrange(3) + number
        yield [f"INSERT INTO parent VALUES ({parent})", f"INSERT INTO child VALUES ({parent}, {parent})"]
        yield [f"DELETE FROM parent WHERE id = {parent}"]


@dataclass
class Writers:
    """`done`: transactions that each has committed. `rest`: seconds between two of them."""

    done: list[int] = field(default_factory=lambda: [0, 0])
    rest: float = REST

    def go_on(self, transactions: int) -> None:
        """Wait until they have committed so many more."""
        then = sum(self.done) + transactions
        until(lambda: sum(self.done) > then, "somebody writes")

    def give_way(self) -> None:
        """Write half as often: on a slow machine apply would else never come to what was written last."""
        self.rest = min(2 * self.rest, LONGEST_REST)


@contextmanager
def writers(database: Database) -> Iterator[Writers]:
    """Two writers, some hundred transactions a second."""
    is_over, writers = threading.Event(), Writers()

    def write(number: int) -> None:
        with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
            for statements in writing(number, random.Random(number)):
                if is_over.is_set():
                    return
                try:
                    for statement in statements:
                        cursor.execute(statement)
                    connection.commit()
                    writers.done[number] += 1
                except (psycopg.Error, pymysql.err.Error):  # the two have locked each other out, and what comes of it
                    connection.rollback()
                is_over.wait(writers.rest)

    threads = [threading.Thread(target=write, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    try:
        yield writers
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


@pytest.fixture(params=[("mysql", "postgresql"), ("logical_postgresql", "mariadb")], ids=" to ".join)
def here(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobHere]:
    there, to = (request.getfixturevalue(name) for name in request.param)
    source, target = create_database(there, "beside"), create_database(to, "beside")
    source.execute(*TABLES)
    kind = PostgresToMysql if there.name == "postgresql" else Scenario
    made = JobHere(kind(source, target, tmp_path, name=unique_name("job")))
    made.load()
    made.stream()
    yield made
    made.job.drop(execute=True)
    drop_database(source)
    drop_database(target)


@pytest.mark.one_case("mysql to postgresql")
def test_rule_25_pitfall_75_verification_beside_writers(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    with here.running() as (capture, _), writers(here.made.source) as busy:
        verified, late = 0, time.monotonic() + PATIENCE
        while verified < VERIFICATIONS:
            in_time(late, f"{verified} verifications were decided")
            busy.go_on(30)
            if nothing_differs(here.verify(patterns=keyed(here))):
                verified += 1
            else:
                busy.give_way()
        what_is_late_is_looked_at_again(here, busy, monkeypatch)
        what_has_no_key_is_pending(here, monkeypatch)
        what_differs_is_found(here, busy)
        what_changed_since_a_position_is_looked_at(here, busy)
        what_is_drawn_is_compared(here, busy, monkeypatch)
        what_takes_too_long_is_pending(here)
        capture.reached()
        without_capture_it_is_pending(here, monkeypatch)
    monkeypatch.undo()
    with pytest.raises(StateError, match="no part of it does"):
        here.verify(since="1")


def keyed(here: JobHere) -> tuple[str, ...]:
    return tuple(f"{here.made.schema}.{name}" for name in ("hot", "many", "still", "parent", "child"))


def what_is_late_is_looked_at_again(here: JobHere, busy: Writers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apply is held from before a row changes until that row is looked at again: both ends differ when they are read first."""
    look, looked, late = again.Again._look, list[int](), time.monotonic() + PATIENCE
    with ExitStack() as held, monkeypatch.context() as patched:

        def counted(self: Any, one: Any, keys: Sequence[bytes], found: Any) -> list[bytes]:
            looked.append(len(keys))
            held.close()
            return look(self, one, keys, found)

        patched.setattr(again.Again, "_look", counted)
        for number in itertools.takewhile(lambda _: not looked, itertools.count()):  # a hold has an end
            in_time(late, "a row that was late was looked at again")
            held.callback(Hold(here.job.names.held(here.job.trail), 0, LONGEST).close)
            here.made.source.execute(f"UPDATE still SET word = 'late {number}' WHERE id = 30")
            _, found = decided(here, busy, "still", patterns=(f"{here.made.schema}.still",))
            held.close()
            assert found["still"].identical, str(found["still"])
    here.made.source.execute("UPDATE still SET word = 'still 30' WHERE id = 30")


def what_has_no_key_is_pending(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """While somebody writes to it all the time."""
    with monkeypatch.context() as short:
        short.setattr(verifying, "PATIENCE", 0.5)
        (bag,) = here.verify(patterns=(f"{here.made.schema}.bag",)).tables
    assert bag.identical or (bag.is_undecided and bag.why in (again.NO_KEYS, again.LATE))


def nothing_differs(found: Verification) -> bool:
    """Also where apply is so late that not all could be told. Returns whether all was, but children of parents that come
    and go."""
    assert not [str(one) for one in found.tables if one.differs]
    assert found.exit_code in (0, 9) and found.positions is not None
    return {"hot", "many", "still", "parent"} <= {one.source.partition(".")[2] for one in found.tables if one.identical}


def decided(here: JobHere, busy: Writers, *tables: str, **wanted: Any) -> tuple[Verification, dict[str, TableResult]]:
    """Verify until nothing of these tables is pending, which it is where apply is late. Nothing of them is left out."""
    late = time.monotonic() + PATIENCE
    while True:
        found = here.verify(**wanted)
        results = {one.source.partition(".")[2]: one for one in found.tables}
        if not any(results[table].pending for table in tables):
            return found, results
        in_time(late, f"{tables} were decided: {found.summary}")
        busy.give_way()


def what_differs_is_found(here: JobHere, busy: Writers) -> None:
    """A value, in a row that rests and in one that never does; a row that is missing and one that is extra."""
    there, target = here.made.there, here.made.target
    target.execute(
        f"UPDATE {there}.still SET word = 'still 8' WHERE id = 7",
        f"DELETE FROM {there}.still WHERE id = 9",
        f"INSERT INTO {there}.still VALUES (1000, 'extra')",
        f"INSERT INTO {there}.many VALUES (5000, 1, 'extra')",
    )
    _, found = decided(here, busy, "still", "many", patterns=keyed(here))
    still, many = found["still"], found["many"]
    assert (still.missing, still.extra, still.different, still.pending) == (1, 1, 1, 0)
    assert (many.missing, many.extra, many.different) == (0, 1, 0) and many.sample[0].key == {"id": "5000"}
    assert not [str(one) for name, one in found.items() if one.differs and name not in ("still", "many")]
    target.execute(
        f"UPDATE {there}.still SET word = 'still 7' WHERE id = 7",
        f"INSERT INTO {there}.still VALUES (9, 'still 9')",
        f"DELETE FROM {there}.still WHERE id = 1000",
        f"DELETE FROM {there}.many WHERE id = 5000",
    )


def what_changed_since_a_position_is_looked_at(here: JobHere, busy: Writers) -> None:
    """Of rows that did not change nothing is told, whatever they are."""
    first = here.verify(patterns=keyed(here))
    assert first.positions is not None
    there, target = here.made.there, here.made.target
    target.execute(f"UPDATE {there}.still SET word = 'other' WHERE id IN (20, 21)")
    here.made.source.execute(
        "UPDATE hot SET n = n + 1",
        "INSERT INTO bag VALUES (5000, 'since')",
        "UPDATE still SET word = 'changed' WHERE id IN (21, 22)",
    )
    until(lambda: target.query(f"SELECT word FROM {there}.still WHERE id = 22") == [("changed",)], "apply has it")
    target.execute(f"UPDATE {there}.still SET word = 'wrong' WHERE id = 22")
    found, results = decided(here, busy, "hot", "still", "scenario_mark", since=first.positions[1])
    assert [one.key for one in results["still"].sample] == [{"id": "22"}] and results["still"].rows_source == 2
    assert not [str(one) for name, one in results.items() if one.differs and name != "still"]
    assert results["hot"].identical and results["hot"].rows_source == HOT and results["scenario_mark"].identical
    assert results["bag"].why == since.NO_LOOK and found.exit_code == 4
    assert found.to_json()["since"] == first.positions[1]
    with TrailReader(here.job.trail) as trail:
        begin = (
            f"{trail.first() - 1}@where it begins"  # as `positions` of a verification before the first change has it
        )
    assert here.verify(since=begin, patterns=(f"{here.made.schema}.still",)).since == begin
    with pytest.raises(ConfigError, match="there is no 1@nowhere"):
        here.verify(since="1@nowhere")
    with pytest.raises(StateError, match="does not tell what changed since 999999999"):
        here.verify(since="999999999")
    with pytest.raises(ConfigError, match="'yesterday' is no position"):
        here.verify(since="yesterday")
    target.execute(*(f"UPDATE {there}.still SET word = 'still {key}' WHERE id = {key}" for key in (20, 21, 22)))
    here.made.source.execute(*(f"UPDATE still SET word = 'still {key}' WHERE id = {key}" for key in (21, 22)))


def what_is_drawn_is_compared(here: JobHere, busy: Writers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of the key by its number: what is wrong in it is found, what is wrong elsewhere is not, nothing else is told."""
    still, last = TableId(here.made.schema, "still"), Bounds(("40",))
    ends = [None, *((str(end),) for end in range(0, 50, 10)), None]
    bounds = [Bounds(low, high) for low, high in pairwise(ends)]
    numbers = {last in drawn(Sample(0.1, seed), still, bounds): seed for seed in range(100)}
    with monkeypatch.context() as cut:
        cut.setattr(sampling, "FEWEST", 10)
        cut.setattr(sampling, "UNKNOWN", 10)
        told = here.verify(patterns=keyed(here), sample=Sample(0.25, 1))
        nothing_differs(told)
        many = next(one for one in told.tables if one.source.endswith(".many"))
        assert many.ranges is not None and 0 < many.ranges[0] < many.ranges[1] and many.rows_source < MANY
        cut.setattr(sampling, "distinct", lambda found: iter(bounds))
        here.made.target.execute(f"INSERT INTO {here.made.there}.still VALUES (1000, 'extra')")
        alone = (f"{here.made.schema}.still",)
        found = decided(here, busy, "still", patterns=alone, sample=Sample(0.1, numbers[True]))[1]["still"]
        assert (found.extra, found.rows_source, found.rows_target, found.ranges) == (1, 9, 10, (1, 6))
        other = decided(here, busy, "still", patterns=alone, sample=Sample(0.1, numbers[False]))[1]["still"]
        assert other.identical and other.ranges == (1, 6) and other.rows_source < 50
        here.made.target.execute(f"DELETE FROM {here.made.there}.still WHERE id = 1000")
    with pytest.raises(ConfigError, match="a sample does not go with"):
        here.verify(since="1", sample=Sample(0.1, 1))
    with pytest.raises(ConfigError, match="judged each at its own"):
        here.verify(since="1", max_pause=1.0)
    with pytest.raises(ConfigError, match="is no part of the rows"):
        here.verify(sample=Sample(1.5, 1))


def what_takes_too_long_is_pending(here: JobHere) -> None:
    found = here.verify(patterns=keyed(here), budget=0.001)
    assert found.exit_code == 9 and {one.why for one in found.tables} <= {report.NO_TIME, again.LATE}


def without_capture_it_is_pending(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where capture is killed while both ends are compared."""
    here.made.source.execute(f"INSERT INTO hot VALUES ({HOT}, 0, 'not captured')")
    monkeypatch.setattr(both_ends, "PATIENCE", 0.5)
    monkeypatch.setattr(verifying, "running", lambda job: iter([Part("capture", "", "killed a moment ago")]))
    monkeypatch.setattr(verifying, "PATIENCE", 3.0)
    found = here.verify(patterns=keyed(here))
    assert not [str(one) for one in found.tables if one.differs]
    assert found.exit_code == 9 and "pending" in found.summary
    late = time.monotonic() + PATIENCE
    why = ""
    while why != again.NOT_CAPTURED:  # but where there was no time for a look
        in_time(late, f"it was looked at what capture had reached: {why}")
        (hot,) = here.verify(patterns=(f"{here.made.schema}.hot",)).tables
        assert hot.pending and str(hot).startswith("PENDING")
        why = hot.why
