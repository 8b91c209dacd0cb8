"""A trail that is carried by parcels is the same trail elsewhere: in whatever pieces, however often it goes on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.errors import ConfigError, ParcelMissing, ParcelRefused, StateError, StorageFull, TrailError, TrailLocked
from anabranch.failpoints import VARIABLE, arm
from anabranch.model.ids import TableId
from anabranch.trail import exporting, exports, load_readers, parcel, retention
from anabranch.trail.exporting import Exporter, follow
from anabranch.trail.importing import Importer
from anabranch.trail.pack import pack_all
from anabranch.trail.reader import TrailReader
from anabranch.trail.replica import TrailReplica
from anabranch.trail.retention import RetentionLimits
from anabranch.trail.writer import TrailWriter
from rigs.parcels import SMALL, export, rows_of, same, take_in, write
from rigs.trail_loads import TABLE, a_load


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path, Path]:
    return tmp_path / "trail", tmp_path / "out", tmp_path / "copy"


def test_what_was_exported_and_imported_is_the_same_trail(open_writer, samples, paths):
    trail, out, copy = paths
    writer = open_writer(segment_bytes=6000)
    writer.heartbeat(samples.mark(0))
    write(writer, 1, 60)
    writer.heartbeat(samples.mark(65))
    writer.flush()
    made = export(trail, out)
    assert len(made) > 5 and [one.number for one in made] == list(range(1, len(made) + 1)) == parcel.numbers(out)
    assert (made[0].first, made[-1].last, made[0].start, made[-1].end) == (1, 60, "0@log:0", "60@log:65")
    assert all(one.first == before.last + 1 for before, one in pairwise(made))
    assert take_in(out, copy) == parcel.numbers(out)
    same(trail, copy)


def test_a_new_parcel_begins_when_the_next_transaction_would_exceed_its_size(open_writer, samples, paths):
    """And one that is larger than that has a parcel of its own, with all its fragments."""
    trail, out, copy = paths
    writer = open_writer()
    write(writer, 1, 50)
    made = export(trail, out, size=6000)
    with TrailReader(trail) as reader:
        lengths: dict[int, int] = {}
        for ref in reader.descriptors(0):
            lengths[ref.last_sequence] = lengths.get(ref.last_sequence, 0) + ref.length
    for one in made:
        held = [lengths[number] for number in range(one.first, one.last + 1)]
        assert sum(held) <= 6000 or len(held) == 1
        assert one.last == 50 or sum(held) + lengths[one.last + 1] > 6000
    larger = [number for number, length in lengths.items() if length > 6000]
    assert larger == [] or {one.first for one in made if one.first == one.last} >= set(larger)
    take_in(out, copy)
    same(trail, copy)


def test_an_export_goes_on_where_the_last_one_ended_and_also_when_parcels_were_taken_away(open_writer, samples, paths):
    trail, out, copy = paths
    writer = open_writer()
    write(writer, 1, 10)
    first = export(trail, out)
    assert export(trail, out) == []
    assert take_in(out, copy) == [one.number for one in first]
    shutil.rmtree(out)
    write(writer, 11, 20)
    second = export(trail, out)
    assert (second[0].number, second[0].first, second[-1].last) == (first[-1].number + 1, 11, 20)
    assert take_in(out, copy) == [one.number for one in second]
    same(trail, copy)


def test_nothing_is_dropped_that_was_not_exported_until_the_export_is_forgotten(open_writer, samples, paths):
    trail, out, _ = paths
    writer = open_writer(segment_bytes=3000, limits=RetentionLimits(0))
    write(writer, 1, 10)
    export(trail, out)
    assert retention.readers(trail)["export out"].sequence == 10
    retention.register(trail, "apply", 0)
    retention.advance(trail, "apply", 10)
    write(writer, 11, 60)
    retention.advance(trail, "apply", 60)
    writer.drop_old()
    with TrailReader(trail) as reader:
        assert reader.first() <= 11
    export(trail, out)
    assert writer.drop_old()
    write(writer, 61, 62)
    assert exports.forget(trail, "out", out) and not exports.forget(trail, "out", out)
    assert "export out" not in retention.readers(trail) and exports.directories(trail) == {}


def test_an_export_whose_reader_was_removed_says_what_was_dropped(open_writer, samples, paths):
    trail, out, _ = paths
    writer = open_writer(segment_bytes=3000, limits=RetentionLimits(0))
    write(writer, 1, 3)
    export(trail, out)
    retention.unregister(trail, "export out")
    retention.register(trail, "apply", 0)
    write(writer, 4, 60)
    retention.advance(trail, "apply", 60)
    assert writer.drop_old()
    with pytest.raises(TrailError, match="reader export out is at sequence 3, the trail starts at"):
        export(trail, out)


def test_a_range_begins_and_ends_inside_chunks_and_goes_on_there(open_writer, samples, paths):
    trail, out, copy = paths
    writer = open_writer()
    write(writer, 1, 40, apart=12)
    made = export(trail, out, start=5, upto=17)
    assert (made[0].first, made[0].start, made[-1].last, made[-1].end) == (5, "4@log:4", 17, "17@log:17")
    with pytest.raises(ConfigError, match="goes on at sequence 18, not at 5"):
        export(trail, out, start=5)
    take_in(out, copy)
    assert rows_of(copy) == samples.expected_rows(5, 17, with_large=True)
    export(trail, out, start=18)
    take_in(out, copy)
    assert rows_of(copy) == samples.expected_rows(5, 40, with_large=True)
    with TrailReader(copy) as reader:
        assert (reader.first(), str(reader.position_at(4)), reader.check().problems) == (5, "4@log:4", [])
    with pytest.raises(ConfigError, match="sequence 42 is not in the trail, which ends at 40"):
        export(trail, out.with_name("other"), name="other", start=42)


def test_a_trail_that_was_packed_in_between_goes_on(open_writer, samples, paths):
    trail, out, copy = paths
    writer = open_writer(segment_bytes=20000)
    write(writer, 1, 50)
    export(trail, out, upto=9)
    assert pack_all(trail) != []
    write(writer, 51, 60)
    export(trail, out)
    take_in(out, copy)
    same(trail, copy)


def test_small_transactions_are_joined(open_writer, samples, paths):
    trail, out, copy = paths
    write(open_writer(), 1, 46)
    (made,) = export(trail, out, size=1 << 20)
    take_in(out, copy)
    with TrailReader(copy) as reader:
        assert len(reader.descriptors(0)) == 1 + samples.LARGE_FRAGMENTS + 1
    assert made.size < sum(path.stat().st_size for path in trail.glob("*.segment"))
    same(trail, copy)


def test_a_trail_without_transactions_says_where_it_begins(open_writer, samples, paths):
    trail, out, copy = paths
    writer = open_writer()
    writer.heartbeat(samples.mark(3))
    writer.flush()
    (made,) = export(trail, out)
    assert (made.first, made.last, made.end) == (1, 0, "0@log:3")
    take_in(out, copy)
    same(trail, copy)
    with Exporter(trail, out, "out", size=SMALL) as exporter:
        writer.heartbeat(samples.mark(8))
        writer.flush()
        assert exporter.next() is None, "nobody asked for signs of life"
        sign = exporter.next(idle=True)
        assert sign and sign.end == "0@log:8" and exporter.next(idle=True) is None
    write(writer, 1, 3)
    export(trail, out)
    take_in(out, copy)
    with TrailReader(copy) as reader:
        assert (str(reader.end().position), reader.check().problems) == ("3@log:3", [])
    assert rows_of(copy) == samples.expected_rows(1, 3)


def test_an_empty_trail_has_its_history_only(open_writer, paths):
    trail, out, copy = paths
    open_writer().flush()
    (made,) = export(trail, out)
    assert made.segment is None and made.history
    assert take_in(out, copy) == [1]
    with TrailReader(copy) as reader:
        assert reader.end().position.sequence == 0 and len(reader.history.entries) == 3


def test_the_history_comes_in_pieces_and_never_ahead_of_the_transactions(open_writer, samples, paths):
    trail, out, copy = paths
    writer = open_writer()
    write(writer, 1, 5)
    parked = TableId("shop", "parked")
    writer.schema(samples.definition(parked))
    writer.park(samples.NOTES, "for the test")
    write(writer, 6, 6)
    writer.schema(replace(samples.definition(parked), version=2))
    write(writer, 8, 9)
    first = export(trail, out, upto=5)
    take_in(out, copy)
    with TrailReader(copy) as reader:
        assert reader.history.parked() == {} and reader.history.latest(parked).version == 1
    second = export(trail, out)
    pieces = [one.history for one in (*first, *second) if one.history]
    assert pieces[0].after == 0 and all(one.after == before.length for before, one in pairwise(pieces))
    assert take_in(out, copy) == [one.number for one in second]
    with TrailReader(copy) as reader:
        assert reader.history.parked() == {samples.NOTES: "for the test"} and reader.history.latest(parked).version == 2
    same(trail, copy)


def test_a_history_that_was_put_back_comes_as_a_whole(open_writer, samples, paths):
    trail, out, copy = paths
    writer = open_writer()
    write(writer, 1, 5)
    export(trail, out)
    take_in(out, copy)
    lines = (trail / "history").read_bytes().splitlines(keepends=True)
    (trail / "history").write_bytes(lines[0] + lines[2] + lines[1])
    write(writer, 6, 6)
    (made,) = export(trail, out)
    assert made.history.after == 0
    take_in(out, copy)
    same(trail, copy)


def test_another_server_that_took_over_comes_along(open_writer, samples, paths):
    trail, out, copy = paths
    writer = open_writer()
    write(writer, 1, 3)
    export(trail, out)
    take_in(out, copy)
    writer.adopt_identity("server-2")
    write(writer, 4, 6)
    export(trail, out)
    take_in(out, copy)
    same(trail, copy)


def test_files_of_a_load_come_along_and_those_that_name_others_last(open_writer, samples, paths):
    trail, out, copy = paths
    write(open_writer(), 1, 2)
    folder = trail / "load/shop.orders"
    folder.mkdir(parents=True)
    for name in ("1.rows", "2.rows", "manifest.json", "3.rows.7.tmp"):
        (folder / name).write_bytes(name.encode() * 200)
    for name in ("complete.json", "source.json", "ledger.db", "ledger.db-wal"):
        (trail / "load" / name).write_text(name)
    made = export(trail, out, size=1500)
    names = [file.name for one in made for file in one.files if file.name.startswith("load/")]
    assert names == [f"load/{name}" for name in ("shop.orders/1.rows", "shop.orders/2.rows", "source.json")] + [
        "load/shop.orders/manifest.json",
        "load/complete.json",
    ]
    assert [one.last for one in made][:3] == [0, 0, 0] and made[-1].last == 2
    take_in(out, copy)
    assert all((copy / name).read_bytes() == (trail / name).read_bytes() for name in names)
    assert not (copy / "load/ledger.db").exists() and export(trail, out) == []
    (folder / "manifest.json").write_text("of another load")
    (again,) = export(trail, out)
    assert [file.name for file in again.files] == ["load/shop.orders/manifest.json"]
    take_in(out, copy)
    assert (copy / "load/shop.orders/manifest.json").read_text() == "of another load"
    assert export(trail, out.with_name("bare"), name="bare", with_load=False)[0].files[0].name == "history"


def test_files_of_a_load_go_once_they_are_in_parcels_and_do_not_wait_for_exports_without_them(
    open_writer, samples, paths
):
    trail, out, copy = paths
    writer = open_writer()
    write(writer, 1, 2)
    names = a_load(trail)
    export(trail, out.with_name("bare"), name="bare", with_load=False)
    retention.register(trail, exports.reader_of("out"), 0)
    assert load_readers.sweep(trail) == []
    arm({VARIABLE: "parcel.export.reached=raise:StorageFull"})
    try:
        with pytest.raises(StorageFull):
            export(trail, out, name="out")
    finally:
        arm({})
    assert load_readers.sweep(trail) == []
    export(trail, out, name="out")
    assert sorted(load_readers.sweep(trail)) == names
    take_in(out, copy)
    assert all((copy / name).exists() for name in names) and not (copy / "loaded").exists()
    write(writer, 3, 4)
    later = a_load(trail, 2)
    export(trail, out, name="out")
    retention.register(copy, "apply@x.1", 0)
    load_readers.save(copy, "apply@x.1", load_readers.Note({TABLE: load_readers.Taken(1, 1, True)}))
    take_in(out, copy)  # it drops what nobody needs
    assert sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*.arrow")) == later
    assert exports.forget(trail, "out", out) and not load_readers.read(trail, exports.reader_of("out")).tables


def test_one_that_changes_while_it_is_copied_comes_with_the_next_parcel(open_writer, samples, paths, monkeypatch):
    trail, out, copy = paths
    write(open_writer(), 1, 1)
    (trail / "load").mkdir()
    (trail / "load/source.json").write_text("old")
    listed = exporting.contents.load_files

    def and_change(*given):
        found = listed(*given)
        (trail / "load/source.json").write_text("newer")
        monkeypatch.undo()
        return found

    monkeypatch.setattr(exporting.contents, "load_files", and_change)
    first, second = export(trail, out)
    assert [file.name for file in second.files] == ["load/source.json"] and len(first.files) == 2
    take_in(out, copy)
    assert (copy / "load/source.json").read_text() == "newer"


def test_following_writes_full_parcels_at_once_and_the_rest_when_it_is_due(open_writer, samples, paths, monkeypatch):
    trail, out, copy = paths
    writer = open_writer()
    write(writer, 1, 4)
    clock, made, seen = [0.0], [], []
    monkeypatch.setattr(exporting.time, "monotonic", lambda: clock[0])

    def later() -> None:
        clock[0] = 700.0

    steps = [lambda: None, lambda: write(writer, 5, 5), lambda: write(writer, 6, 30), lambda: None, later, lambda: None]
    with Exporter(trail, out, "out", size=SMALL) as exporter:

        def wait(seconds: float) -> bool:
            if seconds and steps:
                clock[0] += 1
                seen.append(made[-1].last)
                steps.pop(0)()
            return not steps

        follow(exporter, 600, wait, made.append)
    assert seen[:3] == [4, 4, 4], "one transaction is no parcel yet"
    assert 5 < seen[3] < 30 and seen[4] == seen[3], "full ones are, before it is due"
    assert seen[5] == made[-1].last == 30
    take_in(out, copy)
    same(trail, copy)


def test_one_export_at_a_time_and_a_directory_of_another_is_refused(open_writer, samples, paths):
    trail, out, _ = paths
    write(open_writer(), 1, 3)
    with Exporter(trail, out, "out"), pytest.raises(TrailLocked, match="export out is being written by process"):
        Exporter(trail, out, "out")
    export(trail, out)
    with pytest.raises(ParcelRefused, match="has parcel 3 of another export, of job shop"):
        export(trail, out, name="second")
    with pytest.raises(ConfigError, match="is no name of an export"):
        export(trail, out, name="a/b")
    assert exports.name_for(trail, out) == "out"
    with pytest.raises(ConfigError, match=r"export out writes into .*/out — --name out goes on with it in"):
        exports.name_for(trail, out.parent / "elsewhere" / "out")


def test_no_room_is_said_before_anything_is_written(open_writer, samples, paths, monkeypatch):
    trail, out, copy = paths
    write(open_writer(), 1, 3)
    with monkeypatch.context() as patched:
        patched.setattr(exporting.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 90, 10))
        with pytest.raises(StorageFull, match=r"parcel 1 needs about .* bytes, .* has 10"):
            export(trail, out)
    assert list(out.iterdir()) == []
    export(trail, out)
    with monkeypatch.context() as patched:
        patched.setattr(exporting.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 90, 10))
        with pytest.raises(StorageFull, match=r"parcel 1 needs .* bytes, .* has 10"):
            take_in(out, copy)
    assert take_in(out, copy)


@pytest.mark.parametrize("point", ["parcel.export.writing", "parcel.import.arriving"])
def test_a_disk_that_fills_up_on_the_way_leaves_nothing_behind(open_writer, samples, paths, point):
    trail, out, copy = paths
    write(open_writer(), 1, 3)
    if "import" in point:
        export(trail, out)
    try:
        arm({VARIABLE: f"{point}=full:60"})
        with pytest.raises(StorageFull, match="no room left for parcel 1"):
            export(trail, out) if "export" in point else take_in(out, copy)
    finally:
        arm({})
    assert "export" not in point or list(out.iterdir()) == []
    export(trail, out)
    take_in(out, copy)
    same(trail, copy)


def test_a_copy_takes_no_capture_and_a_captured_trail_no_parcels(open_writer, samples, paths):
    trail, out, copy = paths
    write(open_writer(), 1, 3)
    export(trail, out)
    take_in(out, copy)
    with pytest.raises(
        StateError, match="is a replica: what is in it comes from another trail, no capture may write it"
    ):
        TrailWriter.open(copy, **samples.JOB)
    with pytest.raises(StateError, match="is a replica that takes in parcels"):
        TrailReplica.open(copy)
    with pytest.raises(TrailLocked):
        Importer(out, trail)


def test_a_captured_trail_takes_no_parcels(open_writer, samples, paths, kill):
    trail, out, _ = paths
    writer = open_writer()
    write(writer, 1, 3)
    export(trail, out)
    writer.close()
    with pytest.raises(ParcelRefused, match="is a trail that was not made by importing parcels"):
        Importer(out, trail)
    with pytest.raises(ParcelRefused, match="there is no directory"):
        Importer(out / "nowhere", trail)


def test_a_copy_drops_what_its_readers_are_past(open_writer, samples, paths, monkeypatch):
    from anabranch.trail import importing

    trail, out, copy = paths
    monkeypatch.setattr(importing, "KEPT", RetentionLimits(0))
    writer = open_writer()
    write(writer, 1, 20)
    export(trail, out)
    take_in(out, copy)
    retention.register(copy, "apply", 0)
    retention.advance(copy, "apply", 20)
    write(writer, 21, 25)
    export(trail, out)
    take_in(out, copy)
    with TrailReader(copy) as reader:
        assert 1 < reader.first() <= 21
        assert samples.found_rows([reader.load(ref) for ref in reader.descriptors(20)]) == samples.expected_rows(21, 25)


def test_a_copy_is_carried_further(open_writer, samples, paths):
    trail, out, copy = paths
    writer = open_writer()
    write(writer, 1, 20)
    export(trail, out)
    take_in(out, copy)
    second, third = out.with_name("out2"), copy.with_name("copy2")
    export(copy, second, name="out2", size=5000)
    take_in(second, third)
    same(trail, third)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 30), st.integers(1, 4), st.booleans(), st.booleans()), min_size=1, max_size=6
    ),
    size=st.sampled_from([1, 1500, 4000, 1 << 20]),
)
def test_in_whatever_pieces_it_is_written_exported_and_imported(samples, tmp_path_factory, steps, size):
    base = tmp_path_factory.mktemp("pieces")
    trail, out, copy = base / "trail", base / "out", base / "copy"
    with TrailWriter.open(trail, **samples.JOB, segment_bytes=18_000, pack=False) as writer:
        for table in (samples.ORDERS, samples.NOTES):
            writer.schema(samples.definition(table))
        last = 0
        for count, apart, is_packed, is_imported in steps:
            write(writer, last + 1, last + count, apart=apart)
            last += count
            writer.heartbeat(samples.LogMark(f"log:{last}+", str(last), 0))
            writer.flush()
            if is_packed:
                pack_all(trail)
            export(trail, out, size=size)
            if is_imported:
                take_in(out, copy, remove=count % 2 == 0)
        take_in(out, copy)
        same(trail, copy)


def test_a_parcel_that_is_missing_is_named_at_once(open_writer, samples, paths):
    trail, out, copy = paths
    write(open_writer(), 1, 20)
    export(trail, out)
    (out / "000003").rename(out.parent / "kept")
    with Importer(out, copy) as importer:
        assert [importer.next().number, importer.next().number] == [1, 2]
        with pytest.raises(ParcelMissing, match="parcel 3 is missing, parcel 4 is there"):
            importer.next()
        (out.parent / "kept").rename(out / "000003")
        assert importer.next().number == 3
