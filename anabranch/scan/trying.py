"""A piece of a scan, inside a Spark task: rows read as the load reads them, and tried at the target as the load writes them.

Nothing is kept of the rows but counts and some keys: a block of about 1 MB is tried, read back and removed before the next one
comes. What does not live here: which pieces there are (`plan.py`), gathering (`report.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

from anabranch.contracts import (
    RefusedLine,
    RowTarget,
    SourceConnector,
    Trial,
    TryingTarget,
    TypeMap,
    ValueRules,
    WaryReader,
)
from anabranch.errors import SourceError, SourceUnavailable, TargetError, TargetUnavailable, ValueRefused
from anabranch.model.datatype import Kind
from anabranch.rows import zero_dates
from anabranch.rows.counted import lines_in
from anabranch.rows.left_out import LeftOut, apart
from anabranch.rows.lines import parse_line
from anabranch.rows.net import TargetTable
from anabranch.rows.refused import LEAVE_OUT, read_refusal
from anabranch.scan.changed import Comparable, differing
from anabranch.scan.plan import ScanPiece, ScanTable
from anabranch.scan.report import Finding, Outcome, gathered, key_text
from anabranch.spark.where import read_columns

MOST = 1_000  # refused rows of a piece that are counted: to find each takes several statements at the target
NO_TRIAL = "this target cannot try rows"
TOO_MANY = "rows behind the first {:,} that were refused"
EQUAL = "another row has the same value in {}, as the target compares them"
OTHERWISE = "the value comes back from the target as another one"
ANOTHER = (
    "choose another type for the column ([types.map], or columns.type of its table); preflight says what each loses"
)
DATE_HINT = (
    '[types] zero_date = "null" makes it NULL, a date stands for it; for one column [[tables]] columns.zero_date'
)
_QUOTED = re.compile(r"'[^']*'")


@dataclass
class PieceFound:
    """The outcome of a piece."""

    rows: int = 0
    findings: list[Finding] = field(default_factory=list)
    not_seen: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Trying:
    """Work over pieces (spark/work.py). Errors of an end that is away are failures; what is said of a table is a finding."""

    source: SourceConnector
    target: RowTarget
    rules: ValueRules
    expected_identity: str = ""

    @contextmanager
    def lasting(self) -> Iterator[Self]:
        yield self

    @contextmanager
    def read(self, piece: ScanPiece) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        with closing(self.source.snapshot(self.expected_identity)) as snapshot:
            one = piece.one
            if isinstance(snapshot, WaryReader) and not piece.key:
                snapshot.refuse_loose_ends(one.schema, read_columns(one.table, one.filter), piece.bounds, self.rules)
            rules = replace(self.rules, carries=one.filter is None)
            yield b"", filter(None, snapshot.lines(one.schema, _columns(piece), piece.bounds, rules))

    def finish(self, piece: ScanPiece, header: bytes, blocks: Iterator[bytes]) -> PieceFound:
        found = PieceFound()
        if not isinstance(self.target, TryingTarget):
            found.not_seen.append(NO_TRIAL)
            return found
        with closing(self.target.trial(self.rules)) as trial:
            try:
                if piece.key:
                    _key_values(piece, trial, blocks, found)
                else:
                    tried_rows(piece, trial, blocks, found, self.target.types, self.rules)
            except ValueRefused as refusal:
                found.findings.append(_refused_by_source(piece.one, refusal))
                found.not_seen.append(f"rows behind one that cannot be read: {found.findings[-1].what}")
            except TargetUnavailable:
                raise
            except TargetError as error:
                found.not_seen.append(error.message + (f"; {error.hint}" if error.hint else ""))
        if not piece.key and piece.one.chooses and piece.one.filter is None:
            found.findings += self._chosen(piece, found.findings)
        found.findings = gathered(found.findings)
        return found

    def _chosen(self, piece: ScanPiece, refused: Sequence[Finding]) -> list[Finding]:
        """Return values that the job's settings change, found by reading the rows again without these settings. Those that are
        `refused` with them are not among these."""
        strict = replace(self.rules, zero_date=zero_dates.STOP, zero_dates=(), nul=zero_dates.STOP, carries=True)
        strict = replace(strict, keeps_nul=False)
        left, found = list[LeftOut](), list[Finding]()
        with closing(self.source.snapshot(self.expected_identity)) as snapshot:
            for block in snapshot.lines(piece.one.schema, _columns(piece), piece.bounds, strict):
                for _ in apart([block], left.append):
                    pass
                found = gathered([*found, *_left_out(piece.one, left)])
                left.clear()
        return list(self._changed(piece.one, found, {one.about: one for one in refused}))

    def _changed(
        self, one: ScanTable, found: Iterable[Finding], refused: Mapping[object, Finding]
    ) -> Iterator[Finding]:
        """Yield what the settings change in rows that would be refused without them."""
        for finding in found:
            is_date = _kind(one, finding.column) in zero_dates.KINDS
            setting = zero_dates.choice(self.rules, one.schema, finding.column) if is_date else self.rules.nul
            if setting == zero_dates.STOP or (not is_date and "zero character" not in finding.what):
                continue
            too = refused.get(finding.about)
            rows, keys = (
                finding.rows - (too.rows if too else 0),
                [k for k in finding.keys if not too or k not in too.keys],
            )
            if rows <= 0:
                continue
            into = "NULL" if setting == zero_dates.NULL else setting
            what = f"{finding.what}: it becomes {into}" if is_date else f"{finding.what}, which is left out"
            hint = finding.hint if is_date else '[types] nul = "strip" decides it'
            yield replace(finding, outcome=Outcome.CHANGED, what=what, hint=hint, rows=rows, keys=tuple(keys))


def refused_by_source(one: ScanTable, error: SourceError) -> PieceFound:
    """Return the outcome of a piece whose rows the source does not give. Raises the error where it says nothing of rows."""
    if isinstance(error, SourceUnavailable) or not error.table:
        raise error
    if isinstance(error, ValueRefused):
        finding = _refused_by_source(one, error)
        return PieceFound(0, [finding], [f"rows behind one that cannot be read: {finding.what}"])
    return PieceFound(0, [Finding(one.schema.id, Outcome.REFUSED, "", error.message, error.hint, is_least=True)])


# --- rows -------------------------------------------------------------------------------------------------------------


def tried_rows(
    piece: ScanPiece, trial: Trial, blocks: Iterable[bytes], found: PieceFound, types: TypeMap, rules: ValueRules
) -> None:
    """Try rows, and add to `found` what is to be said of them. `types` and `rules`: the target's, and the job's."""
    one, left, room = piece.one, list[LeftOut](), MOST
    own = trial.begin(one.schema, one.table)
    for block in apart(blocks, left.append):
        refused = trial.take(block, room)
        found.rows += lines_in(block)
        found.findings += _refused_by_target(one, refused, piece.tells_equal)
        room -= len(refused)
        if room <= 0:
            found.findings = [replace(finding, is_least=True) for finding in found.findings]
            found.not_seen.append(TOO_MANY.format(MOST))
            break
        found.findings += _came_back(one, own, trial, block, refused, types, rules)
        trial.empty()
        found.findings += _also_refused(one, trial, refused, room)
        found.rows += len(left)
        found.findings = gathered([*found.findings, *_left_out(one, left)])
        left.clear()
    found.rows += len(left)
    found.findings += _left_out(one, left)


def _key_values(piece: ScanPiece, trial: Trial, blocks: Iterable[bytes], found: PieceFound) -> None:
    """Try the values of a key, of all rows. A row with a NULL among them is like no other."""
    own, width = trial.begin_key(piece.one.schema, piece.one.table, piece.key), len(piece.key)
    room = MOST
    for block in apart(blocks, lambda row: None):
        rows = [line for line in block.split(b"\n")[:-1] if b"\\N" not in line.split(b"\t")[:width]]
        refused = trial.take(b"".join(line + b"\n" for line in rows), room) if rows else ()
        what = EQUAL.format(f"{piece.key_name} ({', '.join(piece.key)})")
        for line in refused:
            if line.is_duplicate:
                key = _key(own, line.line)
                found.findings.append(_finding(piece.one, Outcome.REFUSED, "", what, line.hint, key))
        room -= len(refused)
        if room <= 0:
            found.findings = [replace(finding, is_least=True) for finding in found.findings]
            found.not_seen.append(f"{piece.key_name}: {TOO_MANY.format(MOST)}")
            return


def _columns(piece: ScanPiece) -> tuple[str, ...]:
    """Return the source columns to read."""
    one = piece.one
    if not piece.key:
        return read_columns(one.table, one.filter)
    sources = dict(zip(one.table.columns, one.table.source_columns, strict=True))
    return tuple(sources[name] for name in dict.fromkeys((*piece.key, *one.table.key)))


# --- findings ---------------------------------------------------------------------------------------------------------


def _finding(one: ScanTable, outcome: Outcome, column: str, what: str, hint: str, key: str) -> Finding:
    return Finding(one.schema.id, outcome, column, what, hint, 1, (key,) if key else ())


def _refused_by_target(one: ScanTable, refused: Sequence[RefusedLine], tells_equal: bool) -> Iterator[Finding]:
    names = dict(zip(one.table.columns, one.table.source_columns, strict=True))
    for line in refused:
        if tells_equal or not line.is_duplicate:
            column = names.get(line.column, line.column)
            yield _finding(one, Outcome.REFUSED, column, line.what, line.hint, _key(one.table, line.line))


def _refused_by_source(one: ScanTable, refusal: ValueRefused) -> Finding:
    column, key, what = read_refusal(refusal.message)
    return replace(_finding(one, Outcome.REFUSED, column, _without_value(what), refusal.hint, key), is_least=True)


def _left_out(one: ScanTable, left: Iterable[LeftOut]) -> Iterator[Finding]:
    """Yield a finding for each value that the source's reader could not convert."""
    for row in left:
        key = key_text(one.schema.primary_key, [_shown(row, name) for name in one.schema.primary_key])
        for column, what in row.unconverted.items():
            hint = _hint(_kind(one, column), what)
            yield replace(_finding(one, Outcome.REFUSED, column, _without_value(what), hint, key), by_source=True)


