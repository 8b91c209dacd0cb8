"""Every contract between engines and connectors. Protocols only; the docstring is the specification.

An engine reaches these through `connectors.get(scheme)`; a connector implements them and knows no engine. Here is what every
source and target can do; the target's side of the load is in `loading.py`, what only some can do in `abilities.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.abc.abilities import (
    HashingReader,
    HashingSnapshot,
    PipelinedWriter,
    RawLoader,
    RawReader,
    SharingReader,
    WaryReader,
)
from anabranch.abc.loading import LoadedChunk, Loader, NewLoad
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Fit, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import HeldLog, LogMark, Position
from anabranch.model.schema import TableSchema
from anabranch.model.state import Checkpoint, Skipped
from anabranch.model.steps import SetUpStep
from anabranch.model.table_life import TableState
from anabranch.model.writers import SourceWriter
from anabranch.rows.aside import AsideStore, AsideWriter
from anabranch.rows.conflict import Age, FoundRow, NotedConflict
from anabranch.rows.log_items import LogItem, StatementFacts
from anabranch.rows.net import Cascade, CascadeRule, RowChange, StagedNet, TableNet, TargetTable

if TYPE_CHECKING:
    from anabranch.rows.chunk import Barrier, Chunk

__all__ = [
    "Bounds",
    "Checks",
    "Conflict",
    "Dialect",
    "HashingReader",
    "HashingSnapshot",
    "LoadedChunk",
    "Loader",
    "LogOptions",
    "LogOrder",
    "LogReader",
    "NewLoad",
    "PipelinedWriter",
    "PreflightContext",
    "RawLoader",
    "RawReader",
    "Select",
    "SharingReader",
    "SnapshotReader",
    "SourceCatalog",
    "SourceConnector",
    "Stager",
    "TargetConnector",
    "TargetReader",
    "TargetStore",
    "TypeMap",
    "ValueGuard",
    "ValueRules",
    "WaryReader",
    "Writer",
]


@dataclass(frozen=True, slots=True)
class ValueRules:
    """`[types]` of the job file, for load and stream alike."""

    zero_date: str = "stop"  # "stop" | "null" | a date
    nul: str = "stop"  # "stop" | "strip"
    json: str = "jsonb"  # "jsonb" | "json" | "text"
    geometry: str = "bytea"  # "bytea" | "geometry"
    vector: str = "real[]"  # "real[]" | "vector"
    large_objects: str = "stop"  # "stop" | "numbers"
    zero_dates: tuple[tuple[str, str, str], ...] = ()  # source table, column -> as zero_date, before which it goes
    carries: bool = (
        False  # a value that cannot be converted does not stop the reader: its row goes on without it, marked
    )


# --- source: log -----------------------------------------------------------------------------------------

Select = Callable[[TableId], TableSchema | None]


class LogReader(Protocol):
    """Reads one source's log. Used by `capture` only: one process, one thread, one connection.

    Delivery: everything committed after the start mark, once per start, in log order; nothing unknown is skipped."""

    decoder: str
    """Who turns the log into changes, for people: one of several ways to the same values."""

    def identity(self) -> str:
        """Which server this is (text that is equal for the same server): server_uuid, or server_id and start facts."""

    def end(self) -> LogMark:
        """The log's present end, asked over a connection of its own. Never waits. Raises SourceUnavailable."""

    def start(self, after: LogMark, select: Select) -> None:
        """Open the log just after `after`. `select` gives the definition in force for a table, or None to leave its
        rows out; it is asked once per table until `reselect()`. Raises LogLost when the log does not reach back, was
        restored to before `after`, or belongs to a server that does not contain it (K18)."""

    def read(self, timeout: float) -> LogItem | None:
        """What comes next; None after `timeout` seconds without anything. Returns as soon as a whole transaction waits
        and the socket has no more, when a chunk is full (about 20,000 images or 4 MB), or when the flush interval has
        passed. A transaction larger than a chunk comes as fragments, and nothing else between them, or, with an end of its
        own, as LogChanges, with others between. A table map that
        contradicts the definition in force is a PARK barrier in the chunk, and the table's rows are left out from there.
        A transaction that is prepared comes as LogPrepared where it was prepared, its end as LogDecided, each once, with
        or without rows for us; one that is committed in one phase is an ordinary one.

        Raises SourceUnavailable (line lost: `start` again from the last mark), UnknownLogEvent, ValueRefused,
        LogLost."""

    def reselect(self) -> None:
        """Definitions or selection changed: ask `select` again."""

    def confirm(self, durable: LogMark) -> None:
        """What the trail holds durably. A server that keeps its log for us may be told of it, and of nothing further (K13).
        Called often, also before `start`; raises SourceUnavailable."""

    def close(self) -> None: ...


