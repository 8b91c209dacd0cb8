"""`verify --budget` and `--resume`: tables are compared in rounds, small ones first, and what each round finds is kept, so
that a kill or the budget's end loses one round at most.

What does not live here: which earlier results still hold (resuming.py), comparing (verifying.py), the parts of a large table
(by_stretches.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from anabranch.job.by_stretches import Look, Parts
from anabranch.job.keeping_results import known, last_of
from anabranch.job.left_out import NOTHING, tells_all
from anabranch.job.resuming import SWITCHED, Resumed, require_whole, resumed
from anabranch.job.verifying import (
    beside_running,
    compared_whole,
    expected_identity,
    forget_differing,
    place_of,
    verify,
)
from anabranch.lifecycle.asides import set_aside
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.verify.both_ends import Beside
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import NO_TIME, TableResult, Verification
from anabranch.verify.run import LIMIT_KEYS
from anabranch.verify.stretches import Stretch, stretches_of
from anabranch.verify.wanted import Wanted
from anabranch.view.opened import catalog_of, read_of, source_of, store_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.view.job_view import JobView

ROWS, TABLES = 1_000_000, 100  # of a round at most, as the source estimates them; a larger table has a round of its own


def verify_as_wanted(job: JobView, spark: Callable[[], SparkSession], wanted: Wanted) -> Verification:
    """Compare both ends, in rounds where results are kept. Raises what `verify` and `require_whole` raise."""
    if wanted.resumes:
        require_whole(job, wanted)
    is_in_rounds = wanted.is_kept and not job.config.keeps_changes
    return (verify_in_rounds if is_in_rounds else verify)(job, spark, wanted)


def verify_in_rounds(job: JobView, spark: Callable[[], SparkSession], wanted: Wanted) -> Verification:
    """Compare both ends as `verify` does, and keep each table's result at the target; where `wanted.resumes`, go on with the
    verification before. Raises what `verify` raises."""

    def whole(
        tables: Sequence[VerifyTable], states: Mapping[TableId, TableState], beside: Beside | None
    ) -> Verification:
        going = resumed(job, wanted, tables, states, server_of(job))
        going.begin()
        rounds = _Rounds(job, spark, wanted, states, going, beside)
        return going.whole(tables, rounds.carried_out(tables), rounds.is_same)

    return verify(job, spark, wanted, whole=whole)


def server_of(job: JobView) -> str:
    """Return which server the source is at this moment."""
    source = source_of(job)
    with catalog_of(source) as catalog:
        return source.order.server(catalog.mark())


@dataclass
class _Rounds:
    """The rounds of one call, and what has come of them."""

    job: JobView
    spark: Callable[[], SparkSession]
    wanted: Wanted
    states: Mapping[TableId, TableState]
    going: Resumed
    beside: Beside | None  # also where no part runs any more: rows that it has not brought are no difference
    is_same: bool = True  # the source is the server still that it was
    _server: str = ""  # which one it was behind the last round
    _found: dict[TableId, TableResult] = field(default_factory=dict)
    _told: list[Verification] = field(default_factory=list)
    _large: set[TableId] = field(default_factory=set)  # each in a round of its own
    _cut: set[TableId] = field(default_factory=set)  # of them, those that are compared in stretches

    def carried_out(self, tables: Sequence[VerifyTable]) -> Verification:
        """Compare what is left; then, where time is left, what nobody could tell of."""
        until, left = time.monotonic() + self.wanted.budget, self.going.left(tables)
        groups = [left] if self.wanted.max_pause else self._groups(left)  # one position is one round
        for group in groups:
            if group[0].table.source not in self._large or not self._in_stretches(group[0], until):
                self._round(group, until, in_turn=len(groups) > 1)
        undecided = [one for one in left if self._is_undecided(one) and one.table.source not in self._cut]
        if undecided and len(groups) > 1 and until < math.inf:
            self._round(undecided, until, in_turn=False)
        return self._all(left)

    def _groups(self, tables: Sequence[VerifyTable]) -> list[list[VerifyTable]]:
        """Return the tables of each round, by what the source estimates: so a large one does not keep others from being
        compared."""
        with closing(source_of(self.job).snapshot(expected_identity(self.job))) as snapshot:
            sizes = [max(0, snapshot.estimate(one.schema)) for one in tables]
        self._large = {one.table.source for one, size in zip(tables, sizes, strict=True) if size > ROWS}
        ordered = sorted(zip(sizes, range(len(tables)), strict=True))
        return [[tables[number] for number in group] for group in _together(ordered)]

    def _round(self, tables: Sequence[VerifyTable], until: float, in_turn: bool) -> None:
        """Compare some tables, and keep what is found, unless the source is another server behind it."""
        with store_of(self.job) as store:
            last = known(store, self.job.config.name)
        look = self._look(tables, until, in_turn)
        if look is None:
            return
        by_name = {str(one.table.source): one for one in tables}
        for result in look.found.tables:
            one = by_name[result.source]
            if self.is_same and result.is_told:
                at = (result.exact, result.exact) if result.exact else look.places
                result = self.going.keep(
                    one, self.states[one.table.source], result, look.began, at, last.get(one.table.source)
                )
            self._found[one.table.source] = result
        self._forget_of_another(look)

    def _in_stretches(self, one: VerifyTable, until: float) -> bool:
        """Compare a large table stretch by stretch, and keep up to where it was equal. False where it cannot be cut."""
        if time.monotonic() >= until:
            return True
        ends, table = (source_of(self.job), read_of(self.job)), one.table.source
        last, expected = last_of(self.job, table), expected_identity(self.job)
        begun = self.going.begun.get(table)
        if last is None or last.reached != begun:
            begun = None  # something has come since this call began: a result of others says nothing of it
        behind = begun.key if begun else ()
        stretches = stretches_of(*ends, one, behind, rows=ROWS, rules=self.going.rules, expected_identity=expected)
        if not stretches:
            return False
        self._cut.add(table)
        limit = max(LIMIT_KEYS, len(set_aside(self.job)) + 1)
        parts = Parts(self.going, one, self.states[table], begun, last, limit)
        for stretch in stretches:
            look = self._look([one], until, in_turn=True, stretch=stretch)
            if look is None:
                break
            parts.add(stretch, look, self.is_same)
            self._found[table] = parts.result(is_through=stretch is stretches[-1])
            forget_differing(self.job, [self._found[table]])  # what is known of it does not hold from now on
            self._forget_of_another(look)
        return True

    def _look(
        self, tables: Sequence[VerifyTable], until: float, in_turn: bool, stretch: Stretch | None = None
    ) -> Look | None:
        """Compare tables, or a stretch of one; None where there is no time left."""
        budget = until - time.monotonic()
        if budget <= 0:
            return None
        began, before = time.time_ns() // 1000, place_of(self.job)
        if self.beside is None:
            self.beside = beside_running(self.job)
        beside = self.beside and replace(self.beside, in_turn=in_turn, tells_all=tells_all(self.job))
        wanted = replace(self.wanted, budget=budget)
        if stretch is None:
            found = compared_whole(self.job, self.spark, tables, wanted, beside)
        else:
            found = compared_whole(self.job, self.spark, tables, wanted, beside, stretch=stretch)
        server, former = server_of(self.job), self._server or self.going.server
        self.is_same, self._server = self.is_same and server == self.going.server, server
        self._told.append(found)
        return Look(found, began, (before, place_of(self.job)), server != former)

    def _forget_of_another(self, look: Look) -> None:
        """Tell nothing of what was found equal at another server than the source is by now."""
        if look.is_switched:
            self._found = {table: _as_of_another(one) for table, one in self._found.items()}

    def _is_undecided(self, one: VerifyTable) -> bool:
        found = self._found.get(one.table.source)
        return found is not None and found.is_undecided

    def _all(self, tables: Sequence[VerifyTable]) -> Verification:
        """Return what all rounds have found, with the tables for which there was no time."""
        results = tuple(self._found.get(one.table.source) or _not_reached(one) for one in tables)
        at = [one.positions for one in self._told if one.positions]
        last = self._told[-1] if self._told else Verification(())
        paused = max((one.paused for one in self._told), default=0.0)
        return replace(last, tables=results, positions=(at[0][0], at[-1][1]) if at else None, paused=paused)


def _together(ordered: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Yield which tables a round has, of pairs of rows and number in the order of the rows."""
    group, rows = list[int](), 0
    for size, number in ordered:
        if group and (rows + size > ROWS or len(group) == TABLES):
            yield group
            group, rows = [], 0
        group.append(number)
        rows += size
    if group:
        yield group


def _as_of_another(found: TableResult) -> TableResult:
    """Return the result of a table that was compared while the source was another server, or became one: what was equal there
    need not be so now. A row that differed has been found, whichever had it."""
    return replace(found, **NOTHING, why=SWITCHED, compared=None) if found.identical else found


def _not_reached(one: VerifyTable) -> TableResult:
    names = str(one.table.source), str(one.table.target)
    return TableResult(*names, 0, 0, identical=False, is_complete=False, pending=1, why=NO_TIME)
