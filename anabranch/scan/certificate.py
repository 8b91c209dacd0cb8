"""The certificate of a job's types: for each pair of a source's type and the target's, values make the round trip on both
servers, and what is seen is held against what the type map declares.

Values go into a temporary table of the source's session, through the load's reader and loader into one of the target's, and
are read back as verification does it. What does not live here: which values (`drawn.py`), trying rows (`trying.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from anabranch.contracts import (
    DrawingReader,
    Drawn,
    RowTarget,
    SnapshotReader,
    SourceConnector,
    Trial,
    TryingTarget,
    ValueRules,
)
from anabranch.errors import (
    AnabranchError,
    SourceError,
    SourceUnavailable,
    TargetError,
    TargetUnavailable,
    ValueRefused,
)
from anabranch.model.datatype import Fidelity, Fit, LogicalType
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable
from anabranch.scan.drawn import drawn
from anabranch.scan.plan import ALL, ScanPiece, ScanTable
from anabranch.scan.report import Finding, Outcome
from anabranch.scan.trying import NO_TRIAL, PieceFound, tried_rows

VERSION = 1
NO_VALUES = "this source cannot hold values that are in no table"
STOPS = "stop"  # a word of every reason that says so
SHOWN = 3  # columns of a pair that are named


@dataclass(frozen=True)
class TypePair:
    """A type of the source and the one that the load makes of it. `columns`: that have it, `schema.table.column`."""

    schema: TableSchema
    column: str
    type: LogicalType
    fit: Fit
    columns: tuple[str, ...]

    @property
    def source(self) -> str:
        own = self.schema.column(self.column)
        return own.native + (f" {own.charset}" if own.charset and own.charset not in own.native else "")


@dataclass(frozen=True)
class PairSeen:
    """Counts what the values of a pair became: `values` that the source took; `left`: of these, that its reader refuses by the
    job's settings ([types]); `refused` and `changed` at the target. `why`: nothing, or not all, was tried."""

    pair: TypePair
    values: int = 0
    left: int = 0
    refused: int = 0
    changed: int = 0
    said: tuple[str, ...] = ()
    why: str = ""

    @property
    def seen(self) -> str:
        words = [f"{self.refused} refused"] * (self.refused > 0) + [f"{self.changed} changed"] * (self.changed > 0)
        if self.is_untried:
            words.append("then not tried" if words else "not tried")
        return ", ".join(words) or ("not tried" if self.why else "all came back")

    @property
    def is_untried(self) -> bool:
        """True if there is a value of which nobody knows what becomes of it, or none was tried: not of a type that the map
        refuses."""
        return self.pair.fit.fidelity is not Fidelity.REFUSED and bool(self.why or self.values <= self.left)

    @property
    def is_worse(self) -> bool:
        """True if values fared worse than the type map declares: one was changed by a type that is not lossy or stops instead,
        or was refused though nothing is said of values that stop the job."""
        fit = self.pair.fit
        may_change = fit.fidelity is Fidelity.LOSSY and not fit.stops
        may_stop = fit.fidelity is Fidelity.LOSSY or STOPS in fit.reason
        return (self.changed > 0 and not may_change) or (self.refused > 0 and not may_stop)


