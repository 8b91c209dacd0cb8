"""Trails of the make-believe source, carried by parcels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anabranch.trail import parcel
from anabranch.trail.exporting import Exporter
from anabranch.trail.importing import Importer
from anabranch.trail.parcel import Manifest
from anabranch.trail.reader import TrailReader
from anabranch.trail.signing import Verifier
from anabranch.trail.writer import TrailWriter
from rigs import trail_source as samples

SMALL = 2000  # bytes of a parcel: some transactions


def write(writer: TrailWriter, first: int, last: int, *, apart: int = 1) -> None:
    """Append transactions of the source, `apart` in a chunk, with large ones among them, and publish them."""
    number = first
    while number <= last:
        if samples.is_large(number):
            for fragment in samples.large(number):
                writer.append(fragment)
            number += 1
            continue
        stop = next((n for n in range(number, min(number + apart, last + 1)) if samples.is_large(n)), None)
        upto = min(number + apart - 1, last) if stop is None else stop - 1
        writer.append(samples.chunk(number, upto))
        number = upto + 1
    writer.flush()


def export(trail: Path, out: Path, **options: Any) -> list[Manifest]:
    """Export what is new, in small parcels; `upto` as of `Exporter.next`."""
    upto = options.pop("upto", None)
    name = options.pop("name", "out")
    with Exporter(trail, out, name, **{"size": SMALL, **options}) as exporter:
        made = []
        while manifest := exporter.next(upto):
            made.append(manifest)
        return made


def take_in(out: Path, copy: Path, keys: Verifier | None = None, **options: Any) -> list[int]:
    """Import what is there; returns the numbers of what was taken in. `options`: as of `Importer`."""
    with Importer(out, copy, keys=keys, **options) as importer:
        list(importer.had())
        made = []
        while manifest := importer.next():
            made.append(manifest.number)
        return made


def rows_of(trail: Path) -> dict[int, list[tuple[str, int, str | None]]]:
    with TrailReader(trail) as reader:
        first = reader.first() - 1
        return samples.found_rows([reader.load(ref) for ref in reader.descriptors(first)])


def same(trail: Path, copy: Path) -> None:
    """Compare all that a reader sees of the two; positions, definitions, rows."""
    with TrailReader(trail) as ours, TrailReader(copy) as theirs:
        assert theirs.check().problems == []
        assert (theirs.end(), theirs.first(), theirs.begun()) == (ours.end(), ours.first(), ours.begun())
        assert theirs.identity == ours.identity
        assert theirs.history.entries == ours.history.entries
        for sequence in range(ours.first() - 1, ours.end().position.sequence + 1):
            assert theirs.position_at(sequence) == ours.position_at(sequence)
    assert rows_of(copy) == rows_of(trail)


def changed(folder: Path, **facts: Any) -> None:
    """Change facts of a manifest."""
    file = folder / parcel.MANIFEST
    file.write_text(json.dumps({**json.loads(file.read_text()), **facts}) + "\n")


def flip(path: Path, at: int) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
