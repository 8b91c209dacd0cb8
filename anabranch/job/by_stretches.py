"""A large table whose parts a verification that goes on compares one after the other: what they come to, and up to where they
were equal, which is kept behind each, so that a kill or the budget's end loses one stretch.

What does not live here: cutting the table (verify/stretches.py), comparing a stretch (in_rounds.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from anabranch.job.resuming import IN_PART, SWITCHED, Resumed
from anabranch.model.table_life import TableState
from anabranch.model.verified import Reached, Verified
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import NO_TIME, TableResult, Verification
from anabranch.verify.stretches import Stretch

FORGOTTEN = "what an earlier call found of it does not hold any more; the next one compares it whole"


@dataclass(frozen=True, slots=True)
class Look:
    """One comparison. `began`: microseconds since 1970 UTC; `places`: where the job was at the target before and after;
    `is_switched`: the source became another server meanwhile."""

    found: Verification
    began: int
    places: tuple[str, str]
    is_switched: bool


@dataclass
class Parts:
    """The stretches of one table so far. `begun`: what earlier calls have found equal of it; `kept`: what is kept of the table
    before it is compared; `limit`: keys that differ of which the result has a sample."""

    going: Resumed
    one: VerifyTable
    state: TableState
    begun: Reached | None
    kept: Verified | None
    limit: int
    _sum: TableResult = field(init=False)
    _reached: Reached | None = None
    _began: int = 0
    _places: tuple[str, str] = ("", "")
    _is_equal: bool = True  # all of it so far
    _is_kept: bool = True  # as long as nobody has put something else in place of what is kept
    _is_same: bool = True

    def __post_init__(self) -> None:
        names, before = (str(self.one.table.source), str(self.one.table.target)), self.begun
        rows = (before.rows, before.by.rows_target) if before else (0, 0)
        self._sum = TableResult(*names, *rows, identical=True, others=before.by.others if before else 0)
        self._reached = before
        if before:
            self._began, self._places = before.began, before.positions

    def add(self, stretch: Stretch, look: Look, is_same: bool) -> None:
        """Add what was found of the next stretch. `is_same`: the source is the server still that it was."""
        (found,) = look.found.tables
        self._sum, self._is_same = _added(self._sum, found, self.limit), is_same
        if look.is_switched or (self.begun and not is_same):  # its stretches are of two servers
            self._sum = replace(self._sum, identical=False, pending=self._sum.pending or 1, why=SWITCHED)
        self._began, self._places = self._began or look.began, (self._places[0] or look.places[0], look.places[1])
        self._is_equal = self._is_equal and is_same and found.identical
        if self._is_equal and self._is_kept and stretch.end is not None:
            key = tuple(zip(stretch.columns, stretch.end, strict=True))
            by, places = self.going.by(self.one, self._sum), self._places
            self._reached = Reached(by, self.state.generation, key, self._began, places, self._sum.rows_source)
            self.kept = self.going.keep_reached(self.state, self._reached, self.kept)
            self._is_kept = self.kept is not None

    def result(self, is_through: bool) -> TableResult:
        """Return the result of the table, kept where it can be told. `is_through`: no stretch is left."""
        found = self._sum
        if found.identical and is_through and self.begun and not self._is_kept:
            found = replace(found, identical=False, pending=1, why=FORGOTTEN)  # its first rows are of an earlier call
        if not found.differs and (not is_through or found.why == NO_TIME):
            goes_on = self._is_kept and self._reached is not None and found.why != SWITCHED
            why = IN_PART if goes_on else found.why or NO_TIME
            return replace(found, identical=False, is_complete=False, pending=found.pending or 1, why=why)
        if not is_through:
            return replace(found, identical=False, is_complete=False)
        if not self._is_same or found.is_undecided or (found.identical and not self._is_kept):
            return found  # what is kept of it stays: up to where it was equal, too
        return self.going.keep(self.one, self.state, found, self._began, self._places, self.kept)


def _added(before: TableResult, found: TableResult, limit: int) -> TableResult:
    """Return what two parts of one table come to."""
    return replace(
        before,
        rows_source=before.rows_source + found.rows_source,
        rows_target=before.rows_target + found.rows_target,
        identical=before.identical and found.identical,
        missing=before.missing + found.missing,
        extra=before.extra + found.extra,
        different=before.different + found.different,
        is_complete=before.is_complete and found.is_complete,
        sample=(*before.sample, *found.sample)[:limit],
        others=before.others + found.others,
        pending=before.pending + found.pending,
        why=found.why if found.why == NO_TIME else before.why or found.why,
        until=found.until,
        not_exact=found.not_exact,
    )
