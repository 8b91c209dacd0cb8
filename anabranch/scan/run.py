"""The driver of a scan: pieces as tasks of the engine, their findings gathered by table.

Nothing is kept at either end, and nothing is written at the source. What does not live here: pieces (`trying.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from anabranch.contracts import RowTarget, SourceConnector, ValueRules
from anabranch.errors import AnabranchError, SourceError
from anabranch.model.ids import TableId
from anabranch.scan.plan import Plan, ScanPiece, ScanTable, plan
from anabranch.scan.report import Finding, Outcome, TableScan, gathered
from anabranch.scan.trying import PieceFound, Trying, refused_by_source
from anabranch.spark import work
from anabranch.spark.engine import Engine
from anabranch.spark.where import where
from anabranch.spark.work import Bundle
from anabranch.verify.display import Tell, silent
from anabranch.verify.wanted import Sample

TRIED = "pieces tried"


def scan_tables(
    engine: Engine,
    source: SourceConnector,
    target: RowTarget,
    tables: Sequence[ScanTable],
    *,
    rules: ValueRules,
    sample: Sample | None = None,
    expected_identity: str = "",
    tell: Tell = silent,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[list[TableScan], list[Finding]]:
    """Try the rows of tables, as many pieces at once as the engine has room for. Raises the error of an end that is away."""
    if not tables:
        return [], []
    plans = plan(source, list(tables), sample, expected_identity)
    running = _Scan({one.one.schema.id: one for one in plans}, tell)
    engine.run(Trying(source, target, rules, expected_identity), _bundles(plans), running.take, stop)
    return running.result()


class _Scan:
    def __init__(self, plans: dict[TableId, Plan], tell: Tell) -> None:
        self.plans, self.tell = plans, tell
        self.rows: Counter[TableId] = Counter()
        self.findings: list[Finding] = []
        self.done = 0
        self.all = sum(len(one.pieces) for one in plans.values())
        self.tell(TRIED, 0, self.all)

    def take(self, outcome: work.Outcome) -> None:
        piece: ScanPiece = outcome.piece
        table = piece.one.schema.id
        found = self._of_failure(piece, outcome) if outcome.failure is not None else outcome.value
        self.rows[table] += found.rows * (not piece.key)
        self.findings = gathered([*self.findings, *found.findings])
        seen = self.plans[table].not_seen
        seen += [why for why in dict.fromkeys(found.not_seen) if why not in seen]
        self.done += 1
        self.tell(TRIED, self.done, self.all)

    def _of_failure(self, piece: ScanPiece, outcome: work.Outcome) -> PieceFound:
        assert outcome.failure is not None
        error: AnabranchError = outcome.failure.error()
        error.table = error.table or str(piece.one.schema.id)
        if not isinstance(error, SourceError):
            raise error
        return refused_by_source(piece.one, error)

    def result(self) -> tuple[list[TableScan], list[Finding]]:
        ordered = sorted(self.plans.items())
        worst = list(Outcome)
        findings = sorted(self.findings, key=lambda one: (one.table, worst.index(one.outcome), one.column, one.what))
        return [TableScan(t, self.rows[t], one.part, tuple(one.not_seen)) for t, one in ordered], findings


def _bundles(plans: Sequence[Plan]) -> list[Bundle]:
    """Return one bundle for all tables without a filter, one for each filtered table."""
    plain = [piece for one in plans if one.one.filter is None for piece in one.pieces]
    found = [Bundle(plain)] if plain else []
    for one in plans:
        if one.one.filter is not None:
            found.append(Bundle(one.pieces, where=where(one.one.schema, one.one.table, one.one.filter)))
    return found
