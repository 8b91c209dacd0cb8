"""The service that Attunity's tables show: a thread that writes state and trace, and reads the row of the configuration.

It is in the process of `run`, or of an apply that was started alone; of several one does it. What an epoch writes it counts
itself, in its transaction. What does not live here: statements (`connectors/sql/attunity.py`), what a state is called
(`attunity_state.py`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.errors import AnabranchError
from anabranch.failpoints import reach
from anabranch.job.attunity_state import ABORTED, row_of, staged_rows, value_error
from anabranch.lifecycle.attunity import first_row, tables_of
from anabranch.model.attunity import (
    CONVERT,
    DATAERROR,
    ERROR,
    INFO,
    TRACE,
    Condition,
    ConfigRow,
    KnownState,
    StagedRow,
    StateRow,
    TraceRow,
)
from anabranch.model.attunity_options import OPTIONS, Parsed, Use, parse
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.trail.reader import exists
from anabranch.view.attunity import LEAST, Noted, digest_of, note, noted
from anabranch.view.opened import source_of

if TYPE_CHECKING:
    from anabranch.contracts import AttunityTables
    from anabranch.model.status import Status
    from anabranch.view.job_view import JobView

LOCK = "attunity.lock"
LAST_S = 5.0  # how long the end of the process waits for the last state
IS_OF_THE_FILE = "{} is what the job file says: another one here has no effect"
NO_LIMIT = "{} = {} is ignored: expected {} or more; what was in force before stays"
NO_PASSWORD = "password is not read: take it out of the row; the job file names where it is"


@dataclass
class Keeper:
    """Keeps the tables of one job, a look at a time.

    Delivery: a change of the state has one row of the trace, in front of the state's row that says it, whatever dies in
    between. Another configuration is told before the parts have it, and so once more where the service dies in between."""

    job: JobView
    tables: AttunityTables
    node: str = field(default_factory=lambda: os.uname().nodename)
    options: Parsed = field(default_factory=Parsed)
    _is_new: bool = True  # nothing was looked at yet
    _config_problem: str = ""
    _staged: list[StagedRow] | None = None
    _traced: tuple[int, int, int] | None = None  # numbers that the last TRACE row has

    @property
    def interval(self) -> int:
        """Seconds between two looks."""
        return self.options.number("cdc_update_state_interval")

    def look(self, found: Status) -> bool:
        """Write what is to be said of a status. Returns False where there are no change tables yet. Raises AnabranchError,
        after which the next look says it."""
        if self._is_new and not self.tables.prepare(first_row(self.job)):
            return False
        known, staged = self.tables.known(), self._staged_now()
        state = row_of(found, self.node, len(staged))
        seen, configured = self._configured(state, found)
        rows = [*self._died(known), *configured, *self._told(state, known, found)]
        self.tables.note(self.node, rows, self.options.number("trace_retention_period"))
        if seen is not None:
            reach("attunity.configured")
            note(self.job, seen)
        self._is_new = False
        reach("attunity.noted")
        if staged != self._staged:
            self.tables.stage(staged)
            self._staged = staged
        self.tables.save(state)
        return True

    def _staged_now(self) -> list[StagedRow]:
        return staged_rows(self.job, source_of(self.job).order) if exists(self.job.trail) else []

    def _died(self, known: KnownState) -> Iterator[TraceRow]:
        """Tell of a service that was active and has not said how it ended; nobody else can."""
        if self._is_new and known.active and known.traced is not None and known.traced[0] != ABORTED:
            yield TraceRow(
                ERROR, ABORTED, "", f"the service ended without saying so; it was last active at {known.timestamp} UTC"
            )

    def _told(self, state: StateRow, known: KnownState, found: Status) -> Iterator[TraceRow]:
        """Tell of another state, of a value that could not be converted, and how far it is where that is asked for."""
        said = state.condition
        if self._is_new or known.traced != (said.status, said.sub_status):
            yield _row(said, said.type, said.status_message)
        told = value_error(found)
        if told and told != known.traced_value and self.options["trace_data_errors"]:
            yield TraceRow(ERROR, DATAERROR, CONVERT, told)
        numbers = (state.read_changes, known.written_changes, known.completed_transactions)
        if self.options["trace"] and numbers != self._traced:
            self._traced = numbers
            words = "{} changes read, {} changes of {} transactions written".format(*numbers)
            yield _row(said, TRACE, f"{words}, the log is read up to {state.places.head}")

    # --- the configuration -----------------------------------------------------------------------------------------

    def _configured(self, state: StateRow, found: Status) -> tuple[Noted | None, list[TraceRow]]:
        """Read the row. Where it says something else, return what is to be noted for the parts, and what is to be told."""
        rows = self.tables.config()
        problem = "" if len(rows) == 1 else f"cdc.xdbcdc_config has {len(rows)} rows, and has to have one"
        if problem:
            is_told, self._config_problem = problem == self._config_problem, problem
            return None, [] if is_told else [_row(state.condition, ERROR, f"{problem}: what it said before stays")]
        self._config_problem, row, before = "", rows[0], noted(self.job)
        self.options, first = parse(row.options), first_row(self.job)
        report = self.options.number("cdc_memory_report")
        memory = _allowed(row.memory_limit, before.memory_limit, first.memory_limit)
        staging = _allowed(row.transaction_staging_timeout, before.staging_timeout, first.transaction_staging_timeout)
        seen = Noted(digest_of(row), row.version, report, memory, staging, self.options.for_parts)
        if (seen.digest, seen.version) == (before.digest, before.version):
            return None, []
        if before.digest and before.digest != seen.digest and row.version <= before.version and self.tables.count(row):
            seen = replace(seen, version=row.version + 1)
        told = [_row(state.condition, type, text) for type, text in self._changes(row, seen, before)]
        if before.digest and seen.report != before.report:
            told.append(_row(state.condition, INFO, _memory(found)))
        return seen, told

    def _changes(self, row: ConfigRow, seen: Noted, before: Noted) -> Iterator[tuple[str, str]]:
        yield INFO, f"version {seen.version} of the configuration is in force"
        for problem in self.options.problems:
            yield ERROR, problem
        for name, value in self.options.values.items():
            option = OPTIONS[name]
            if option.use is Use.NONE:
                yield INFO, f"option {name} {option.use}: {option.why}"
            elif option.use is Use.PARTS and before.options.get(name) != value:
                yield INFO, f"option {name} = {value} {option.use}"
        for name in ("memory_limit", "transaction_staging_timeout"):
            if (value := getattr(row, name)) < LEAST:
                yield ERROR, NO_LIMIT.format(name, value, LEAST)
        first = first_row(self.job)
        for name in ("connect_string", "username", "use_windows_authentication"):
            if getattr(row, name) != getattr(first, name):
                yield ERROR, IS_OF_THE_FILE.format(name)
        if row.has_password:
            yield ERROR, NO_PASSWORD


def _allowed(value: int, before: int, first: int) -> int:
    """Return a limit of the row; where capture could not have it, the one before, and without one that of the job file."""
    return next((one for one in (value, before) if one >= LEAST), first)


def _row(said: Condition, type: str, text: str) -> TraceRow:
    return TraceRow(type, said.status, said.sub_status, text)


def _memory(found: Status) -> str:
    """Return a report of memory: what the processes of the job have, and what waits for its end."""
    sizes = [
        f"{part.name} (process {part.pid}) {_resident(part.pid)} MB" for part in found.parts if _resident(part.pid)
    ]
    waits = (found.counters or {}).get("open_transactions", 0)
    return f"memory report: {', '.join(sizes) or 'no process of the job is here'}; {waits} open transactions wait"


def _resident(pid: int) -> int:
    """Return the MB of a process that are in memory; 0 for one that is not here."""
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
    return 0


class Service:
    """The thread that keeps the tables, while its process runs."""

    def __init__(self, job: JobView) -> None:
        self._job, self._done = job, threading.Event()
        self._thread = threading.Thread(target=self._run, name="anabranch-attunity", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Say how the job has ended, if that does not take long; else the next start does."""
        self._done.set()
        self._thread.join(LAST_S)

    def _run(self) -> None:
        from anabranch.job.status import status  # which comes with more than every part needs

        with ExitStack() as held:
            keeper: Keeper | None = None
            pause, is_over = 1.0, False
            while not is_over:
                is_over = self._done.wait(pause)
                try:
                    keeper = keeper or self._keeper(held)
                    if keeper is not None and keeper.look(status(self._job)):
                        pause = float(keeper.interval)
                except AnabranchError as error:
                    log.get(job=self._job.config.name).debug("attunity_waits", error=error.message)
                except Exception as error:  # noqa: BLE001 - the thread's outermost loop: tables for others stop no job
                    log.get(job=self._job.config.name).warning("attunity_waits", error=repr(error))

    def _keeper(self, held: ExitStack) -> Keeper | None:
        """Return a keeper; None as long as another process keeps the tables."""
        with suppress(LockHeld):
            held.enter_context(closing(OsLock(self._job.config.home / LOCK)))
            tables = tables_of(self._job)
            assert tables is not None, "somebody has asked for them"
            return Keeper(self._job, held.enter_context(closing(tables)))
        return None


@contextmanager
def keeping(views: Sequence[JobView]) -> Iterator[None]:
    """Keep Attunity's tables meanwhile, of jobs that have asked for them."""
    services = [Service(view) for view in views if view.config.compat.attunity]
    try:
        yield
    finally:
        for service in services:
            service.close()
