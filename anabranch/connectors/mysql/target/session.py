"""Sessions at a MySQL or MariaDB target: their settings, how statements are sent and rows are fed, how names are quoted.

What does not live here: TLS and the settings that every session of ours has (`connectors/mysql`), those that a session has
beside them because it writes (`settings.py`), what errors mean (`errors.py`). Errors of the driver pass: the caller's
`translated` says what was being done.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pymysql
from pymysql.connections import MySQLResult
from pymysql.constants import CLIENT

from anabranch.connectors.mysql import connection as base
from anabranch.connectors.mysql.primary import stay
from anabranch.connectors.mysql.rights import log_right
from anabranch.connectors.mysql.settings import PINNED, Pin
from anabranch.connectors.mysql.target.errors import connecting
from anabranch.connectors.mysql.target.options import UNLOGGED
from anabranch.connectors.mysql.target.settings import SQL_MODE as SQL_MODE
from anabranch.connectors.mysql.target.settings import WRITING as WRITING
from anabranch.errors import TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId

LIMITED = ("anabranch:", "anabranch-state")  # sessions whose statements are short: apply's, and those of the state
FED = "rows of anabranch"  # LOAD DATA LOCAL INFILE '<this>': the server asks for it, and gets what load_local was given
PIECE = 256 * 1024  # bytes of rows in one packet
MOST_LOCK_NAME = 64  # characters: https://dev.mysql.com/doc/refman/8.0/en/locking-functions.html

KEYS = "foreign_key_checks"
GUARD = "@anabranch_applies"  # set in every session of ours: a trigger at the target can leave alone what we write
# Facts that decide how rows are sent; none needs a right.
FACTS = "SELECT @@max_allowed_packet, @@local_infile, @@explicit_defaults_for_timestamp"
EXPLICIT = "SET SESSION explicit_defaults_for_timestamp = 1"
# No right to it (MySQL 5.7 and 8.0), or it is fixed when the server starts (5.6, MariaDB before 10.8.4)
NOT_SETTABLE = (1227, 1238)
TOO_LONG = 1153  # https://dev.mysql.com/doc/refman/8.0/en/packet-too-large.html
# EXP(1000) is no DOUBLE, which is an error everywhere
STILL_OPEN = "SET @anabranch = IF(@@GLOBAL.read_only = 0, 1, EXP(1000))"
_PLACES = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|%s", re.DOTALL)


class Loaded(NamedTuple):
    """The result of a statement that was fed: rows stored, warnings of the server. With LOCAL an error becomes a warning."""

    rows: int
    warnings: int


class Warned(NamedTuple):
    """A warning or note of the server about the last statement."""

    level: str
    number: int
    text: str


class Connection(base.Connection):
    """A session at the target. It sends a server rows that a running statement of ours asked for, and never a file."""

    packet = PIECE  # bytes: max_allowed_packet of the session
    takes_files = False  # local_infile: whether LOAD DATA LOCAL is allowed
    explicit_timestamps = (
        False  # an explicit NULL in a `timestamp NOT NULL` is refused, not turned into the time of day
    )
    is_unlogged = False  # what it writes does not stand in the server's log
    _feed: Iterator[bytes] | None = None
    _result: Any  # of the last statement, as PyMySQL keeps it

    def literal(self, value: object) -> str:
        """Return a value as SQL."""
        return str(self.escape(value))

    def query(self, sql: Any, unbuffered: bool = False) -> int:
        """Send a statement. One that is too long is refused here: the server would end the connection, as if the line broke."""
        if len(sql) * 4 >= self.packet:  # a character has up to four bytes
            sql = sql.encode(self.encoding, "surrogateescape") if isinstance(sql, str) else sql
            if len(sql) + 1 >= self.packet:
                most = f"the target's max_allowed_packet, {self.packet:,} bytes"
                raise pymysql.err.OperationalError(TOO_LONG, f"a statement of {len(sql):,} bytes is longer than {most}")
        return super().query(sql, unbuffered)

    def commit(self) -> None:
        """Commit what is open, at a server that is still the one among several."""
        stay(self)
        super().commit()

    @property
    def committing(self) -> tuple[str, ...]:
        """Return the statements that commit within `together`. The first fails where the server was demoted meanwhile."""
        return (STILL_OPEN, "COMMIT") if self.was_open else ("COMMIT",)

    def load_local(self, sql: str, blocks: Iterable[bytes]) -> Loaded:
        """Carry out a LOAD DATA LOCAL INFILE of FED with these bytes as the file. Where taking them from `blocks` fails, the
        connection is closed: what was sent by then is rolled back."""
        self._feed = iter(blocks)
        try:
            rows = self.query(sql)
        finally:
            self._feed = None
        return Loaded(rows, self._result.warning_count)

    def together(self, statements: Sequence[str]) -> list[int]:
        """Carry out statements without values in one round trip, and return the rows that each has found. Behind the first
        error none is carried out. Where they are more than a packet holds, it is several round trips."""
        found: list[int] = []
        for batch in _batches(statements, self.packet):
            found.append(self.query(batch))
            self.is_waiting = True
            try:
                while self._result.has_next:
                    found.append(self._read_query_result())
            finally:
                self.is_waiting = False
        return found

    def _read_query_result(self, unbuffered: bool = False) -> int:
        """Read an answer as PyMySQL does, with another idea of LOAD DATA LOCAL."""
        self._result: Any = None
        result = _Result(self)
        result.init_unbuffered_query() if unbuffered else result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return int(result.affected_rows)

    def _send_rows(self, asked: bytes) -> None:
        """Send what the running statement was given, then the empty packet that ends it."""
        if self._feed is None or asked != FED.encode():
            self._force_close()
            raise TargetError(
                f"the server asks for the file {asked[:100].decode(errors='replace')!r}: it gets none",
                hint="no statement of ours names it: look who answers at this address",
            )
        try:
            self.is_waiting = False  # for the rows, not for the server
            for piece in _pieces(self._feed, min(PIECE, self.packet - 1)):
                self.is_waiting = True
                self.write_packet(piece)
                self.is_waiting = False
        except BaseException:  # whatever it was: without the end of the rows the server keeps none of them
            self._force_close()
            raise
        self.is_waiting = True
        self.write_packet(b"")


class _Result(MySQLResult):  # type: ignore[misc]  # it has no types
    def _read_load_local_packet(self, first_packet: Any) -> None:
        connection: Connection = self.connection
        connection._send_rows(first_packet.get_all_data()[1:])
        answer = connection._read_packet()
        if not answer.is_ok_packet():
            raise pymysql.err.OperationalError(2014, "commands out of sync")
        self._read_ok_packet(answer)


def connect(endpoint: Endpoint, name: str, *, autocommit: bool = False, checks_keys: bool = True) -> Connection:
    """Return a session as all our sessions at a target are; `name` is shown there. It has no database of its own: every table
    is named with its own. Raises TargetUnavailable, or TargetError when it refuses us."""
    without = replace(endpoint, database="", options=tuple(one for one in endpoint.options if one != UNLOGGED))
    pins = {
        **PINNED,
        **WRITING,
        "autocommit": Pin(str(int(autocommit)), "as whoever opens it commits"),
        KEYS: Pin(str(int(checks_keys)), "as the job wants its foreign keys"),
    }
    limit = endpoint.limits.statement if name.startswith(LIMITED) else math.inf
    with connecting(f"cannot connect to {endpoint}"):
        connection = base.opened(
            without,
            Connection,
            pins,
            program_name=name,
            local_infile=True,
            client_flag=CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS,
            read_timeout=None if limit == math.inf else limit,
        )
        _learn(connection)
        run(connection, f"SET {GUARD} = 1")
        if UNLOGGED in endpoint.options:
            _leave_unlogged(connection)
    base.watch(without, connection)
    return connection


@contextmanager
def logged(connection: Connection) -> Iterator[None]:
    """Log what is done inside the block, whatever the session does: replicas have to have the tables of the state, to which
    jobs write whose rows are logged. Outside of a transaction."""
    if not connection.is_unlogged:
        yield
        return
    run(connection, "SET SESSION sql_log_bin = 1")
    try:
        yield
    finally:
        with suppress(pymysql.err.Error, OSError):  # with the connection the setting is gone, too
            run(connection, "SET SESSION sql_log_bin = 0")


def run(connection: Connection, sql: str, *values: object) -> int:
    """Carry out a statement, and return how many rows it has found (not: changed), or written."""
    return connection.query(bound(connection, sql, values))


def ask(connection: Connection, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Return all rows of a query."""
    connection.query(bound(connection, sql, values))
    return list(connection._result.rows or ())