class ValueGuard(Protocol):
    """Looks at rows on their way into the trail for values that name something outside of their row which no log has. Used by
    capture, for each chunk with rows, in the order of the log."""

    def barriers(self, chunk: Chunk, select: Select) -> list[Barrier]:
        """A PARK barrier before the first such row of each table. Raises SourceUnavailable: the chunk is read again."""

    def close(self) -> None: ...


class LogOrder(Protocol):
    """Pure functions on marks of one source family."""

    def mark(self, resume: str) -> LogMark:
        """The mark that a `LogMark.resume` text belongs to."""

    def includes(self, mark: LogMark, native: str, gtid: str | None) -> bool:
        """Is the transaction that committed at `native` (its end position) contained in the state at `mark`? Along one
        server's log a True is never followed by another True after a False, except where `mark` is a set of GTIDs."""

    def is_set(self, mark: LogMark) -> bool:
        """Is the mark a set of transactions only? Then `includes` needs `gtid`, and a True may follow a False."""

    def bytes_between(self, native: str, later: LogMark, sizes: Mapping[str, int] | None = None) -> int | None:
        """Log bytes from the position `native` to a later mark of the same server. `sizes`: SourceCatalog.log_sizes. None
        where they are needed and do not say it."""


# --- source: catalogue and DDL ---------------------------------------------------------------------------


class SourceCatalog(Protocol):
    """Reads definitions. One connection, short queries, nothing is locked."""

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        """Base tables that `wanted` accepts, as they are now (version 1); system schemas never. Raises SourceError for
        one of which this user does not see everything; with `whole=False` it comes as it is seen, for `Checks` to say
        so."""

    def names(self) -> dict[TableId, str]:
        """All tables that `tables` would find now, by their names alone: one cheap query, asked again and again. Of each: why
        the log does not have its rows, "" where it has."""

    def gone(self, tables: Collection[TableId]) -> dict[TableId, str]:
        """Picks the names of which the source has no table of its own any more, for certain: a name that a view has
        by now is one, a table that this user may not see is none. Of each: what it is now, "" where it was dropped or
        renamed. Raises SourceUnavailable."""

    def writers(self) -> list[SourceWriter]:
        """Replications whose target this database is, as far as this user may see them; none where none can be."""

    def mark(self) -> LogMark:
        """The log's end now, for read-position / definitions / position (K19)."""

    def logs_whole_rows(self) -> bool:
        """Do images of changed rows have every column, as far as the server's own settings say?"""

    def log_sizes(self) -> Mapping[str, int]:
        """The log's files as the server has them now, with their bytes; none where a log has no files."""

    def logs_cascades(self) -> bool:
        """Does this server's log contain the rows that foreign-key actions change? (K1)"""

    def held(self, name: str, much: int) -> HeldLog | None:
        """Tells what the source keeps for the job of this LogOptions.name, with a warning from `much` bytes on. None where
        it keeps its log by its own rules."""

    def prepared(self) -> frozenset[str] | None:
        """Transactions that are prepared and undecided now, named as LogPrepared names them; none where the log holds
        rows at their commit only. What ends is in the log before it is not listed here. None: this user may not ask."""

    def in_progress(self) -> frozenset[str]:
        """Transactions that have begun and not ended, of which the log may lack rows of a table that was prepared for capture
        meanwhile; none where that cannot be."""

    def who_has(self, transactions: Collection[str]) -> list[str]:
        """For people: whose these transactions of `in_progress` are that others have to wait for."""

    def unseen(self, before: LogMark) -> frozenset[str]:
        """Transactions that are in the log before this mark, or may be, and that a snapshot opened now may not have (K2),
        named for people and the same at each call; none where `Snapshot.open` itself waits for such."""

    def close(self) -> None: ...


class Dialect(Protocol):
    def facts(self, sql: str, default_schema: str) -> StatementFacts:
        """Classify a logged statement. Never raises: what it does not understand is `unknown`."""

    def shown(self, sql: str) -> str:
        """The statement for logs, messages and the trail: names and structure, no values of rows, no secrets. Short."""


# --- source: rows for load and verification --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bounds:
    """A piece of a table: rows with lower < key <= upper, in the database's own order; None = open. Values are in the
    key columns' text form and are compared by the database only. Of a table without a key they say where rows lie, in the
    reader's own words (SharingReader.places)."""

    lower: tuple[str, ...] | None = None
    upper: tuple[str, ...] | None = None


