"""Trails of the formats before: `format1/` was written by a release that knew no other. 31 transactions in a packed segment,
two that are sealed and one that is open; one more that is whole and not published; one that is prepared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import TrailError
from anabranch.trail import headers, identity, pack
from anabranch.trail.reader import TrailReader, chunks
from anabranch.trail.segment import SegmentReader
from anabranch.trail.show import show
from anabranch.trail.staging import staged
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter

KEPT = Path(__file__).with_name("format1")
PUBLISHED = 31


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The trail of format 1, to be changed."""
    return Path(shutil.copytree(KEPT, tmp_path / "trail"))


def formats(trail: Path) -> dict[str, int]:
    """What the header of each segment says."""
    storage, found = LocalStorage(trail), {}
    for name in sorted(path.name for path in trail.iterdir() if path.suffix in (".segment", ".packed")):
        segment = SegmentReader(storage, name)
        found[name] = segment.format
        segment.close()
    return found


def origins(reader: TrailReader) -> list[str | None]:
    return [origin for chunk in chunks(reader, 0) for origin in chunk.transactions.column("origin").to_pylist()]


def with_origin(samples: Any, number: int, origin: str | None) -> Any:
    made = samples.chunk(number, number)
    facts = [tuple(one.values())[:4] for one in made.transactions.to_pylist()]
    return replace(made, transactions=samples.transactions(facts, origin))


def test_a_trail_of_format_1_is_read(kept: Path, samples: Any) -> None:
    assert set(formats(kept).values()) == {1}
    with TrailReader(kept) as reader:
        read = list(chunks(reader, 0))
        assert samples.found_rows(read) == samples.expected_rows(1, PUBLISHED, with_large=True)
        assert set(origins(reader)) == {None}
        directories = [reader.transactions(ref) for ref in reader.descriptors(0)]
        assert [one.schema for one in directories] == [chunk.transactions.schema for chunk in read]
        assert {row.origin for row in show(reader, after=0)} == {None}
        assert reader.check().problems == []


def test_a_trail_of_format_1_is_continued_in_format_2(kept: Path, samples: Any) -> None:
    """What stands there stays as it is; what comes now has origins, and the trail says so before the first of it comes."""
    before = {path.name: path.read_bytes() for path in kept.iterdir() if path.suffix in (".segment", ".packed")}
    with TrailWriter.open(kept, **samples.JOB, pack=False) as writer:
        assert json.loads((kept / "trail.json").read_text())["format"] == 2
        assert writer.end.position.sequence == PUBLISHED + 1, "what was whole behind the published end counts"
        (prepared,) = writer.staging.all()
        assert sum(chunk.row_count for chunk in writer.staging.chunks(prepared.xid)) == prepared.rows > 0
        writer.append(with_origin(samples, PUBLISHED + 2, "north"))
        writer.append(with_origin(samples, PUBLISHED + 3, None))
    assert {name: (kept / name).read_bytes() for name in before} == before
    assert list(formats(kept).values()) == [1, 1, 1, 1, 2]
    with TrailReader(kept) as reader:
        found = samples.found_rows(list(chunks(reader, 0)))
        assert found == samples.expected_rows(1, PUBLISHED + 3, with_large=True)
        assert origins(reader) == [None] * (len(origins(reader)) - 2) + ["north", None]
        shown = list(show(reader, after=PUBLISHED + 1))
        assert {row.origin for row in shown if row.position.sequence == PUBLISHED + 2} == {"north"}
        assert all("  from north  " in str(row) for row in shown if row.origin)
        assert reader.check().problems == []


def test_a_writer_that_died_before_it_wrote_anything_new(
    kept: Path, samples: Any, kill: Callable[[TrailWriter], None]
) -> None:
    for _ in range(2):
        writer = TrailWriter.open(kept, **samples.JOB, pack=False)
        kill(writer)
    with TrailWriter.open(kept, **samples.JOB, pack=False) as writer:
        writer.append(with_origin(samples, PUBLISHED + 2, "north"))
    with TrailReader(kept) as reader:
        found = samples.found_rows(list(chunks(reader, 0)))
    assert found == samples.expected_rows(1, PUBLISHED + 2, with_large=True)


def test_a_segment_of_format_1_is_packed_in_format_2(kept: Path, samples: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with TrailReader(kept) as reader:
        refs = reader.descriptors(0)
        before = [reader.load(ref) for ref in refs]
        monkeypatch.setattr(pack, "is_worthwhile", lambda *_: True)
        assert pack.pack_all(kept) == ["00000002-0001-7+3.segment", "00000003-0001-16.segment"]
        again = [reader.load(ref) for ref in refs]
    assert [chunk.transactions for chunk in again] == [chunk.transactions for chunk in before]
    assert list(formats(kept).values()) == [1, 2, 2, 1]
    with TrailReader(kept) as reader:
        found = samples.found_rows(list(chunks(reader, 0)))
        assert found == samples.expected_rows(1, PUBLISHED, with_large=True) and reader.check().problems == []


def test_what_is_prepared_in_format_1_is_read(kept: Path) -> None:
    (one,) = staged(kept)
    assert (one.xid, one.rows) == ("xid-1", 3)


def test_a_release_that_knows_format_1_only_refuses_what_was_continued(
    kept: Path, samples: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that had the trail open before."""
    with TrailReader(kept) as reader:
        reader.descriptors(0)
        with TrailWriter.open(kept, **samples.JOB, pack=False) as writer:
            writer.append(with_origin(samples, PUBLISHED + 2, "north"))
        monkeypatch.setattr(identity, "NEWEST", 1)
        monkeypatch.setattr(headers, "NEWEST", 1)
        for look in (
            lambda: TrailReader(kept),
            lambda: TrailWriter.open(kept, **samples.JOB, pack=False),
            lambda: reader.descriptors(PUBLISHED),
        ):
            with pytest.raises(TrailError, match="has format 2, this release knows 1") as refused:
                look()
            assert refused.value.hint == "use the newer release again" and str(kept) in refused.value.message
