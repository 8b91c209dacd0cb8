"""Opening a consistent snapshot and finding the binary log's places on both sides of it (K2).

The log runs ahead of the engine, so a position read before the snapshot may be ahead of it. Each way below gives a `low`
that is not: the place that the server reports (MariaDB, Percona; with XA at work, that of an earlier snapshot), the executed
GTIDs, a row of ours that was committed in between, or a lock for the moment of opening. What does not live here:
reading rows (`load.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.connection import account, ask, connect, family, variables
from anabranch.connectors.mysql.errors import translated
from anabranch.connectors.mysql.kept import SAVED, why_held
from anabranch.connectors.mysql.rights import grant
from anabranch.connectors.mysql.source import mending, privileges, watermark
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.log_end import executed, is_filtered, log_end, place_at
from anabranch.connectors.mysql.source.positions import BinlogOrder, Place
from anabranch.connectors.mysql.source.prepared import listed
from anabranch.connectors.mysql.versions import knows
from anabranch.errors import SourceError, SourceUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema

# https://dev.mysql.com/doc/refman/8.0/en/commit.html and https://mariadb.com/kb/en/enhancements-for-start-transaction-with-consistent-snapshot/
START = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
# https://mariadb.com/kb/en/replication-and-binary-log-status-variables/#binlog_snapshot_file
OWN_PLACE = "SHOW STATUS WHERE Variable_name IN ('Binlog_snapshot_file', 'Binlog_snapshot_position')"
# https://mariadb.com/kb/en/server-status-variables/#com_xa_commit: counted where the statement begins
XA_COMMITS = "SHOW GLOBAL STATUS LIKE 'Com_xa_commit'"
STILL, ASK = 1.0, 0.01  # seconds after which a prepared transaction counts as undecided; between two looks
LOCK_WAIT = 30  # seconds: whoever waits for a lock makes all writers behind it wait
# Without autocommit InnoDB's own lock is taken, too. Before 5.7 it alone waits for transactions that have written.
# https://dev.mysql.com/doc/refman/5.6/en/lock-tables.html#lock-tables-and-transactions
PATIENCE = (
    "SET SESSION lock_wait_timeout = {0}, innodb_lock_wait_timeout = {0}",
    "SET SESSION autocommit = 0",
)
LOCK_ALL = "FLUSH TABLES WITH READ LOCK"
LOCKS: dict[str, Callable[[TableSchema], str]] = {
    "global": lambda table: LOCK_ALL,
    "table": lambda table: f"LOCK TABLES {qualified(table.id)} READ",
}
# https://dev.mysql.com/doc/refman/8.0/en/storage-engines.html · https://mariadb.com/kb/en/storage-engines/
TRANSACTIONAL = frozenset(("INNODB", "ROCKSDB", "TOKUDB"))
# https://dev.mysql.com/doc/refman/8.0/en/replication-options-binary-log.html#sysvar_binlog_order_commits, and before 5.6
# https://dev.mysql.com/doc/refman/5.5/en/innodb-parameters.html#sysvar_innodb_support_xa
ORDERED = ("binlog_order_commits", "innodb_support_xa")
OWNED = "SELECT @@GLOBAL.gtid_owned"  # from the log on until the engine has committed it
UNDER_WAY = "commits were under way each time that a snapshot was opened"
XA_AT_WORK = "transactions are prepared, or XA COMMITs were under way, each time that a snapshot was opened"
NO_PLACE = "the server does not say which of the log's transactions a snapshot has: that takes {}"
GLOBAL, LOCKED = '[load] lock = "global"', '[load] lock = "table" or "global"'


def open_snapshot(
    connection: pymysql.Connection, endpoint: Endpoint, table: TableSchema, lock: str
) -> tuple[LogMark, LogMark]:
    """Open it on `connection`; (low, high). Raises SourceError where no way gives `low`, and for a table without a key
    of which there is no snapshot: what is read of it is of no one moment (K4)."""
    if not table.primary_key and not has_transactions(table):
        message = "neither transactions nor a primary key: nobody can say which of the log's rows are in what is read"
        raise SourceError(message, table=str(table.id), hint=mending.give_either([table]))
    two_phase = _two_phase(connection)
    own = _by_own_word(connection)
    if own is not None and two_phase == _two_phase(connection) and not two_phase[1]:
        return own, own
    if own is not None and lock not in LOCKS:
        return own, _when_through(connection)
    ask(connection, "COMMIT")
    if lock in LOCKS:
        return _under_lock(connection, endpoint, LOCKS[lock](table))
    low = _by_gtid(connection) or _by_watermark(connection, variables(connection, "gtid_mode", *ORDERED))
    ask(connection, "COMMIT")
    _start(connection)
    hold(connection, table)
    return low.mark(), log_end(connection).mark()


def keep_snapshot(connection: pymysql.Connection, endpoint: Endpoint, lock: str, seconds: float) -> LogMark | str:
    """Open one on `connection`, in which definitions can be let go; return its exact place, or why it has none this time.
    Raises SourceError where there is no way to tell."""
    with translated():
        if why := why_held(connection):
            raise SourceError(why)
    place = _exact_place(connection, endpoint, lock, seconds)
    ask(connection, "COMMIT" if isinstance(place, str) else SAVED)
    return place


def _exact_place(connection: pymysql.Connection, endpoint: Endpoint, lock: str, seconds: float) -> LogMark | str:
    two_phase = _two_phase(connection)
    own = _by_own_word(connection)
    if own is not None:
        return own if two_phase == _two_phase(connection) and not two_phase[1] else XA_AT_WORK
    if has_useful_gtids(connection, variables(connection, "gtid_mode")):
        return _between_commits(connection)
    if lock != "global":
        is_late = not knows(connection, "GTIDs of what is committed")
        raise SourceError(NO_PLACE.format(GLOBAL if is_late else f"gtid_mode = ON, or {GLOBAL}"))
    return _under_lock(connection, endpoint, LOCK_ALL, max(1, int(seconds)))[0]


def _between_commits(connection: pymysql.Connection) -> LogMark | str:
    """Open a snapshot while nothing is between the log and the engine: then it has the set that is executed, and no more. A
    transaction that it has beyond the set of before is still its session's, or has entered the set, when that is read again."""
    low = _by_gtid(connection)
    ask(connection, "COMMIT")
    _start(connection)
    is_quiet = low is not None and not ask(connection, OWNED)[0][0] and executed(connection) == low.gtid
    return low.mark() if low is not None and is_quiet else UNDER_WAY


