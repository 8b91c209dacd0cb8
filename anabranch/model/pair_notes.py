"""The notes by which the two jobs of a pair clear what comes behind a delete (K23). Standard library only.

A job that applies a delete notes it at its target. Its twin, whose source that is, reads the note, and removes at its own
target what was older and under way. A job whose target wins in a table notes there the rows that stood against the other
site, until it has written them again. What does not live here: who does what when (`apply/pair_deletes.py`,
`apply/pair_standing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.model.ids import TableId


@dataclass(frozen=True, slots=True)
class DeletedRow:
    """A row that was deleted where the job reads. `table` and the names in `key` are those of the job's target; `age`: the
    value of the column that tells the newest row, as a text; None: a row under this key goes however new it is. `id` is another
    one for each note."""

    id: str
    table: TableId
    key: Mapping[str, str | None]
    age: str | None


@dataclass(frozen=True, slots=True)
class StandingRow:
    """A row at the job's target that stood against a change of the other site, and is to be written again so that it goes
    there. `table` and all names are those of the target; `age`: the version, as a text, that it has to be greater than.
    `values`: the row as the other site has it, where this one has deleted it; {} where it is there."""

    id: str
    table: TableId
    key: Mapping[str, str | None]
    age: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class PairNotes:
    """The notes of one job, the lowest ids first. `deleted`: those that its twin has not cleared yet, as far as the job knows;
    `cleared`: ids of notes of its twin that it has cleared."""

    deleted: tuple[DeletedRow, ...] = ()
    cleared: tuple[str, ...] = ()
