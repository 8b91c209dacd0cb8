"""A trail in the role of source: what is asked of a database elsewhere, answered by what the trail has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NoReturn

from anabranch import connectors
from anabranch.contracts import (
    Checks,
    Dialect,
    LogOptions,
    LogOrder,
    LogReader,
    PreflightContext,
    SnapshotReader,
    SourceCatalog,
    SourceConnector,
)
from anabranch.contracts.log import Select
from anabranch.databases import NONE, Options
from anabranch.errors import SourceError, SourceUnavailable, TrailError
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.model.writers import SourceWriter
from anabranch.rows.log_items import LogItem
from anabranch.trail import identity
from anabranch.trail.reader import TrailReader, exists
from anabranch.trail.storage import LocalStorage
from anabranch.trail_end import facts, manifests
from anabranch.trail_end.facts import SourceFacts
from anabranch.trail_end.recorded import RecordedRows

NO_LOG = "the job's source is a trail: its log is read by the job that captures"
HERE = "run that one at the source's site"


@dataclass(frozen=True)
class TrailSource:
    trail: Path

    @property
    def order(self) -> LogOrder:
        return self._family.order

    @property
    def dialect(self) -> Dialect:
        return self._family.dialect

    @cached_property
    def _family(self) -> SourceConnector:
        """A connector of the source's kind, for what needs no connection."""
        return connectors.source(Endpoint(facts.require(self.trail).scheme, "", 0, "", ""))

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> None:
        """Return none: values are looked at where they are captured."""

    def log(self, options: LogOptions) -> LogReader:
        return _NoLog(self.trail)

    def catalog(self) -> SourceCatalog:
        return TrailCatalog(self.trail)

    def snapshot(self, expected: str = "") -> SnapshotReader:
        return RecordedRows(self.trail, self.order)

    def checks(self) -> Checks:
        return TrailSourceChecks(self.trail)

    def witness(self) -> AbstractContextManager[str]:
        return nullcontext("")


class TrailCatalog:
    """SourceCatalog, LogFacts and OpenTransactions by what the trail says."""

    def __init__(self, trail: Path) -> None:
        self._trail = trail

    @property
    def log(self) -> TrailCatalog:
        return self

    @property
    def transactions(self) -> TrailCatalog:
        return self

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        with self._reader() as trail:
            found = trail.history.in_force()
        return {table: schema for table, schema in found.items() if wanted(table)}

    def names(self) -> dict[TableId, str]:
        with self._reader() as trail:
            return dict.fromkeys((*trail.history.in_force(), *trail.history.parked()), "")

    def gone(self, tables: Collection[TableId]) -> dict[TableId, str]:
        return {}

    def writers(self) -> list[SourceWriter]:
        return []

    def sees_writers(self) -> bool:
        return False

    def mark(self) -> LogMark:
        """Return the trail's end: more of the source's log is not known here."""
        with self._reader() as trail:
            end = trail.end()
        return LogMark(end.position.native, end.resume, end.commit_time)

    def logs_whole_rows(self) -> bool:
        return self._facts().logs_whole_rows

    def logs_cascades(self) -> bool:
        return self._facts().logs_cascades

    def log_sizes(self) -> Mapping[str, int]:
        return {}

    def held(self, name: str) -> None:
        return None

    def prepared(self) -> None:
        return None

    def in_progress(self) -> frozenset[str]:
        return frozenset()

    def who_has(self, transactions: Collection[str]) -> list[str]:
        return []

    def unseen(self, before: LogMark) -> frozenset[str]:
        return frozenset()

    def close(self) -> None:
        """Do nothing: the trail is opened for each question."""

    def _facts(self) -> SourceFacts:
        return facts.require(self._trail)

    def _reader(self) -> TrailReader:
        if not exists(self._trail):
            raise SourceUnavailable(
                f"there is no trail in {self._trail} yet", hint="start the job that captures into it"
            )
        return TrailReader(self._trail, name="catalogue")


class TrailSourceChecks:
    """Checks of the trail that the job's source URL names."""

    def __init__(self, trail: Path) -> None:
        self._trail = trail

    def run(self, context: PreflightContext) -> list[CheckResult]:
        try:
            kind = facts.require(self._trail).scheme
            left_out = manifests.parked(self._trail)
        except TrailError as error:
            return [CheckResult("source.trail", CheckVerdict.FAILED, error.message, error.hint)]
        found = [CheckResult("source.trail", CheckVerdict.OK, f"the trail {self._trail} is of a {kind}://")]
        if left_out is None:
            text = "the load at the source's site has not ended: the load here takes each table once all of it is there"
            found.append(
                CheckResult("source.load", CheckVerdict.WARNING, text, "anabranch status JOB says there how far it is")
            )
        for table, why in sorted((left_out or {}).items()):
            text, hint = (
                f"the load at the source's site left it out: {why}",
                f"anabranch load JOB --table {table.typed}, there",
            )
            found.append(CheckResult("source.load", CheckVerdict.WARNING, text, hint, str(table)))
        return found

    def close(self) -> None:
        """Do nothing: nothing is open."""


class _NoLog:
    """The LogReader of a trail, which knows who its source is and nothing else."""

    decoder = ""

    def __init__(self, trail: Path) -> None:
        self._trail = trail

    def identity(self) -> str:
        found = identity.load(LocalStorage(self._trail)) if exists(self._trail) else None
        return found.source_identity if found else ""

    def end(self) -> LogMark:
        return TrailCatalog(self._trail).mark()

    def start(self, after: LogMark, select: Select) -> None:
        _refuse()

    def read(self, timeout: float) -> LogItem | None:
        _refuse()

    def reselect(self) -> None:
        _refuse()

    def confirm(self, durable: LogMark) -> None:
        _refuse()

    def close(self) -> None:
        """Do nothing: nothing is open."""


def _refuse() -> NoReturn:
    raise SourceError(NO_LOG, hint=HERE)


def connector(endpoint: Endpoint, options: Options = NONE) -> SourceConnector:
    return TrailSource(Path(endpoint.database))
