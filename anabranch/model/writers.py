"""Replications that write to tables of the source: what they read elsewhere, what they write here, and which tables come back.

What does not live here: asking a server for them (`connectors/<db>/registered.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.model.ids import TableId


@dataclass(frozen=True, slots=True)
class SourceWriter:
    """A job, or a subscription of the server's own. `key` tells it from others of its name: the job's uuid, the subscription's
    slot. `pairs`: what it reads where its source is, and what it writes here."""

    name: str
    key: str
    pairs: tuple[tuple[TableId, TableId], ...]


def own_targets(writers: Iterable[SourceWriter], key: str) -> frozenset[TableId]:
    """Tables of the source that the job with this uuid writes itself: it is its own target's database."""
    return frozenset(written for writer in writers if key and writer.key == key for _, written in writer.pairs)


def led_back(ours: Mapping[TableId, TableId], theirs: Iterable[tuple[TableId, TableId]]) -> frozenset[TableId]:
    """The source tables of `ours` (with what they are written to) whose changes `theirs` bring back to them, over however many
    tables of both."""
    comes_to = defaultdict(set)
    for read, written in theirs:
        comes_to[read].add(written)
    after = {source: comes_to[target] & ours.keys() for source, target in ours.items()}
    return frozenset(source for source in ours if source in _reached(after, source))


def _reached(after: Mapping[TableId, set[TableId]], start: TableId) -> set[TableId]:
    seen, left = set[TableId](), set(after[start])
    while left:
        table = left.pop()
        seen.add(table)
        left |= after[table] - seen
    return seen
