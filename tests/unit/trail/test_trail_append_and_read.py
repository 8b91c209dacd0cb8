"""What is appended and flushed is what readers get, in whatever pieces."""

from __future__ import annotations

import gc
import os
import pickle
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.errors import TrailError
from anabranch.model.column_changes import Untold
from anabranch.model.position import Position
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk, Part
from anabranch.trail.chunk_refs import LEAST_ROWS
from anabranch.trail.codec import _barrier_json
from anabranch.trail.reader import TrailReader, exists, has_begun
from anabranch.trail.regroup import rows_after, rows_until
from anabranch.trail.retention import RetentionLimits
from anabranch.trail.writer import TrailWriter


def test_new_trail_starts_at_zero_and_at_its_first_mark(open_writer, open_reader, samples, tmp_path):
    assert not exists(tmp_path / "trail")
    writer = open_writer()
    assert exists(tmp_path / "trail")
    reader = open_reader()
    assert reader.end().position == Position(0, "") and reader.first() == 1 and reader.descriptors(0) == []
    writer.heartbeat(samples.mark(0))
    writer.flush()
    assert (reader.end().position, reader.end().resume) == (Position(0, "log:0"), "0")
    assert reader.position_at(0) == Position(0, "log:0")
    writer.heartbeat(samples.mark(5))
    writer.flush()
    assert reader.end().position == Position(0, "log:5") == writer.end.position
    assert reader.position_at(0) == Position(0, "log:0")


def test_no_trail_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(TrailError, match="no trail"):
        TrailReader(tmp_path)


def test_nothing_is_seen_before_flush(open_writer, open_reader, samples):
    writer, reader = open_writer(), open_reader()
    stored = writer.append(samples.chunk(1, 3))
    assert (stored.first_sequence, stored.last_sequence) == (1, 3)
    assert reader.end().position.sequence == 0 and reader.descriptors(0) == []
    assert writer.appended.position == Position(3, "log:3") and writer.end.position.sequence == 0
    writer.flush()
    assert reader.end().position == Position(3, "log:3") and reader.end().resume == "3"
    assert reader.end().commit_time == 3000
    assert samples.found_rows([reader.load(r) for r in reader.descriptors(0)]) == samples.expected_rows(1, 3)


def test_values_lie_on_boundaries_of_their_own(open_writer, open_reader, samples):
    """Beside what is compressed, whose length is any: Arrow's kernels warn at each batch of others."""
    writer, reader = open_writer(), open_reader()
    (rows,) = samples.chunk(1, 1).tables
    few = replace(rows, batch=samples.batch([(n, 0, 0, 0, n, "word") for n in range(3)]))
    for first in range(1, 4000, 400):
        many = samples.transactions([(f"log:{n}", "x" * (n % 7), n, 1) for n in range(first, first + 400)])
        writer.append(Chunk(many, (few,), first_sequence=first, resume=str(first + 399)))
    writer.flush()
    batches = [rows.batch for ref in reader.descriptors(0) for rows in reader.load(ref).tables]
    buffers = [buffer for batch in batches for column in batch.columns for buffer in column.buffers() if buffer]
    assert len(batches) == 10 and {buffer.address % 8 for buffer in buffers} == {0}


def test_ref_tells_what_a_planner_needs(open_writer, open_reader, samples):
    writer, reader = open_writer(), open_reader()
    barrier = Barrier(1, 0, BarrierKind.TRUNCATE, samples.ORDERS, statement="TRUNCATE orders")
    writer.append(samples.chunk(1, 7, barriers=(barrier,)))
    writer.flush()
    (ref,) = reader.descriptors(0)
    chunk = samples.chunk(1, 7)
    assert (ref.first_sequence, ref.last_sequence, ref.transactions, ref.rows) == (1, 7, 7, chunk.row_count)
    assert ref.has_barriers and ref.last_position == Position(7, "log:7") and ref.last_commit_time == 7000
    assert dict(ref.tables) == {str(t.table): t.batch.num_rows for t in chunk.tables}
    assert pickle.loads(pickle.dumps(ref)) == ref
    assert reader.load(ref).barriers == (barrier,)


def test_schema_barrier_keeps_its_definition(open_writer, open_reader, samples):
    writer, reader = open_writer(), open_reader()
    barrier = Barrier(0, 0, BarrierKind.SCHEMA, samples.ORDERS, schema=samples.definition(version=2), reason="joins")
    writer.append(samples.chunk(1, 1, barriers=(barrier,)))
    writer.flush()
    assert reader.load(reader.descriptors(0)[0]).barriers == (barrier,)


def test_what_a_barrier_tells_beyond_its_definition_is_kept(open_writer, open_reader, samples):
    """A trail of before has barriers without it, which read as those that have nothing to tell."""
    writer, reader = open_writer(), open_reader()
    untold = Untold(renamed=(("a", "b"),), filled=(("n", "0"),))
    plain = Barrier(0, 0, BarrierKind.ALTER, samples.ORDERS, "ALTER …", schema=samples.definition(version=2))
    barriers = (plain, replace(plain, ordinal=1, untold=untold))
    writer.append(samples.chunk(1, 1, barriers=barriers))
    writer.flush()
    assert reader.load(reader.descriptors(0)[0]).barriers == barriers
    assert [len(_barrier_json(barrier)) for barrier in barriers] == [7, 8]