def one(connection: Connection, sql: str, *values: object) -> Any:
    """Return the first value of the first row, None where there is none."""
    rows = ask(connection, sql, *values)
    return rows[0][0] if rows else None


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Commit what is done inside the block, or roll it back where the block raises."""
    run(connection, "START TRANSACTION")
    try:
        yield
    except BaseException:  # whatever it was, it is passed on
        with suppress(pymysql.err.Error):  # with the connection it is gone, too
            run(connection, "ROLLBACK")
        raise
    stay(connection)
    run(connection, "COMMIT")


def warned(connection: Connection) -> list[Warned]:
    """Return what the server warned of in the last statement; call it before any other."""
    return [Warned(*row) for row in ask(connection, "SHOW WARNINGS")]


def bound(connection: Connection, sql: str, values: Sequence[object]) -> str:
    """Put values in the places of `%s`, as literals. A `%s` in a quoted name or text stands for itself, and so does every
    other `%`."""
    left = iter(values)

    def literal(found: re.Match[str]) -> str:
        return connection.literal(next(left)) if found[0] == "%s" else found[0]

    if not values:
        return sql
    text = _PLACES.sub(literal, sql)
    assert next(left, left) is left, f"more values than places: {sql}"
    return text


def quoted(name: str) -> str:
    """Return a name in backticks."""
    return "`" + name.replace("`", "``") + "`"


def table_name(table: TableId) -> str:
    """Return a table's name with its database, quoted."""
    return f"{quoted(table.schema)}.{quoted(table.name)}"


