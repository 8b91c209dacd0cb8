"""The result of a verification: its values, its JSON shape, and its form for people.

Keys are shown, values only where they were asked for. What does not live here: comparing.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import IO, Any

from anabranch.errors import DifferencesFound, NotCaughtUp, TablesParked
from anabranch.verify.wanted import Sample

VERSION = 1
NO_TIME = "there was no time to compare it"
LATE = "there was no time to look at all of them again"
SHOWN = 10  # differences of a table on a terminal; --json has the whole sample


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that differs. `kind`: missing (at the target), extra (there only) or different, with the `columns` that
    are.

    `copies` counts equal rows at source and target, for tables without a key. `values`, where asked for: per column the
    source's and the target's text form.
    """

    kind: str
    key: Mapping[str, str | None] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    copies: tuple[int, int] = (0, 0)
    values: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)

    def __str__(self) -> str:
        place = ", ".join(f"{name}={value}" for name, value in self.key.items())
        place = place or f"a row without a key: {self.copies[0]} at the source, {self.copies[1]} at the target"
        facts = "; ".join(f"{name}: {there!r} -> {here!r}" for name, (there, here) in self.values.items())
        facts = facts or ", ".join(self.columns)
        return f"{self.kind:<9} {place}" + (f" ({facts})" if facts else "")


@dataclass(frozen=True, slots=True)
class Compared:
    """Say when a table was compared, as of which positions at the target, and whether an earlier call did it. Positions are
    empty where nothing is known of them."""

    at: str
    positions: tuple[str, str]
    earlier: bool = False

    def __str__(self) -> str:
        first, last = self.positions
        where = (
            ""
            if not first
            else f", at the target at {first}"
            if first == last
            else f", at the target from {first} to {last}"
        )
        return f"compared {self.at}{where}"


@dataclass(frozen=True, slots=True)
class TableResult:
    """`missing`, `extra`, `different` count rows; they are exact if `is_complete`, else at least so many. `sample` has the
    first of them. `others`: rows that only the target has, where other jobs write to it; nobody can say whose they are.
    `pending`: rows that differed, of which nobody can tell whether they do at one position, because the job runs; and `why`.
    `exact`: the position at which both ends of it were read; else `until`: beside a running job, up to where it was looked at
    again, and `not_exact` why it was not read at one position, where that was wanted.
    `ranges`: of a sample, how many ranges of the key were compared, and into how many the table was cut; then `rows_source` and
    `rows_target` count rows of these, and `about` is how many rows the source says that the table has, 0 where it does not
    know. `only_changed`: the target was told of rows alone that have changed since the job began, and only those were compared
    whose keys its topic has: not one of which all messages are missing. `digests`: the sums of all rows of the source and of
    the target, where both were summed up as they were compared; two that are made in one way can be compared. `compared`: of a
    verification that another call may go on with, when that was."""

    source: str
    target: str
    rows_source: int
    rows_target: int
    identical: bool
    missing: int = 0
    extra: int = 0
    different: int = 0
    is_complete: bool = True
    sample: tuple[Difference, ...] = ()
    others: int = 0
    pending: int = 0
    why: str = ""
    ranges: tuple[int, int] | None = None
    about: int = 0
    exact: str = ""
    until: str = ""
    not_exact: str = ""
    only_changed: bool = False
    digests: tuple[str, ...] = ()
    compared: Compared | None = None

    @property
    def is_undecided(self) -> bool:
        """Return whether nothing that differs was found, and not everything could be told."""
        return bool(self.pending) and not (self.missing or self.extra or self.different)

    @property
    def is_told(self) -> bool:
        """Return whether the table was compared to the end of what can be told, not only up to the end of a budget."""
        return not (self.is_undecided and self.why in (NO_TIME, LATE))

    @property
    def differs(self) -> bool:
        return not self.identical and not self.is_undecided

    def __str__(self) -> str:
        if self.is_undecided:
            return f"PENDING    {self.source} -> {self.target}: {self._pending}; {self.why}"
        if self.identical:
            beside = f", beside {self.others} of other jobs" if self.others else ""
            return f"identical  {self.source} -> {self.target}: {self.rows_source} rows{self._sampled}{beside}"
        least = "" if self.is_complete else "at least "
        counts = ", ".join(
            f"{least}{count} {what}"
            for count, what in ((self.missing, "missing"), (self.extra, "extra"), (self.different, "different"))
            if count
        )
        rows = f"{self.rows_source} rows at the source, {self.rows_target} at the target{self._sampled}"
        counts = counts or "not compared in full: too many rows of other jobs"
        more = f", {self._pending}" if self.pending else ""
        return f"DIFFERENT  {self.source} -> {self.target}: {rows}; {counts}{more}"

    @property
    def when(self) -> str:
        """Say at which position the table was read, where one was wanted."""
        earlier = f"; {self.compared}" if self.compared and self.compared.earlier else ""
        if self.exact:
            return f"; exact at {self.exact}{earlier}"
        return f"; looked again until {self.until}" if self.not_exact else earlier

    @property
    def _sampled(self) -> str:
        """Say which part of the table was compared; nothing where that was all of it."""
        if self.only_changed:
            return " of keys that the topic has"
        if self.ranges is None or self.ranges[0] == self.ranges[1]:
            return ""
        about = f" of some {self.about:,}" if self.about else ""
        return f"{about}, in {self.ranges[0]} of {self.ranges[1]} ranges of its key"

    @property
    def _pending(self) -> str:
        return f"{'' if self.is_complete else 'at least '}{self.pending} pending"


