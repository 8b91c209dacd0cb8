"""Rows of loads that stay for readers who join later: with the segments that they need, for a time, in so much room."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.config.reading import load_job
from anabranch.job import pruning, status
from anabranch.state.store import time_text
from anabranch.trail import load_keeping, load_readers, retention
from anabranch.trail.load_keeping import READER
from anabranch.trail.load_readers import Note, Taken
from anabranch.trail.retention import RetentionLimits
from anabranch.trail.writer import TrailWriter
from anabranch.trail_end import room
from anabranch.trail_end.room import LoadRoom
from anabranch.view.job_view import JobView
from rigs.parcels import write
from rigs.trail_loads import TABLE, a_load

ONE, LATE = "apply@one.1", "pump late"
HOUR = 3600.0
KEEP = RetentionLimits(0, load_seconds=HOUR)
OpenWriter = Callable[..., TrailWriter]


@pytest.fixture
def trail(open_writer: OpenWriter, tmp_path: Path) -> Path:
    """A trail in many segments, with a load and one reader that has all of it."""
    writer = open_writer(limits=KEEP, segment_bytes=1)
    found = tmp_path / "trail"
    a_load(found)
    for number in range(1, 9):
        write(writer, number, number)
    writer.close()
    retention.register(found, ONE, 8)
    has(found, ONE, 1)
    return found


def has(trail: Path, reader: str, load: int, table: str = TABLE) -> None:
    known = load_readers.read(trail, reader).tables
    load_readers.save(trail, reader, Note({**known, table: Taken(load, 1, True)}))


def rows(trail: Path) -> list[str]:
    return sorted(path.relative_to(trail).as_posix() for path in (trail / "load").rglob("*.arrow"))


def manifest(trail: Path, table: str = TABLE) -> float:
    """Return when a table's load was through."""
    return (trail / "load" / table / "manifest.json").stat().st_mtime


def capturing(trail: Path) -> JobView:
    """Return the job that captures into the trail."""
    file = trail.parent / "shop.toml"
    file.write_text(
        f'name = "shop"\n[source]\nurl = "mysql://u:p@127.0.0.1:3306"\n[target]\nurl = "trail+file://{trail}"\n'
        '[[rules]]\ninclude = ["shop.*"]\n[trail]\nload_retain_hours = 1\n'
    )
    return JobView(load_job(file), file)


def tended(trail: Path, limits: RetentionLimits, now: float) -> list[str]:
    load_keeping.tend(trail, limits, now=now)
    load_readers.sweep(trail)
    return retention.drop_old(trail, limits)


def test_files_and_segments_stay_for_who_joins_within_the_time(trail: Path) -> None:
    names, through = rows(trail), manifest(trail)
    assert tended(trail, KEEP, through + HOUR - 1) == [] and rows(trail) == names
    (found,) = load_keeping.kept(trail)
    assert (found.table, found.bytes, found.since, found.is_theirs) == (TABLE, 8, through, False)
    retention.register_copy(trail, LATE, 0)
    assert [one.is_theirs for one in load_keeping.kept(trail)] == [True]
    assert tended(trail, KEEP, through + HOUR) == [] and rows(trail) == names, "it has come, and is waited for"
    assert list(load_keeping.kept(trail)) == []
    load_readers.note_copied(trail, LATE, {TABLE: 1})
    retention.advance(trail, LATE, 8)
    assert tended(trail, KEEP, through + HOUR) and not rows(trail)


def test_they_go_behind_the_time_where_nobody_has_joined(trail: Path) -> None:
    through = manifest(trail)
    assert tended(trail, KEEP, through + HOUR), "segments go, too"
    assert not rows(trail)
    assert retention.readers(trail)[READER].sequence == 8


def test_as_long_as_nobody_reads_the_trail_everything_stays(trail: Path) -> None:
    retention.unregister(trail, ONE)
    names = rows(trail)
    assert tended(trail, KEEP, manifest(trail) + 9 * HOUR) == [] and rows(trail) == names
    found = list(load_keeping.kept(trail))
    assert [one.table for one in found] == [TABLE] and retention.readers(trail)[READER].sequence == 0
    assert load_keeping.kept_until(trail, found, HOUR) is None, "no time ends it"
    retention.register(trail, ONE, 0)
    assert load_keeping.kept_until(trail, found, HOUR) == manifest(trail) + HOUR
    assert load_keeping.kept_until(trail, found, None) is None and load_keeping.kept_until(trail, [], HOUR) is None


