"""Rows of the source that were written between two looks of a drill, by the job's trail: for servers that do not number their
rows, where equal values may have been others in between.

What does not live here: reading the trail (verify/touched.py), the looks (drill_looks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from anabranch.cutover.following import Following
from anabranch.errors import TrailCorrupt, TrailError
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.arrow import arrow_type
from anabranch.rows.lines import cells
from anabranch.rows.net import TargetTable
from anabranch.trail import retention
from anabranch.verify.plan import VerifyTable
from anabranch.verify.touched import WHOLE, Watched, changed, parents_of
from anabranch.view.definitions import logs_cascades
from anabranch.view.job_view import JobView
from anabranch.view.opened import catalog_of, source_of, store_of
from anabranch.view.options import value_rules

HOLD = "drill"  # of the trail: what is looked at stays
KEYS_AT_ONCE = 100_000
# Kinds of key columns that a server prints as the trail does. Of others any change of the table may be one of the row.
READ: Mapping[Kind, Callable[[str], Any]] = {**dict.fromkeys(WHOLE, int), Kind.TEXT: str}

Key = tuple[str, ...]


@contextmanager
def watching(job: JobView, forward: Following) -> Iterator[Writes]:
    """Keep the trail for the time of the block, and tell what it says."""
    with store_of(job) as store:
        states = store.states.tables(job.config.name)
    schemas = {table: state.schema for table, state in states.items() if state.schema}
    try:
        yield Writes(job, forward, schemas, logs_cascades(job, source_of(job)))
    finally:
        let_go(job)


def let_go(job: JobView) -> None:
    """Do not keep the trail for a drill any more."""
    retention.unregister(job.trail, HOLD)


@dataclass(frozen=True)
class Writes:
    """The source's writes as the trail of `forward` has them. `schemas`: the job's tables as they are loaded."""

    job: JobView
    forward: Following
    schemas: Mapping[TableId, TableSchema]
    logs_cascades: bool

    def place(self) -> int:
        """Return a place behind which everything is that is committed from now on, and keep it."""
        sequence = self.forward.trail.end().position.sequence
        retention.hold(self.job.trail, HOLD, sequence)
        return sequence

    def since(
        self, place: int, table: TableId, key: Sequence[str], keys: Collection[Key], seconds: float
    ) -> frozenset[Key]:
        """Return those of these keys (values of the columns `key`, as the server prints them) whose rows may have been written
        behind `place` up to now. Raises NotCaughtUp."""
        with catalog_of(source_of(self.job)) as catalog:
            mark = catalog.mark()
        end = self.forward.read(mark, seconds)
        schema = self.schemas[table]
        form = self.job.rules.target_table(schema)
        wanted = _cells(form, key, list(keys))
        watched = Watched(VerifyTable(schema, form), value_rules(self.job), self._parents(table))
        found = set[Key]()
        try:
            for some in changed(self.forward.trail, watched, place, end, KEYS_AT_ONCE):
                if some is None or (some and wanted is None):
                    return frozenset(keys)
                found |= {wanted[one] for one in some if wanted and one in wanted}
        except TrailCorrupt:
            raise
        except TrailError:  # it does not reach back
            return frozenset(keys)
        return frozenset(found)

    def _parents(self, table: TableId) -> Mapping[TableId, Any]:
        return {} if self.logs_cascades else parents_of(table, self.schemas)


def _cells(form: TargetTable, key: Sequence[str], keys: Sequence[Key]) -> dict[bytes, Key] | None:
    """Return keys by what the trail's reader calls them; None where the server prints them otherwise."""
    names = dict(zip(form.columns, form.source_columns, strict=True))
    types = [form.type_of(name) for name in form.key]
    if any(type.carried not in READ for type in types):
        return None
    columns = []
    for name, type in zip(form.key, types, strict=True):
        at = key.index(names[name])
        columns.append(pa.array([READ[type.carried](one[at]) for one in keys], arrow_type(type)))
    return {text.encode(): one for text, one in zip(cells(types, columns).to_pylist(), keys, strict=True)}