@dataclass(frozen=True, slots=True)
class Parked:
    """A table that is not compared because it is not replicated at present."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """Rows that were put to what they are at the source; `refused`: keys that the target did not take, and why. `left`: why
    nothing was done for the table."""

    source: str
    rows: int = 0
    refused: tuple[tuple[Mapping[str, str | None], str], ...] = ()
    left: str = ""

    def __str__(self) -> str:
        if self.left:
            return f"NOT REPAIRED  {self.source}: {self.left}"
        return f"repaired   {self.source}: {self.rows} rows" + (
            f", {len(self.refused)} refused" if self.refused else ""
        )


@dataclass(frozen=True, slots=True)
class SetAside:
    """Changes of a table that the target has refused and that wait, with the keys of their rows: these differ."""

    source: str
    changes: int
    keys: tuple[Mapping[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """A verification whose results are kept. `began`: when its first call did; `earlier`: how many tables calls before this one
    found equal; `left`: how many a further call has to compare."""

    began: str
    earlier: int
    left: int

    def __str__(self) -> str:
        goes_on = f"{self.earlier} tables were compared by earlier calls, as their lines say" if self.earlier else ""
        left = f"{self.left} tables are left, which verify --resume compares" if self.left else ""
        return f"this verification began {self.began}; " + "; ".join(
            filter(None, (goes_on, left or "no table is left"))
        )


@dataclass(frozen=True, slots=True)
class Verification:
    """`repaired`: what was done about differences; then `tables` is how they are afterwards. `positions`: beside a running
    job, where it was at the target before and after; each row was judged at a position between the two. `since`: only rows
    were looked at that changed behind this position, and `rows_source` says how many. `sample`: only ranges of keys were
    compared, and by which number these were drawn. `exact`: the position at which both ends were read, but of tables that say
    `not_exact`, so that `positions` are those at which rows that differed there were looked at again; `not_exact`: why none
    was, where that was wanted; `paused`: for how many seconds apply was held, at most. `kept`: of which verification it is a
    part, where another call may go on with it."""

    tables: tuple[TableResult, ...]
    parked: tuple[Parked, ...] = ()
    repaired: tuple[Repaired, ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    positions: tuple[str, str] | None = None
    since: str = ""
    sample: Sample | None = None
    exact: str = ""
    not_exact: str = ""
    paused: float = 0.0
    kept: Kept | None = None

    @property
    def identical(self) -> bool:
        return all(table.identical for table in self.tables)

    @property
    def exit_code(self) -> int:
        if not all(self._is_known(table) for table in self.tables if table.differs):
            return DifferencesFound.exit_code
        if self.parked or self.set_aside:
            return TablesParked.exit_code
        return NotCaughtUp.exit_code if any(table.pending for table in self.tables) else 0

    def _is_known(self, table: TableResult) -> bool:
        """Return whether every difference is that of a row that is set aside."""
        keys = [dict(key) for one in self.set_aside if one.source == table.source for key in one.keys]
        is_whole = table.is_complete and table.missing + table.extra + table.different == len(table.sample)
        is_shown = is_whole and bool(table.sample)
        return is_shown and all(dict(difference.key) in keys for difference in table.sample)

    @property
    def summary(self) -> str:
        equal = sum(table.identical for table in self.tables)
        undecided = sum(table.is_undecided for table in self.tables)
        parked = (f", {undecided} pending" if undecided else "") + (
            f", {len(self.parked)} parked" if self.parked else ""
        )
        aside = f", {sum(one.changes for one in self.set_aside):,} row changes set aside" if self.set_aside else ""
        return f"identical: {equal} of {len(self.tables)} tables{parked}{aside}"

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "identical": self.identical,
            **({"positions": dict(zip(("from", "to"), self.positions, strict=True))} if self.positions else {}),
            **({"paused": round(self.paused, 3)} if self.positions else {}),
            **({"exact": self.exact} if self.exact else {}),
            **({"not_exact": self.not_exact} if self.not_exact else {}),
            **({"since": self.since} if self.since else {}),
            **({"sample": asdict(self.sample)} if self.sample else {}),
            **({"kept": asdict(self.kept)} if self.kept else {}),
            "tables": [asdict(table) for table in self.tables],
            "parked": [asdict(table) for table in self.parked],
            **({"repaired": [asdict(table) for table in self.repaired]} if self.repaired else {}),
            **({"set_aside": [asdict(table) for table in self.set_aside]} if self.set_aside else {}),
        }

    def write(self, file: IO[str]) -> None:
        for repaired in self.repaired:
            file.write(f"{repaired}\n")
            for key, why in repaired.refused[:SHOWN]:
                file.write(f"    {', '.join(f'{name}={value}' for name, value in key.items())}: {why}\n")
        for table in self.tables:
            file.write(f"{table}{table.when}\n")
            for difference in table.sample[:SHOWN]:
                file.write(f"    {difference}\n")
            if len(table.sample) > SHOWN:
                file.write(f"    … {len(table.sample) - SHOWN} more in --json\n")
        for parked in self.parked:
            file.write(f"parked     {parked.source}: {parked.reason}\n")
        for one in self.set_aside:
            file.write(
                f"set aside  {one.source}: {one.changes:,} row changes, anabranch parked show JOB {shlex.quote(one.source)}\n"
            )
        if self.since:
            file.write(f"only rows that changed since {self.since} were compared\n")
        if self.sample:
            rows = sum(table.rows_source for table in self.tables)
            again = f"--seed {self.sample.seed} compares the same ranges again"
            file.write(f"a sample of {self.sample.percent}: {rows:,} rows at the source were compared; {again}\n")
        if self.positions:
            if self.exact:
                file.write(f"exact at {self.exact}: both ends were read there, what differed was looked at again\n")
                self._write_others(file)
            elif self.not_exact:
                file.write(f"looked again until {self.positions[1]}, not exact: {self.not_exact}\n")
            ran = f"the job ran meanwhile, at the target from {self.positions[0]} to {self.positions[1]}"
            file.write(f"{ran}; apply was held for {self.paused:.3g} s\n")
        if self.kept:
            file.write(f"{self.kept}\n")
        file.write(f"{self.summary}\n")

    def _write_others(self, file: IO[str]) -> None:
        """Name the tables that were not read at the one position, by what kept them from it."""
        for why in dict.fromkeys(table.not_exact for table in self.tables if table.not_exact):
            names = ", ".join(table.source for table in self.tables if table.not_exact == why)
            file.write(f"not exact, looked again until {self.positions[1] if self.positions else ''}: {names}: {why}\n")
