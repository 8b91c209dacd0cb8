"""Manifests of a load in a trail, and facts of its source: read as they were written, or refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.contracts import Bounds
from anabranch.errors import TrailCorrupt, TrailError
from anabranch.model.ids import TableId
from anabranch.trail_end import facts, manifests
from anabranch.trail_end.facts import SourceFacts
from anabranch.trail_end.manifests import ChunkFile, Manifest, RecordedChunk

TABLE = TableId("shop", "a/b c")
CHUNK = RecordedChunk(Bounds(None, ("7", "x")), "low", "high", ChunkFile("load/t/1/0.arrow", 3, 9, "ab"))
WHOLE = Manifest(TABLE, 2, 5, ("id", "name"), (CHUNK,))


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert manifests.load(tmp_path, TABLE) is None and not manifests.listed(tmp_path)
    manifests.save(tmp_path, WHOLE)
    assert manifests.listed(tmp_path) == {manifests.file_of(TABLE)}
    assert manifests.load(tmp_path, TABLE) == WHOLE
    assert WHOLE.rows == 3


def test_a_table_with_a_long_name_has_a_folder_of_its_own(tmp_path: Path) -> None:
    tables = [TableId("shop", "表" * 60 + end) for end in "ab"]
    for generation, table in enumerate(tables, 1):
        manifests.save(tmp_path, Manifest(table, generation, 5, ("id",), ()))
    found = [manifests.load(tmp_path, table) for table in tables]
    assert [one.generation for one in found if one is not None] == [1, 2]


def test_the_end_of_a_load_names_what_it_left_out(tmp_path: Path) -> None:
    assert manifests.parked(tmp_path) is None
    manifests.complete(tmp_path, {TABLE: "a type"})
    assert manifests.parked(tmp_path) == {TABLE: "a type"}


@pytest.mark.parametrize("change", [{"chunks": 1}, {"generation": "x"}, {"columns": None}])
def test_a_damaged_manifest_is_refused(change: dict[str, object], tmp_path: Path) -> None:
    manifests.save(tmp_path, WHOLE)
    path = tmp_path / manifests.file_of(TABLE)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(TrailCorrupt, match="cannot be read"):
        manifests.load(tmp_path, TABLE)


@pytest.mark.parametrize("name", ["../../etc/passwd", "load/../../x", "/etc/passwd"])
def test_a_manifest_names_no_file_elsewhere(name: str, tmp_path: Path) -> None:
    manifests.save(tmp_path, WHOLE)
    path = tmp_path / manifests.file_of(TABLE)
    data = json.loads(path.read_text())
    data["chunks"][0]["file"] = name
    path.write_text(json.dumps(data))
    with pytest.raises(TrailCorrupt, match="is no file of a load"):
        manifests.load(tmp_path, TABLE)


def test_what_a_later_release_wrote_is_refused(tmp_path: Path) -> None:
    manifests.save(tmp_path, WHOLE)
    facts.save(tmp_path, SourceFacts("mysql", False, True))
    for name in (manifests.file_of(TABLE), facts.FILE):
        path = tmp_path / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 9}))
    with pytest.raises(TrailError, match="has format 9"):
        manifests.load(tmp_path, TABLE)
    with pytest.raises(TrailError, match="has format 9"):
        facts.load(tmp_path)


def test_facts_of_a_source_are_read_as_they_were_written(tmp_path: Path) -> None:
    with pytest.raises(TrailError, match="does not say what its source is"):
        facts.require(tmp_path)
    said = SourceFacts("mysql", False, True, {"[types] nul": "strip"})
    facts.save(tmp_path, said)
    assert facts.require(tmp_path) == said
    (tmp_path / facts.FILE).write_text("[]")
    with pytest.raises(TrailCorrupt, match="cannot be read"):
        facts.load(tmp_path)
