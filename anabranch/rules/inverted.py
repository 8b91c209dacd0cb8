"""Rules turned round: from pairs of tables, the rules that bring each back to where it came from.

Tables are named one by one, never by a glob: a table that somebody makes beside them has no place to go back to. What does not
live here: columns (`way_back.py`), the file (`reverse_file.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from anabranch.config.patterns import Template
from anabranch.model.ids import TableId, quote

SAME_NAME = "{table}"


@dataclass(frozen=True, slots=True)
class InvertedRule:
    """A rule as the job file has it: `include` is a list of exact names."""

    include: tuple[str, ...]
    target: str


def inverted(pairs: Iterable[tuple[TableId, TableId]]) -> list[InvertedRule]:
    """Return rules for tables that are read and where each is written: one for each schema whose tables keep their names, one
    for each table that has another name there. Raises ValueError for a table that has several others, and for a name that no
    rule can give a target."""
    pairs = sorted(pairs)
    if shared := {**shared_of(pairs), **shared_of([(written, read) for read, written in pairs])}:
        raise ValueError("; ".join(f"{one} goes with {', '.join(map(str, others))}" for one, others in shared.items()))
    groups: dict[str, list[TableId]] = defaultdict(list)
    for read, written in pairs:
        groups[_target(read, written)].append(read)
    return [InvertedRule(tuple(map(str, tables)), target) for target, tables in groups.items()]


def shared_of(pairs: Iterable[tuple[TableId, TableId]]) -> Mapping[TableId, list[TableId]]:
    """Return the tables that several others would be written to, with those."""
    found: dict[TableId, list[TableId]] = defaultdict(list)
    for read, written in pairs:
        found[written].append(read)
    return {written: tables for written, tables in found.items() if len(tables) > 1}


def _target(read: TableId, written: TableId) -> str:
    """Return the target of a table's rule. Raises ValueError where the rule would say another name."""
    text = f"{quote(written.schema)}.{SAME_NAME if read.name == written.name else quote(written.name)}"
    try:
        is_exact = Template.parse(text).render(read) == written
    except ValueError:
        is_exact = False
    if not is_exact:
        raise ValueError(f"no rule can name {written} as a target: it has braces")
    return text
