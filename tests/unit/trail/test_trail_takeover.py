"""A shared trail is taken over while its writer sleeps, wherever that may be; then that one wakes up and goes on."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import TrailError, TrailOvertaken
from anabranch.failpoints import POINTS
from anabranch.model.position import LogMark
from anabranch.trail import claims, fencing, lease, lock, pack
from anabranch.trail import storage as storages
from anabranch.trail.claims import Claim
from anabranch.trail.lease import Lease
from anabranch.trail.outgoing import HistoryPiece, Outgoing
from anabranch.trail.reader import TrailReader
from anabranch.trail.replica import TrailReplica
from anabranch.trail.retention import RetentionLimits
from anabranch.trail.staging import waiting
from anabranch.trail.storage import LocalStorage, read_whole
from anabranch.trail.writer import TrailWriter
from rigs import trail_source as samples
from rigs.storage import Asleep, Died, Dying

SETTINGS: dict[str, Any] = {**samples.JOB, "segment_bytes": 4_000, "limits": RetentionLimits(3600), "pack": False}
LAST, MORE = 24, 10
STEPS = 88  # more than a writer does for them


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the writers those of two machines over a file system whose locks are none: `flock` says yes to everybody."""
    monkeypatch.setattr(lock, "_taken", lambda fd, how: True)
    monkeypatch.setattr(Claim, "has_died", False)
    monkeypatch.setattr(lease, "LOOK_S", 0.0)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., TrailWriter]]:
    """Opens writers of one trail, each of which takes it over from the one before."""
    writers: list[TrailWriter] = []

    def open_(storage: Any = None, seconds: float = 1.0) -> TrailWriter:
        held = Lease.take(tmp_path / "trail", seconds, clock=iter(range(1_000_000)).__next__)
        held._done.set()  # it tells nobody that it lives
        held._thread.join()
        writers.append(TrailWriter.open(tmp_path / "trail", **SETTINGS, lock=held, storage=storage))
        return writers[-1]

    yield open_
    for one in writers:
        with suppress(TrailOvertaken, OSError):  # closed by the test
            one.close()


def follow(writer: TrailWriter, upto: int) -> Iterator[int]:
    """Follow the make-believe source, as capture does. Yields what is durable, whenever it has become that."""
    for table in (samples.ORDERS, samples.NOTES):
        if not writer.history.latest(table):
            writer.schema(samples.definition(table))
    number = int(writer.end.resume or 0)
    if not writer.end.resume:
        writer.heartbeat(LogMark("log:0", "0", 0))
        writer.flush()
    while number < upto:
        number += 1
        if samples.is_large(number):
            for fragment in samples.large(number):
                writer.append(fragment)
        else:
            last = number
            while last < min(upto, number + 4) and not samples.is_large(last + 1):
                last += 1
            writer.append(samples.chunk(number, last))
            number = last
        if number % 3 == 0:
            writer.heartbeat(LogMark(f"log:{number}+", str(number), 0))
        if number % 2 == 0 or number == upto:
            writer.flush()
            yield writer.end.position.sequence
        if number % 20 == 0:
            version = writer.history.latest(samples.NOTES).version + 1
            writer.note_cascades(version % 2 == 0)
            writer.drop_old()