def test_what_was_let_go_beside_a_slow_reader_stays_once_that_is_gone(trail: Path) -> None:
    """The only reader is dropped in order to begin anew: it finds what it would find without the key."""
    names, segments = rows(trail), sorted(one.name for one in trail.glob("*.segment"))
    load_readers.save(trail, ONE, Note())
    retention.unregister(trail, ONE)
    retention.register(trail, ONE, 0)
    later = manifest(trail) + 9 * HOUR
    assert tended(trail, KEEP, later) == [] and not list(load_keeping.kept(trail))
    retention.unregister(trail, ONE)
    load_readers.forget(trail, ONE)
    for _ in range(2):
        assert tended(trail, KEEP, later) == [] and rows(trail) == names
    retention.hold(trail, "load shop.items", 8)
    assert tended(trail, KEEP, later) == [] and rows(trail) == names, "a load that comes is no reader"
    assert sorted(one.name for one in trail.glob("*.segment")) == segments
    retention.register(trail, ONE, 0)
    (found,) = load_readers.unread(trail)
    assert (found.table, found.awaited) == (TABLE, (ONE,))


def test_a_load_that_begins_between_two_looks_is_not_passed(trail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end is looked at before the holds: what registers between the looks is seen by one of them."""
    looked = load_keeping._end

    def and_begin(trail: Path) -> int:
        found = looked(trail)
        retention.hold(trail, "load shop.items", 5)
        return found

    monkeypatch.setattr(load_keeping, "_end", and_begin)
    load_keeping.tend(trail, KEEP, now=manifest(trail) + HOUR)
    assert retention.readers(trail)[READER].sequence == 5


@pytest.mark.parametrize(
    ("how", "behind"), [("trail prune", 4), ("the next look of capture, where that was killed", 8)]
)
def test_what_is_kept_is_given_up_with_the_log_that_goes_by_force(trail: Path, how: str, behind: int) -> None:
    load_keeping.give_up(trail)
    assert [one.table for one in load_keeping.kept(trail)] == [TABLE], "nothing of it was removed"
    if how == "trail prune":
        assert pruning.prune_by_force(capturing(trail), 4)[1] == [READER]
    else:
        assert retention.drop_needed(trail, 4)
        tended(trail, KEEP, manifest(trail))
    assert not list(load_keeping.kept(trail)) and retention.readers(trail)[READER].sequence == behind
    a_load(trail, table="shop.items")
    has(trail, ONE, 1, "shop.items")
    assert [one.table for one in load_keeping.kept(trail)] == ["shop.items"], "what comes later is kept"
    load_readers.sweep(trail)
    assert [one.split("/")[1] for one in rows(trail)] == ["shop.items"] * 2


def test_the_oldest_go_where_there_is_no_room_but_those_that_are_waited_for(trail: Path) -> None:
    older, newest = "shop.items", "shop.notes"
    for number, table in enumerate((older, newest)):
        a_load(trail, table=table)
        at = manifest(trail) + (number or -1) * 10
        os.utime(trail / "load" / table / "manifest.json", (at, at))
        has(trail, ONE, 1, table)
    limits = RetentionLimits(0, load_seconds=HOUR, load_bytes=24)
    assert [one.table for one in load_keeping.kept(trail)] == [older, TABLE, newest]
    tended(trail, limits, manifest(trail))
    assert load_readers.size(trail) == 24
    tended(trail, RetentionLimits(0, load_seconds=HOUR, load_bytes=17), manifest(trail))
    assert [one.table for one in load_keeping.kept(trail)] == [TABLE, newest] and load_readers.size(trail) == 16
    load_readers.save(trail, ONE, Note({newest: Taken(1, 1, True)}))  # it needs TABLE again
    tended(trail, RetentionLimits(0, load_seconds=HOUR, load_bytes=1), manifest(trail))
    assert [one.table for one in load_keeping.kept(trail)] == [TABLE] and load_readers.size(trail) == 8


def test_a_load_waits_for_no_reader_that_may_come(trail: Path) -> None:
    """Rows that only later readers would need make room for others; the text names readers that are there."""
    room._looks.clear()
    assert LoadRoom(trail, 1)() == "" and not rows(trail)
    a_load(trail, table="shop.items")
    room._looks.clear()
    said = LoadRoom(trail, 1)()
    assert said.endswith("it waits for apply@one.1 (1 tables)") and READER not in said


def test_a_load_that_a_reader_leaves_aside_holds_up_no_other_one(trail: Path) -> None:
    """It is kept for who comes later, too, and is not let go, because the reader may yet be asked to take it."""
    load_readers.save(trail, ONE, Note({TABLE: Taken(1, is_left=True)}))
    names = rows(trail)
    room._looks.clear()
    assert LoadRoom(trail, 1)() == "" and rows(trail) == names
    assert [one.is_theirs for one in load_keeping.kept(trail)] == [True]
    a_load(trail, table="shop.items")
    room._looks.clear()
    said = LoadRoom(trail, 7)()
    assert said.startswith("load_limit_gb: 8e-09 GB") and said.endswith("it waits for apply@one.1 (1 tables)")


def test_a_later_load_of_a_table_stays_as_long(trail: Path) -> None:
    assert tended(trail, KEEP, manifest(trail) + HOUR) and not rows(trail)
    retention.hold(trail, "load shop.orders", 8)
    names = a_load(trail, 2)
    has(trail, ONE, 2)
    retention.unregister(trail, "load shop.orders")
    assert tended(trail, KEEP, manifest(trail) + HOUR - 1) == [] and rows(trail) == names
    tended(trail, KEEP, manifest(trail) + HOUR)
    assert not rows(trail)


def test_while_a_load_goes_on_the_trail_is_not_let_go_behind_its_beginning(trail: Path) -> None:
    retention.hold(trail, "load", 4)
    load_keeping.tend(trail, KEEP, now=manifest(trail) + HOUR)
    assert retention.readers(trail)[READER].sequence == 4


def test_a_damaged_note_keeps_more_and_is_written_anew(trail: Path) -> None:
    """Capture goes on: what it has let go before is let go again, by its age."""
    tended(trail, KEEP, manifest(trail) + HOUR)
    (trail / "loaded" / f"{READER}.json").write_text("{")
    a_load(trail, 2)
    has(trail, ONE, 2)
    tended(trail, KEEP, manifest(trail))
    assert [one.number for one in load_keeping.kept(trail)] == [2]
    tended(trail, KEEP, manifest(trail) + HOUR)
    assert not rows(trail) and load_readers.read(trail, READER).has(TABLE, 2)


def test_a_damaged_registration_holds_all_and_is_written_anew(trail: Path, open_writer: OpenWriter) -> None:
    assert retention.drop_needed(trail, 4)
    load_keeping.give_up(trail)
    a_load(trail, table="shop.items")
    has(trail, ONE, 1, "shop.items")
    (trail / "readers" / f"{READER}.json").write_text("{")
    assert tended(trail, KEEP, manifest(trail)) == []
    assert [one.table for one in load_keeping.kept(trail)] == ["shop.items"]
    retention.unregister(trail, ONE)
    assert tended(trail, KEEP, manifest(trail) + HOUR) == []
    open_writer(limits=KEEP).close()
    found = retention.readers(trail)[READER]
    assert (found.kind, found.sequence) == ("hold", 4)


def test_status_gives_no_time_while_nobody_reads(trail: Path) -> None:
    shown = status._load_files(capturing(trail))
    assert shown and shown.kept == 1
    assert shown.kept_until == time_text(round((manifest(trail) + HOUR) * 1_000_000))
    retention.unregister(trail, ONE)
    shown = status._load_files(capturing(trail))
    assert shown and shown.kept == 1 and shown.kept_until is None and shown.awaited == {}


def test_it_is_switched_on_and_off_with_the_job_file(trail: Path, open_writer: OpenWriter) -> None:
    open_writer(limits=RetentionLimits(0)).close()
    assert READER not in retention.readers(trail)
    load_readers.sweep(trail)
    assert not rows(trail)
    open_writer(limits=KEEP).close()
    assert retention.readers(trail)[READER].kind == "hold" and load_readers.read(trail, READER) == Note()
