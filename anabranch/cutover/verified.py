"""Check whether tables were found equal lately, before a cut-over that does not compare them itself."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.cutover import Verifies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.cutover.terms import Terms
    from anabranch.model.cutover import CutoverNote
    from anabranch.model.ids import TableId
    from anabranch.model.table_life import TableState
    from anabranch.model.verified import Verified

CHECK = "cutover.verified"
HOUR = 3_600_000_000  # microseconds
AHEAD = -0.25  # hours: the clock of who looked may be that much before ours
NAMED = 5
HINT = "let `anabranch verify JOB --watch` find them equal, or compare at the fence: --verify, --since-watch"


def verified(
    terms: Terms,
    states: Mapping[TableId, TableState],
    results: Sequence[Verified],
    flip: CutoverNote | None = None,
    now: int = 0,
) -> Iterator[CheckResult]:
    """Yield whether each table that streams has a result of `verify --watch` that says it is equal as a whole, and how old the
    oldest is. What `[cutover] verified_within_hours` refuses has failed. `flip`: the last one of an earlier cut-over, or where
    it was taken back; behind that a result counts. `now`: microseconds since 1970, 0 for the clock's."""
    if terms.verifies is not Verifies.NOT:
        yield CheckResult(CHECK, CheckVerdict.OK, "all tables are compared at the fence")
        return
    moment, known = now or int(time.time() * 1e6), {one.source: one for one in results}
    wanted = {table: known.get(table) for table, state in sorted(states.items()) if state.is_streaming}
    without = [table for table, one in wanted.items() if not _is_equal(one, states[table], flip)]
    ages = {table: (moment - one.began) / HOUR for table, one in wanted.items() if one and table not in without}
    late = [table for table, age in ages.items() if terms.verified_within and not AHEAD < age <= terms.verified_within]
    verdict = CheckVerdict.FAILED if terms.verified_within else CheckVerdict.WARNING
    if without:
        said = f"{len(without)} tables have no result of `verify --watch` that says they are equal: {_named(without)}"
        yield CheckResult(CHECK, verdict, said, HINT, names=tuple(map(str, without)))
    if late:
        longer = f"longer ago than {terms.verified_within} hours, or by a clock that is ahead"
        said = f"{len(late)} tables were found equal {longer}: {_named(late)}"
        yield CheckResult(CHECK, CheckVerdict.FAILED, said, HINT, names=tuple(map(str, late)))
    elif ages:
        oldest = max(ages, key=lambda table: ages[table])
        said = f"{len(ages)} tables were found equal; the oldest result is {ages[oldest]:.1f} hours old: {oldest}"
        is_bound = bool(terms.verified_within)
        how = CheckVerdict.OK if is_bound else CheckVerdict.WARNING
        yield CheckResult(CHECK, how, said, "" if is_bound else "[cutover] verified_within_hours bounds it")


def _is_equal(one: Verified | None, state: TableState, flip: CutoverNote | None) -> bool:
    """Return whether the result is of the table as it is loaded now, says equal, is of all rows, and of a target that nobody
    may have written to since."""
    return (
        one is not None
        and one.generation == state.generation
        and one.result == "identical"
        and not one.sample
        and one.is_complete
        and not (flip and _is_before(one, flip))
    )


def _is_before(one: Verified, flip: CutoverNote) -> bool:
    """Return whether it was begun before; only of one that does not say it by the notes it knew, clocks have to."""
    known = one.by or one.place
    return known.cutovers < flip.number if known else one.began <= flip.at


def _named(tables: Sequence[TableId]) -> str:
    more = f" and {len(tables) - NAMED} more" if len(tables) > NAMED else ""
    return ", ".join(map(str, tables[:NAMED])) + more