class Follower:
    """An apply and a pump with a replica, which have files of the trail open for longer than its writer has it."""

    def __init__(self, trail: Path, copy: Path) -> None:
        self.reader, self.outgoing = TrailReader(trail), Outgoing(trail)
        self.replica = TrailReplica.open(copy, self.outgoing.identity, hops=("pump",))
        self.outgoing.start(self.replica.held)
        self.trail, self.copy, self.after, self.rows = trail, copy, 0, dict[int, Any]()

    def catch_up(self, lag: int = 0) -> int:
        """Send all that is published, and read it up to `lag` before the end. Returns where that is; it was what the source
        has, each once."""
        last = self.reader.end().position.sequence
        upto = max(0, last - lag)
        refs = self.reader.descriptors(self.after, upto)
        self.rows |= samples.found_rows([self.reader.load(one) for one in refs])
        self.after = upto
        assert self.rows == samples.expected_rows(1, upto, with_large=True)
        for piece in self.outgoing.pieces():
            if isinstance(piece, HistoryPiece):
                self.replica.add_history(piece.offset, piece.data, is_anew=piece.is_anew)
            else:
                self.replica.append(piece.name, piece.offset, piece.data)
        assert self.replica.flush().sequence == last
        return last

    def close(self) -> None:
        self.reader.close()
        self.outgoing.close()
        self.replica.close()
        assert all_of(self.copy) == self.after
        for file in sorted(self.copy.glob("*.segment")):
            ours, theirs = file.read_bytes(), (self.trail / file.name).read_bytes()
            assert theirs.startswith(ours), f"{file.name} has {len(ours)} bytes, the trail {len(theirs)}"