@dataclass(frozen=True)
class Certificate:
    """The result for one target. `when`: ISO 8601, UTC."""

    job: str
    source: str
    target: str
    when: str
    seed: int
    product: str
    pairs: Sequence[PairSeen] = ()

    @property
    def is_worse(self) -> bool:
        return any(one.is_worse for one in self.pairs)

    @property
    def untried(self) -> int:
        """How many pairs were not tried, or not wholly, though the map takes their type."""
        return sum(one.is_untried for one in self.pairs)

    def to_json(self) -> dict[str, Any]:
        pairs = [
            {
                "source_type": one.pair.source,
                "target_type": one.pair.fit.native,
                "columns": list(one.pair.columns),
                "declared": one.pair.fit.fidelity.value,
                "reason": one.pair.fit.reason,
                "values": one.values,
                "left_by_settings": one.left,
                "refused": one.refused,
                "changed": one.changed,
                "seen": one.seen,
                "is_worse": one.is_worse,
                "said": list(one.said),
                "not_tried": one.why or None,
            }
            for one in self.pairs
        ]
        heads = {"source": self.source, "target": self.target, "when": self.when, "seed": self.seed}
        return {
            "version": VERSION,
            "job": self.job,
            **heads,
            "anabranch": self.product,
            "is_worse": self.is_worse,
            "untried": self.untried,
            "pairs": pairs,
        }

    def markdown(self) -> str:
        """Return the certificate as a page."""
        lines = [
            f"# Types of {self.job}",
            "",
            f"From {self.source} to {self.target}, tried on {self.when} by anabranch {self.product}, seed {self.seed}:"
            " values drawn at random and the edges of each type went in at the source, through the load, and came back from"
            " the target.",
            "",
            "| source | target | columns | declared | values | seen |",
            "|---|---|---|---|---|---|",
            *map(_row, self.pairs),
            "",
        ]
        for one in self.pairs:
            told = [*one.said, *([one.why] if one.why else [])]
            if told:
                lines += [f"- `{one.pair.source}` → `{one.pair.fit.native}`: {'; '.join(told)}"]
        worse = sum(one.is_worse for one in self.pairs)
        verdict = (
            f"{worse} of {len(self.pairs)} pairs fare worse than declared."
            if worse
            else "No pair that was tried fares worse than declared."
            if self.untried
            else "No pair fares worse than declared."
        )
        if self.untried:
            verdict += f" {self.untried} of {len(self.pairs)} pairs were not tried, or not wholly."
        return "\n".join([*lines, "", verdict, ""])


def _row(one: PairSeen) -> str:
    columns = ", ".join(one.pair.columns[:SHOWN]) + (
        f" and {len(one.pair.columns) - SHOWN} more" if len(one.pair.columns) > SHOWN else ""
    )
    seen = f"**{one.seen}**" if one.is_worse else one.seen
    cells = (
        f"`{one.pair.source}`",
        f"`{one.pair.fit.native}`",
        columns,
        one.pair.fit.fidelity.value,
        str(one.values),
        seen,
    )
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def pairs_of(tables: Iterable[tuple[TableSchema, TargetTable]], fit: Callable[[LogicalType], Fit]) -> list[TypePair]:
    """Return the pairs of these tables, each once."""
    found: dict[object, TypePair] = {}
    for schema, table in tables:
        for name, type in zip(table.source_columns, table.types, strict=True):
            own, here = schema.column(name), fit(type)
            one = TypePair(schema, name, type, here, (f"{schema.id}.{name}",))
            about = (own.native, own.charset, own.collation, type, here.native)
            if about in found:
                one = replace(found[about], columns=(*found[about].columns, *one.columns))
            found[about] = one
    return sorted(found.values(), key=lambda one: (one.source, one.fit.native))