def column_list(names: Iterable[str]) -> str:
    """Join column names, quoted, with commas."""
    return ", ".join(map(quoted, names))


def session_name(job: str, owner: str) -> str:
    """Return the name of an owner's sessions, and of the lock by which they are found; a job whose name makes that longer than
    a lock's may be stands in it as a digest."""
    name = f"anabranch:{job}:{owner}"
    return name if len(name) <= MOST_LOCK_NAME and name.isascii() else f"anabranch:{job_digest(job)}:{owner}"


def job_digest(job: str) -> str:
    """Return a job's name in 12 characters, for names that have a limit."""
    return hashlib.blake2b(job.encode(), digest_size=6).hexdigest()


def _learn(connection: Connection) -> None:
    """Read what decides how rows are sent, and have explicit NULLs taken at their word where we may."""
    packet, takes_files, explicit = ask(connection, FACTS)[0]
    connection.packet, connection.takes_files = int(packet), str(takes_files) == "1"
    if not explicit:
        try:
            run(connection, EXPLICIT)
        except pymysql.err.Error as error:
            if error.args[0] not in NOT_SETTABLE:
                raise
            return
    # A MariaDB gives a `timestamp NOT NULL` the time of day whatever the variable says (seen in 10.11).
    connection.explicit_timestamps = base.family(connection) == "mysql"


def _leave_unlogged(connection: Connection) -> None:
    """Keep what the session writes out of the log. Raises TargetError where the user may not."""
    try:
        run(connection, "SET SESSION sql_log_bin = 0")
    except pymysql.err.Error as error:
        if error.args[0] not in NOT_SETTABLE:
            raise
        right = log_right(base.family(connection), base.version(connection))
        raise TargetError(
            f"the job's user may not keep its writes out of the log (sql_log_bin): it lacks {right}",
            hint=f"GRANT {right} ON *.* TO the user; or [target.options] sql_log_bin = true",
        ) from None
    connection.is_unlogged = True


def _pieces(blocks: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Cut and join blocks into pieces of up to so many bytes, none of them empty: that would end the rows."""
    held: list[bytes] = []
    length = 0
    for block in blocks:
        if held and length + len(block) > most:
            yield b"".join(held)
            held, length = [], 0
        if len(block) > most:
            yield from (block[start : start + most] for start in range(0, len(block), most))
        elif block:
            held.append(block)
            length += len(block)
    if held:
        yield b"".join(held)


def _batches(statements: Iterable[str], most: int) -> Iterator[str]:
    """Join statements up to half a packet: a character may take several bytes, the server refuses what is longer."""
    held: list[str] = []
    length = 0
    for statement in statements:
        size = len(statement.encode()) + 1
        if held and length + size > most // 2:
            yield ";".join(held)
            held, length = [], 0
        held.append(statement)
        length += size
    if held:
        yield ";".join(held)
