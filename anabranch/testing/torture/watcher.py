"""What a reader of the target sees: all tables of a history in one snapshot, again and again, while the job runs.

One round trip per observation: a REPEATABLE READ transaction that copies the ledger and every table. What does not live
here: whether what is seen is right (check.py).
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

from anabranch.testing.databases import Database
from anabranch.testing.torture.tables import LEDGER, Column, Schema

REST = 0.005  # seconds between two observations
CONNECT_SECONDS = 10
HAS_STATES = "SELECT to_regclass('anabranch.table_state') IS NOT NULL"
NONE_AWAY = "COPY (SELECT WHERE false) TO STDOUT"
AWAY = """
COPY (SELECT split_part(source_table, '.', 2) FROM anabranch.table_state WHERE job = '{job}' AND state <> 'streaming'
       ORDER BY 1) TO STDOUT"""
STREAMS = "SELECT coalesce(bool_and(state = 'streaming'), false) FROM anabranch.table_state WHERE job = %s"
WAIT_SECONDS = 0.1  # between two questions whether all tables stream
SILENCE = 30.0  # seconds after which a target that does not answer counts as lost


@dataclass(slots=True, eq=False)
class Observation:
    """Of one snapshot, by table: the lines of COPY, as they came. Contents that stay the same are the same objects. `times`:
    how many in a row showed the same. `more`: tables that are no part of the history. `away`: tables that the job says are
    loading or parked, in the same snapshot."""

    number: int
    contents: dict[str, bytes] = field(repr=False)
    times: int = 1
    more: dict[str, bytes] = field(default_factory=dict, repr=False)
    away: frozenset[str] = frozenset()


class Watcher:
    """Observes from `start` to `stop`, one that `waits` from when every table streams; the target may go away meanwhile. An
    observation that shows what the one before it showed is counted, not kept."""

    def __init__(
        self,
        target: Database,
        namespace: str,
        schema: Schema,
        beside: Sequence[str] = (),
        rest: float = REST,
        waits: bool = False,
    ) -> None:
        self.target, self.rest, self.namespace, self.waits = target, rest, namespace, waits
        self.tables = (LEDGER, *(table.name for table in schema.tables))
        columns = {LEDGER: (Column("n", "int"),), **{table.name: table.columns for table in schema.tables}}
        copies = [f'COPY (SELECT {_names(columns[t])} FROM "{namespace}"."{t}") TO STDOUT' for t in self.tables]
        copies += [f'COPY (TABLE "{namespace}"."{table}") TO STDOUT' for table in beside]  # or a view
        self._copies, self._away = copies, AWAY.format(job=namespace)
        self._query = b""
        self.beside = tuple(beside)
        self.observations: list[Observation] = []
        self.made = 0
        self._connection: Any = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._failure: BaseException | None = None
        self.missed = ""  # why the last look came to nothing, where one did

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Raises what the watching died of."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(2 * SILENCE)
        if self._thread.is_alive():
            raise RuntimeError(f"a look at the target took {2 * SILENCE:.0f} s; before it: {self.missed or 'no error'}")
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def observe(self) -> Observation:
        """One more, now. Raises psycopg.Error."""
        last = self.observations[-1] if self.observations else None
        read = self._read()
        contents = dict(zip(self.tables, read, strict=False))
        more = dict(zip(self.beside, read[len(self.tables) : -1], strict=True))
        away = frozenset(read[-1].decode().split())
        if last is not None:
            for table, seen in last.contents.items():
                if contents[table] == seen:
                    contents[table] = seen
        self.made += 1
        is_new = last is None or any(contents[table] is not last.contents[table] for table in self.tables)
        if last is None or is_new or (more, away) != (last.more, last.away):
            last = Observation(self.made, contents, more=more, away=away)
            self.observations.append(last)
        else:
            last.times += 1
        return last

    def observe_last(self, seconds: float) -> Observation:
        """One more, of a target that may be about to come back."""
        deadline = time.monotonic() + seconds
        while (seen := self._try()) is None:
            if time.monotonic() > deadline:
                return self.observe()
        return seen

    def _try(self) -> Observation | None:
        """None where the target is gone, or restarting."""
        import psycopg

        try:
            return self.observe()
        except psycopg.OperationalError as error:
            self.missed = str(error).strip()
            with suppress(psycopg.Error):
                self.close()
            self._connection = None
            time.sleep(0.05)
            return None

    def _watch(self) -> None:
        try:
            while self.waits and not self._streams():
                if self._stop.wait(WAIT_SECONDS):
                    return
            while not self._stop.wait(self.rest):
                self._try()
        except BaseException as error:  # noqa: BLE001 - carried over to the thread that stops us
            self._failure = error

    def _streams(self) -> bool:
        import psycopg

        with suppress(psycopg.OperationalError), closing(self.target.connect(connect_timeout=CONNECT_SECONDS)) as asked:
            if asked.execute(HAS_STATES).fetchone()[0]:
                return bool(asked.execute(STREAMS, [self.namespace]).fetchone()[0])
        return False

    def _read(self) -> list[bytes]:
        if self._connection is None:
            self._connection = self.target.connect(options=OPTIONS, connect_timeout=CONNECT_SECONDS)
            has_states = self._connection.execute(HAS_STATES).fetchone()[0]
            copies = [*self._copies, self._away if has_states else NONE_AWAY]
            self._query = "; ".join(("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", *copies, "COMMIT")).encode()
        return _copied(self._connection.pgconn, self._query, len(self.tables) + len(self.beside) + 1)


OPTIONS = "-c TimeZone=UTC -c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c client_encoding=UTF8"


def _names(columns: tuple[Column, ...]) -> str:
    return ", ".join(f'"{column.name}"' for column in columns)


def _copied(connection: Any, query: bytes, tables: int) -> list[bytes]:
    """The result of each COPY of a query of several statements: libpq gives one result for each.
    https://www.postgresql.org/docs/current/libpq-async.html"""
    import psycopg
    from psycopg.pq import ExecStatus

    connection.send_query(query)
    while connection.flush():
        select.select([], [connection.socket], [], SILENCE)
    found: list[bytes] = []
    error: psycopg.Error | None = None
    while True:
        while connection.is_busy():
            _receive(connection)
        result = connection.get_result()
        if result is None:
            break
        if result.status == ExecStatus.COPY_OUT:
            found.append(_all_rows(connection))
        elif result.status == ExecStatus.FATAL_ERROR:
            error = error or _error(connection, result)
    if error is not None:
        raise error
    if len(found) != tables:
        raise psycopg.OperationalError("the line was lost")
    return found


def _all_rows(connection: Any) -> bytes:
    rows = []
    while True:
        size, data = connection.get_copy_data(1)
        if size > 0:
            rows.append(bytes(data))
        elif size == 0:
            _receive(connection)
        else:
            return b"".join(rows)


def _receive(connection: Any) -> None:
    import psycopg

    ready, _, _ = select.select([connection.socket], [], [], SILENCE)
    if not ready:
        raise psycopg.OperationalError(f"the target said nothing for {SILENCE:.0f} s")
    connection.consume_input()


def _error(connection: Any, result: Any) -> Any:
    """With its class by SQLSTATE; a connection that ended is an operational error."""
    import psycopg
    from psycopg.pq import ConnStatus

    message = result.error_message.decode(errors="replace") if hasattr(result.error_message, "decode") else ""
    state = result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
    if connection.status == ConnStatus.BAD or state is None or state[:2] in (b"57", b"08", b"53"):
        return psycopg.OperationalError(message)
    connection.exec_(b"ROLLBACK")
    return psycopg.errors.lookup(state.decode())(message)