class Network:
    """Stands in for `os` over a network file system: a file that was removed or replaced is gone for who has it open."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        self.fstat(fd)
        return os.pread(fd, length, offset)

    def fstat(self, fd: int) -> os.stat_result:
        found = os.fstat(fd)
        if not found.st_nlink:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return found


def all_of(trail: Path) -> int:
    """Check a whole trail. Returns its last transaction."""
    with TrailReader(trail) as reader:
        assert reader.check().problems == []
        last = reader.end().position.sequence
        chunks = [reader.load(one) for one in reader.descriptors(0)]
    assert samples.found_rows(chunks) == samples.expected_rows(1, last, with_large=True)
    return last


@pytest.mark.parametrize("at", range(0, STEPS, 8))
def test_rule_11_whoever_sleeps_while_the_trail_is_taken_over_adds_and_takes_nothing(
    at: int, opened: Callable[..., TrailWriter], tmp_path: Path
) -> None:
    for step in range(at, at + 8):
        trail = tmp_path / "trail"
        if trail.exists():
            trail.rename(tmp_path / f"trail-{step}")
        _sleeps(step + 1, opened, trail, tmp_path)


def _sleeps(step: int, opened: Callable[..., TrailWriter], trail: Path, tmp_path: Path) -> None:
    durable, later, readers = [0], list[TrailWriter](), list[Follower]()

    def taken_over() -> None:
        with suppress(Exception):  # the trail has not begun
            readers.append(Follower(trail, tmp_path / f"replica-{step}"))
            readers[0].catch_up(lag=1)  # so it goes on in the segment that it has open
        later.append(opened())
        assert later[0].end.position.sequence >= durable[-1]
        for _ in follow(later[0], later[0].end.position.sequence + MORE):
            pass

    first = None
    try:
        first = opened(Asleep(trail, step, taken_over))
        for sequence in follow(first, LAST):
            durable.append(sequence)
            assert not later, "it has published something, and was not told that it is overtaken"
        assert not later or first.end.position.sequence == LAST
    except (TrailOvertaken, FileNotFoundError):
        assert later
    if not later:
        assert all_of(trail) == LAST
        return
    (second,) = later
    upto = second.end.position.sequence + MORE
    for _ in follow(second, upto):
        assert not readers or readers[0].catch_up() <= upto
    assert all_of(trail) == upto
    for one in readers:
        assert one.catch_up() == upto
        one.close()
    with closing(opened()) as third:
        assert third.end.position.sequence == upto
        for _ in follow(third, upto + MORE):
            pass
    assert all_of(trail) == upto + MORE
    if first is not None:
        with pytest.raises(TrailOvertaken):
            first.flush()


@pytest.mark.parametrize("step", range(14, 24, 3))
def test_readers_go_on_where_a_network_takes_replaced_files_away(
    step: int, opened: Callable[..., TrailWriter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = Follower.catch_up

    def far(follower: Follower, lag: int = 0) -> int:
        with monkeypatch.context() as patched:
            patched.setattr(storages, "os", Network())
            return near(follower, lag)

    monkeypatch.setattr(Follower, "catch_up", far)
    _sleeps(step, opened, tmp_path / "trail", tmp_path)


def test_a_chunk_is_found_again_that_was_packed_on_another_machine(
    opened: Callable[..., TrailWriter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trail = tmp_path / "trail"
    writer = opened()
    for _ in follow(writer, LAST):
        pass
    with TrailReader(trail) as reader:
        refs = reader.descriptors(0)
        before = [reader.load(one) for one in refs]
        monkeypatch.setattr(pack, "is_worthwhile", lambda *_: True)
        assert pack.pack_all(trail)
        monkeypatch.setattr(storages, "os", Network())
        again = [reader.load(one) for one in refs]
        assert (
            samples.found_rows(again) == samples.found_rows(before) == samples.expected_rows(1, LAST, with_large=True)
        )
        assert len(reader.descriptors(0)) <= len(refs)


def test_a_small_file_that_is_replaced_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, looks = LocalStorage(tmp_path), [2]
    storage.replace("some", b"former")

    class Replaced(Network):
        def pread(self, fd: int, length: int, offset: int) -> bytes:
            if looks[0]:
                looks[0] -= 1
                storage.replace("some", b"later")
            return super().pread(fd, length, offset)

    monkeypatch.setattr(storages, "os", Replaced())
    assert read_whole(storage, "some") == b"later"
    looks[0] = 99
    with pytest.raises(OSError, match="Stale") as raised:
        read_whole(storage, "some")
    assert not isinstance(raised.value, FileNotFoundError), "it would be taken for one that is not there"


def test_rule_11_what_waits_beside_the_trail_is_the_present_writers(
    opened: Callable[..., TrailWriter], tmp_path: Path
) -> None:
    """A prepared transaction: who was overtaken neither adds one nor removes one."""
    first = opened()
    for _ in follow(first, 10):
        pass
    first.staging.add(samples.chunk(1, 1))
    first.staging.prepare("one", samples.mark(10))
    first.staging.add(samples.chunk(2, 2))
    second = opened()
    with pytest.raises(TrailOvertaken):
        first.staging.prepare("two", samples.mark(10))
    with pytest.raises(TrailOvertaken):
        first.staging.remove("one")
    assert [one.xid for one in waiting(tmp_path / "trail")] == ["one"]
    assert [one.xid for one in second.staging.all()] == ["one"]


@pytest.mark.parametrize("name", sorted(one for one in POINTS if one.startswith("lease.")))
def test_a_takeover_that_is_killed_is_made_by_the_next_one(
    name: str, opened: Callable[..., TrailWriter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = opened()
    for _ in follow(first, 12):
        pass

    def killed(reached: str) -> None:
        if reached == name:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        for module in (claims, fencing):
            patched.setattr(module, "reach", killed)
        with pytest.raises(KeyboardInterrupt):
            opened()
    third = opened()
    for _ in follow(third, 20):
        pass
    assert all_of(tmp_path / "trail") == 20
    with pytest.raises(TrailOvertaken):
        first.append(samples.chunk(21, 21))
        first.flush()


@pytest.mark.parametrize("left", range(1, 8))
def test_whoever_sleeps_in_a_takeover_gives_no_other_ones_half_copy_a_name(
    left: int, opened: Callable[..., TrailWriter], tmp_path: Path
) -> None:
    """Three take over one after another: one sleeps at some step of it, the next one is killed at some step."""
    for step in range(1, 8):
        trail = tmp_path / "trail"
        if trail.exists():
            trail.rename(tmp_path / f"trail-{step}")
        first = opened()
        for _ in follow(first, 12):
            pass
        first.flush()

        def killed(trail: Path = trail) -> None:
            with pytest.raises(Died):
                opened(Dying(trail, left))

        with suppress(TrailOvertaken, FileNotFoundError, TrailError):
            opened(Asleep(trail, step, killed))
        with closing(opened()) as last:
            assert last.end.position.sequence == 12, f"asleep at step {step}, killed at step {left}"
            for _ in follow(last, 12 + MORE):
                pass
        assert all_of(trail) == 12 + MORE