def _shown(row: LeftOut, name: str) -> str | None:
    return f"({_without_value(row.unconverted[name])})" if name in row.unconverted else row.values.get(name)


def _hint(kind: Kind | None, what: str) -> str:
    if kind in zero_dates.KINDS:
        return DATE_HINT
    return 'correct the row, or set [types] nul = "strip"' if "zero character" in what else LEAVE_OUT


def _kind(one: ScanTable, column: str) -> Kind | None:
    type = one.schema.column(column).type
    return None if type is None else type.kind


def _without_value(what: str) -> str:
    return _QUOTED.sub("…", what)


def _came_back(
    one: ScanTable,
    own: TargetTable,
    trial: Trial,
    block: bytes,
    refused: Sequence[RefusedLine],
    types: TypeMap,
    rules: ValueRules,
) -> Iterator[Finding]:
    """Yield values that are others at the target."""
    comparable = Comparable(own)
    lines = block.split(b"\n")[:-1]
    for line in refused:
        lines.remove(line.line.rstrip(b"\n"))
    sent = comparable.rows(b"".join(line + b"\n" for line in lines))
    back = [row for some in trial.rows() for row in comparable.rows(some)]
    for row, places in differing(own, sent, back):
        for place in places:
            hint = types.fit(own.types[place], rules).reason or ANOTHER
            yield _finding(one, Outcome.CHANGED, own.source_columns[place], OTHERWISE, hint, _key(own, row))