@dataclass
class Certifying:
    """Tries pairs, one after another, over one connection to each end."""

    source: SourceConnector
    target: RowTarget
    rules: ValueRules
    seed: int
    count: int
    releases: list[str] = field(default_factory=lambda: ["", ""])

    def seen(self, pairs: Sequence[TypePair]) -> list[PairSeen]:
        """Return what became of each pair's values. Raises the error of an end that is away."""
        with self._opened() as (snapshot, trial, why):
            if snapshot is None or trial is None:
                return [PairSeen(pair, why=why) for pair in pairs]
            return [self._one(snapshot, trial, pair) for pair in pairs]

    def seen_types(
        self, table_of: Callable[[TableSchema], TargetTable], fit: Callable[[LogicalType], Fit]
    ) -> list[PairSeen]:
        """Return the same for every type of which the source knows edges, with what the load would make of it."""
        found: list[PairSeen] = []
        with self._opened() as (snapshot, trial, why):
            if snapshot is None or trial is None:
                raise SourceError(why)
            for native in snapshot.natives():
                held = snapshot.draw_type(native, lambda type, native=native: self._texts(type, native))  # type: ignore[misc]
                if held is None:
                    continue
                pair = _pair_of(held, native, table_of, fit)
                is_refused = pair.fit.fidelity is Fidelity.REFUSED
                found.append(
                    PairSeen(pair, why=pair.fit.reason) if is_refused else self._tried(snapshot, trial, pair, held)
                )
        return found

    @contextmanager
    def _opened(self) -> Iterator[tuple[DrawingReader | None, Trial | None, str]]:
        """Open both ends; why, where one of them cannot try values."""
        with closing(self.source.snapshot()) as snapshot:
            if not isinstance(snapshot, DrawingReader):
                yield None, None, NO_VALUES
            elif not isinstance(self.target, TryingTarget):
                yield None, None, NO_TRIAL
            else:
                with closing(self.target.trial(self.rules)) as trial:
                    yield snapshot, trial, ""

    def _texts(self, type: LogicalType, native: str) -> list[str]:
        return drawn(type, Random(f"{self.seed} {native}"), self.count)

    def _one(self, snapshot: DrawingReader, trial: Trial, pair: TypePair) -> PairSeen:
        if pair.fit.fidelity is Fidelity.REFUSED:
            return PairSeen(pair, why=pair.fit.reason)
        try:
            held = snapshot.draw(pair.schema, pair.column, self._texts(pair.type, pair.source))
        except SourceUnavailable:
            raise
        except SourceError as error:
            return PairSeen(pair, why=_words(error))
        return self._tried(snapshot, trial, pair, held)

    def _tried(self, snapshot: DrawingReader, trial: Trial, pair: TypePair, held: Drawn) -> PairSeen:
        found, one = PieceFound(), _scanned(held.schema, pair)
        rules = replace(self.rules, carries=True)
        reader = cast(SnapshotReader, snapshot)
        self.releases[0] = held.release
        try:
            blocks = filter(None, reader.lines(held.schema, one.table.source_columns, ALL, rules))
            tried_rows(ScanPiece(one), trial, blocks, found, self.target.types, self.rules)
            self.releases[1] = trial.release()
        except (SourceUnavailable, TargetUnavailable):
            raise
        except ValueRefused as refusal:
            return replace(_counted(pair, held.values, found), why=f"the source's reader ended: {refusal.message}")
        except (SourceError, TargetError) as error:
            return replace(_counted(pair, held.values, found), why=_words(error))
        return _counted(pair, held.values, found)


def _pair_of(
    held: Drawn, native: str, table_of: Callable[[TableSchema], TargetTable], fit: Callable[[LogicalType], Fit]
) -> TypePair:
    column = held.schema.columns[1]
    assert column.type is not None, "values of it were drawn"
    try:
        type = table_of(held.schema).types[1]
    except AnabranchError as error:
        return TypePair(held.schema, column.name, column.type, Fit("", Fidelity.REFUSED, error.message), (native,))
    return TypePair(held.schema, column.name, type, fit(type), (native,))


def _words(error: AnabranchError) -> str:
    return error.message + (f"; {error.hint}" if error.hint else "")


def _scanned(schema: TableSchema, pair: TypePair) -> ScanTable:
    key, column = schema.columns
    assert key.type is not None, "it is a number"
    names = (key.name, column.name)
    table = TargetTable(
        schema.id, replace(schema.id, schema=pair.schema.id.schema), names, (key.type, pair.type), names[:1], names
    )
    return ScanTable(schema, table)


def _counted(pair: TypePair, values: int, found: PieceFound) -> PairSeen:
    def rows(of: Iterable[Finding]) -> int:
        return sum(one.rows for one in of)

    left = [one for one in found.findings if one.outcome is Outcome.REFUSED and one.by_source]
    refused = [one for one in found.findings if one.outcome is Outcome.REFUSED and not one.by_source]
    changed = [one for one in found.findings if one.outcome is Outcome.CHANGED]
    said = tuple(f"{one.rows}: {one.what}" for one in (*refused, *changed, *left))
    return PairSeen(pair, values, rows(left), rows(refused), rows(changed), said, "; ".join(found.not_seen))
