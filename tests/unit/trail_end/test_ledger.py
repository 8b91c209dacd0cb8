"""The load into a trail: chunks that are done stay done, states change by compare-and-set, manifests come last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.contracts import Bounds
from anabranch.errors import Fenced, StateError
from anabranch.load.handover import loaded
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import heard_of, prepare, wait_for_load
from anabranch.rows.net import TargetTable
from anabranch.trail import load_readers, retention
from anabranch.trail.replica_files import GONE, LoadFile, LoadFilesCopy, gone_of
from anabranch.trail.storage import LocalStorage
from anabranch.trail_end import chunk_files, manifests
from anabranch.trail_end.loader import TrailLoader
from anabranch.trail_end.store import TrailStore

JOB, TABLE = "here", TableId("shop", "t")
INT = LogicalType(Kind.INT32)
SCHEMA = TableSchema(TABLE, (Column("id", INT, "int"), Column("n", INT, "int")), ("id",), version=3)
TARGET = TargetTable(TABLE, TABLE, ("id", "n"), (INT, INT), ("id",), ("id", "n"))
PIECES = [Bounds(None, ("5",)), Bounds(("5",), None)]


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[tuple[TrailStore, TrailLoader]]:
    """Yield a store and a loader of a trail in which the load of TABLE has begun."""
    with closing(TrailStore(tmp_path)) as store, closing(TrailLoader(tmp_path)) as loader:
        store.prepare()
        store.save_job(JOB, {"uuid": "u"})
        pending = prepare(heard_of(TABLE, TABLE), SCHEMA, TABLE)
        store.save_table(JOB, pending, None)
        loader.begin_generation(JOB, TARGET, 1, PIECES, False)
        yield store, loader


def load(loader: TrailLoader, number: int, block: bytes = b"1\t2\n", generation: int = 1) -> int:
    return loader.load_chunk(JOB, TARGET, generation, number, (f"low {number}", f"high {number}"), [block])


def test_a_chunk_that_is_done_is_not_loaded_again(begun: tuple[TrailStore, TrailLoader]) -> None:
    _, loader = begun
    assert load(loader, 0) == 1
    assert load(loader, 0, b"1\t2\n3\t4\n") == 1
    first, second = loader.chunks(JOB, TABLE, 1)
    assert (first.rows, first.low, first.high, first.bounds) == (1, "low 0", "high 0", PIECES[0])
    assert (second.rows, second.low, second.bounds) == (None, "", PIECES[1])


def test_two_tasks_at_one_chunk_leave_the_first_ones_rows(
    begun: tuple[TrailStore, TrailLoader], tmp_path: Path
) -> None:
    _, loader = begun
    with closing(TrailLoader(tmp_path)) as other, loader.together():
        load(loader, 0, b"1\t1\n")
        assert load(other, 0, b"1\t2\n2\t2\n") == 2
    assert loader.chunks(JOB, TABLE, 1)[0].rows == 2


def test_a_load_that_was_replaced_is_fenced(begun: tuple[TrailStore, TrailLoader]) -> None:
    _, loader = begun
    loader.begin_generation(JOB, TARGET, 2, PIECES, True)
    with pytest.raises(Fenced):
        load(loader, 0)
    with pytest.raises(Fenced):
        loader.begin_generation(JOB, TARGET, 1, PIECES, False)


def test_the_manifest_comes_with_the_last_chunk(begun: tuple[TrailStore, TrailLoader], tmp_path: Path) -> None:
    store, loader = begun
    for number in (0, 1):
        load(loader, number)
    state = store.table(JOB, TABLE)
    assert state is not None and manifests.load(tmp_path, TABLE) is None
    store.save_table(JOB, loaded(state, loader.chunks(JOB, TABLE, 1)), state)
    through = store.table(JOB, TABLE)
    assert through is not None and through.is_streaming and through.is_handed_over(1)
    found = manifests.load(tmp_path, TABLE)
    assert found is not None and (found.version, found.columns, found.rows) == (3, ("id", "n"), 2)
    for chunk in found.chunks:
        chunk_files.check(tmp_path, chunk.file)
    assert [(chunk.low, chunk.high) for chunk in found.chunks] == [("low 0", "high 0"), ("low 1", "high 1")]


def test_a_state_that_somebody_changed_is_not_written_over(begun: tuple[TrailStore, TrailLoader]) -> None:
    store, _ = begun
    state = store.table(JOB, TABLE)
    assert state is not None
    with pytest.raises(Fenced):
        store.save_table(JOB, state, replace(state, generation=7))
    with pytest.raises(Fenced):
        store.save_table(JOB, state, None)


def test_a_trail_is_of_one_job(begun: tuple[TrailStore, TrailLoader]) -> None:
    store, _ = begun
    with pytest.raises(StateError, match="is that of the job here"):
        store.save_job("other", {"uuid": "v"})


def test_a_table_without_rows_has_a_manifest(begun: tuple[TrailStore, TrailLoader], tmp_path: Path) -> None:
    store, loader = begun
    assert [load(loader, number, b"") for number in (0, 1)] == [0, 0]
    state = store.table(JOB, TABLE)
    assert state is not None
    store.save_table(JOB, loaded(state, loader.chunks(JOB, TABLE, 1)), state)
    found = manifests.load(tmp_path, TABLE)
    assert found is not None and found.rows == 0


def through(store: TrailStore, loader: TrailLoader, generation: int) -> manifests.Manifest:
    """Load both chunks of a load that has begun, and return its manifest."""
    for number in (0, 1):
        load(loader, number, generation=generation)
    state = store.table(JOB, TABLE)
    assert state is not None
    store.save_table(JOB, loaded(state, loader.chunks(JOB, TABLE, generation)), state)
    found = manifests.load(loader.trail, TABLE)
    assert found is not None
    return found


@pytest.mark.parametrize("way", ["forgotten", "dropped", "forgotten by an earlier release"])
def test_the_loads_of_a_table_that_begins_anew_go_on_in_their_numbers(
    way: str, begun: tuple[TrailStore, TrailLoader], tmp_path: Path
) -> None:
    """Numbers that began at one again would be of loads that readers and replicas have had: the files went unread."""
    store, loader = begun
    through(store, loader, 1)
    state = store.table(JOB, TABLE)
    assert state is not None
    store.save_table(JOB, prepare(wait_for_load(state, "again", False), SCHEMA, TABLE), state)
    loader.begin_generation(JOB, TARGET, 2, PIECES, True)
    assert through(store, loader, 2).generation == 2
    retention.register(tmp_path, "reader", 0)
    load_readers.save(tmp_path, "reader", load_readers.Note({str(TABLE): load_readers.Taken(2, is_done=True)}))
    assert len(load_readers.sweep(tmp_path)) == 2 and gone_of(LocalStorage(tmp_path), manifests.folder(TABLE)) == 2
    last = store.table(JOB, TABLE)
    assert last is not None
    if way == "dropped":
        store.drop(JOB)
        store.save_job(JOB, {"uuid": "u"})
    else:
        store.forget_table(JOB, last)
    if way == "forgotten by an earlier release":
        with store._ledger.transaction() as connection:
            connection.execute("DROP TABLE numbering")
        store.prepare()
    store.save_table(JOB, prepare(heard_of(TABLE, TABLE), SCHEMA, TABLE), None)
    loader.begin_generation(JOB, TARGET, 1, PIECES, False)
    found = through(store, loader, 1)
    assert found.generation == 3
    for chunk in found.chunks:
        chunk_files.check(tmp_path, chunk.file)
    assert load_readers.sweep(tmp_path) == []
    replica = tmp_path / "replica"
    (replica / manifests.folder(TABLE)).mkdir(parents=True)
    (replica / manifests.folder(TABLE) / GONE).write_text('{"load": 2}')
    copy = LoadFilesCopy(replica)
    assert all(copy.is_wanted(LoadFile(chunk.file.name, chunk.file.bytes)) for chunk in found.chunks)
    assert not load_readers.read(tmp_path, "reader").has(str(TABLE), found.generation)


def test_the_last_number_of_a_load_is_known_behind_damage(tmp_path: Path) -> None:
    assert manifests.last_number(tmp_path, TABLE) == 0
    place = tmp_path / manifests.folder(TABLE)
    (place / "4").mkdir(parents=True)
    for name in (GONE, manifests.FILE):
        (place / name).write_text("{")
    assert manifests.last_number(tmp_path, TABLE) == 4


def test_a_ledger_of_an_earlier_release_goes_on_in_its_numbers(
    begun: tuple[TrailStore, TrailLoader], tmp_path: Path
) -> None:
    store, loader = begun
    with store._ledger.transaction() as connection:
        connection.execute("DROP TABLE numbering")
    assert through(store, loader, 1).generation == 1
