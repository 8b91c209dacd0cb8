"""Measure jobs as a manager does, and keep that as seconds, minutes and hours. Files of homes and SQLite, no server."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

import pytest

from anabranch.console.sparkline import pieces, sparkline
from anabranch.errors import ConfigError, StateError
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from anabranch.manager.measures import STATES, Measure, rank
from anabranch.manager.monitoring import as_supervised
from anabranch.manager.rates import Rate, Remaining, remaining
from anabranch.manager.statistics import DAY, HOUR, MINUTE, Measured, Point, Series, Statistics
from anabranch.manager.store import ManagerStore
from anabranch.manager.supervising import ProcessState
from anabranch.model.condition import STATES as CONDITIONS
from anabranch.model.metrics import PARKED
from anabranch.model.position import LogMark
from anabranch.state.store import FILE, StateStore
from anabranch.testing.in_time import until
from anabranch.trail.writer import TrailWriter
from tests.unit.job.test_job_lag import chunk
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
NOON = 20_000 * DAY + 12 * HOUR


@pytest.fixture(autouse=True)
def notes_stay_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is: a note of capture counts for 5 seconds, and none comes here."""
    monkeypatch.setattr("anabranch.job.lag.FRESH_SECONDS", 1e9)


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Manager(tmp_path)
    yield made
    made.monitor.end()


@pytest.fixture
def statistics(tmp_path: Path) -> Statistics:
    return Statistics(ManagerStore(tmp_path))


def running(home: Path, applied: int = 0) -> StateStore:
    """Note in a job's home what its parts note while they stream."""
    state = StateStore(home)
    for part in ("run", "capture", "apply"):
        state.part(part, os.getpid(), os.uname().nodename)
    state.phase("streaming")
    state.position("source_end", "0@0")
    state.position("applied", f"{applied}@0")
    return state


def trail_of(home: Path) -> None:
    """Begin a trail, without a transaction."""
    with TrailWriter.open(home / "trail", job="shop", job_uuid="u", source_identity="s", pack=False) as trail:
        trail.heartbeat(LogMark("0", "{}", int(time.time() * 1_000_000)))
        trail.flush()


def lag(seconds: float | None, state: str = "streaming") -> dict[str, Measure]:
    return {"shop": Measure(state, lag=seconds, changes=10.0, rows=0.0)}


def test_a_job_that_streams_is_measured_from_its_files(manager: Manager) -> None:
    manager.add(ADMIN, text())
    home = manager.home / "shop"
    assert manager.monitor.look(0.0, NOON)["shop"].state == "stopped"
    trail_of(home)
    with closing(running(home)) as state:
        state.count("run", {}, {PARKED: 2})
        for now, count in ((100.0, 0), (112.0, 600), (124.0, 1200)):
            state.count("apply", {"changes_applied": count})
            state.seen("apply")
            state.seen("run")
            found = manager.monitor.look(now, NOON)["shop"]
        assert (found.state, found.lag, found.changes, found.parked) == ("streaming", 0.0, 50.0, 2)
        assert found.targets[0].changes == 1200


def test_what_is_at_rest_is_read_anew_only_now_and_then(manager: Manager) -> None:
    manager.add(ADMIN, text())
    trail_of(manager.home / "shop")
    with closing(running(manager.home / "shop")) as state:
        manager.monitor.look(100.0, NOON)
        first = manager.monitor.look(101.0, NOON)["shop"]
        state.phase("waiting", "for an end that is away", "source")
        assert manager.monitor.look(105.0, NOON)["shop"] == first
        assert manager.monitor.look(112.0, NOON)["shop"].state == "waiting"


