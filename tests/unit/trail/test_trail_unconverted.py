"""Values that could not be converted are in the trail with their rows, through joining and cutting (K26)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from anabranch.rows.chunk import Chunk, TableRows, Unconverted
from anabranch.trail import codec, regroup
from anabranch.trail.format import FORMAT, Frame, FrameKind


def marked(samples: Any, first: int, last: int) -> Chunk:
    """Of every image the note cannot be converted; its words name the key."""
    chunk = samples.chunk(first, last)
    tables = (
        replace(rows, unconverted=tuple(Unconverted(at, 1, str(key)) for at, key in enumerate(keys_of(rows))))
        for rows in chunk.tables
    )
    return replace(chunk, tables=tuple(tables), first_sequence=first)


def keys_of(rows: TableRows) -> list[int]:
    found: list[int] = rows.batch.column("id").to_pylist()
    return found


def are_kept(chunk: Chunk) -> bool:
    """Do the words stand at the rows whose key they name?"""
    return bool(chunk.tables) and all(
        [(one.row, one.what) for one in rows.unconverted] == [(at, str(key)) for at, key in enumerate(keys_of(rows))]
        for rows in chunk.tables
    )


def test_rule_26_marks_are_read_as_they_were_written(samples: Any) -> None:
    chunk = marked(samples, 1, 9)
    _, head, *parts = codec.encode_chunk(chunk, lambda rows: 0, 0)
    frame = Frame(FrameKind.CHUNK, chunk.part, len(head), 0, chunk.first_sequence, 9, chunk.row_count, 0, 0)
    schema = codec.TableFrame(samples.definition(), samples.ARROW)
    read = codec.decode_chunk(frame, bytes(head), b"".join(map(bytes, parts)), lambda at: schema, FORMAT)
    assert are_kept(read)
    _, plain, *_ = codec.encode_chunk(samples.chunk(1, 9), lambda rows: 0, 0)
    assert len(plain) < len(head) and all(len(table) == 6 for table in json.loads(bytes(plain))["tables"])


def test_rule_26_marks_stay_with_their_rows_where_chunks_are_joined_and_cut(samples: Any) -> None:
    joined = regroup.join([marked(samples, 1, 4), marked(samples, 5, 9)])
    assert are_kept(joined)
    assert are_kept(regroup.rows_after(joined, 4)) and are_kept(regroup.rows_until(joined, 6))
    one = marked(samples, 3, 3)
    assert are_kept(regroup.before_ordinal(one, 2)) and are_kept(regroup.shifted(one, 5))
    assert sum(map(len, (rows.unconverted for rows in regroup.before_ordinal(one, 2).tables))) == 2
