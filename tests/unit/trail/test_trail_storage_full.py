"""Storage that is full or fails: nothing half is published, and a full one is only waited for."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import pytest

from anabranch import failpoints
from anabranch.errors import StorageFull, TrailError
from anabranch.trail import retention
from anabranch.trail.storage import Data, LocalStorage, Writable


class LimitedFile:
    def __init__(self, inner: Writable, disk: LimitedStorage) -> None:
        self._inner, self._disk = inner, disk

    def write_at(self, offset: int, parts: Sequence[Data]) -> None:
        data = b"".join(parts)
        fits = data[: self._disk.room]
        self._disk.room -= len(fits)
        self._inner.write_at(offset, [fits])
        if len(fits) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        if self._disk.sync_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._inner.sync()

    def close(self) -> None:
        self._inner.close()


class LimitedStorage(LocalStorage):
    """A disk with so much room, which writes what fits before it says that it is full."""

    room = 1 << 30
    sync_fails = False

    def create(self, name: str) -> Writable:
        return LimitedFile(super().create(name), self)

    def reopen(self, name: str) -> Writable:
        file = super().reopen(name)
        return file if name == "published" else LimitedFile(file, self)  # rewritten in place, needs no room


@pytest.mark.parametrize("room", [0, 1, 40, 100, 300, 700, 1000, 1500])
def test_full_disk_publishes_nothing_and_goes_on_later(open_writer, open_reader, samples, tmp_path, kill, room):
    disk = LimitedStorage(tmp_path / "trail")
    writer = open_writer(storage=disk)
    writer.append(samples.chunk(1, 3))
    writer.flush()
    reader = open_reader()
    disk.room = room
    number = 3
    with pytest.raises(StorageFull):
        while True:
            writer.append(samples.chunk(number + 1, number + 1))
            number += 1
    for _ in range(3):
        with pytest.raises(StorageFull):
            writer.append(samples.chunk(number + 1, number + 1))
    assert reader.end().position.sequence == 3
    writer.flush()
    assert reader.end().position.sequence == number
    disk.room = 1 << 30
    assert writer.append(samples.chunk(number + 1, number + 2)).first_sequence == number + 1
    writer.flush()
    found = samples.found_rows([reader.load(r) for r in reader.descriptors(0)])
    assert found == samples.expected_rows(1, number + 2)
    assert reader.check().problems == []
    kill(writer)
    assert open_writer().end.position.sequence == number + 2


@pytest.mark.parametrize("fits", [0, 1, 2, 3])
def test_full_disk_inside_a_large_transaction(open_writer, open_reader, samples, tmp_path, kill, fits):
    disk = LimitedStorage(tmp_path / "trail")
    writer = open_writer(storage=disk)
    writer.append(samples.chunk(1, 6))
    writer.flush()
    for i, fragment in enumerate(samples.large(7)):
        if i == fits:
            disk.room = 200
            with pytest.raises(StorageFull):
                writer.append(fragment)
            disk.room = 1 << 30
        writer.append(fragment)
    writer.append(samples.chunk(8, 8))
    writer.flush()
    reader = open_reader()
    expected = samples.expected_rows(1, 8, with_large=True)
    assert samples.found_rows([reader.load(r) for r in reader.descriptors(0)]) == expected
    kill(writer)
    assert open_writer().end.position.sequence == 8
    assert samples.found_rows([reader.load(r) for r in reader.descriptors(0)]) == expected


def test_torture_seed_50000_what_is_dropped_needs_no_room(open_writer, open_reader, samples, monkeypatch):
    """The chunk that fills a segment is in the trail, whatever becomes of what is done then."""

    def full(*_, **__):
        raise StorageFull("no room left for retention.json")

    monkeypatch.setattr(retention, "drop_old", full)
    writer = open_writer(segment_bytes=1)
    assert [writer.append(samples.chunk(n, n)).first_sequence for n in (1, 2)] == [1, 2]
    writer.flush()
    reader = open_reader()
    assert samples.found_rows([reader.load(r) for r in reader.descriptors(0)]) == samples.expected_rows(1, 2)


def test_full_disk_while_noting_a_definition(open_writer, open_reader, samples, tmp_path, kill):
    disk = LimitedStorage(tmp_path / "trail")
    writer = open_writer(storage=disk)
    writer.flush()
    disk.room = 100
    with pytest.raises(StorageFull, match="schema history"):
        writer.park(samples.ORDERS, "because", "DROP TABLE orders")
    assert writer.history.parked() == {}
    disk.room = 1 << 30
    writer.schema(samples.definition(samples.TableId("a", "b")))
    writer.flush()
    assert set(open_reader().history.in_force()) == set(writer.history.in_force())
    kill(writer)
    assert len(open_writer().history.in_force()) == 3


def test_failed_fsync_ends_the_writer(open_writer, open_reader, samples, tmp_path, kill):
    disk = LimitedStorage(tmp_path / "trail")
    writer = open_writer(storage=disk)
    writer.append(samples.chunk(1, 2))
    writer.flush()
    writer.append(samples.chunk(3, 4))
    disk.sync_fails = True
    with pytest.raises(TrailError, match=r"fsync of .* failed"):
        writer.flush()
    disk.sync_fails = False
    with pytest.raises(TrailError, match="end this process"):
        writer.flush()
    with pytest.raises(TrailError, match="end this process"):
        writer.append(samples.chunk(5, 5))
    assert open_reader().end().position.sequence == 2
    writer.close()
    assert open_reader().end().position.sequence == 2


def test_no_room_for_the_index_of_a_sealed_segment(open_writer, open_reader, samples, tmp_path):
    disk = LimitedStorage(tmp_path / "trail")
    writer = open_writer(storage=disk, segment_bytes=1)
    writer.append(samples.chunk(4, 4))
    writer.flush()
    reader = open_reader()
    without_index = reader._segment(reader.descriptors(0)[0].segment)
    without_index.index.complete(None)
    disk.room = without_index.index.end + 25
    writer.append(samples.chunk(8, 8))
    disk.room = 1 << 30
    writer.append(samples.chunk(3, 3))
    writer.flush()
    assert [f.state for f in open_reader().segments()] == ["sealed", "ended", "open"]
    found = samples.found_rows([reader.load(r) for r in reader.descriptors(0)])
    assert found == {1: [], 2: [], 3: samples.source_rows(3)}
    assert reader.check().problems == []


def test_torture_seed_291_no_room_for_what_retention_notes_takes_nothing_back(
    open_writer, open_reader, samples, tmp_path
):
    """The chunk that filled a segment is in the trail; who was told of a full disk appended it again."""
    writer = open_writer(segment_bytes=2000)
    retention.register(tmp_path / "trail", "apply", 0)
    failpoints.arm({failpoints.VARIABLE: "trail.drop=full:60", failpoints.LOG_VARIABLE: str(tmp_path / "log")})
    try:
        for n in range(1, 31):
            writer.append(samples.chunk(n, n))
            writer.flush()
    finally:
        failpoints.arm({})
    assert "trail.drop=full:60" in (tmp_path / "log").read_text()
    assert [ref.last_sequence for ref in open_reader().descriptors(0)] == list(range(1, 31))