class SnapshotReader(Protocol):
    """One connection to the source for reading rows; one per Spark task. Picklable before `open`, cheap to make."""

    def bounds(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        """Cut a table into pieces whose bounds the database computed; [Bounds()] for keyless and small tables."""

    def estimate(self, table: TableSchema) -> int:
        """Rows, roughly (catalogue statistics); for progress only."""

    def open(self, table: TableSchema, lock: str) -> tuple[LogMark, LogMark]:
        """Open a consistent snapshot and return (low, high) by K2: every transaction included in `low` is in the
        snapshot, none after `high` is. `low == high` means exact. `lock` is the job's `[load] lock`. Raises SourceError
        where neither GTIDs, a watermark nor a lock can give `low`."""

    def lines(self, table: TableSchema, columns: Sequence[str], bounds: Bounds, rules: ValueRules) -> Iterator[bytes]:
        """The rows inside `bounds` as lines (rows/lines.py): blocks of whole lines, about 1 MB each, nothing buffered
        beyond. Encodings are identical with what LogReader gives for the same value (K34, pitfall 29). Where the server
        says how many rows it has for them, another count is a SourceError behind the last block."""

    def lines_of(
        self, table: TableSchema, columns: Sequence[str], keys: Sequence[Mapping[str, str | None]], rules: ValueRules
    ) -> Iterator[bytes]:
        """The rows that have one of these primary keys (source column -> text form), as `lines` gives them (K3)."""

    def close(self) -> None: ...


# --- target ----------------------------------------------------------------------------------------------


class Conflict(Exception):
    """A Writer found the target other than expected: wrong count, unique or foreign-key violation, value refused. The
    engine rolls back and goes the slow way; in the slow way it becomes RowRefused with the row's key."""

    def __init__(self, table: TableId, what: str, key: Mapping[str, str | None] | None = None) -> None:
        super().__init__(f"{table}: {what}")
        self.table, self.what, self.key = table, what, dict(key or {})


class TargetStore(AsideStore, Protocol):
    """State at the target, schema `anabranch`: created on first use, versioned, every key starts with the job (K31).

    One connection, each call commits by itself."""

    def exists(self) -> bool:
        """Is there any state of any job? Reads only."""

    def prepare(self) -> None:
        """Create or check schema and version; StateError when made by a newer release."""

    def job(self, job: str) -> dict[str, str] | None: ...

    def save_job(self, job: str, facts: Mapping[str, str]) -> None:
        """The job as last run, without secrets: uuid, source identity, definition JSON."""

    def checkpoint(self, job: str) -> Checkpoint | None: ...

    def create_checkpoint(self, job: str, position: Position, commit_time: int) -> None:
        """First row of a job, at the position where apply will start; an existing row is left as it is."""

    def tables(self, job: str, whole: bool = True) -> dict[TableId, TableState]:
        """All of one moment. Cheap to repeat: callers poll. With `whole=False` their definitions may be missing."""

    def table(self, job: str, table: TableId) -> TableState | None: ...

    def others(self, job: str) -> frozenset[TableId]:
        """The target tables of all other jobs."""

    def save_table(self, job: str, state: TableState, before: TableState | None) -> None:
        """Write it, if the table's state, generation and facts are still those of `before` (None: there is no row).
        Otherwise raises Fenced: somebody else has come first."""

    def save_tables(self, job: str, states: Sequence[tuple[TableState, TableState | None]]) -> None:
        """`save_table` of several, each with its `before`: all of them, or none and Fenced."""

    def conflicts(self, job: str, table: TableId | None = None, after: int = 0, limit: int = 0) -> list[NotedConflict]:
        """What was settled, in its order: of one source table, with numbers behind `after`, the first `limit` (0: all)."""

    def forget_table(self, job: str, before: TableState) -> None:
        """Remove its state and ledger, if they are still those of `before`: else Fenced. Its rows stay."""

    def skip(self, job: str, one: Skipped) -> None:
        """Leave a transaction out. One that is known is left as it is."""

    def skipped(self, job: str) -> list[Skipped]:
        """In their order, also those that apply has passed."""

    def unskip(self, job: str, sequence: int) -> bool: ...

    def forget_conflicts(self, job: str, upto: int) -> int:
        """Remove those with numbers up to `upto`; how many they were."""

    def add_trace(self, job: str, entries: Sequence[Mapping[str, Any]], oldest: str) -> bool:
        """Entries of the job's trace (`state/trace.py`): those that are there stay, those with lesser ids than `oldest` go.
        False: the job has no state there yet. Raises TargetBusy at once where somebody locks the table."""

    def trace(self, job: str, first: str = "") -> list[dict[str, Any]]:
        """Entries in their order, with ids from `first` on."""

    def drop(self, job: str) -> None: ...

    def close(self) -> None: ...


class Writer(AsideWriter, Protocol):
    """Carries out epochs over the one committing connection of a job's apply process.

    Where foreign keys act on what it writes (`bypasses` is False) the caller gives the changes in an order that they accept
    (K7). Keys that can wait are asked when the epoch commits. What a key would change or remove by itself for a change
    that the source's keys did not follow (`RowChange.keys_off`, a truncate) is a Conflict, not done.

    Delivery: what an epoch does and its checkpoint commit together or not at all; a fenced owner commits nothing."""

    def claim(self, job: str, owner: str) -> Checkpoint:
        """End the previous owner's sessions, put `owner` into the checkpoint row, return it. StateError without one."""

    def bypasses(self) -> bool:
        """Are foreign keys and triggers off for what this writer does? Decided when it first claims, by what its user may
        do, and kept: where the right goes meanwhile, the next connection raises TargetError."""

    def begin(self, now: Checkpoint, then: Checkpoint, origin: str = "") -> str:
        """Open the transaction; first statement: compare-and-set from `now` to `then`. Returns "open", or after rolling
        back "applied" (the row is already at `then`) or "replan" (elsewhere). Raises Fenced for another owner.

        `origin`: the database's own log says that the transaction comes from there, for a reader of that log that leaves it
        out (LogOptions.leave_out); so it does of what follows in this session, PipelinedWriter's among it, until the next
        `begin`. "": it was made there. Raises TargetError where that cannot be said."""

    def merge(self, net: TableNet) -> list[dict[str, str | None]]:
        """Carry out a net change inside the transaction. Returns keys to re-read (only if not net.checked). Raises
        Conflict."""

    def merge_staged(self, staged: StagedNet) -> list[dict[str, str | None]]:
        """`merge` of a net whose rows an executor staged: first prove counts and digest (K10), else Conflict."""

    def cascade(self, cascade: Cascade, rules: Sequence[CascadeRule]) -> list[dict[str, str | None]]:
        """Do what the source's foreign keys did, and follow further levels by `rules`. Returns the keys of the child's
        rows that it changed or removed, if `cascade.tells_keys`."""

    def change(self, row: RowChange) -> bool:
        """One row change alone: did it meet a row? Raises Conflict, with the key, when it is checked and does not hit
        exactly one row, or is refused."""

    def row(self, table: TargetTable, key: Mapping[str, str | None], age: Age | None) -> FoundRow | None:
        """The row that has this key, which nobody else changes until the transaction ends; `age` says what it is compared
        with."""

    def note(self, job: str, conflict: NotedConflict) -> None:
        """Into anabranch.conflict, in the transaction."""

    def truncate(self, tables: Sequence[TargetTable], how: str) -> None:
        """Empties the tables that one statement of the source emptied, at once. `how`: "truncate" or "delete". Raises
        Conflict."""

    def save_table(self, job: str, state: TableState) -> None:
        """As TargetStore.save_table, with the epoch's commit; a state without schema keeps the one that is there."""

    def forget_table(self, job: str, table: TableId) -> None:
        """Remove its state, with the epoch's commit, unless a load of it has begun meanwhile."""

    def commit(self) -> None:
        """Raises TargetUnavailable when the outcome is unknown: `begin` again tells by the row."""

    def sweep(self) -> None:
        """Remove what executors staged for this job and no epoch took. Not inside an epoch."""

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class Stager(Protocol):
    """The part of a Writer that executors may do: put a net change into staging tables of its own attempt (K10)."""

    def stage(self, job: str, nets: Iterable[TableNet]) -> list[StagedNet]:
        """COPY each net into staging tables named by a fresh uuid, commit, and say what must be found there."""

    def close(self) -> None: ...


# --- verification and preflight --------------------------------------------------------------------------


class TargetReader(Protocol):
    """Reads target rows for verification in the same text form as SnapshotReader.lines, over its own connection."""

    def pieces(self, table: TargetTable, rows_per_piece: int) -> list[str]:
        """Disjoint pieces (SQL conditions, e.g. ctid ranges) that together are the table."""

    def lines(self, table: TargetTable, piece: str) -> Iterator[bytes]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class PreflightContext:
    """What checks may look at: the job's settings as plain values, the selected tables and their target forms."""

    job: str
    user_choices: Mapping[str, str]  # "load.existing", "load.lock", "load.defer_constraints", "types.json", …
    tables: Mapping[TableId, TableSchema]
    targets: Mapping[TableId, TargetTable]
    dropped_columns: Mapping[TableId, tuple[str, ...]] = field(default_factory=dict)
    loaded: frozenset[TableId] = frozenset()  # already loaded by this job: their target tables may hold rows
    logs_cascades: bool = False  # the source's log has what its foreign keys do to other rows (K1)
    waiting: frozenset[TableId] = frozenset()  # included and not followed at present: new ones, and parked ones
    source_name: str = ""  # LogOptions.name, where the job has one already
    source_identity: str = ""  # LogReader.identity, as the source gives it now; "" where nobody asked
    witness: str = ""  # SourceConnector.witness, while it is open
    writers: tuple[SourceWriter, ...] = ()  # SourceCatalog.writers, without the job itself


class Checks(Protocol):
    """Every check of one end; each that fails says so, the others go on. Reads only."""

    def run(self, context: PreflightContext) -> list[CheckResult]: ...

    def close(self) -> None: ...


class TypeMap(Protocol):
    def fit(self, type: LogicalType, rules: ValueRules) -> Fit: ...


@dataclass(frozen=True)
class LogOptions:
    """What capture needs to know to be a well-behaved replica. `name`: of what the job has at the source, of no other job.
    `decoder`: who turns the log into changes there, where a source has several; `decoding`: who does it here (auto, python,
    native), where a connector has several. `binary`: may values come in the source's binary form, where there is one? What is
    given is the same. `streaming`: large transactions may come while they are open, where the source can do that. `leave_out`:
    origins whose rows and TRUNCATEs are not given, in the words of the trail's `origin`; ConfigError where that cannot be."""

    server_id: int
    flush_interval: float  # seconds
    rules: ValueRules = field(default_factory=ValueRules)
    name: str = ""
    decoder: str = "pgoutput"
    heartbeat: float = 0.0  # seconds between messages that a reader writes into an idle source's log; 0: none
    binary: bool = False
    streaming: bool = False
    decoding: str = "auto"
    leave_out: frozenset[str] = frozenset()


class SourceConnector(Protocol):
    """A database in the role of source. Cheap to make; nothing connects before a method is called."""

    @property
    def order(self) -> LogOrder: ...

    @property
    def dialect(self) -> Dialect: ...

    def leftovers(self, name: str, remove: bool) -> list[str]:
        """What the job of this LogOptions.name may have left at the source (a watermark table, a slot), one line each; removed
        if asked."""

    def missing(self, options: LogOptions, tables: Mapping[TableId, TableSchema], begins: bool) -> list[SetUpStep]:
        """What has to run at the source before capture may follow these tables, in its order: nothing where it has, or where
        nothing needs to be prepared. Only a log that `begins` gets what its place depends on."""

    def astray(self, options: LogOptions, tables: Mapping[TableId, TableSchema]) -> dict[TableId, str]:
        """Names the tables, of these, that the log does not tell of, or not as they were, by what the source says
        now, and why. None where the log itself has statements that say so."""

    def guard(self, options: LogOptions, dropped: Callable[[TableId], Collection[str]]) -> ValueGuard | None:
        """`dropped`: columns of a table that the job leaves out. None where rows say all that they mean, or the job's rules
        (LogOptions.rules) let them arrive as they are."""

    def carry_out(self, steps: Sequence[SetUpStep], patience: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Run steps of `missing`, each by itself. Raises SourceError at the first that is refused, SourceUnavailable for one
        that others are in the way of for so many seconds (infinity: for ever), or until `stop` says so."""

    def log(self, options: LogOptions) -> LogReader: ...

    def catalog(self) -> SourceCatalog: ...

    def snapshot(self, expected: str = "") -> SnapshotReader:
        """`expected`: the LogReader.identity that capture follows; every connection to another server is refused (K29)."""

    def checks(self) -> Checks: ...

    def witness(self) -> AbstractContextManager[str]:
        """While it is open, the checks of a target can tell by its text whether they ask the very database that this source
        is, whatever the URLs say. "" where no target can be."""


class TargetConnector(Protocol):
    """A database in the role of target. Picklable: Spark tasks make their own connections from it."""

    @property
    def types(self) -> TypeMap: ...

    def store(self) -> TargetStore: ...

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        """`bypass_constraints`: foreign keys and triggers off for its session, where the user may switch them off."""

    def stager(self, rules: ValueRules) -> Stager: ...

    def loader(self, rules: ValueRules) -> Loader: ...

    def reader(self, rules: ValueRules) -> TargetReader: ...

    def checks(self) -> Checks: ...
