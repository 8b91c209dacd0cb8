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
from anabranch.model.table_life import heard_of, prepare
from anabranch.rows.net import TargetTable
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
