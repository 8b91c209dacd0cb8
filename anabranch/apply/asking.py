"""Tables that wait in front of a change of their definition until a person decides about it (`[ddl] ask`).

What does not live here: which changes are asked about (`column_steps.py`), what people decide (`lifecycle/ddl_decisions.py`),
carrying it out (`altering.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from anabranch import log
from anabranch.apply.decided import Decided, passed
from anabranch.apply.progress import Progress
from anabranch.failpoints import reach
from anabranch.model.ddl_changes import DdlRule, Outcome
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema, component
from anabranch.model.table_facts import ParkedFor
from anabranch.model.table_life import TableState, ask
from anabranch.rows.chunk import Barrier
from anabranch.trail import retention

DECIDE = "anabranch ddl ls JOB has its number N, anabranch ddl approve JOB N lets it go on"
LOAD_BOTH = "where that one is loaded instead, load this one, too"


class NotAltered(Exception):
    """The table cannot be altered at the target; the text says why."""

    def __init__(self, table: TableId, why: str) -> None:
        super().__init__(why)
        self.table, self.why = table, why


@dataclass(frozen=True)
class Asking:
    """Lets tables wait. `rule`: returns what the job file says about the change that led to a definition."""

    progress: Progress
    rule: Callable[[TableSchema | None], DdlRule]

    def ask(self, sequence: int, every: Iterable[Barrier], barrier: Barrier, line: str) -> None:
        """Hold the table in front of this transaction, with those that foreign keys connect it with. The trail is held for
        them before the target says so. `every`: all barriers of the transaction; `line`: of the job file. Raises NotAltered
        where one of the tables could not go on from there."""
        progress, table = self.progress, barrier.table
        together = {t: progress.states[t] for t in sorted(component([table], schemas_of(progress)))}
        if open := [t for t, state in together.items() if not state.is_streaming]:
            raise NotAltered(
                table, f"{line}, and {open[0]}, which foreign keys connect with it, is not through its load"
            )
        for one in together:
            retention.hold(progress.trail.directory, progress.settings.names.table(one), sequence - 1)
        reach("apply.asking")
        asked, noted = self._asked(sequence, barrier, together, line)
        where = progress.where(sequence)
        then = progress.then(Position.parse(where.position), where.commit_time)
        decided = [noted, *passed(sequence, every, progress.states, progress.context.tables, self.rule)]
        progress.begin(then)
        work = progress.work()
        work.states |= asked
        work.leave(asked)
        work.decided += decided
        progress.commit(then, work)

    def ask_behind(
        self, sequence: int, barrier: Barrier, states: Mapping[TableId, TableState], line: str
    ) -> list[TableState]:
        """Let tables wait that resume together, and have come to this transaction. Returns their states."""
        asked, decided = self._asked(sequence, barrier, states, line)
        self.progress.park(*asked.values(), decided=[decided])
        return list(asked.values())

    def _asked(
        self, sequence: int, barrier: Barrier, states: Mapping[TableId, TableState], line: str
    ) -> tuple[dict[TableId, TableState], Decided]:
        statement = f": {barrier.statement}" if barrier.statement else ""
        words = ParkedFor.ASKED.words
        why = f"{words}, {line} (at {sequence}){statement}; {DECIDE}"
        with_it = (
            f"{words}: foreign keys connect it with {barrier.table}, whose columns were altered; {DECIDE}; {LOAD_BOTH}"
        )
        asked = {
            t: ask(state, why if t == barrier.table else with_it, sequence, asked=t == barrier.table)
            for t, state in states.items()
        }
        for table, state in asked.items():
            log.get(job=self.progress.job, table=str(table)).warning("table_waits", reason=state.reason)
        rule = self.rule(barrier.schema)
        return asked, Decided(asked[barrier.table], sequence, barrier.statement, Outcome.WAITING, line, rule)


def schemas_of(progress: Progress) -> dict[TableId, TableSchema]:
    """Return the definitions by which the target has tables that are not parked."""
    return {table: state.schema for table, state in progress.states.items() if state.schema and not state.is_parked}
