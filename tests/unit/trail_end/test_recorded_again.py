"""Rows of a load that is replaced at the source's site while they are read here: never with the marks of another load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import SourceUnavailable, TrailCorrupt, ValueRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Column, TableSchema
from anabranch.trail import load_readers, retention
from anabranch.trail.load_readers import Note, Taken
from anabranch.trail_end import chunk_files, manifests
from anabranch.trail_end.manifests import Manifest, RecordedChunk
from anabranch.trail_end.recorded import RecordedRows

TABLE = TableId("shop", "t")
SCHEMA = TableSchema(TABLE, (Column("id", LogicalType(Kind.INT32), "int"),), ("id",), version=1)
ORDER: Any = SimpleNamespace(mark=lambda text: LogMark(text, text))
READER = "apply@x.1"


def a_load(trail: Path, number: int, rows: Sequence[bytes] = (b"1\n",)) -> None:
    folder = f"{manifests.folder(TABLE)}/{number}"
    (trail / folder).mkdir(parents=True)
    file = chunk_files.write(trail, f"{folder}/000000.arrow", ["id"], rows)
    chunk = RecordedChunk(Bounds(), f"low {number}", f"high {number}", file)
    manifests.save(trail, Manifest(TABLE, number, 1, ("id",), (chunk,)))


def test_rows_and_marks_are_of_one_load(tmp_path: Path) -> None:
    a_load(tmp_path, 1)
    rows = RecordedRows(tmp_path, ORDER)
    assert rows.open_piece(SCHEMA, Bounds())[0].resume == "low 1"
    a_load(tmp_path, 2, [b"2\n"])
    assert list(rows.lines(SCHEMA, ["id"], Bounds(), ValueRules())) == [b"1\n"]
    load_readers.sweep(tmp_path)  # files of the former load go
    with pytest.raises(SourceUnavailable, match="read anew"):
        list(rows.lines(SCHEMA, ["id"], Bounds(), ValueRules()))
    rows.close()
    assert rows.open_piece(SCHEMA, Bounds())[0].resume == "low 2"
    assert list(rows.lines(SCHEMA, ["id"], Bounds(), ValueRules())) == [b"2\n"]


def test_a_load_that_is_gone_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    a_load(tmp_path, 1)
    retention.register(tmp_path, READER, 0)
    load_readers.save(tmp_path, READER, Note({str(TABLE): Taken(1, 1, True)}))
    load_readers.sweep(tmp_path)
    with pytest.raises(ValueRefused, match="the load's files are gone") as refused:
        RecordedRows(tmp_path, ORDER).bounds(SCHEMA, 1)
    assert "at the source's site: anabranch load JOB --table shop.t" in str(refused.value.hint)


def test_a_load_that_a_replica_never_got_is_refused_and_a_file_that_is_missing_is_damage(tmp_path: Path) -> None:
    a_load(tmp_path, 1)
    rows = RecordedRows(tmp_path, ORDER)
    rows.open_piece(SCHEMA, Bounds())
    next(tmp_path.rglob("*.arrow")).unlink()
    with pytest.raises(ValueRefused, match="not all here"):
        RecordedRows(tmp_path, ORDER).bounds(SCHEMA, 1)
    with pytest.raises(TrailCorrupt, match="missing"):
        list(rows.lines(SCHEMA, ["id"], Bounds(), ValueRules()))


def test_a_load_of_another_definition_is_refused(tmp_path: Path) -> None:
    a_load(tmp_path, 1)
    with pytest.raises(ValueRefused, match="definition 1, the trail is at 2"):
        RecordedRows(tmp_path, ORDER).bounds(replace(SCHEMA, version=2), 1)