def test_windows_cut_chunks(open_writer, open_reader, samples):
    writer, reader = open_writer(), open_reader()
    for first in (1, 11, 21):
        writer.append(samples.chunk(first, first + 9))
    writer.flush()
    for after, upto in ((0, 30), (4, 17), (9, 10), (10, 20), (12, 13), (29, 30), (30, 30)):
        refs = reader.descriptors(after, upto)
        assert samples.found_rows([reader.load(r) for r in refs]) == samples.expected_rows(after + 1, upto)
    assert reader.position_at(17) == Position(17, "log:17")
    with pytest.raises(TrailError, match="31 is not in the trail"):
        reader.position_at(31)


def test_limit_takes_at_least_one_chunk(open_writer, open_reader, samples):
    writer, reader = open_writer(), open_reader()
    for first in range(1, 1001, 100):
        writer.append(samples.chunk(first, first + 99))
    writer.flush()
    assert [r.last_sequence for r in reader.descriptors(0, limit_rows=1)] == [100]
    refs = reader.descriptors(0, limit_rows=400)
    assert 400 <= sum(r.rows for r in refs) < 600 and refs[-1].last_sequence < 500


def test_chunks_of_single_rows_reach_a_limit_sooner(open_writer, open_reader, samples):
    """A backlog that was captured live: each chunk takes kilobytes, however few rows it has."""
    writer, reader = open_writer(), open_reader()
    for number in range(1, 31):
        writer.append(samples.chunk(number, number))
        writer.flush()
    refs = reader.descriptors(0, limit_rows=5 * LEAST_ROWS)
    assert max(ref.rows for ref in refs) < LEAST_ROWS and len(refs) == 5


def test_large_transaction_comes_whole_or_not_at_all(open_writer, open_reader, samples):
    writer, reader = open_writer(segment_bytes=2000), open_reader()
    writer.append(samples.chunk(1, 6))
    fragments = list(samples.large(7))
    for fragment in fragments[:-1]:
        assert writer.append(fragment).first_sequence == 7
        writer.flush()
        assert [r.last_sequence for r in reader.descriptors(0)] == [6]
    writer.append(fragments[-1])
    writer.flush()
    writer.append(samples.chunk(8, 9))
    writer.flush()
    refs = reader.descriptors(0)
    assert [r.part for r in refs] == [Part.WHOLE, *[Part.FRAGMENT] * 3, Part.LAST, Part.WHOLE]
    assert len({r.segment for r in refs}) > 1
    found = samples.found_rows([reader.load(r) for r in refs])
    assert found == samples.expected_rows(1, 9, with_large=True)
    assert [r.first_sequence for r in reader.descriptors(6, 7)] == [7] * 4
    assert [r.first_sequence for r in reader.descriptors(6, limit_rows=1)] == [7] * 4
    assert [r.first_sequence for r in reader.descriptors(7)] == [8]
    assert reader.position_at(7) == Position(7, "log:7") and reader.check().problems == []


def test_fragments_of_a_lost_line_are_forgotten(open_writer, open_reader, samples):
    writer, reader = open_writer(), open_reader()
    fragments = list(samples.large(1))
    writer.append(fragments[0])
    writer.append(fragments[1])
    with pytest.raises(TrailError, match="inside a large transaction"):
        writer.append(samples.chunk(1, 1))
    with pytest.raises(TrailError, match="inside a transaction"):
        writer.heartbeat(samples.mark(3))
    assert writer.rewind() == writer.appended
    for fragment in fragments:
        writer.append(fragment)
    writer.flush()
    refs = reader.descriptors(0)
    assert samples.found_rows([reader.load(r) for r in refs]) == {1: samples.large_rows(1)}
    assert len(refs) == len(fragments)


def test_wrong_chunks_are_refused(open_writer, samples):
    writer = open_writer()
    empty = Chunk(samples.transactions([]), ())
    with pytest.raises(TrailError, match="without transactions"):
        writer.append(empty)
    stranger = samples.chunk(1, 1)
    unknown = stranger.tables[0].__class__(samples.ORDERS, 9, stranger.tables[0].batch, stranger.tables[0].shapes)
    with pytest.raises(TrailError, match="version 9 of the definition is not in the schema history"):
        writer.append(Chunk(stranger.transactions, (unknown,)))
    assert writer.append(samples.chunk(1, 1)).first_sequence == 1


