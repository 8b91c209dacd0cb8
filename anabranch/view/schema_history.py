"""Reads the history of definitions that a job's trail keeps: every version of each table, from where on it holds, and what made
it. Also of a trail whose segments are gone, while source and target are away.

What does not live here: the file itself (`trail/history.py`), definitions in force (`definitions.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.errors import SchemaError, TrailError
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import DROPPED
from anabranch.trail.reader import TrailReader

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema
    from anabranch.trail.history import Entry
    from anabranch.view.job_view import JobView


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version of a table's definition. `sequence`: of the first transaction for which it holds; `position`: that
    transaction's, "" where the trail has it no longer; `came`: `first seen`, `brought in` by a load, `altered` or
    `created` by `statement`. `ended`: why the table was parked behind it, or that it
    was dropped, "" where it was neither; `renamed`: former and next
    names of columns."""

    schema: TableSchema
    sequence: int
    position: str
    came: str
    statement: str = ""
    ended: str = ""
    renamed: tuple[tuple[str, str], ...] = ()

    @property
    def table(self) -> TableId:
        return self.schema.id


def versions(job: JobView, table: TableId | None = None) -> list[TableVersion]:
    """Return the versions of all tables by name, or of one, the oldest first. Raises SchemaError for a table that the history
    does not have, TrailError where there is no trail."""
    with TrailReader(job.trail) as trail:
        found: dict[TableId, list[TableVersion]] = {}
        for entry in trail.history.entries:
            if entry.dropped and entry.schema and entry.schema.id in found:
                found[entry.schema.id][-1] = _ended(found[entry.schema.id][-1], replace(entry, reason=DROPPED))
            elif entry.kind == "schema" and entry.schema and table in (None, entry.schema.id):
                found.setdefault(entry.schema.id, []).append(_version(entry, trail))
            elif entry.kind == "park" and entry.table in found:
                found[entry.table][-1] = _ended(found[entry.table][-1], entry)
    if table is not None and not found:
        raise SchemaError(
            "the trail has no definition of this table", table=str(table), hint="anabranch schema ls JOB lists those"
        )
    return [version for one in sorted(found) for version in found[one]]


def _version(entry: Entry, trail: TrailReader) -> TableVersion:
    assert entry.schema is not None
    came = (
        "created" if entry.created else "altered" if entry.altered else "brought in" if entry.joined else "first seen"
    )
    place = _position(trail, entry.sequence)
    return TableVersion(entry.schema, entry.sequence, place, came, entry.statement, renamed=entry.renamed)


def renamed_between(found: Sequence[TableVersion], then: TableVersion, now: TableVersion) -> dict[str, str]:
    """Return the columns that have another name in a later version: former -> next. `found`: all versions, the oldest first."""
    former: dict[str, str] = {}  # by the name of now
    for one in found:
        if then.schema.version < one.schema.version <= now.schema.version:
            before = dict(former)
            for name, _ in one.renamed:
                former.pop(name, None)
            former |= {to: before.get(name, name) for name, to in one.renamed}
            names = {column.name for column in one.schema.columns}
            former = {to: name for to, name in former.items() if to in names}
    there, here = ({column.name for column in version.schema.columns} for version in (then, now))
    return {name: to for to, name in former.items() if name in there and to in here and name != to}


def _ended(version: TableVersion, entry: Entry) -> TableVersion:
    statement = f": {entry.statement}" if entry.statement else ""
    return replace(version, ended=f"{entry.reason}{statement}")


def _position(trail: TrailReader, sequence: int) -> str:
    try:
        is_there = trail.first() <= sequence <= trail.end().position.sequence
        return str(trail.position_at(sequence)) if is_there else ""
    except TrailError:  # it was dropped meanwhile
        return ""