def unseen(connection: pymysql.Connection, before: LogMark) -> frozenset[str]:
    """Return what is logged and not in the engine yet; semi-synchronous replication may stretch that to any time.

    MariaDB tells the place up to which its engine is. On MySQL a GTID belongs to its session from the log on until the
    engine has committed it (for one that applies a replica's log, from the transaction's begin on). No transaction
    stays open here. https://dev.mysql.com/doc/refman/8.0/en/replication-options-gtids.html#sysvar_gtid_owned
    """
    own = _by_own_word(connection)
    ask(connection, "COMMIT")
    if own is not None:
        return frozenset() if BinlogOrder().includes(own, before.native, None) else frozenset((before.native,))
    if not has_useful_gtids(connection, variables(connection, "gtid_mode")):
        return frozenset()  # the watermark waits for them
    return owned(str(ask(connection, OWNED)[0][0] or ""))


def owned(text: str) -> frozenset[str]:
    """Parse `uuid:5#61:6#62:tag:1#63` into GTIDs without the sessions that they belong to."""
    found = set()
    for part in filter(None, text.replace("\n", "").split(",")):
        uuid, *items = part.strip().split(":")
        source = uuid
        for item in items:
            number, _, session = item.partition("#")
            if session:
                found.add(f"{source}:{number}")
            else:
                source = f"{uuid}:{item}"
    return frozenset(found)


def has_useful_gtids(connection: pymysql.Connection, variables: Mapping[str, str]) -> bool:
    """Return whether the server has GTIDs, and shows to snapshots what they say is executed."""
    return variables.get("gtid_mode") == "ON" and knows(connection, "GTIDs of what is committed")


def breaks_order(variables: Mapping[str, str]) -> str:
    """Return the variable by which commits reach the engine in another order than the log's, "" if they do not."""
    name = next((name for name in ORDERED if name in variables), "")
    return name if variables.get(name, "ON") != "ON" else ""


def has_transactions(table: TableSchema) -> bool:
    """Return whether a snapshot holds for the table."""
    return table.engine.upper() in TRANSACTIONAL


def _start(connection: pymysql.Connection) -> None:
    ask(connection, f"{START}, READ ONLY" if knows(connection, "read-only transactions") else START)


def hold(connection: pymysql.Connection, table: TableSchema) -> None:
    """Keep the table of this name what it is until the snapshot ends. A snapshot is of rows, not of names: another table that
    gets this name is read as it was then. Whatever did that is in the log by now, before `high`.

    https://dev.mysql.com/doc/refman/8.0/en/metadata-locking.html"""
    ask(connection, f"SELECT 1 FROM {qualified(table.id)} LIMIT 0")


