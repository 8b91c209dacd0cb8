"""What trail tests share: the make-believe source, and trails that are closed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.trail.reader import TrailReader
from anabranch.trail.retention import RetentionLimits
from anabranch.trail.writer import TrailWriter
from rigs import trail_source


@pytest.fixture(scope="session")
def samples() -> Any:
    return trail_source


@pytest.fixture
def open_writer(tmp_path: Path, samples: Any) -> Iterator[Callable[..., TrailWriter]]:
    """A writer on tmp_path/trail whose two tables are defined, without packing in the background."""
    opened: list[TrailWriter] = []

    def open_(**options: Any) -> TrailWriter:
        settings = {**samples.JOB, "segment_bytes": 1 << 20, "limits": RetentionLimits(60), "pack": False, **options}
        writer = TrailWriter.open(tmp_path / "trail", **settings)
        opened.append(writer)
        for table in (samples.ORDERS, samples.NOTES):
            if not writer.history.latest(table):
                writer.schema(samples.definition(table))
        return writer

    yield open_
    for writer in opened:
        die(writer)


def die(writer: TrailWriter) -> None:
    """End a writer as SIGKILL does: nothing is flushed, the lock is gone."""
    if writer._packer:
        writer._packer.stop()
    for closable in (writer._segment, writer._lock):
        if closable:
            try:
                closable.close()
            except OSError:
                continue


@pytest.fixture
def kill() -> Callable[[TrailWriter], None]:
    return die


@pytest.fixture
def open_reader(tmp_path: Path) -> Iterator[Callable[[], TrailReader]]:
    opened: list[TrailReader] = []

    def open_() -> TrailReader:
        opened.append(TrailReader(tmp_path / "trail"))
        return opened[-1]

    yield open_
    for reader in opened:
        reader.close()
