"""Packing: the same trail in larger frames, also for those who were reading it (K30)."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import failpoints
from anabranch.model.position import Position
from anabranch.rows.chunk import Barrier, BarrierKind, Part
from anabranch.trail import pack, retention
from anabranch.trail.regroup import ChunkGroup, join, rows_after, rows_until
from anabranch.trail.segment import SegmentReader


def fill(writer, samples, last: int, first: int = 1) -> None:
    for n in range(first, last + 1):
        chunks = samples.large(n) if samples.is_large(n) else [samples.chunk(n, n)]
        for chunk in chunks:
            writer.append(chunk)
        writer.flush()


def test_rule_30_packed_segments_are_the_same_trail(open_writer, open_reader, samples, tmp_path):
    writer = open_writer(segment_bytes=30_000)
    writer.heartbeat(samples.mark(0))
    fill(writer, samples, 120)
    inside, fresh = open_reader(), open_reader()
    refs = inside.descriptors(0)
    before = [inside.load(r) for r in refs]
    half_read = inside.descriptors(30, 95)
    names = pack.pack_all(tmp_path / "trail")
    assert len(names) >= 2 and not (tmp_path / "trail" / names[0]).exists()
    for reader in (inside, fresh, open_reader()):
        for ref, chunk in zip(refs, before, strict=True):
            found = reader.load(ref)
            assert (found.transactions, found.part) == (chunk.transactions, chunk.part)
            assert samples.found_rows([found]) == samples.found_rows([chunk])
        found = samples.found_rows([reader.load(r) for r in half_read])
        assert found == samples.expected_rows(31, 95, with_large=True)
        again = samples.found_rows([reader.load(r) for r in reader.descriptors(30, 95)])
        assert again == samples.expected_rows(31, 95, with_large=True)
        assert reader.position_at(0) == Position(0, "log:0") and reader.position_at(50) == Position(50, "log:50")
        assert reader.check().problems == []
    reader = open_reader()
    packed = reader.descriptors(0)
    assert len(packed) < len(refs) / 3
    everything = samples.found_rows([reader.load(r) for r in packed])
    assert everything == samples.expected_rows(1, 120, with_large=True)
    assert [r.fragment for r in packed if r.part is not Part.WHOLE] == [0, 1, 2, 3] * 3
    assert [f.state for f in reader.segments()][:2] == ["packed", "packed"]
    whole = [r for r in packed if r.part is not Part.FRAGMENT]
    gtids = [g for r in whole for g in reader.load(r).transactions.column("gtid").to_pylist()]
    assert gtids == [f"gtid-{n}" if n % 2 and not samples.is_large(n) else None for n in range(1, 121)]
    assert pack.pack_all(tmp_path / "trail") == []


def test_rule_30_what_was_packed_between_finding_and_loading_is_read_once(
    open_writer, open_reader, samples, tmp_path, monkeypatch
):
    """Each of hundreds of chunks found before would hold the whole packed one in memory, and decode it again."""
    writer = open_writer(segment_bytes=30_000)
    writer.heartbeat(samples.mark(0))
    fill(writer, samples, 120)
    refs, decoded = open_reader().descriptors(0), []
    reader = open_reader()  # which has no file open that packing removes
    pack.pack_all(tmp_path / "trail")
    chunk = SegmentReader.chunk
    monkeypatch.setattr(SegmentReader, "chunk", lambda self, at: decoded.append((self.file, at)) or chunk(self, at))
    found = [reader.load(ref) for ref in refs]
    assert samples.found_rows(found) == samples.expected_rows(1, 120, with_large=True)
    assert len(decoded) == len(set(decoded)) < len(refs) / 3


def test_segment_of_a_dead_writer_is_packed_without_its_tail(open_writer, open_reader, samples, tmp_path, kill):
    writer = open_writer()
    fill(writer, samples, 30)
    for fragment in list(samples.large(31))[:2]:
        writer.append(fragment)
    kill(writer)
    writer = open_writer()
    fill(writer, samples, 33, first=31)
    old = open_reader()
    refs = old.descriptors(0)
    assert len(pack.pack_all(tmp_path / "trail")) == 1
    reader = open_reader()
    found = samples.found_rows([reader.load(r) for r in reader.descriptors(0)])
    assert found == samples.expected_rows(1, 33, with_large=True) == samples.found_rows([old.load(r) for r in refs])
    assert reader.check().problems == []
    kill(writer)
    assert open_writer().end.position.sequence == 33


@pytest.mark.parametrize("segment_bytes", [25_000, 30_000, 31_000, 32_000, 33_000, 40_000])
def test_fragments_that_were_begun_anew_are_not_packed(open_writer, open_reader, samples, tmp_path, segment_bytes):
    """The line was lost in a large transaction, twice: what came before has the numbers of what came again."""
    writer = open_writer(segment_bytes=segment_bytes)
    fill(writer, samples, 46)
    for lost in (3, 2):
        for fragment in list(samples.large(47))[:lost]:
            writer.append(fragment)
        assert writer.rewind().position.sequence == 46
    fill(writer, samples, 86, first=47)
    for fragment in list(samples.large(87))[:2]:
        writer.append(fragment)
    writer.rewind()
    fill(writer, samples, 140, first=87)
    refs = open_reader().descriptors(0)
    assert pack.pack_all(tmp_path / "trail")
    expected = samples.expected_rows(1, 140, with_large=True)
    reader = open_reader()
    assert samples.found_rows([reader.load(r) for r in refs]) == expected
    packed = reader.descriptors(0)
    assert samples.found_rows([reader.load(r) for r in packed]) == expected
    assert [r.fragment for r in packed if r.part is not Part.WHOLE] == [0, 1, 2, 3] * 4
    assert reader.check().problems == []


def test_record_older_than_a_packed_segment(open_writer, open_reader, samples, tmp_path, kill):
    writer = open_writer(segment_bytes=25_000)
    fill(writer, samples, 2)
    record = (tmp_path / "trail" / "published").read_bytes()
    fill(writer, samples, 80, first=3)
    kill(writer)
    assert pack.pack_all(tmp_path / "trail")
    (tmp_path / "trail" / "published").write_bytes(record)
    assert open_writer().end.position.sequence == 80


def test_interrupted_swap_is_finished_at_the_next_start(open_writer, open_reader, samples, tmp_path, kill):
    writer = open_writer(segment_bytes=25_000)
    fill(writer, samples, 80)
    kill(writer)
    directory = tmp_path / "trail"
    old = {path.name: path.read_bytes() for path in directory.glob("*.segment")}
    names = pack.pack_all(directory)
    (directory / names[0]).write_bytes(old[names[0]])
    (directory / "00000001-0001-1.packed.99.tmp").write_bytes(b"half")
    reader = open_reader()
    everything = samples.expected_rows(1, 80, with_large=True)
    assert samples.found_rows([reader.load(r) for r in reader.descriptors(0)]) == everything
    open_writer()
    assert not (directory / names[0]).exists() and not list(directory.glob("*.tmp"))
    assert samples.found_rows([open_reader().load(r) for r in open_reader().descriptors(0)]) == everything


@pytest.mark.parametrize("name", ["trail.pack.written", "trail.pack.renamed"])
def test_failpoints_of_packing_leave_the_same_trail(open_writer, open_reader, samples, tmp_path, kill, name):
    writer = open_writer(segment_bytes=20_000)
    fill(writer, samples, 60)
    failpoints.arm({failpoints.VARIABLE: f"{name}=raise", failpoints.LOG_VARIABLE: str(tmp_path / "log")})
    try:
        with pytest.raises(failpoints.FailpointReached):
            pack.pack_all(tmp_path / "trail")
    finally:
        failpoints.arm({})
    assert f"{name}=raise" in (tmp_path / "log").read_text()
    assert bool(list((tmp_path / "trail").glob("*.packed"))) == (name == "trail.pack.renamed")
    kill(writer)
    fill(open_writer(segment_bytes=20_000), samples, 70, first=61)
    reader = open_reader()
    found = samples.found_rows([reader.load(r) for r in reader.descriptors(0)])
    assert found == samples.expected_rows(1, 70, with_large=True) and reader.check().problems == []


def test_dropped_segment_is_not_brought_back(open_writer, samples, tmp_path, monkeypatch):
    writer = open_writer(segment_bytes=25_000)
    fill(writer, samples, 80)
    directory = tmp_path / "trail"
    retention.register(directory, "apply", 80)
    copy = pack._copy

    def drop_meanwhile(source, target) -> None:
        copy(source, target)
        retention.drop_old(directory, retention.RetentionLimits(0))

    monkeypatch.setattr(pack, "_copy", drop_meanwhile)
    assert pack.pack_all(directory) == []
    assert not list(directory.glob("*.packed*"))


def test_child_process_packs_while_the_writer_writes(open_writer, open_reader, samples, tmp_path, capfd):
    writer = open_writer(segment_bytes=20_000, pack=True)
    fill(writer, samples, 150)
    reader = open_reader()
    refs = reader.descriptors(0)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "trail").glob("*.packed")) and time.monotonic() < deadline:
        writer.heartbeat(samples.mark(int(time.monotonic() * 1000)))
        writer.flush()
        time.sleep(0.02)
    assert list((tmp_path / "trail").glob("*.packed"))
    assert samples.found_rows([reader.load(r) for r in refs]) == samples.expected_rows(1, 150, with_large=True)
    while writer._packer and writer._packer._child:
        writer._packer.tick()
        time.sleep(0.02)
    assert "trail_pack_failed" not in "".join(capfd.readouterr())
    writer.close()
    assert open_reader().check().problems == []


def test_large_frames_are_left_alone(open_writer, samples, tmp_path):
    writer = open_writer(segment_bytes=25_000)
    for first in range(1, 3000, 300):
        writer.append(samples.chunk(first, first + 299))
    writer.flush()
    assert pack.pack_all(tmp_path / "trail") == []


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_joined_chunks_are_the_transactions_of_all(samples, sizes):
    group, first = ChunkGroup(), 1
    for size in sizes:
        barrier = Barrier(size // 2, 0, BarrierKind.TRUNCATE, samples.ORDERS, statement=str(first + size // 2))
        chunk = replace(samples.chunk(first, first + size, barriers=(barrier,)), first_sequence=first)
        assert group.accepts(chunk)
        group.add(chunk)
        first += size + 1
    joined = join(group.chunks)
    assert samples.found_rows([joined]) == samples.expected_rows(1, first - 1)
    assert joined.resume == str(first - 1) and len({t.table for t in joined.tables}) == len(joined.tables)
    for barrier in joined.barriers:
        assert barrier.tx + 1 == int(barrier.statement)
    for part in group.chunks:
        again = rows_until(rows_after(joined, part.first_sequence - 1), part.last_sequence)
        assert samples.found_rows([again]) == samples.found_rows([part])
        assert again.barriers == part.barriers


def test_group_of_very_many_chunks(samples):
    group = ChunkGroup()
    for n in range(1, 1301):
        group.add(replace(samples.chunk(n, n), first_sequence=n))
    assert len(group.chunks) < 500 and group.transactions == 1300
    assert samples.found_rows([join(group.chunks)]) == samples.expected_rows(1, 1300)


def test_group_takes_one_version_of_a_table(samples):
    group = ChunkGroup()
    first = replace(samples.chunk(1, 1), first_sequence=1)
    other = replace(samples.chunk(2, 2), first_sequence=2)
    group.add(first)
    assert group.accepts(other)
    assert not group.accepts(replace(other, first_sequence=3))
    newer = tuple(replace(t, version=2) for t in other.tables)
    assert not group.accepts(replace(other, tables=newer))
    assert not group.accepts(replace(next(iter(samples.large(2))), first_sequence=2))


def test_failed_packing_is_logged_and_capture_goes_on(open_writer, samples, tmp_path, monkeypatch, capsys):
    writer = open_writer(segment_bytes=25_000, pack=True)
    fill(writer, samples, 1)
    monkeypatch.setattr(pack, "_spawn", lambda _: real(tmp_path / "nowhere"))
    fill(writer, samples, 90, first=2)
    deadline = time.monotonic() + 120
    text = ""
    while "trail_pack_failed" not in text and time.monotonic() < deadline:
        writer.heartbeat(samples.mark(int(time.monotonic() * 1000)))
        writer.flush()
        time.sleep(0.02)
        captured = capsys.readouterr()
        text += captured.out + captured.err
    assert "trail_pack_failed" in text and "nowhere" in text


real = pack._spawn