def _also_refused(one: ScanTable, trial: Trial, refused: Sequence[RefusedLine], most: int) -> Iterator[Finding]:
    """Yield what else is wrong with rows that were refused for one column: the server names one at a time. A column that may
    not be NULL hides what stands behind it."""
    places = {name: place for place, name in enumerate(one.table.columns)}
    sources = dict(zip(one.table.columns, one.table.source_columns, strict=True))
    left = list(refused)
    while left and most > 0:
        emptied = [_without(line.line, places[line.column]) for line in left if _may_be_null(one, sources, line.column)]
        left = list(trial.take(b"".join(emptied), most)) if emptied else []
        most -= len(left)
        yield from _refused_by_target(one, left, tells_equal=False)
        trial.empty()


def _may_be_null(one: ScanTable, sources: Mapping[str, str], column: str) -> bool:
    return column in sources and column not in one.table.key and one.schema.column(sources[column]).nullable


def _without(line: bytes, place: int) -> bytes:
    cells = line.rstrip(b"\n").split(b"\t")
    cells[place] = b"\\N"
    return b"\t".join(cells) + b"\n"


def _key(table: TargetTable, line: bytes) -> str:
    """Return a row's key for a message; "" for a row without one."""
    if not table.key:
        return ""
    cells: Mapping[str, str | None] = dict(zip(table.columns, parse_line(line.rstrip(b"\n")), strict=True))
    return key_text(table.key, [cells[name] for name in table.key])
