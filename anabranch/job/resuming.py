"""A verification that another call goes on with: the result of each table is kept at the target, and those that still hold
are not made again.

An earlier result spares a comparison only if it says that the table is equal, as a whole, and nothing that makes it worthless
has come since: another load, another definition or other rules, a repair, rows set aside, a transaction that was left out,
another server as the source, a flip to the target. What changed since by the stream is not looked at: the result names the
positions that it is of. What does not live here: comparing (in_rounds.py, verifying_elsewhere.py), keeping a result
(`VerifiedStore`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from anabranch.errors import ConfigError
from anabranch.failpoints import reach
from anabranch.job.keeping_results import keep_in
from anabranch.job.verifying import beside_of
from anabranch.job.watched import Turn, as_kept, compared_as
from anabranch.model.cutover import Cutover, given_back, last_flip
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Skipped
from anabranch.model.table_life import TableState
from anabranch.model.value_rules import ValueRules
from anabranch.model.verified import Reached, Verified, VerifiedBy
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import LATE, Compared, Kept, TableResult, Verification
from anabranch.verify.touched import Parent
from anabranch.verify.wanted import Wanted
from anabranch.view.opened import require_rows, store_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

OTHER_SERVER = (
    "the source has become another server than the one that an earlier call compared; the next one compares it"
)

SWITCHED = "the source has become another server since it was compared; the next call compares it"
IN_PART = "it was compared in part; verify --resume goes on behind that"


@dataclass(frozen=True)
class Resumed:
    """A verification under way. `run`: when its first call began, microseconds since 1970 UTC, which names it; `server`: which
    one the source is now; `earlier`: results of earlier calls that still hold; `begun`: tables up to where those have come."""

    job: JobView
    run: int
    server: str
    cutovers: int
    by_rows: bool
    rules: ValueRules
    parents: Mapping[TableId, Mapping[TableId, Parent]]
    earlier: Mapping[TableId, Verified] = field(default_factory=dict)
    begun: Mapping[TableId, Reached] = field(default_factory=dict)
    is_new: bool = False

    def left(self, tables: Sequence[VerifyTable]) -> list[VerifyTable]:
        """Return the tables that have to be compared."""
        return [one for one in tables if one.table.source not in self.earlier]

    def begin(self) -> None:
        """Let no result of an earlier call count any more, where this one goes on with none: else the next one would go on
        with them if this one ended before its first."""
        if not self.is_new:
            return
        name = self.job.config.name
        with store_of(self.job) as store:
            for found in store.verifications.verified(name):
                if found.earlier is not None or found.runs:
                    store.prepare()
                    gone = replace(found.without_run(), at=found.at + 1)  # one that has come meanwhile is of now
                    store.verifications.note_verified(name, gone, found.at)

    def keep(
        self,
        one: VerifyTable,
        state: TableState,
        result: TableResult,
        began: int,
        places: tuple[str, str],
        before: Verified | None,
    ) -> TableResult:
        """Keep the result of a table that was compared from `began` on, unless it is not the table any more that it was then.
        `before`: what was kept of it before. Returns it with its time."""
        by = self.by(one, result)
        found = as_kept(result, state, Turn(Verification((result,), positions=places)), began)
        name = self.job.config.name
        with store_of(self.job) as store:
            now = store.states.table(name, state.source) if store.exists() else None
            if now is not None and now.is_streaming and now.generation == state.generation:
                keep_in(
                    store,
                    name,
                    before,
                    lambda last: replace(_with_place(found, last, by.compared), by=by),
                    found.source,
                )
        reach("verify.kept")
        return replace(result, compared=Compared(_moment(found.at), places))

    def by(self, one: VerifyTable, result: TableResult) -> VerifiedBy:
        """Return what decides whether a result of this verification holds later."""
        there = result.rows_target, result.others, result.digests
        return VerifiedBy(self.run, self.digest(one), self.server, self.cutovers, self.by_rows, *there)

    def keep_reached(self, state: TableState, reached: Reached, before: Verified | None) -> Verified | None:
        """Keep up to where a table was found equal, beside what was kept of it before. Returns what is kept now; None, where
        something else is by now, or nothing, since rows may have changed that were read."""
        name = self.job.config.name
        with store_of(self.job) as store:
            store.prepare()
            now = store.states.table(name, state.source)
            if now is None or not now.is_streaming or now.generation != state.generation:
                return None
            if before is None or before.why == IN_PART:
                at = max(time.time_ns() // 1000, before.at + 1 if before else 0)
                found = _in_part(state, reached, at)
            else:
                found = replace(before, at=before.at + 1, reached=reached)  # when that was found stays
            is_kept = store.verifications.note_verified(name, found, before.at if before else 0)
        reach("verify.reached")
        return found if is_kept else None

    def whole(self, tables: Sequence[VerifyTable], found: Verification, is_same: bool) -> Verification:
        """Return the result of all tables in their order: what this call found, and what earlier ones did. `is_same`: the
        source is the server still that it was when the call began; else nobody can tell of those."""
        here = {one.source: one for one in found.tables}
        earlier = self.told if is_same else _of_another_server
        results = tuple(
            here[str(one.table.source)] if str(one.table.source) in here else earlier(one)
            for one in tables
            if one.table.source in self.earlier or str(one.table.source) in here
        )
        left = sum(not one.identical for one in results)
        return replace(found, tables=results, kept=Kept(_moment(self.run), len(self.earlier) if is_same else 0, left))

    def told(self, one: VerifyTable) -> TableResult:
        """Return the result that an earlier call had of a table."""
        found = self.earlier[one.table.source]
        assert found.by is not None, "it would not be among them"
        return TableResult(
            str(one.table.source),
            str(one.table.target),
            found.rows,
            found.by.rows_target,
            identical=True,
            others=found.by.others,
            digests=found.by.digests,
            compared=Compared(_moment(found.at), found.positions, earlier=True),
        )

    def digest(self, one: VerifyTable) -> str:
        return compared_as(one, self.rules, self.parents.get(one.table.source, {}))


def _of_another_server(one: VerifyTable) -> TableResult:
    names = str(one.table.source), str(one.table.target)
    return TableResult(*names, 0, 0, identical=False, is_complete=False, pending=1, why=OTHER_SERVER)


def require_whole(job: JobView, wanted: Wanted) -> None:
    """Raise ConfigError where nothing is kept with which a call could go on."""
    require_rows(job)
    if not wanted.is_kept:
        raise ConfigError(
            "--resume goes on comparing whole tables: not with --repair, --since or --sample",
            job=job.config.name,
            hint="repair, or compare a part, in a call of its own",
        )


def resumed(
    job: JobView, wanted: Wanted, tables: Sequence[VerifyTable], states: Mapping[TableId, TableState], server: str
) -> Resumed:
    """Return the verification that goes on: the last one, if that is wanted and there is a table that it has not found equal;
    else one that begins."""
    name, rules, parents = job.config.name, value_rules(job), beside_of(job).parents
    with store_of(job) as store:
        results = store.verifications.verified(name)
        notes = store.cutovers.cutover_notes(name)
        skipped = store.journal.skipped(name)
    last = max((run for found in results for run in found.runs), default=0)
    run = last if wanted.resumes else 0
    made = Resumed(job, run, server, Cutover.of(notes).last, wanted.by_rows, rules, parents)
    free = given_back(notes)
    since = (
        free.number if free else notes[-1].number + 1 if last_flip(notes) else 0
    )  # no result counts while it is in use
    earlier, begun = dict[TableId, Verified](), dict[TableId, Reached]()
    known = {one.source: one for one in results} if run else {}
    for one in tables:
        last_found, state = known.get(one.table.source), states[one.table.source]
        if last_found is None:
            continue
        found, part = last_found.that_goes_on, last_found.reached
        if found is not None and found.is_equal and _holds(found, made, one, state, since, skipped):
            earlier[one.table.source] = found
        elif part is not None and _holds(part, made, one, state, since, skipped):
            begun[one.table.source] = part
    is_through = len(earlier) == len(tables)
    if not run or is_through:
        # a clock that was set back names none before it
        return replace(made, run=max(last + 1, time.time_ns() // 1000), is_new=True)
    return replace(made, earlier=earlier, begun=begun)


def _holds(
    found: Verified | Reached,
    now: Resumed,
    one: VerifyTable,
    state: TableState,
    since: int,
    skipped: Sequence[Skipped],
) -> bool:
    """Return whether rows that were found equal are those of the table as it is now, by what is compared now. `since`: the note
    of a cut-over that has to be there before it; `skipped`: transactions that were left out."""
    by = found.by
    return (
        by is not None
        and by.run == now.run
        and found.generation == state.generation
        and not state.facts.set_aside
        and by.compared == now.digest(one)
        and by.server == now.server
        and by.cutovers >= since
        and (by.by_rows or not now.by_rows)
        and not _is_skipped(found.positions[0], one.table.source, skipped)
    )


def _is_skipped(place: str, table: TableId, skipped: Sequence[Skipped]) -> bool:
    """Return whether a transaction with rows of the table was left out behind the place at which it was compared, or may have
    been."""
    at = Position.parse(place).sequence if place else -1
    return any(str(table) in one.changes and one.sequence > at for one in skipped)


def _in_part(state: TableState, reached: Reached, at: int) -> Verified:
    """Return what is kept of a table of which nothing else is known: nobody can tell of all of it."""
    return Verified(
        state.source,
        at,
        reached.began,
        "pending",
        state.generation,
        reached.positions,
        reached.rows,
        differing=0,
        pending=1,
        is_complete=False,
        why=IN_PART,
        reached=reached,
    )


def going_on(found: Verified, before: Verified | None, result: TableResult, server: str, by_rows: bool) -> Verified:
    """Return a turn of `--watch` as one of the verification that had the table before it: a later look at all of its rows
    does for that one, too. One that does not tell of all, and finds nothing that differs, leaves it what it had; not one that
    could not look, or that found what differs while nobody could tell whose it is."""
    last, part = (before.that_goes_on, before.reached) if before is not None else (None, None)
    run = (last and last.by and last.by.run) or (part and part.by.run)
    if not run or found.result == "different":
        return found
    if found.place is None:
        is_as_before = not found.pending or result.why == LATE
        return replace(found, earlier=last, reached=part) if is_as_before else found
    by = VerifiedBy(
        run,
        found.place.compared,
        server,
        found.place.cutovers,
        by_rows,
        result.rows_target,
        result.others,
        result.digests,
    )
    return replace(found, by=by)


def _with_place(found: Verified, before: Verified | None, compared: str) -> Verified:
    """Return it with the place of the last result of `--watch`, if both say that the same table is equal: rows that did not
    change behind that place are so by that result."""
    before = before and (before.that_goes_on or before)
    if found.place or before is None or before.place is None or found.result != "identical" or not found.is_complete:
        return found
    is_same = before.generation == found.generation and before.place.compared == compared and not found.pending
    return replace(found, place=before.place) if is_same else found


def _moment(microseconds: int) -> str:
    found = datetime.fromtimestamp(microseconds / 1e6, UTC)
    return found.isoformat(timespec="seconds").replace("+00:00", "Z")
