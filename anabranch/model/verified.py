"""The last result that `verify --watch` has of a table.

What does not live here: the result of one verification with its rows (verify/report.py), keeping it (`VerifiedStore`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from anabranch.model.ids import TableId


@dataclass(frozen=True, slots=True)
class VerifiedPlace:
    """Name the place from which on the trail tells which rows of a table have to be compared again, because it was found equal
    by reading that began there: all that is in the trail up to `position` was in both ends before any row was read. `trail`:
    its uuid; `compared`: a digest of what was compared with what; `cutovers`: the number of the job's last note of a cut-over
    by then."""

    position: str
    trail: str
    compared: str
    cutovers: int

    @property
    def facts(self) -> dict[str, Any]:
        """Return it in JSON's values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class VerifiedBy:
    """Say which verification compared a table, and all that decides whether its result still holds when that one goes on.
    `run`: when it began, microseconds since 1970 UTC, which names it; 0: of none that goes on. `compared`, `cutovers`: as of a
    place. `server`: which one the source was. `by_rows`: every row was read at both ends. `rows_target`, `others`, `digests`:
    as in the result."""

    run: int
    compared: str
    server: str
    cutovers: int
    by_rows: bool = False
    rows_target: int = 0
    others: int = 0
    digests: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, Any]:
        """Return it in JSON's values."""
        return {**asdict(self), "digests": list(self.digests)}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> VerifiedBy:
        """Return what was kept."""
        return cls(**{**facts, "digests": tuple(facts["digests"])})


@dataclass(frozen=True, slots=True)
class Reached:
    """Say up to which key a verification that goes on has found a large table equal. `key`: the whole numbers that begin the
    key of a row (source column -> value); rows up to it, itself included, were compared. `began`, `positions`, `rows`: as in a
    result, of these rows; those of the target are in `by`."""

    by: VerifiedBy
    generation: int
    key: tuple[tuple[str, str], ...]
    began: int
    positions: tuple[str, str]
    rows: int

    def __str__(self) -> str:
        return ", ".join(f"{column}={value}" for column, value in self.key)

    @property
    def facts(self) -> dict[str, Any]:
        """Return it in JSON's values."""
        lists = {"key": [list(one) for one in self.key], "positions": list(self.positions)}
        return {**asdict(self), "by": self.by.facts, **lists}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Reached:
        """Return what was kept."""
        key = tuple((column, value) for column, value in facts["key"])
        before, after = facts["positions"]
        return cls(**{**facts, "by": VerifiedBy.of(facts["by"]), "key": key, "positions": (before, after)})


@dataclass(frozen=True, slots=True)
class Verified:
    """Keep how a table was found. `at`: when that was known, microseconds since 1970 UTC, by the clock of who looked;
    `began`: the same of the beginning. `result`: identical, different or pending. `positions`: where the job was at the
    target before and after. `rows`: at the source. `differing`, `pending`: rows; at least so many unless `is_complete`.
    `sample`: the share of the table that was compared, as "5%"; None: all of it. `place`: of a table that is equal as a
    whole, if known. `by`: what another call needs to go on behind it; None where that was not kept. `earlier`: the last result
    that says so, where this one does not tell of all rows, and none of them has been found to differ since. `reached`: how far
    a verification is that compares the table now, whatever was found before."""

    source: TableId
    at: int
    began: int
    result: str
    generation: int
    positions: tuple[str, str]
    rows: int
    differing: int
    pending: int
    is_complete: bool
    why: str = ""
    sample: str | None = None
    place: VerifiedPlace | None = None
    by: VerifiedBy | None = None
    earlier: Verified | None = None
    reached: Reached | None = None

    @property
    def is_equal(self) -> bool:
        """Return whether it says that the table is equal as a whole."""
        return self.result == "identical" and self.is_complete and not self.pending and not self.sample

    @property
    def that_goes_on(self) -> Verified | None:
        """Return the last result behind which another call may go on: this one, or the one before it."""
        return self if self.is_equal and self.by is not None else self.earlier

    @property
    def runs(self) -> list[int]:
        """Return the verifications that go on behind what is kept here, by their names."""
        by = [one.by for one in (self, self.earlier) if one] + [self.reached and self.reached.by]
        return [one.run for one in by if one and one.run]

    def without_run(self) -> Verified:
        """Return it as of no verification that goes on. What it knew of cut-overs stays: else clocks would tell."""
        return replace(self, by=replace(self.by, run=0) if self.by else None, earlier=None, reached=None)

    @property
    def facts(self) -> dict[str, Any]:
        """Return what is kept beside the table's name and `at`, in JSON's values."""
        return {
            "began": self.began,
            "result": self.result,
            "generation": self.generation,
            "positions": list(self.positions),
            "rows": self.rows,
            "differing": self.differing,
            "pending": self.pending,
            "is_complete": self.is_complete,
            "why": self.why,
            **({"sample": self.sample} if self.sample else {}),
            **({"place": self.place.facts} if self.place else {}),
            **({"by": self.by.facts} if self.by else {}),
            **({"earlier": {"at": self.earlier.at, **self.earlier.facts}} if self.earlier else {}),
            **({"reached": self.reached.facts} if self.reached else {}),
        }

    @classmethod
    def of(cls, source: str, at: int, facts: Mapping[str, Any]) -> Verified:
        """Return what was kept."""
        before, after = facts["positions"]
        return cls(
            TableId.parse(source),
            at,
            facts["began"],
            facts["result"],
            facts["generation"],
            (before, after),
            facts["rows"],
            facts["differing"],
            facts["pending"],
            facts["is_complete"],
            facts["why"],
            facts.get("sample"),
            VerifiedPlace(**facts["place"]) if facts.get("place") else None,
            VerifiedBy.of(facts["by"]) if facts.get("by") else None,
            cls.of(source, facts["earlier"]["at"], facts["earlier"]) if facts.get("earlier") else None,
            Reached.of(facts["reached"]) if facts.get("reached") else None,
        )
