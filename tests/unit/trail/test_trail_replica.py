"""A replica has the same transactions as the trail it comes from: after any cut, at any byte, on both sides."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch import failpoints
from anabranch.errors import SourceUnavailable, StateError, StorageFull, TrailCorrupt, TrailError
from anabranch.trail import pack, retention
from anabranch.trail.format import PREFIX_LENGTH, segment_names
from anabranch.trail.identity import Identity
from anabranch.trail.outgoing import HistoryPiece, Outgoing
from anabranch.trail.reader import TrailReader, chunks
from anabranch.trail.replica import Held, TrailReplica, hops_of
from anabranch.trail.replica_files import LoadFile, LoadFilesCopy, load_files
from anabranch.trail.segment import SegmentReader
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter
from rigs import trail_source as samples


@pytest.fixture(autouse=True)
def unarmed():
    yield
    failpoints.arm({})


def open_writer(directory: Path, **options: Any) -> TrailWriter:
    options = {"segment_bytes": 1 << 20, "pack": False, **options}
    writer = TrailWriter.open(directory, **samples.JOB, **options)
    for table in (samples.ORDERS, samples.NOTES):
        if not writer.history.latest(table):
            writer.schema(samples.definition(table))
    return writer


def write(writer: TrailWriter, count: int) -> None:
    for _ in range(count):
        n = writer.next_sequence
        for chunk in samples.large(n) if samples.is_large(n) else [samples.chunk(n, n)]:
            writer.append(chunk)
    writer.flush()


def give(outgoing: Outgoing, replica: TrailReplica, cut: int | None = None) -> None:
    """Bring what is published over; stop in the middle of a piece once `cut` bytes went."""
    for piece in outgoing.pieces():
        data = piece.data if cut is None else piece.data[:cut]
        if isinstance(piece, HistoryPiece):
            replica.add_history(piece.offset, data, is_anew=piece.is_anew)
        else:
            replica.append(piece.name, piece.offset, data)
        if cut is not None:
            cut -= len(data)
            if not cut:
                return


def copied(source: Path, target: Path, cut: int | None = None) -> Held:
    """Connect once, and bring over what there is, or `cut` bytes of it."""
    outgoing = Outgoing(source)
    replica = TrailReplica.open(target, outgoing.identity, hops=("pump",))
    try:
        outgoing.start(Held.from_json(json.loads(json.dumps(replica.held.to_json()))))
        give(outgoing, replica, cut)
        return replica.held if cut is not None else replica.flush()
    finally:
        outgoing.close()
        replica.close()


def rows(directory: Path) -> dict[int, Any]:
    with TrailReader(directory) as trail:
        assert trail.check().problems == []
        return samples.found_rows(list(chunks(trail, trail.first() - 1)))


def test_a_replica_has_all_that_is_published_and_nothing_else(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a", segment_bytes=20_000)
    writer.heartbeat(samples.mark(0))
    write(writer, 100)
    writer.append(samples.chunk(101, 101))
    held = copied(tmp_path / "a", tmp_path / "b")
    assert (held.sequence, held.published) == (100, 100)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 100, with_large=True)
    writer.close()
    held = copied(tmp_path / "a", tmp_path / "b")
    assert held.published == 101 and rows(tmp_path / "b") == rows(tmp_path / "a")
    with TrailReader(tmp_path / "a") as a, TrailReader(tmp_path / "b") as b:
        assert a.identity == b.identity and a.history.entries == b.history.entries
        assert a.end() == b.end() and [f.name for f in a.segments()] == [f.name for f in b.segments()]
    for segment in (tmp_path / "b").glob("*.segment"):
        assert segment.read_bytes() == (tmp_path / "a" / segment.name).read_bytes()
    assert hops_of(LocalStorage(tmp_path / "b")) == ("pump",) and hops_of(LocalStorage(tmp_path / "a")) is None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 12)),
        st.tuples(st.just("orphans"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
        st.tuples(st.just("pack"), st.just(0)),
        st.tuples(st.just("copy"), st.one_of(st.none(), st.integers(1, 30_000))),
    ),
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_any_cut_at_any_byte_and_a_restart_of_either_side_leave_a_beginning_and_then_all(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "a"), Path(folder, "b")
        writer = open_writer(source, segment_bytes=6_000)
        writer.heartbeat(samples.mark(0))
        writer.flush()
        retention.register_copy(source, "pump", 0)
        for what, value in [*steps, ("copy", None), ("write", 3), ("copy", None)]:
            if what == "write":
                write(writer, value)
            elif what == "orphans":  # of a large transaction in which the source's line breaks
                writer.append(next(iter(samples.large(writer.next_sequence))))
                writer.rewind()
            elif what == "restart":
                for closable in filter(None, (writer._segment, writer._lock)):
                    closable.close()
                writer = open_writer(source, segment_bytes=6_000)
            elif what == "pack":
                pack.pack_all(source)
            else:
                held = copied(source, target, value)
                retention.advance(source, "pump", held.sequence)
                assert held.published <= writer.end.position.sequence
                with TrailReader(target) as trail:
                    found = samples.found_rows(list(chunks(trail, 0)))
                assert found == samples.expected_rows(1, held.published, with_large=True)
                if value is None:
                    assert held.published == writer.end.position.sequence
        writer.close()
        assert rows(target) == rows(source)


def test_packed_segments_are_copied_as_they_are_and_none_of_which_a_part_was_copied_is_packed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a", segment_bytes=30_000)
    writer.heartbeat(samples.mark(0))
    write(writer, 60)
    assert pack.pack_all(tmp_path / "a")
    copied(tmp_path / "a", tmp_path / "b", 4_000)
    assert [name for name in os.listdir(tmp_path / "b") if name.endswith(".packed.part")]
    copied(tmp_path / "a", tmp_path / "b")
    retention.register_copy(tmp_path / "a", "pump", 60)
    write(writer, 100)
    copied(tmp_path / "a", tmp_path / "b", 10_000)
    assert pack.pack_all(tmp_path / "a") == []
    copied(tmp_path / "a", tmp_path / "b")
    retention.advance(tmp_path / "a", "pump", 160)
    assert pack.pack_all(tmp_path / "a") and pack.pack_all(tmp_path / "b")
    write(writer, 1)
    assert copied(tmp_path / "a", tmp_path / "b").published == 161
    assert rows(tmp_path / "b") == rows(tmp_path / "a") == samples.expected_rows(1, 161, with_large=True)


def test_a_segment_that_was_packed_before_the_replica_had_it_is_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a", segment_bytes=30_000)
    writer.heartbeat(samples.mark(0))
    write(writer, 20)
    copied(tmp_path / "a", tmp_path / "b")
    write(writer, 100)
    pack.pack_all(tmp_path / "a")
    with pytest.raises(TrailError, match=r"ends at sequence 20.*was packed or dropped"):
        copied(tmp_path / "a", tmp_path / "b")


def test_segments_that_the_replica_has_may_be_dropped(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a", segment_bytes=6_000)
    write(writer, 50)
    copied(tmp_path / "a", tmp_path / "b")
    retention.register_copy(tmp_path / "a", "pump", 50)
    write(writer, 50)
    writer.close()
    retention.drop_old(tmp_path / "a", retention.RetentionLimits(0))
    assert copied(tmp_path / "a", tmp_path / "b").published == 100
    retention.advance(tmp_path / "a", "pump", 100)
    assert retention.drop_old(tmp_path / "a", retention.RetentionLimits(0))
    assert copied(tmp_path / "a", tmp_path / "b").published == 100
    copied(tmp_path / "a", tmp_path / "c")  # begins in the middle, as the trail does now
    with TrailReader(tmp_path / "a") as a, TrailReader(tmp_path / "c") as c:
        assert a.first() == c.first() > 1 and a.end().position == c.end().position
    writer = open_writer(tmp_path / "a", segment_bytes=6_000)
    write(writer, 30)
    writer.close()
    retention.advance(tmp_path / "a", "pump", 130)
    retention.drop_old(tmp_path / "a", retention.RetentionLimits(0))
    with pytest.raises(TrailError, match="dropped before the replica had all of it"):
        copied(tmp_path / "a", tmp_path / "b")


def test_a_replica_that_is_ahead_or_went_another_way_is_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a")
    write(writer, 5)
    writer.close()
    shutil.copytree(tmp_path / "a", tmp_path / "backup")
    writer = open_writer(tmp_path / "a")
    write(writer, 5)
    writer.close()
    copied(tmp_path / "a", tmp_path / "b")
    with pytest.raises(StateError, match=r"has come to sequence 10, the trail .* only to 5"):
        copied(tmp_path / "backup", tmp_path / "b")
    writer = open_writer(tmp_path / "backup")
    writer.close()
    writer = open_writer(tmp_path / "backup")
    write(writer, 9)
    with pytest.raises(
        StateError, match=r"segment 00000002-0002-6\.segment of the trail .* has other frames than the replica"
    ):
        copied(tmp_path / "backup", tmp_path / "b")


def test_other_trails_are_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a")
    write(writer, 2)
    copied(tmp_path / "a", tmp_path / "b")
    with pytest.raises(StateError, match="belongs to job shop"):
        TrailReplica.open(tmp_path / "b", Identity("shop", "uuid-2", "server-1"))
    writer.close()
    with pytest.raises(StateError, match="is written by the capture of job shop"):
        TrailReplica.open(tmp_path / "a", Identity("shop", "uuid-1", "server-1"))
    with pytest.raises(StateError, match="is a replica"):
        open_writer(tmp_path / "b")
    with pytest.raises(TrailError, match="format 99"):
        TrailReplica.open(tmp_path / "c", Identity("shop", "uuid-1", "server-1", format=99))


def test_gaps_contradictions_and_damage_are_refused(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a", segment_bytes=6_000)
    write(writer, 60)
    outgoing = Outgoing(tmp_path / "a")
    outgoing.start(Held())
    pieces = list(outgoing.pieces())
    first, second, third = [p for p in pieces if not isinstance(p, HistoryPiece)][:3]
    replica = TrailReplica.open(tmp_path / "b", outgoing.identity)
    replica.append(first.name, 0, first.data)
    with pytest.raises(TrailError, match="others begin at 7"):
        replica.append(first.name, 7, b"x")
    with pytest.raises(TrailError, match="begins at"):
        replica.append(third.name, 0, third.data)
    with pytest.raises(TrailError, match="begins at byte 9"):
        replica.append(second.name, 9, b"x")
    replica.close()
    for at in (3, PREFIX_LENGTH + 4, len(second.data) - 300):
        replica = TrailReplica.open(tmp_path / "b", outgoing.identity)
        if not (tmp_path / "b" / str(second.name)).exists():
            replica.append(first.name, replica.held.length, first.data[replica.held.length :])
        damaged = bytearray(second.data)
        damaged[at] ^= 1
        replica.append(second.name, 0, bytes(damaged))
        with pytest.raises(TrailCorrupt):
            replica.flush()
        replica.close()
        (tmp_path / "b" / str(second.name)).unlink()
    with pytest.raises(TrailCorrupt, match="a line's checksum is wrong"):
        replica = TrailReplica.open(tmp_path / "b", outgoing.identity)
        replica.add_history(0, b"not a line\n")
    replica.close()
    writer.close()
    assert copied(tmp_path / "a", tmp_path / "b").published == 60


def test_a_history_that_was_made_anew_takes_the_place_of_the_replicas(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a")
    write(writer, 5)
    copied(tmp_path / "a", tmp_path / "b")
    writer.close()
    data = (tmp_path / "b" / "history").read_bytes()
    (tmp_path / "b" / "history").write_bytes(data.replace(data[:8], b"00000000"))
    copied(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "history").read_bytes() == (tmp_path / "a" / "history").read_bytes()
    assert rows(tmp_path / "b") == rows(tmp_path / "a")


def test_no_room_and_then_again(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a")
    write(writer, 5)
    outgoing = Outgoing(tmp_path / "a")
    replica = TrailReplica.open(tmp_path / "b", outgoing.identity)
    outgoing.start(replica.held)
    for piece in outgoing.pieces():
        if isinstance(piece, HistoryPiece):
            replica.add_history(piece.offset, piece.data)
            continue
        failpoints.arm({failpoints.VARIABLE: "trail.replica.bytes=full:60"})
        with pytest.raises(StorageFull):
            replica.append(piece.name, piece.offset, piece.data)
        failpoints.arm({})
        replica.append(piece.name, piece.offset, piece.data)
    assert replica.flush().published == 5
    replica.close()
    writer.close()
    assert rows(tmp_path / "b") == rows(tmp_path / "a")


def test_files_of_a_load_get_their_names_when_they_are_whole_the_manifest_last(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "load" / "shop.orders"
    folder.mkdir(parents=True)
    (folder / "z.arrow").write_bytes(b"z" * 1000)
    (folder / "manifest.json").write_bytes(b"{}")
    (folder / "y.arrow.tmp").write_bytes(b"unfinished")
    (folder.parent / "ledger.db").write_bytes(b"of the job that loads")
    (folder.parent / "complete.json").write_bytes(b"1")
    (folder.parent / "source.json").write_bytes(b"2")
    offered = load_files(LocalStorage(tmp_path / "a"))
    rows_file, facts, manifest, complete = offered
    assert [one.name.removeprefix("load/") for one in offered] == [
        "shop.orders/z.arrow", "source.json", "shop.orders/manifest.json", "complete.json"
    ]  # fmt: skip
    copy = LoadFilesCopy(tmp_path / "b")
    assert all(map(copy.is_wanted, offered))
    assert not copy.add(offered[0].name, 1000, 0, b"z" * 600)
    copy = LoadFilesCopy(tmp_path / "b")
    assert copy.is_wanted(offered[0])
    assert not copy.add(offered[0].name, 1000, 0, b"z" * 600) and copy.add(offered[0].name, 1000, 600, b"z" * 400)
    assert (
        copy.add(manifest.name, 2, 0, b"{}")
        and copy.add(complete.name, 1, 0, b"1")
        and copy.add(facts.name, 1, 0, b"2")
    )
    assert rows_file.sum == 0 and facts.sum
    assert not any(map(copy.is_wanted, offered)) and load_files(LocalStorage(tmp_path / "b")) == offered
    (folder / "manifest.json").write_bytes(b"[]")
    assert copy.is_wanted(load_files(LocalStorage(tmp_path / "a"))[2])
    for name in (
        "load/../trail.json",
        "trail.json",
        "load//x",
        "/load/x",
        "load/.x",
        "load/x.part",
        "load/a/../../x.json",
        "load/ledger.db",
    ):
        with pytest.raises(TrailError, match="no file of a load"):
            copy.is_wanted(LoadFile(name, 1))
    with pytest.raises(TrailError, match="others begin at"):
        copy.add("load/t/x.arrow", 5, 3, b"x")


@pytest.mark.parametrize(
    "wrong", [None, {}, {"file": 1}, {**Held().to_json(), "length": -1}, {**Held().to_json(), "file": "../x"}]
)
def test_what_a_peer_has_is_checked(wrong: Any) -> None:
    with pytest.raises(ValueError):
        Held.from_json(wrong)


def packed(directory: Path) -> list[str]:
    """Make a trail of 60 transactions whose former segments are packed; return their names."""
    writer = open_writer(directory, segment_bytes=30_000)
    writer.heartbeat(samples.mark(0))
    write(writer, 60)
    writer.close()
    return pack.pack_all(directory)


def test_a_packed_segment_that_cannot_get_its_name_for_want_of_room_gets_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert packed(tmp_path / "a")
    rename, refused = LocalStorage.rename, list[str]()

    def full_once(self: LocalStorage, old: str, new: str) -> None:
        if old.endswith(".part") and old not in refused:
            refused.append(old)
            raise OSError(errno.ENOSPC, "full")
        rename(self, old, new)

    monkeypatch.setattr(LocalStorage, "rename", full_once)
    outgoing = Outgoing(tmp_path / "a")
    replica = TrailReplica.open(tmp_path / "b", outgoing.identity)
    outgoing.start(replica.held)
    for piece in outgoing.pieces():
        if isinstance(piece, HistoryPiece):
            replica.add_history(piece.offset, piece.data)
            continue
        count = len(refused)
        try:
            replica.append(piece.name, piece.offset, piece.data)
        except StorageFull:
            assert len(refused) == count + 1
            replica.flush()
            replica.append(piece.name, piece.offset, piece.data)
    assert refused and replica.flush().published == 60
    replica.close()
    outgoing.close()
    TrailReplica.open(tmp_path / "b").close()
    assert rows(tmp_path / "b") == rows(tmp_path / "a")


def test_a_packed_segment_without_its_name_behind_which_others_came_is_kept_and_refused(tmp_path: Path) -> None:
    name = packed(tmp_path / "a")[0].replace(".segment", ".packed")
    copied(tmp_path / "a", tmp_path / "b")
    part = tmp_path / "b" / f"{name}.part"
    (tmp_path / "b" / name).rename(part)
    with pytest.raises(TrailCorrupt, match=rf"{name} of .* is there only as {name}\.part"):
        TrailReplica.open(tmp_path / "b")
    assert part.exists()


@pytest.mark.parametrize("segment_bytes", [1 << 20, 6_000])
def test_bytes_behind_the_published_end_that_never_reached_the_disk_are_cut_off_and_sent_again(
    tmp_path: Path, segment_bytes: int
) -> None:
    writer = open_writer(tmp_path / "a", segment_bytes=segment_bytes)
    write(writer, 3)
    copied(tmp_path / "a", tmp_path / "b")
    write(writer, 40)
    outgoing = Outgoing(tmp_path / "a")
    replica = TrailReplica.open(tmp_path / "b", outgoing.identity)
    outgoing.start(replica.held)
    give(outgoing, replica)
    replica.close()
    file = max(file.name for file in (tmp_path / "b").glob("*.segment"))
    segment = SegmentReader(LocalStorage(tmp_path / "b"), file)
    frames = [(at, frame) for at, frame, _ in segment.frames_as_written(0, segment.size()) if frame.body_length]
    at, frame = frames[-2]
    with (tmp_path / "b" / file).open("r+b") as damaged:
        damaged.seek(at + PREFIX_LENGTH + frame.head_length)
        damaged.write(bytes(frame.body_length))
    with TrailReplica.open(tmp_path / "b") as again:
        assert (again.held.file, again.held.length) == (file, at)
    assert copied(tmp_path / "a", tmp_path / "b").published == 43
    writer.close()
    outgoing.close()
    copied(tmp_path / "a", tmp_path / "b")
    assert rows(tmp_path / "b") == rows(tmp_path / "a")


@pytest.mark.parametrize("count", [5, 60])
def test_an_end_of_the_trail_that_went_back_with_the_power_is_waited_for(tmp_path: Path, count: int) -> None:
    writer = open_writer(tmp_path / "a", segment_bytes=6_000)
    write(writer, 5)
    before = (tmp_path / "a" / "published").read_bytes()
    write(writer, count)
    copied(tmp_path / "a", tmp_path / "b")
    writer.close()
    (tmp_path / "a" / "published").write_bytes(before)
    with pytest.raises(SourceUnavailable, match="published up to sequence 5, its files and the replica go on"):
        copied(tmp_path / "a", tmp_path / "b")
    writer = open_writer(tmp_path / "a", segment_bytes=6_000)
    write(writer, 1)
    writer.close()
    assert copied(tmp_path / "a", tmp_path / "b").published == 5 + count + 1
    assert rows(tmp_path / "b") == rows(tmp_path / "a")


def test_a_copy_whose_note_was_lost_with_the_power_still_keeps_segments_from_being_packed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "a", segment_bytes=30_000)
    write(writer, 100)
    copied(tmp_path / "a", tmp_path / "b", 10_000)
    retention.register_copy(tmp_path / "a", "pump", 0)
    (note,) = (tmp_path / "a" / "readers").glob("pump*")
    note.write_bytes(b"")
    assert pack.pack_all(tmp_path / "a") == []
    assert copied(tmp_path / "a", tmp_path / "b").published == 100
    writer.close()


def test_a_clock_that_is_set_ahead_drops_nothing_of_a_replica_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer(tmp_path / "a", segment_bytes=6_000)
    write(writer, 60)
    copied(tmp_path / "a", tmp_path / "b")
    retention.register(tmp_path / "b", "apply", 0)
    retention.advance(tmp_path / "b", "apply", 60)
    outgoing = Outgoing(tmp_path / "a")
    replica = TrailReplica.open(tmp_path / "b", outgoing.identity)
    outgoing.start(replica.held)
    write(writer, 40)
    give(outgoing, replica)
    replica.flush()
    before = set(segment_names(os.listdir(tmp_path / "b")))
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + 90_000)
    write(writer, 40)
    give(outgoing, replica)
    assert replica.flush().published == 140
    assert before <= set(segment_names(os.listdir(tmp_path / "b")))
    replica.close()
    outgoing.close()
    writer.close()


def test_a_replica_with_the_rest_of_a_large_transaction_alone_begins_where_the_trail_begins(tmp_path: Path) -> None:
    open_writer(tmp_path / "a", segment_bytes=3_000).close()
    writer = open_writer(tmp_path / "a", segment_bytes=3_000)
    write(writer, 120)
    writer.close()
    names = segment_names(os.listdir(tmp_path / "a"))
    first = next(name for name in names if name.fragments)
    for name in names[: names.index(first)]:
        (tmp_path / "a" / str(name)).unlink()
    length = (tmp_path / "a" / "history").stat().st_size
    held = copied(tmp_path / "a", tmp_path / "b", length + 100)
    assert held.file == str(first)
    with Outgoing(tmp_path / "a") as outgoing:
        assert outgoing.behind(held) == outgoing.first() - 1 == held.sequence + 1
        assert outgoing.behind(Held()) == outgoing.first() - 1
    held = copied(tmp_path / "a", tmp_path / "b")
    with Outgoing(tmp_path / "a") as outgoing:
        assert outgoing.behind(held) == held.sequence == 120
