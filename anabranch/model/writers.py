"""Replications that write to tables of the source: what they read elsewhere, what they write here, and which tables come back.

A job notes at its target who writes to what it reads, and what that one has noted of others. So whoever reads that target knows
where the rows come from, over however many databases: as far as each job along the way has started since the one before it.

What does not live here: asking a server for them (`connectors/<db>/registered.py`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from anabranch.model.ids import TableId
from anabranch.model.markers import origin_of

JOB = "the job "  # what the name of a writer that is a job begins with


@dataclass(frozen=True, slots=True)
class SourceWriter:
    """A job, or a subscription of the server's own. `key` tells it from others of its name: the job's uuid, the
    subscription's slot. `pairs`: what it reads where its source is, and what it writes here. `through`: the job that passes
    it on, where it writes to what that job reads, "" where it writes here itself. `source`: the identity of the server that
    it reads, "" where that is known by other things (a slot). `leaves_out`: origins whose changes the job does not read
    ([source] leave_out). `pair`: what it notes of a pair, as pairing.py reads it, "" for none. `is_held`: a cut-over that is
    through holds it, or the job that passes it on, so nothing of it comes here until somebody returns; False where that is
    not known."""

    name: str
    key: str
    pairs: tuple[tuple[TableId, TableId], ...]
    through: str = ""
    source: str = ""
    leaves_out: frozenset[str] = frozenset()
    pair: str = ""
    is_held: bool = False


def is_left_out(writer: SourceWriter, leave_out: Collection[str]) -> bool:
    """Return whether a job that leaves these origins out reads nothing of what the writer writes here, or has written here over
    another job."""
    return origin_of((writer.through or writer.name).removeprefix(JOB)) in leave_out


def with_held(writers: Iterable[SourceWriter], jobs: Collection[str]) -> list[SourceWriter]:
    """Return the writers, of which those jobs are held, and what comes over them."""
    names = {f"{JOB}{job}" for job in jobs}
    return [replace(one, is_held=True) if (one.through or one.name) in names else one for one in writers]


def leaves_out(writer: SourceWriter, job: str) -> bool:
    """Return whether the writer, a job, reads nothing of what this job writes where that one reads."""
    return origin_of(job) in writer.leaves_out


def own_targets(writers: Iterable[SourceWriter], key: str) -> frozenset[TableId]:
    """Return tables of the source that the job with this uuid writes itself: it is its own target's database."""
    return frozenset(
        written for writer in writers if key and writer.key == key and not writer.through for _, written in writer.pairs
    )


def led_back(ours: Mapping[TableId, TableId], theirs: Iterable[tuple[TableId, TableId]]) -> frozenset[TableId]:
    """Return source tables of `ours` (source → target) whose changes come back to them over `theirs`.

    Example: we copy a.t to b.t, and another job copies b.t to a.t. The way may lead over any number of tables of both.
    """
    comes_to = defaultdict(set)
    for read, written in theirs:
        comes_to[read].add(written)
    after = {source: comes_to[target] & ours.keys() for source, target in ours.items()}
    return frozenset(source for source in ours if source in _reached(after, source))


def passed_on(writers: Iterable[SourceWriter], ours: Mapping[TableId, TableId]) -> list[SourceWriter]:
    """Return the writers as seen behind the job that copies `ours`: what each reads at its own source, and the target
    table that the job writes it to.
    """
    found: dict[tuple[str, str, str], set[tuple[TableId, TableId]]] = defaultdict(set)
    for writer in writers:
        found[writer.name, writer.key, writer.source].update(
            (read, ours[written]) for read, written in writer.pairs if written in ours
        )
    every = ((*of, tuple(sorted(pairs))) for of, pairs in sorted(found.items()) if pairs)
    return [SourceWriter(name, key, pairs, source=source) for name, key, source, pairs in every]


def origins_as_text(origins: Iterable[str]) -> str:
    """Serialise what a job leaves out as a fact of the job."""
    return json.dumps(sorted(origins), ensure_ascii=False)


def origins_of_text(text: str | None) -> frozenset[str]:
    """Parse what `origins_as_text` gives; no fact: nothing is left out."""
    return frozenset(map(str, json.loads(text or "[]")))


def as_text(writers: Iterable[SourceWriter]) -> str:
    """Serialise the writers as a fact of the job that passes them on."""
    kept = ([one.name, one.key, [[str(a), str(b)] for a, b in one.pairs], one.source] for one in writers)
    return json.dumps([fields if fields[-1] else fields[:-1] for fields in kept])


def from_text(text: str, through: str) -> list[SourceWriter]:
    """Parse what `as_text` gives, with or without a source. `through`: the name of the job that kept it."""
    parse = TableId.parse
    return [
        SourceWriter(name, key, tuple((parse(read), parse(written)) for read, written in pairs), through, *source)
        for name, key, pairs, *source in json.loads(text)
    ]


def _reached(after: Mapping[TableId, set[TableId]], start: TableId) -> set[TableId]:
    seen, left = set[TableId](), set(after[start])
    while left:
        table = left.pop()
        seen.add(table)
        left |= after[table] - seen
    return seen