def _by_own_word(connection: pymysql.Connection) -> LogMark | None:
    """Open a snapshot and return its exact place as the server tells it; None on a server that does not."""
    _start(connection)
    told = {str(name).lower(): str(value) for name, value in ask(connection, OWN_PLACE)}
    file = told.get("binlog_snapshot_file", "")
    if not file:
        ask(connection, "COMMIT")
        return None
    return place_at(connection, file, int(told["binlog_snapshot_position"])).mark()


def _two_phase(connection: pymysql.Connection) -> tuple[int, frozenset[str]]:
    """Return how many XA COMMITs have begun, and what is prepared; listed until the engine has committed it (MariaDB).

    MariaDB moves the place it tells past an XA COMMIT once that is logged, and the engine commits it only then: its
    rows would be neither in the snapshot nor behind the place (K2, K6). While nothing is prepared and none begins, none
    is half-way.
    """
    if family(connection) != "mariadb":
        return 0, frozenset()
    return int(ask(connection, XA_COMMITS)[0][1]), _listed(connection)


def _listed(connection: pymysql.Connection) -> frozenset[str]:
    """List what is prepared. MariaDB lets everybody ask."""
    return listed(connection) or frozenset()


def _when_through(connection: pymysql.Connection) -> LogMark:
    """Open it again; its place. What XA had logged before the former opening's place is in it: whatever was listed since has
    ended, or is undecided, since no XA COMMIT takes so long from the log to the engine (replicas are not waited for there)."""
    until, half_way = time.monotonic() + STILL, _listed(connection)
    ask(connection, "COMMIT")
    while (half_way := half_way & _listed(connection)) and time.monotonic() < until:
        time.sleep(ASK)
    place = _by_own_word(connection)
    assert place is not None, "it was told a moment ago"
    return place


def _under_lock(
    connection: pymysql.Connection, endpoint: Endpoint, statement: str, wait: int = LOCK_WAIT
) -> tuple[LogMark, LogMark]:
    """Return an exact place: under the lock nothing that matters is between log and engine."""
    with _locked(endpoint, statement, wait) as holder:
        place = log_end(holder).mark()
        _start(connection)
    return place, place


@contextmanager
def _locked(endpoint: Endpoint, statement: str, wait: int) -> Iterator[pymysql.Connection]:
    """Hold the lock on a second connection: LOCK TABLES and START TRANSACTION end each other on one. `wait`: seconds."""
    with closing(connect(endpoint, read_timeout=None)) as holder, translated():
        for preparation in PATIENCE:
            ask(holder, preparation.format(wait))
        ask(holder, statement)
        yield holder
        ask(holder, "COMMIT")
        ask(holder, "UNLOCK TABLES")


def _by_gtid(connection: pymysql.Connection) -> Place | None:
    """Return the set executed now: a transaction enters it after the engine has committed it. None where transactions
    may have no GTID.

    Transactions of an earlier time are told by the place. It is read before the mode, and the server ends every commit
    that is under way before it changes the mode (it begins another file), so that the engine has them.
    https://dev.mysql.com/doc/refman/8.0/en/replication-mode-change-online-concepts.html
    """
    place = log_end(connection)
    if not has_useful_gtids(connection, variables(connection, "gtid_mode")):
        return None
    return replace(place, gtid=executed(connection), gtid_only=True)


def _by_watermark(connection: pymysql.Connection, facts: dict[str, str]) -> Place:
    """Return the place of a row of ours. Commits reach the engine in the log's order: once it is committed, so is all
    that was logged before it.
    """
    has_gtids = facts.get("gtid_mode") == "ON"  # of what is logged
    other_ways = LOCKED if has_gtids else f"gtid_mode = ON at the source, or {LOCKED}"
    if name := breaks_order(facts):
        raise SourceError(
            "commits reach the engine in another order than the log's",
            hint=f"SET GLOBAL {name} = ON, or {other_ways}",
        )
    if is_filtered(connection):
        raise SourceError(
            "binlog_do_db or binlog_ignore_db may leave our watermark out of the log",
            hint=f"take the filters away, or {LOCKED}",
        )
    low = log_end(connection)
    try:
        watermark.write(connection)
    except SourceUnavailable:
        raise
    except SourceError as error:
        right = grant(", ".join(privileges.WATERMARK_RIGHTS), f"{watermark.SCHEMA}.*", account(connection))
        message = f"no consistent start for the load: {error.message}"
        raise SourceError(message, hint=f"{right}; or {other_ways}") from error
    return low
