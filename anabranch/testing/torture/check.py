"""The verdict: is everything that was seen at the target a state that the source had, in the order in which it had them?

Judged afterwards, when the order of the commits is known. Every observation must be the model's state after some prefix of
the commits, and no prefix may be shorter than one before; at the end source, target and model are equal. Of tables that
the job says are loading or parked, in the same snapshot, nothing is asked; without the ledger nothing can be. Of keys that
somebody else wrote to or that are set aside, exempt.py says what they may hold. The declared
exception is K16: a table may look empty to a snapshot that is older than a TRUNCATE of it. It looked at the table when the
TRUNCATE was there already, so that whatever is seen next shows the TRUNCATE's commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from anabranch.testing.torture.exempt import (
    Commit,
    Noted,
    Story,
    Touch,
    split,
    touches,
    wrong_notes,
)
from anabranch.testing.torture.history import History, Transaction
from anabranch.testing.torture.model import Disagreement, Model
from anabranch.testing.torture.rows import NoSuchRow
from anabranch.testing.torture.sources import Commits
from anabranch.testing.torture.speaker import COMMITTED, ROLLED_BACK, Outcome
from anabranch.testing.torture.speaker import UNKNOWN as UNTOLD
from anabranch.testing.torture.tables import LEDGER
from anabranch.testing.torture.watcher import Observation

SHOWN = 4  # rows of a difference that a message shows
AROUND = 3  # transactions before and behind the place of a failure
WIDTH = 300  # characters of a row in a message

MODEL, TORN, WRONG, BACK, UNKNOWN, FINAL, PIPELINE = (
    "model", "torn", "wrong state", "went back", "unknown", "final", "pipeline"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Failure:
    """kind: `torn` (a transaction is there without one before it), `wrong state` (no state that the source had), `went
    back`, `unknown` (what the source never committed), `final` (the ends differ at the end), `pipeline` (it failed by
    itself) · `model` (the kit's own: model and source do not agree)."""

    kind: str
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class _Found(Exception):
    def __init__(self, kind: str, message: str) -> None:
        self.failure = Failure(kind, message)


class Checker:
    """One history that was run: `outcomes` of its transactions, `commits` as the log has them.

    `losses`: how often the target was made to forget its last commits; each may take prefixes back once. `truncates`: the
    job applies TRUNCATE as such (K16)."""

    def __init__(
        self,
        history: History,
        family: str,
        outcomes: Mapping[int, Outcome],
        commits: Commits,
        *,
        losses: int = 0,
        truncates: bool = True,
    ) -> None:
        self.history, self.family, self.outcomes = history, family, outcomes
        self.order, self.changes = commits.order, commits.changes
        self.losses, self.truncates, self.drops = losses, truncates, history.drops
        self.by_number = {transaction.number: transaction for transaction in history.transactions}
        self.prefixes: set[int] = set()  # that were seen
        self._places = {number: place for place, number in enumerate(self.order)}
        self._ledgered = [n for n in self.order if n in self.by_number and self.by_number[n].is_numbered]
        self._losses_left, self._owed = losses, 0
        self._begin()

    def source(self, lines: Mapping[str, Sequence[bytes]]) -> Failure | None:
        """Do the source's own rows at its end agree with the model, and its log with its sessions?"""
        try:
            self._compare_outcomes()
            self._begin(drops="")  # what a target keeps of dropped tables is not there
            self._advance(len(self.order))
            self._same("the source", {t: list(rows) for t, rows in lines.items()}, MODEL)
        except _Found as found:
            return found.failure
        return None

    def emptied_without_log(self, lines: Mapping[str, Sequence[bytes]]) -> str:
        """Return the table that the source has emptied without a line of its log: a server that ends in the middle of
        TRUNCATE may (torture seed 41058, MariaDB 10.11). No replica has it then, and the history says nothing."""
        unknown = {number for number, outcome in self.outcomes.items() if outcome.end == UNTOLD}
        lost = (one for one in self.history.transactions if one.truncates and one.number in unknown - {*self.order})
        return next((one.truncates for one in lost if not lines[one.truncates]), "")

    def observed(self, observations: Iterable[Observation]) -> Failure | None:
        """Check that each is a state of the source, and none older than the one before."""
        self._begin()
        self._losses_left, self._owed = self.losses, 0
        try:
            for observation in observations:
                for _ in range(min(observation.times, 2)):
                    self._judge(observation)
        except _Found as found:
            return found.failure
        return None

    def final(self, observation: Observation) -> Failure | None:
        """Check that the last one is the source's last state."""
        try:
            if self._at > len(self.order):
                self._begin()
            self._advance(len(self.order))
            if left := touches(observation.more):
                raise _Found(
                    FINAL, f"observation {observation.number}, the last: still not as at the source: {left[:SHOWN]}"
                )
            contents = {table: sorted(seen.splitlines()) for table, seen in observation.contents.items()}
            self._same(f"observation {observation.number}, the last", contents, FINAL)
        except _Found as found:
            return found.failure
        return None

    def rows_before(self, numbers: Iterable[int]) -> Mapping[str, Sequence[bytes]]:
        """Return the rows by table, ledger included, in front of the first of these transactions; where none of them was
        committed at the end. {} where the model cannot follow the source: `source` says it."""
        self._begin()
        try:
            places = (self._places[number] for number in numbers if number in self._places)
            self._advance(min(places, default=len(self.order)))
        except _Found:
            return {}
        tables = {table.name: self.model.lines(table.name) for table in self.history.schema.steady}
        return {LEDGER: sorted(self._ledger), **tables}

    def noted(self, noted: Sequence[Noted], observations: Iterable[Observation]) -> Failure | None:
        """Check that the job noted the conflicts that somebody's writing to the target has caused, and no others."""
        found = {replace(t, is_mending=False) for one in observations for t in touches(one.more) if t.did}
        wrong = wrong_notes(self._story, {touch: self._places_at(touch.commits) for touch in found}, noted)
        return Failure(WRONG, wrong) if wrong else None

    # --- the model along the commits ------------------------------------------------------------------------------------

    def _begin(self, drops: str | None = None) -> None:
        self.model, self._at = Model(self.history.schema, self.family, self.drops if drops is None else drops), 0
        self._matched: dict[str, tuple[bytes, list[bytes]]] = {}
        self._owing = 0  # the prefix that is to be seen next, by K16
        self._ledger: list[bytes] = []

    def _advance(self, place: int) -> None:
        """The model after so many commits."""
        while self._at < place:
            transaction = self._transaction(self.order[self._at])
            try:
                self._commit(transaction).carry_out(self.model)
            except (Disagreement, NoSuchRow) as disagreement:
                raise _Found(MODEL, f"transaction {transaction.number}: {disagreement}{self._around()}") from None
            if transaction.is_numbered:
                self._ledger.append(str(transaction.number).encode())
            self._at += 1

    def _transaction(self, number: int) -> Transaction:
        if number not in self.by_number:
            raise _Found(MODEL, f"the source's log has a transaction {number}, the history has none")
        return self.by_number[number]

    def _commit(self, transaction: Transaction) -> Commit:
        if self.changes is not None:
            changes = self.changes[transaction.number]
            return Commit(truncates=frozenset(one.table for one in changes if one.empties), changes=changes)
        outcome = self.outcomes.get(transaction.number) or Outcome(transaction.number, (), COMMITTED)
        truncates = frozenset(filter(None, [transaction.truncates]))
        return Commit(list(outcome.succeeded(transaction)), transaction.checks, truncates)

    def _compare_outcomes(self) -> None:
        """Compare what the sessions were told with the log."""
        logged = Counter(self.order)
        for number, outcome in self.outcomes.items():
            if logged[number] > 1:
                raise _Found(MODEL, f"the source's log has transaction {number} {logged[number]} times")
            if (outcome.end == COMMITTED and not logged[number]) or (outcome.end == ROLLED_BACK and logged[number]):
                place = "in" if logged[number] else "not in"
                raise _Found(MODEL, f"transaction {number} was {outcome.end}, and is {place} the source's log")

    # --- one observation ----------------------------------------------------------------------------------------------------

    def _judge(self, observation: Observation) -> None:
        if LEDGER in observation.away:
            return
        first, last = self._places_of(observation)
        if last < self._at:
            if not self._losses_left:
                raise _Found(
                    BACK, f"observation {observation.number} shows {first} commits, one before it showed {self._at}"
                )
            self._go_back()
        if last < self._owed and not self._losses_left:
            raise _Found(
                WRONG,
                f"observation {observation.number} shows {last} commits at most, one before it had a table empty already by"
                f" the TRUNCATE that is commit {self._owed}",
            )
        differences: list[str] = []
        before = self._at
        owed = 0 if self._losses_left else self._owed
        too_old: tuple[int, int] | None = None  # a place at which an older snapshot fits (K16), and what it owes
        for place in range(max(first, self._at, owed), last + 1):
            self._advance(place)
            self._owing = 0
            table = self._differing(observation)
            if table is None and not self._owing:
                self.prefixes.add(place)
                return
            if table is None:
                too_old = too_old or (place, self._owing)
                continue
            seen = sorted(observation.contents[table].splitlines())
            differences.append(
                f"observation {observation.number}, table {table}, which is none of the source's states: with the"
                f" transactions of this ledger it has {_difference(self.model.lines(table), seen)}{self._around()}"
                f"{_exempt(observation)}"
            )
        if too_old:
            self._owed = max(self._owed, too_old[1])
            self.prefixes.add(too_old[0])
            return
        if self._losses_left and first < before:  # only a TRUNCATE was lost, which the ledger does not have
            self._go_back()
            self._judge(observation)
            return
        raise _Found(WRONG, differences[0])

    def _go_back(self) -> None:
        """The target has forgotten its last commits."""
        self._losses_left -= 1
        self._owed = 0
        self._begin()

    def _places_of(self, observation: Observation) -> tuple[int, int]:
        """The prefixes that an observation's ledger allows: transactions that truncate are not in it."""
        seen = [int(line) for line in observation.contents[LEDGER].split()]
        numbers = set(seen)
        if len(numbers) < len(seen):
            twice = sorted(number for number, times in Counter(seen).items() if times > 1)
            raise _Found(WRONG, f"observation {observation.number}, the ledger has {twice[:SHOWN]} twice")
        if unknown := sorted(numbers - set(self._ledgered)):
            raise _Found(UNKNOWN, f"observation {observation.number}, never committed at the source: {unknown[:SHOWN]}")
        count = len(numbers)
        if missing := [number for number in self._ledgered[:count] if number not in numbers]:
            later = max(numbers, key=self._places.__getitem__)
            where = f"the source committed it as number {self._places[missing[0]] + 1}"
            raise _Found(
                TORN, f"observation {observation.number}, without transaction {missing[0]} but with {later}: {where}"
            )
        return self._places_at(count)

    def _places_at(self, count: int) -> tuple[int, int]:
        """The prefixes with so many rows of the ledger."""
        first = self._places[self._ledgered[count - 1]] + 1 if count else 0
        is_all = count == len(self._ledgered)
        return first, len(self.order) if is_all else self._places[self._ledgered[count]]

    def _differing(self, observation: Observation) -> str | None:
        """A table that is not as the model has it."""
        exempt: dict[str, list[Touch]] = {}
        for touch in touches(observation.more):
            exempt.setdefault(touch.table, []).append(touch)
        for table, seen in observation.contents.items():
            if table == LEDGER or table in observation.away:
                continue
            expected = self.model.lines(table)
            known = self._matched.get(table)
            if known is not None and known[0] is seen and known[1] is expected and table not in exempt:
                continue
            if not self._is_right(table, sorted(seen.splitlines()), expected, exempt.get(table, ())):
                head = self.model.head(table)
                truncated = self._will_be_truncated(table) if seen == (head + b"\n" if head else b"") else 0
                if not truncated:
                    return table
                self._owing = max(self._owing, truncated)
                continue
            self._matched[table] = (seen, expected)
        return None

    def _is_right(self, name: str, seen: list[bytes], expected: list[bytes], exempt: Sequence[Touch]) -> bool:
        if not exempt:
            return seen == expected
        table, keys = self.history.schema[name], {touch.key for touch in exempt}
        (rest, found), (wanted, _) = split(table, seen, keys), split(table, expected, keys)
        return rest == wanted and all(self._may_hold(touch, found.get(touch.key, [])) for touch in exempt)

    def _may_hold(self, touch: Touch, lines: Sequence[bytes]) -> bool:
        if not touch.did or len(lines) > 1:
            return len(lines) <= 1
        places = (min(place, self._at) for place in self._places_at(touch.commits))
        allowed = set().union(*(self._story.allowed(touch, place, self._at) for place in places))
        return (lines[0] if lines else None) in allowed

    @cached_property
    def _story(self) -> Story:
        commits = [self._commit(self._transaction(number)) for number in self.order]
        return Story(self.history.schema, self.family, commits)

    def _will_be_truncated(self, table: str) -> int:
        """K16: the prefix behind the next statement that writes the table anew, TRUNCATE or a wider type, of which this
        snapshot is too old to see the rows; 0 for none."""
        behind = range(self._at, len(self.order))
        return next((place + 1 for place in behind if self._is_written_anew(table, self.order[place])), 0)

    def _is_written_anew(self, table: str, number: int) -> bool:
        is_widened = self._transaction(number).widens(self.history.schema) == table
        return is_widened or (self.truncates and table in self._truncated(number))

    def _truncated(self, number: int) -> frozenset[str]:
        return self._commit(self._transaction(number)).truncates

    def _same(self, who: str, contents: Mapping[str, list[bytes]], kind: str) -> None:
        expected = {LEDGER: sorted(self._ledger)} | {t: self.model.lines(t) for t in contents if t != LEDGER}
        for table, seen in contents.items():
            if seen != expected[table]:
                raise _Found(kind, f"{who}, table {table}: it has {_difference(expected[table], seen)}")

    def _around(self) -> str:
        """The numbers of the transactions that were committed near this place."""
        before = self.order[max(0, self._at - AROUND) : self._at]
        behind = self.order[self._at : self._at + AROUND]
        return f" (commits {', '.join(map(str, before))} | {', '.join(map(str, behind))})"


def _difference(expected: Sequence[bytes], seen: Sequence[bytes]) -> str:
    there, wanted = Counter(seen), Counter(expected)
    too_many, missing = list((there - wanted).elements()), list((wanted - there).elements())
    return f"{_some('too many', too_many)}; {_some('missing', missing)}"


def _exempt(observation: Observation) -> str:
    found = touches(observation.more)
    return f"; not judged as others: {', '.join(map(str, found))}" if found else ""


def _some(what: str, lines: Sequence[bytes]) -> str:
    shown = [line.decode(errors="replace")[:WIDTH] for line in lines[:SHOWN]]
    return f"{len(lines)} {what}" + (f" {shown}" if shown else "")
