"""Whom sessions of ours wait for at a PostgreSQL: locks, older transactions, prepared ones.

https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SESSION (pg_blocking_pids)
https://www.postgresql.org/docs/current/monitoring-stats.html#MONITORING-PG-STAT-ACTIVITY-VIEW
https://www.postgresql.org/docs/current/view-pg-locks.html: a prepared transaction holds locks without a process
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import psycopg
from psycopg import pq

from anabranch.connectors.postgresql.errors import translated
from anabranch.model.endpoint import EndLimits
from anabranch.waits import Holder, Patience, Session, Wait, register

APPLICATION = "anabranch"  # what the names of all our sessions begin with
# Time limits of the second connection: somebody who is asked for help must not hang.
_SETTINGS = "SET statement_timeout = '5s'"

# Sessions that wait for a lock: ours by number, and with %(others)s those of tasks, which have our user and our name.
_WAITING = """
SELECT w.pid, l.locktype, l.mode,
       CASE WHEN l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            THEN l.relation::regclass::text ELSE l.relation::text END,
       coalesce(l.transactionid::text, l.virtualxid), h.pid,
       b.usename::text, b.application_name, b.datname::text, b.client_addr::text, b.state, b.backend_type,
       to_char(coalesce(b.xact_start, b.query_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       upper(substring(b.query FROM '^\\s*([A-Za-z]+)'))
  FROM pg_stat_activity w
  JOIN pg_locks l ON l.pid = w.pid AND NOT l.granted
  LEFT JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS h (pid) ON true
  LEFT JOIN pg_stat_activity b ON b.pid = h.pid
 WHERE w.wait_event_type = 'Lock'
   AND (w.pid = ANY(%(numbers)s) OR (%(others)s AND w.application_name LIKE %(application)s
        AND w.usename = current_user AND w.datname = current_database() AND w.pid <> pg_backend_pid()))
 ORDER BY w.pid, h.pid
"""
# Prepared transactions in the way of these sessions. One has no process, and holds its locks under the virtual number that its
# session had, or "-1/transaction" where the server was started since: its own number is that of another lock of it.
_PREPARED = """
SELECT DISTINCT l.pid, p.gid, p.owner::text, p.database::text,
       to_char(p.prepared AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
  FROM pg_prepared_xacts p
  JOIN pg_locks o ON o.locktype = 'transactionid' AND o.granted AND o.pid IS NULL AND o.transactionid = p.transaction
  JOIN pg_locks g ON g.granted AND g.pid IS NULL AND g.virtualtransaction = o.virtualtransaction
  JOIN pg_locks l ON l.virtualxid = o.virtualtransaction
    OR (l.locktype, l.database, l.relation, l.page, l.tuple, l.transactionid, l.classid, l.objid, l.objsubid)
       IS NOT DISTINCT FROM
       (g.locktype, g.database, g.relation, g.page, g.tuple, g.transactionid, g.classid, g.objid, g.objsubid)
 WHERE NOT l.granted AND l.pid = ANY(%(numbers)s) ORDER BY 1, 2
"""
# Who has these transactions, in any database of the server.
_OPEN = """
SELECT b.pid, b.usename::text, b.application_name, b.datname::text, b.client_addr::text, b.state, b.backend_type,
       to_char(coalesce(b.xact_start, b.query_start) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       upper(substring(b.query FROM '^\\s*([A-Za-z]+)'))
  FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity b ON b.pid = l.pid
 WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted AND l.transactionid::text = ANY(%s) ORDER BY 1
"""
_OPEN_PREPARED = """
SELECT p.gid, p.owner::text, p.database::text, to_char(p.prepared AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
  FROM pg_catalog.pg_prepared_xacts p WHERE p.transaction::text = ANY(%s) ORDER BY 1
"""
_CANCEL = "SELECT pg_cancel_backend(%s)"
# What a session waits for, by the kind of the lock. https://www.postgresql.org/docs/current/monitoring-stats.html#WAIT-EVENT-LOCK-TABLE
_WHAT = {
    "relation": "a lock ({mode}) on {relation}",
    "extend": "room in {relation}",
    "page": "a lock in {relation}",
    "tuple": "a row of {relation}",
    "transactionid": "the end of transaction {number}",
    "virtualxid": "the end of the older transaction {number}",
    "object": "a lock ({mode}) on an object of the catalogue",
    "advisory": "an advisory lock",
}
_NOT_SHOWN = "its state is not shown to the job's user: GRANT pg_monitor lets anabranch tell it"


def watch(place: str, connection: psycopg.Connection[Any], parameters: Mapping[str, Any], limits: EndLimits) -> None:
    """Tell of its waits as long as it lives. `parameters`: how another connection to this server is made."""
    session = Session(connection.info.backend_pid, is_busy, cut)
    patience = Patience(limits.connect, limits.silence)
    register(place, connection, session, lambda: PostgresLookout(place, parameters), patience)


def is_busy(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the connection waits for the server. libpq knows it: nothing is asked."""
    return connection.pgconn.transaction_status == pq.TransactionStatus.ACTIVE


def cut(connection: psycopg.Connection[Any]) -> None:
    """Shut the connection down: whoever waits for an answer over it sees its end."""
    with suppress(OSError), closing(socket.socket(fileno=os.dup(connection.fileno()))) as line:
        line.shutdown(socket.SHUT_RDWR)


class PostgresLookout:
    """Implements `waits.Lookout`."""

    def __init__(self, place: str, parameters: Mapping[str, Any]) -> None:
        with translated(f"cannot connect to {place}"):
            named = {**parameters, "application_name": f"{APPLICATION}-waits"}
            self._connection = psycopg.connect(**named, autocommit=True)
            self._connection.execute(_SETTINGS)

    def look(self, numbers: Sequence[int], others: bool) -> list[Wait]:
        asked = {"numbers": list(numbers), "others": others, "application": f"{APPLICATION}%"}
        with translated("ask who waits for whom"):
            rows = self._connection.execute(_WAITING, asked).fetchall()
            waiting = sorted({row[0] for row in rows})
            prepared = self._prepared(waiting) if any(row[5] in (0, None) for row in rows) else {}
        return [
            Wait(number, _what(first), tuple(_holders(found, prepared.get(number, []))))
            for number in waiting
            for found in ([row for row in rows if row[0] == number],)
            for first in found[:1]
        ]

    def _prepared(self, numbers: list[int]) -> dict[int, list[Holder]]:
        found: dict[int, list[Holder]] = {}
        for number, gid, owner, database, since in self._connection.execute(_PREPARED, {"numbers": numbers}).fetchall():
            found.setdefault(number, []).append(_prepared(gid, owner, database, since))
        return found

    def cancel(self, number: int) -> None:
        with translated("end a statement that waits"):
            self._connection.execute(_CANCEL, [number])

    def close(self) -> None:
        self._connection.close()


def who_has(connection: psycopg.Connection[Any], transactions: Collection[str]) -> list[Holder]:
    """Return sessions, and what is prepared."""
    sessions = connection.execute(_OPEN, [list(transactions)]).fetchall()
    prepared = connection.execute(_OPEN_PREPARED, [list(transactions)]).fetchall()
    return [*map(_holder, sessions), *(_prepared(*row) for row in prepared)]


def _prepared(gid: str, owner: str, database: str, since: str) -> Holder:
    who = f"prepared transaction {gid!r} (user {owner}, database {database})"
    return Holder(who, f"prepared since {since}: COMMIT PREPARED or ROLLBACK PREPARED ends it")


def _what(row: tuple[Any, ...]) -> str:
    _, kind, mode, relation, number = row[:5]
    known = _WHAT.get(kind, f"a lock of the kind {kind}")
    return known.format(mode=mode, relation=relation or "a table", number=number)


def _holders(rows: list[tuple[Any, ...]], prepared: list[Holder]) -> Iterator[Holder]:
    for row in rows:
        if row[5]:
            yield _holder(row[5:])
    yield from prepared


def _holder(row: tuple[Any, ...]) -> Holder:
    pid, user, application, database, address, state, kind, since, command = row
    named = {"user": user, "application": application, "database": database, "from": address}
    facts = ", ".join(f"{name} {value}" for name, value in named.items() if value)
    who = f"process {pid}" + (f" ({facts})" if facts else "")
    if kind not in (None, "client backend"):
        who = f"{who}, {kind}"
    if state is None and since is None:
        return Holder(who, "" if kind not in (None, "client backend") else _NOT_SHOWN)
    last = f", last statement {command}" if command else ""
    return Holder(who, f"{state or 'active'}, its transaction began at {since}{last}")