def test_wait_returns_at_once_when_there_is_something(open_writer, open_reader, samples):
    writer, reader = open_writer(), open_reader()
    start = reader.end()
    assert reader.wait(0, 0.01).position.sequence == 0

    def write() -> None:
        writer.append(samples.chunk(1, 1))
        writer.flush()

    timer = threading.Timer(0.05, write)
    timer.start()
    assert reader.wait(0, 5).position.sequence == 1
    timer.join()
    assert reader.wait(start, 5).version > start.version
    writer.heartbeat(samples.mark(9))
    writer.flush()
    assert reader.wait(reader.end(), 0.01).position == Position(1, "log:9")


def test_segments_stand_alone_and_are_listed(open_writer, open_reader, samples):
    writer, reader = open_writer(segment_bytes=3000), open_reader()
    for n in range(1, 40):
        writer.append(samples.chunk(n, n))
        writer.flush()
    facts = reader.segments()
    assert len(facts) > 3 and [f.state for f in facts[:-1]] == ["sealed"] * (len(facts) - 1)
    assert facts[0].first == 1 and facts[-1].last == 39 and sum(f.chunks for f in facts) == 39
    assert all(a.last + 1 == b.first for a, b in pairwise(facts))
    middle = facts[2]
    ref = next(r for r in reader.descriptors(0) if r.segment == middle.name and r.rows)
    chunk = reader.load(ref)
    held = reader._segment(middle.name).definition(chunk.tables[0].table, 1)
    assert held == samples.definition(chunk.tables[0].table)


def test_seal_keeps_everything_readable_in_one_place(open_writer, open_reader, samples):
    writer = open_writer(segment_bytes=2500)
    for n in range(1, 30):
        writer.append(samples.chunk(n, n))
    writer.flush()
    reader = open_reader()
    report = reader.check()
    assert (report.problems, report.first, report.last, report.transactions) == ([], 1, 29, 29)
    assert report.rows == sum(samples.row_count(n) for n in range(1, 30))


ROWS = st.lists(
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.none() | st.text(st.characters(codec="utf-8"), max_size=8)),
    max_size=6,
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.lists(st.lists(ROWS, min_size=1, max_size=4), min_size=1, max_size=5), st.integers(600, 5000), st.data())
def test_any_rows_come_back_as_they_were(tmp_path_factory, samples: Any, chunks, segment_bytes, data):
    directory: Path = tmp_path_factory.mktemp("any")
    written = []
    settings_ = {**samples.JOB, "segment_bytes": segment_bytes, "limits": RetentionLimits(60), "pack": False}
    with TrailWriter.open(directory, **settings_) as writer:
        writer.schema(samples.definition())
        for found in chunks:
            rows = [(1, tx, i, 0, *row) for tx, t in enumerate(found) for i, row in enumerate(t)]
            directory_of = samples.transactions([(f"log:{i}", None, i, len(t)) for i, t in enumerate(found)])
            tables = (samples.TableRows(samples.ORDERS, 1, samples.batch(rows), (samples.FULL,)),)
            written.append(writer.append(Chunk(directory_of, tables, resume="x")))
            if data.draw(st.booleans()):
                writer.flush()
    with TrailReader(directory) as reader:
        read = [reader.load(r) for r in reader.descriptors(0)]
        assert len(read) == len(written)
        for a, b in zip(read, written, strict=True):
            assert a == b
        assert reader.check().problems == []


@given(st.integers(1, 12), st.integers(0, 14), st.integers(0, 14))
def test_cutting_is_selecting(samples: Any, count, after, upto):
    chunk = Chunk(**{**vars(samples.chunk(1, count)), "first_sequence": 1})
    whole = samples.found_rows([chunk])
    cut = rows_until(rows_after(chunk, after), upto)
    assert samples.found_rows([cut]) == {s: r for s, r in whole.items() if after < s <= upto}
    assert cut.transactions.num_rows == len(samples.found_rows([cut]))
    if after == 0 and upto >= count:
        assert cut is chunk


def test_arrow_types_of_all_widths_survive(open_writer, open_reader, samples):
    writer, reader = open_writer(), open_reader()
    first = samples.chunk(1, 1)
    arrow = pa.schema([*samples.META_FIELDS, pa.field("id", pa.decimal256(60, 3)), pa.field("note", pa.null())])
    columns = [*first.tables[0].batch.columns[:4], pa.array([None], pa.decimal256(60, 3)), pa.nulls(1)]
    rows = pa.RecordBatch.from_arrays(columns, schema=arrow)
    other = samples.TableRows(samples.ORDERS, 1, rows, (samples.FULL,))
    writer.append(first)
    writer.append(Chunk(first.transactions, (other,)))
    writer.append(samples.chunk(3, 3))
    writer.flush()
    read = [reader.load(r) for r in reader.descriptors(0)]
    assert read[1].tables[0].batch.equals(rows) and read[0].tables == first.tables


def test_a_reader_that_nobody_closed_keeps_no_descriptor(open_writer, samples, tmp_path):
    assert not has_begun(tmp_path / "trail")
    writer = open_writer()
    writer.heartbeat(samples.mark(0))
    writer.flush()
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert has_begun(tmp_path / "trail")
        TrailReader(tmp_path / "trail").end()
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
