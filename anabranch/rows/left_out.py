"""Rows that a source's snapshot reader could not convert (ValueRules.carries): they come between blocks of lines, in blocks of
their own, a JSON line for each, so that counts of lines hold.

What does not live here: which rows those are (each connector), what becomes of them (load/copy.py, verify/).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from anabranch.rows.lines import escaped_line

# Begins such a block, and no line does: a value that is a backslash stands there as two. No newline, since lines are counted.
MARK = b"\\\t"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """`values`: text forms by source column; `unconverted`: the columns without one, and words for what stands there."""

    values: Mapping[str, str | None]
    unconverted: Mapping[str, str]


def block(rows: Sequence[LeftOut]) -> bytes:
    return MARK + b"".join(json.dumps([dict(one.values), dict(one.unconverted)]).encode() + b"\n" for one in rows)


def apart(blocks: Iterable[bytes], take: Callable[[LeftOut], None]) -> Iterator[bytes]:
    """Pass lines on, and give the other rows to `take`."""
    for some in blocks:
        if some.startswith(MARK):
            for line in some.removeprefix(MARK).splitlines():
                take(LeftOut(*json.loads(line)))
        else:
            yield some


def as_lines(blocks: Iterable[bytes], columns: Sequence[str]) -> Iterator[bytes]:
    """Pass lines on, and write the other rows as lines in which words stand for values: no row at a target is equal to them."""
    for some in blocks:
        left_out: list[LeftOut] = []
        yield from apart([some], left_out.append)
        if left_out:
            yield b"".join(
                escaped_line({**one.values, **one.unconverted}[name] for name in columns) for one in left_out
            )
