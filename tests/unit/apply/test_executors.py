"""Which epochs executors stage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from anabranch import connectors
from anabranch.apply import staging
from anabranch.apply.feed import Feed
from anabranch.apply.staging import LOOKED_AT, Executors
from anabranch.contracts import ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.chunks import ITEMS, chunk_of, context

CONTEXT = context([ITEMS])
INSERT, UPDATE = ("i", {"id": 1, "a": 1, "b": "x"}), ("u", {"id": 1, "a": 1, "b": "x"}, {"id": 1, "a": 2, "b": "x"})


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[TrailWriter]:
    with TrailWriter.open(tmp_path / "trail", job="shop", job_uuid="u", source_identity="s", pack=False) as made:
        made.schema(ITEMS)
        yield made


def takes(writer: TrailWriter, tmp_path: Path, stage_rows: int | None, context: Any = CONTEXT) -> bool:
    writer.flush()
    target = connectors.target(Endpoint("memory", "", 0, "", "", "executors"))
    executors = Executors("shop", tmp_path / "trail", target, ValueRules(), cast("Any", None), stage_rows)
    with TrailReader(tmp_path / "trail") as trail:
        return executors.takes(Feed(trail, 0, writer.end.position.sequence), context)


@pytest.mark.parametrize("inserts, updates, expected", [(40, 4, False), (0, 5, True), (0, 4, False), (40, 5, True)])
def test_only_updates_and_deletes_count_unless_the_job_says_so(
    writer: TrailWriter,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    inserts: int,
    updates: int,
    expected: bool,
) -> None:
    monkeypatch.setattr(staging, "STAGE_ROWS", 10)
    writer.append(chunk_of([[INSERT]] * inserts + [[UPDATE]] * updates, [ITEMS], 0))
    assert takes(writer, tmp_path, None) == expected
    images = inserts + 2 * updates
    assert takes(writer, tmp_path, images) and not takes(writer, tmp_path, images + 1)


def test_some_chunks_from_all_over_speak_for_all(writer: TrailWriter, tmp_path: Path) -> None:
    for number in range(LOOKED_AT * 5 + 3):
        writer.append(chunk_of([[INSERT if number < 20 else UPDATE]], [ITEMS], 0))
    writer.flush()
    with TrailReader(tmp_path / "trail") as trail:
        feed = Feed(trail, 0, writer.end.position.sequence)
        looked_at = [chunk.first_sequence for chunk in feed.some(LOOKED_AT)]
        assert len(looked_at) <= LOOKED_AT and looked_at[0] == 1 and looked_at[-1] > len(feed.refs) * 0.8
        assert staging._changing(Feed(trail, 0, 20), 20) == 0 and staging._changing(Feed(trail, 20, 43), 46) == 46


def test_filters_and_windows_are_for_the_driver(writer: TrailWriter, tmp_path: Path) -> None:
    writer.append(chunk_of([[UPDATE]], [ITEMS], 0))
    assert takes(writer, tmp_path, 1)
    filtered = replace(CONTEXT, tables={t: replace(one, filter="a > 1") for t, one in CONTEXT.tables.items()})
    assert not takes(writer, tmp_path, 1, filtered)
