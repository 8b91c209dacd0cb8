"""Decisions of apply about statements that alter tables, until the epoch that carries them out notes them at the target.

What does not live here: the note itself (`model/ddl_changes.py`), making the decisions (`altering.py`, `work.py`).
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from anabranch.model.column_changes import (
    APPLY,
    APPLY_ALL,
    BESIDE_COLUMNS,
    DDL,
    IGNORE,
    ActionsOf,
    ColumnChange,
    TableActions,
    kinds_between,
)
from anabranch.model.ddl_changes import PARKS, DdlChange, DdlRule, Outcome, digest_of

if TYPE_CHECKING:
    from anabranch.apply.conflict import Where
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.model.table_life import TableState
    from anabranch.rows.chunk import Barrier
    from anabranch.trail.history import SchemaHistory

BEHIND = "the table waits in front of an earlier change"
AS_IT_IS = "the target's table stays as it is"
NOT_STREAMING = {True: "the table is parked", False: "its load was not through"}


@dataclass(frozen=True)
class Decided:
    """The outcome of a transaction, `sequence`, for a table that it alters; `state` is what the epoch leaves of the table."""

    state: TableState
    sequence: int
    statement: str
    outcome: Outcome
    why: str = ""
    rule: DdlRule = PARKS

    def noted(self, where: Where) -> DdlChange:
        """Return the note, of the transaction that `where` names."""
        state, schema = self.state, self.state.schema
        return DdlChange(
            where.sequence,
            where.position,
            where.commit_time,
            state.source,
            state.target,
            self.statement,
            self.rule,
            self.outcome,
            self.why,
            schema.version if schema else 0,
            digest_of(schema),
            process(),
            gtid=where.gtid,
        )


def passed(
    sequence: int,
    barriers: Iterable[Barrier],
    states: Mapping[TableId, TableState],
    followed: Collection[TableId],
    rule: Callable[[TableSchema], DdlRule],
) -> Iterator[Decided]:
    """Yield what is not done because the table does not stream. One that was loaded behind the statement has its outcome."""
    for barrier in barriers:
        state = states.get(barrier.table)
        if state is None or barrier.schema is None or barrier.table in followed:
            continue
        if state.schema is None or state.schema.version < barrier.schema.version:
            if sequence == state.facts.asked:  # noted when it was asked
                continue
            outcome, why = Outcome.PASSED, NOT_STREAMING[state.is_parked]
            if state.facts.asked is not None:
                outcome, why = Outcome.WAITING, BEHIND
            yield Decided(state, sequence, barrier.statement, outcome, why, rule(barrier.schema))


def rule_of(schema: TableSchema | None, history: SchemaHistory, actions: ActionsOf) -> DdlRule:
    """Return the keys of the job file that decide about the change which led to this version of a table's definition."""
    told = actions(schema.id) if schema is not None else APPLY_ALL
    former = history.before(schema) if schema is not None else None
    kinds = kinds_between(former, schema, history.renamed(schema)) if former and schema else []
    if schema is not None and history.was_swapped(schema):
        kinds = [ColumnChange.SWAP, *kinds]
    elif schema is not None and history.was_created(schema):
        kinds = [ColumnChange.CREATE]
    elif schema is not None and history.was_dropped(schema):
        kinds = [ColumnChange.DROP_TABLE]
    elif schema is not None and history.lost_rows(schema):
        kinds = [ColumnChange.PARTITIONS]
    # an index goes with its column, and of several changes those count that something is done about
    kinds = [kind for kind in kinds if kind not in BESIDE_COLUMNS or told.of(kind) != IGNORE] or kinds
    return _rule(kinds, told)


def rule_beside(kinds: Iterable[str], told: TableActions) -> DdlRule:
    """Return the keys of the job file that decide about changes of these kinds, which may have none."""
    known = [kind for kind in sorted(BESIDE_COLUMNS) if kind in kinds]
    return _rule(known, told) if known else DdlRule("", IGNORE)


def _rule(kinds: Sequence[ColumnChange], told: TableActions) -> DdlRule:
    said = dict.fromkeys(map(told.of, kinds))
    sections = dict.fromkeys(told.said.get(kind, DDL) for kind in kinds) or {DDL: None}
    keys = (f"{name} {', '.join(kind for kind in kinds if told.said.get(kind, DDL) == name)}" for name in sections)
    return DdlRule("; ".join(keys).strip(), ", ".join(said) or APPLY)


@cache
def process() -> str:
    """Return user and host of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may not know a name for the number
        user = str(os.getuid())
    return f"{user}@{os.uname().nodename}"