def test_fifty_jobs_at_rest_are_seldom_read(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute of fifty jobs at rest is a few readings of each one's state.db: measured, 0.8 % of a core."""
    for number in range(50):
        manager.add(ADMIN, text(f"job-{number}"))
        trail_of(manager.home / f"job-{number}")
        running(manager.home / f"job-{number}").close()
    manager.monitor.look(0.0, NOON)
    manager.monitor.look(1.0, NOON)
    read: list[object] = []
    snapshot = StateStore.snapshot
    monkeypatch.setattr(StateStore, "snapshot", lambda store: read.append(store) or snapshot(store))
    for second in range(2, 62):
        manager.monitor.look(float(second), NOON + second)
    assert 50 * 4 < len(read) <= 50 * 8


def ended(home: Path) -> None:
    """Let a job have run, some time ago."""
    with closing(running(home)) as state:
        for part in ("run", "capture", "apply"):
            state.part_ended(part, os.getpid(), os.uname().nodename)
    os.utime(home / FILE, (1e9, 1e9))


def test_what_does_not_run_is_not_read_while_nobody_writes_to_it(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        manager.add(ADMIN, text(f"job-{number}"))
        ended(manager.home / f"job-{number}")
    assert manager.monitor.look(0.0, NOON)["job-0"].state == "stopped"
    read: list[object] = []
    snapshot = StateStore.snapshot
    monkeypatch.setattr(StateStore, "snapshot", lambda store: read.append(store) or snapshot(store))
    for second in range(1, 290):
        manager.monitor.look(float(second), NOON + second)
    assert read == []
    running(manager.home / "job-3").close()
    assert manager.monitor.look(290.0, NOON)["job-3"].state == "streaming" and len(read) == 1
    manager.monitor.look(301.0, NOON)
    assert len(read) == 1 + 5, "and all are looked at now and then, whatever a file's time says"


def test_jobs_that_do_not_run_keep_no_file_open(manager: Manager) -> None:
    manager.add(ADMIN, text())
    ended(manager.home / "shop")
    manager.monitor.look(0.0, NOON)
    file = str(manager.home / "shop" / FILE)
    assert file not in {os.path.realpath(one) for one in Path("/proc/self/fd").iterdir()}


def test_a_job_that_is_behind_and_does_not_run_gets_older(manager: Manager) -> None:
    manager.add(ADMIN, text())
    home = manager.home / "shop"
    with TrailWriter.open(home / "trail", job="shop", job_uuid="u", source_identity="s", pack=False) as trail:
        trail.append(chunk(60.0))
        trail.flush()
    ended(home)
    first = manager.monitor.look(0.0, NOON)["shop"]
    assert first.state == "stopped" and first.lag is not None and first.lag >= 60
    aged, moments = first.lag, count(11.0, 11.0)  # a lag is told by hundredths of a second
    until(lambda: (manager.monitor.look(next(moments), NOON)["shop"].lag or 0) > aged, "it gets older")


def test_a_job_that_is_gone_is_not_measured(manager: Manager) -> None:
    manager.add(ADMIN, text())
    manager.monitor.look(0.0, NOON)
    manager.remove(ADMIN, "shop")
    assert manager.monitor.look(1.0, NOON) == {}


def test_a_file_that_cannot_be_read_is_a_state(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    manager.add(ADMIN, text())
    monkeypatch.delenv("PW")
    assert manager.monitor.look(0.0, NOON)["shop"].detail == "its file cannot be read"


def test_the_manager_knows_better_when_a_process_is_gone(manager: Manager) -> None:
    job = manager.add(ADMIN, text())
    wanted = manager.jobs.want(job.name, True)
    measure = Measure("stopped")
    assert as_supervised(measure, wanted, ProcessState("failed", None, 0, 3, None)).state == "failed"
    assert as_supervised(measure, wanted, ProcessState("waiting", None, 4, 137, 8.0)).state == "died"
    assert as_supervised(measure, wanted, ProcessState("running", 4711, 0, None, None)).state == "starting"
    assert as_supervised(measure, job, ProcessState("stopped", None, 0, 0, None)) == measure


def test_every_state_of_a_job_has_a_rank() -> None:
    assert set(STATES) == set(CONDITIONS)
    assert rank("streaming") < rank("waiting") < rank("failed") < rank("died")


def test_a_rate_is_of_the_last_seconds_and_begins_anew_with_the_count() -> None:
    rate = Rate()
    assert rate.after(0.0, 100) is None
    assert rate.after(1.0, 110) == 10.0
    for second in range(2, 30):
        rate.after(float(second), 110)
    assert rate.after(30.0, 160) == 50.0, "nothing was counted before"
    assert rate.after(31.0, 0) is None and rate.after(32.0, 7) == 7.0
    assert rate.after(33.0, None) is None


def test_a_rate_of_large_pieces_has_the_seconds_before_them() -> None:
    rate = Rate(60.0, is_of_work=False)
    rates = [rate.after(float(second), 300 * (second // 30)) for second in range(91)]
    assert (rates[0], rates[29], rates[30], rates[60], rates[90]) == (None, 0.0, 10.0, 10.0, 10.0)
    assert min(filter(None, rates)) > 5.0 and max(filter(None, rates)) == 10.0


def test_what_is_left_needs_a_rate_and_a_total() -> None:
    assert remaining(10.0, 100, 150) == Remaining(10.0, 5.0)
    assert remaining(10.0, 151, 150) == Remaining(10.0, 0.0), "the total is an estimate"
    assert remaining(10.0, 1, None).seconds is remaining(0.0, 1, 2).seconds is remaining(None, 1, 2).seconds is None


def test_seconds_become_minutes_and_hours(statistics: Statistics) -> None:
    for second in range(2 * HOUR):
        statistics.note(NOON + second, lag(60.0 if second == 61 else 0.0))
        if second % 600 == 599:
            statistics.write(NOON + second + 1)
    now = NOON + 2 * HOUR
    seconds = statistics.series("shop", Measured.LAG, now - 300, now, now=now)
    assert (seconds.step, len(seconds.points), seconds.unit) == (1, 300, "seconds")
    minutes = statistics.series("shop", Measured.LAG, NOON, now, now=now)
    assert (minutes.step, len(minutes.points)) == (60, 120)
    assert minutes.points[1] == Point(NOON + 60, 1.0, 60.0)
    hours = statistics.series("shop", Measured.LAG, NOON - 30 * DAY, now, now=now)
    assert hours.step == HOUR and hours.points == [
        Point(NOON, round(60 / 3600, 3), 60.0),
        Point(NOON + HOUR, 0.0, 0.0),
    ]


def test_what_is_old_goes(statistics: Statistics) -> None:
    for at in (NOON, NOON + 2 * HOUR, NOON + 8 * DAY, NOON + 800 * DAY):
        statistics.note(at, lag(1.0))
        statistics.write(at + HOUR)
    left = statistics._store.rows("SELECT step, at FROM statistic")
    assert [(row["step"], row["at"] - NOON) for row in left] == [(step, 800 * DAY) for step in (1, MINUTE, HOUR)]


def test_a_later_manager_folds_what_an_earlier_one_has_left(statistics: Statistics) -> None:
    for second in range(90):
        statistics.note(NOON + second, lag(2.0))
    statistics.write(NOON + 90)
    later = Statistics(statistics._store)
    later.note(NOON + 200, lag(4.0))
    later.write(NOON + 240)
    found = later.series("shop", Measured.LAG, NOON - 5 * HOUR, NOON + 240, now=NOON + 240)
    assert [(point.at - NOON, point.average) for point in found.points] == [(0, 2.0), (60, 2.0), (180, 4.0)]


def earlier(statistics: Statistics, jobs: int, days: int) -> None:
    """Write minutes that nobody has folded, as an earlier release has left them."""
    with statistics._store.writing() as connection:
        for job in range(1, jobs + 1):
            connection.execute("INSERT INTO statistic_job VALUES (?, ?)", (job, f"job-{job}"))
            rows = [
                (MINUTE, job, NOON + at, 60, 0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0) for at in range(0, days * DAY, MINUTE)
            ]
            connection.executemany("INSERT INTO statistic VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def hours(statistics: Statistics) -> list[tuple[int, int]]:
    found = statistics._store.rows("SELECT job, at FROM statistic WHERE step = 3600 ORDER BY job, at")
    return [(row["job"], (row["at"] - NOON) // HOUR) for row in found]


def test_much_is_folded_and_dropped_in_pieces_between_which_others_come_in(
    statistics: Statistics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.manager.statistics.PIECE", 600)  # five hours of two jobs
    earlier(statistics, 2, 1)
    store, written = statistics._store, list[int]()
    inner = store.writing

    @contextmanager
    def counted() -> Iterator[sqlite3.Connection]:
        with inner() as connection:
            before = connection.total_changes
            yield connection
            written.append(connection.total_changes - before)

    monkeypatch.setattr(store, "writing", counted)
    statistics.write(NOON + DAY)
    assert hours(statistics) == [(job, hour) for job in (1, 2) for hour in range(24)]
    assert len(written) > 5 and max(written) <= 11, "ten hours of a job, and how far that was"
    written.clear()
    statistics.write(NOON + 9 * DAY)
    assert not store.rows("SELECT * FROM statistic WHERE step = 60") and len(written) > 1
    assert hours(statistics) == [(job, hour) for job in (1, 2) for hour in range(24)]


def test_what_was_folded_is_not_folded_again_by_a_later_manager(statistics: Statistics) -> None:
    earlier(statistics, 1, 1)
    statistics.write(NOON + 12 * HOUR)
    with statistics._store.writing() as connection:
        connection.execute("DELETE FROM statistic WHERE step = 3600 AND at < ?", (NOON + 6 * HOUR,))
    Statistics(statistics._store).write(NOON + DAY)
    assert hours(statistics) == [(1, hour) for hour in range(6, 24)]


def test_a_clock_that_is_set_back_stops_no_folding(statistics: Statistics) -> None:
    statistics.write(NOON + 1000 * DAY)
    for second in range(2 * HOUR):
        statistics.note(NOON + second, lag(1.0))
    statistics.write(NOON)
    statistics.write(NOON + 2 * HOUR)
    assert hours(statistics) == [(1, 0), (1, 1)]


def test_what_cannot_be_folded_is_folded_later(statistics: Statistics, monkeypatch: pytest.MonkeyPatch) -> None:
    for second in range(60):
        statistics.note(NOON + second, lag(1.0))
    with monkeypatch.context() as broken, pytest.raises((sqlite3.Error, StateError)):
        broken.setattr("anabranch.manager.statistics._FOLD", "nothing of SQL")
        statistics.write(NOON + 60)
    statistics.write(NOON + 61)
    assert len(statistics._store.rows("SELECT * FROM statistic WHERE step = 60")) == 1


def test_gaps_stay_gaps_and_what_nobody_knows_has_no_point(statistics: Statistics) -> None:
    for second in (0, 1, 2, 10, 11):
        statistics.note(NOON + second, lag(None if second == 1 else 5.0))
    statistics.write(NOON + 12)
    found = statistics.series("shop", Measured.LAG, NOON, NOON + 60)
    assert [point.at - NOON for point in found.points] == [0, 2, 10, 11]
    assert [[point.at - NOON for point in piece] for piece in pieces(found)] == [[0, 2], [10, 11]]


def test_of_states_the_worst_is_kept(statistics: Statistics) -> None:
    for second in range(60):
        statistics.note(NOON + second, lag(0.0, "died" if second == 30 else "streaming"))
    statistics.write(NOON + 60)
    found = statistics.series("shop", Measured.STATE, NOON, NOON + 60, 60)
    assert [point.state for point in found.points] == ["died"]


def test_an_answer_has_a_thousand_points_at_most(statistics: Statistics) -> None:
    for begin, end, step in (
        (NOON - 731 * DAY, NOON, None),
        (NOON - 7 * DAY, NOON, None),
        (NOON - 3599, NOON + 1, None),
    ):
        found = statistics.series("shop", Measured.LAG, begin, end, step, NOON)
        assert (end - begin) / found.step <= 999
    with pytest.raises(ConfigError, match="more than 1000 points"):
        statistics.series("shop", Measured.LAG, NOON - HOUR, NOON, 1)
    with pytest.raises(ConfigError, match="ends before"):
        statistics.series("shop", Measured.LAG, NOON, NOON)


def test_what_cannot_be_written_is_bounded(statistics: Statistics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.manager.statistics.MOST", 5)
    for second in range(10):
        statistics.note(NOON + second, lag(1.0))
    statistics.write(NOON + 10)
    assert len(statistics.series("shop", Measured.LAG, NOON, NOON + 10).points) == 5


def test_a_sparkline_is_an_image_with_a_text_and_no_script() -> None:
    points = [Point(NOON + second, float(second), 2.0 * second) for second in (0, 1, 2, 10)]
    drawn = sparkline(Series("shop", Measured.LAG, "seconds", NOON, NOON + 60, 1, points), 'lag of <"shop">')
    root = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") == 'lag of <"shop">: at most 20 seconds'
    assert len(root.findall(f"{space}polyline")) == 2 and "style=" not in drawn and "<script" not in drawn
    empty = Series("shop", Measured.LAG, "seconds", NOON, NOON + 60, 1, [])
    assert "nothing was measured" in sparkline(empty, "lag")
