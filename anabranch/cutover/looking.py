"""Check what may stand in the way of a cut-over, before it begins and again at the fence: every obstacle with its remedy.

What does not live here: rights and writers at the source (`SourceFence.checks`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch.contracts import CountingSource
from anabranch.cutover import acting
from anabranch.cutover.counted import pass_counters
from anabranch.cutover.following import Following
from anabranch.cutover.terms import Ends, Terms
from anabranch.cutover.verified import verified
from anabranch.databases import registry
from anabranch.errors import NotCaughtUp
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.cutover import Cutover, CutoverNote, Phase, Step, given_back, last_flip
from anabranch.model.writers import own_targets
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import catalog_of, store_of

if TYPE_CHECKING:
    from anabranch.model.ids import TableId
    from anabranch.model.table_life import TableState
    from anabranch.view.job_view import JobView

TOO_SMALL = "give the column a larger type at the target, or lower [cutover] sequence_margin"
BUILT = "cutover.built"
CUT_OVER = "nothing is left to do: anabranch cutover JOB --status has its report, anabranch failback JOB leads back"
RETURNED = "nothing is left to do: anabranch failback JOB --status has its report"
NO_COUNTER = "give it one there, or the application its own"
FAILED, WARNING, OK = CheckVerdict.FAILED, CheckVerdict.WARNING, CheckVerdict.OK


def look(ends: Ends, terms: Terms, following: Following, cutover: Cutover) -> Iterator[CheckResult]:
    """Yield every finding. Of a cut-over that is through, that alone: what helps against the rest would undo it."""
    if cutover.is_finished:
        yield CheckResult("cutover.state", FAILED, cutover.who_writes(), RETURNED if terms.returns else CUT_OVER)
        return
    if cutover.notes:
        yield CheckResult("cutover.state", OK, cutover.who_writes())
    yield from _other_targets(ends)
    states, acts = ends.store.states.tables(ends.job.config.name), acting.look(ends)
    yield from _tables_but(states, terms.allows_parked, acts)
    yield from unknown(ends, states)
    yield from verified(
        terms, states, ends.store.verifications.verified(ends.job.config.name), _earlier_flip(ends, cutover)
    )
    if not (cutover.is_fenced and cutover.is_under_way):
        yield from ends.fence.checks(sorted(states))
    yield _lag(ends, terms, following)
    yield from _one_server(ends.job)
    yield from _reverse(terms, cutover)
    yield _flip(terms)
    yield from _counters(ends, terms, cutover)
    for one in acting.told(acts):
        yield CheckResult(f"cutover.{one.check}", WARNING, one.said, one.hint, one.table)


def _earlier_flip(ends: Ends, cutover: Cutover) -> CutoverNote | None:
    """Return the last flip of a cut-over that is over; where that was taken back, the end of that: up to then the target may
    have been in use."""
    begins = cutover.notes[0].number if cutover.is_under_way else cutover.last + 1
    notes = [one for one in ends.store.cutovers.cutover_notes(ends.job.config.name) if one.number < begins]
    return given_back(notes) or last_flip(notes)


def _other_targets(ends: Ends) -> Iterator[CheckResult]:
    """Yield targets of the job which are cut over to: all of them share one fence, and only one may take writes."""
    for one in ends.job.whole.targets() if ends.job.is_one_of_several else ():
        if one.target == ends.job.target:
            continue
        with store_of(one) as store:
            notes = store.cutovers.cutover_notes(one.config.name) if store.exists() else []
        if (cutover := Cutover.of(notes)).is_fenced:
            said = f"the job is cut over to its target {one.target}: {cutover.who_writes()}"
            yield CheckResult("cutover.targets", FAILED, said, f"take that back first, with --target {one.target}")


def tables(states: Mapping[TableId, TableState], allows_parked: bool) -> Iterator[CheckResult]:
    """Yield what keeps the target from having every row, and what stands unproven there."""
    verdict = WARNING if allows_parked else FAILED
    allow = "bring them in first; or, where the application does without: --allow-parked"
    named = {
        ("load", FAILED, "are not loaded, or within the window of their load", "wait for the load"): [
            t for t, s in states.items() if s.is_before_stream
        ],
        ("parked", verdict, "are parked", allow): [t for t, s in states.items() if s.is_parked],
        ("set_aside", verdict, "have row changes set aside", allow): [
            t for t, s in states.items() if s.facts.set_aside
        ],
        ("built", FAILED, "lack indexes, keys or checks that are being built", "wait until apply has built them"): [
            t for t, s in states.items() if s.is_streaming and not s.is_built
        ],
    }
    for (check, how, what, hint), found in named.items():
        if found:
            yield CheckResult(f"cutover.{check}", how, f"{len(found)} tables {what}: {_list(found)}", hint)
    for table, state in sorted(states.items()):
        for problem in state.facts.not_built:
            yield CheckResult(BUILT, WARNING, problem, table=str(table))
    if not states:
        yield CheckResult("cutover.load", FAILED, "the job has no table at the target", "anabranch run JOB")


def _tables_but(
    states: Mapping[TableId, TableState], allows_parked: bool, acts: Mapping[str, list[acting.Finding]]
) -> Iterator[CheckResult]:
    """Yield what `tables` does, without constraints that are told with the statement that mends them."""
    for one in tables(states, allows_parked):
        if one.check != BUILT or one.verdict is FAILED or acting.not_told([one.message], acts):
            yield one


def unknown(ends: Ends, states: Mapping[TableId, TableState]) -> Iterator[CheckResult]:
    """Yield tables of the source that the rules include and the target knows nothing of: nobody would miss them in time."""
    uuid = trail_uuid(ends.job)
    with catalog_of(ends.source) as catalog:
        own = own_targets(catalog.writers(), uuid) if uuid else frozenset()
        names = [t for t in catalog.names() if ends.job.rules.includes(t) and t not in states and t not in own]
    if names:
        said = f"{len(names)} tables of the source are not at the target: {_list(names)}"
        yield CheckResult("cutover.tables", FAILED, said, "load them, or exclude them by a rule: anabranch status JOB")


def _lag(ends: Ends, terms: Terms, following: Following) -> CheckResult:
    """Follow a commit of now to the target."""
    with catalog_of(ends.source) as catalog:
        mark = catalog.mark()
    try:
        following.reached(mark, terms.max_lag)
    except NotCaughtUp as late:
        said = f"what the source has now is not at the target within {terms.max_lag:g} s: {late.message}"
        return CheckResult("cutover.lag", WARNING, said, late.hint)
    return CheckResult("cutover.lag", OK, f"what the source has is at the target within {terms.max_lag:g} s")


def _one_server(job: JobView) -> Iterator[CheckResult]:
    """Yield a finding where both ends are one server, and a fence shuts it as a whole."""
    source, target = job.config.source.endpoint, job.endpoint
    if registry()[source.scheme].is_one_end and not {one.place for one in source.each}.isdisjoint(
        one.place for one in target.each
    ):
        said = "source and target are one server, and the fence shuts all of it"
        yield CheckResult("cutover.fence", FAILED, said, "end the application's writes by hand instead")


def _reverse(terms: Terms, cutover: Cutover) -> Iterator[CheckResult]:
    if cutover.is_under_way and cutover.has(Step.REVERSE, Phase.BEGINS):
        return  # it may be armed by now
    if terms.way_back.is_wanted:
        yield from terms.way_back.checks()
    else:
        said = "no way back is armed: the job does not ask for one ([reverse] enabled)"
        yield CheckResult("cutover.reverse", OK, said)


def _counters(ends: Ends, terms: Terms, cutover: Cutover) -> Iterator[CheckResult]:
    """Rehearse the counters: what cannot go on is found while the application still writes."""
    if cutover.is_done(Step.COUNTERS) and cutover.is_under_way:
        return
    if not isinstance(ends.source, CountingSource):
        yield CheckResult("cutover.counters", WARNING, "the source counts in no column: no counter is set")
        return
    found, lost = pass_counters(ends, terms.margin, is_rehearsed=True)
    for one in found:
        if one.problem:
            yield CheckResult("cutover.counters", FAILED, one.problem, TOO_SMALL, str(one.table))
    if lost:
        said = f"no counter at the target goes on behind {_list(lost)}"
        yield CheckResult("cutover.counters", WARNING, said, NO_COUNTER)


def _flip(terms: Terms) -> CheckResult:
    if not terms.flip:
        said = "no command leads the application to the target"
        hint = '[cutover] flip = ["command", …]; one that waits until a person has done it will do'
        return CheckResult("cutover.flip", FAILED, said, hint)
    if shutil.which(terms.flip[0]) is None:
        return CheckResult("cutover.flip", FAILED, f"there is no command {terms.flip[0]}", "[cutover] flip")
    return CheckResult("cutover.flip", OK, f"{terms.flip[0]} leads the application to the target")


def _list(names: Sequence[TableId] | Sequence[str]) -> str:
    return ", ".join(map(str, sorted(names)[:5])) + (", …" if len(names) > 5 else "")
