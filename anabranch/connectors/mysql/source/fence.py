"""Fence around a MySQL or MariaDB that is cut over from: the server takes no writes at all.

`super_read_only` (MySQL 5.7 and later) stops everybody, events and accounts with SUPER among them. MariaDB and older releases
have `read_only` alone, which accounts with READ_ONLY ADMIN or SUPER pass: there events are stopped, and what such an account
writes is found in the log by the engine. Nothing of this stops a replica's own threads: a source that replicates from another
server is refused. The settings are global and stay until they are taken back, or the server restarts.
https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_super_read_only
https://mariadb.com/kb/en/server-system-variables/#read_only

What does not live here: what the fence needs, and who passes it (fence_checks.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pymysql

from anabranch.connectors.mysql.connection import ask, connect, variables
from anabranch.connectors.mysql.errors import LOCKED
from anabranch.connectors.mysql.source import fence_checks, watermark
from anabranch.connectors.mysql.source.log_end import log_end_with_gtids
from anabranch.connectors.mysql.source.prepared import listed
from anabranch.errors import SourceError
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark

READ_ONLY, SUPER, EVENTS = "read_only", "super_read_only", "event_scheduler"
LOCK_SECONDS = 2  # read_only waits for running statements and locked tables, and others wait behind it
# What INNODB_TRX tells is kept for a tenth of a second, also of what somebody else has asked.
# https://dev.mysql.com/doc/refman/8.0/en/innodb-information-schema-internal-data.html
STALE_SECONDS = 0.15
# Both times are the server's own. A prepared transaction has no thread, and is listed by XA RECOVER.
OLDER = """
SELECT t.trx_mysql_thread_id, p.USER, p.HOST, p.COMMAND, TIMESTAMPDIFF(SECOND, t.trx_started, NOW())
  FROM information_schema.INNODB_TRX t JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
 WHERE t.trx_rows_modified > 0 AND p.ID <> CONNECTION_ID()
"""


class MysqlFence:
    """SourceFence of the family. Each call has a session of its own, so that a lost connection costs nothing but the call."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def checks(self, tables: Sequence[TableId]) -> list[CheckResult]:
        with self._session() as connection:
            return list(fence_checks.checks(connection, has_super=SUPER in variables(connection, SUPER)))

    def before(self, tables: Sequence[TableId]) -> dict[str, Any]:
        with self._session() as connection:
            found = variables(connection, READ_ONLY, SUPER, EVENTS)
        if SUPER in found or found.get(EVENTS) != "ON":
            found.pop(EVENTS, None)
        return dict(found)

    def deny(self, tables: Sequence[TableId], before: Mapping[str, Any]) -> list[str]:
        with self._session() as connection:
            if EVENTS in before:
                ask(connection, f"SET GLOBAL {EVENTS} = OFF")
            if variables(connection, READ_ONLY)[READ_ONLY] == "OFF":
                try:
                    ask(connection, f"SET GLOBAL {READ_ONLY} = ON")
                except SourceError as error:
                    if _code(error) != LOCKED:
                        raise
                    return _inside(connection) or ["a session that locks tables, or a statement that takes long"]
            time.sleep(STALE_SECONDS)
            return _inside(connection)

    def mark(self, before: Mapping[str, Any]) -> LogMark:
        """Write the marker while we are let through, then shut the server for everybody."""
        with self._session() as connection:
            if variables(connection, SUPER).get(SUPER) != "ON":
                watermark.write(connection)
            if SUPER in before:
                ask(connection, f"SET GLOBAL {SUPER} = ON")
            return log_end_with_gtids(connection).mark()

    def admit(self, tables: Sequence[TableId], before: Mapping[str, Any], back: str) -> None:
        """Leave `read_only` alone, which the job's account passes. So do others with its right: the engine finds in the log
        what they write."""
        if SUPER in before:
            with self._session() as connection:
                ask(connection, f"SET GLOBAL {READ_ONLY} = ON")
                ask(connection, f"SET GLOBAL {SUPER} = OFF")

    def gaps(
        self, tables: Sequence[TableId], before: Mapping[str, Any], back: str = "", is_flipped: bool = False
    ) -> list[str]:
        """`read_only` refuses statements that change definitions, too."""
        wanted = {READ_ONLY: "ON"} | ({SUPER: "ON"} if SUPER in before and not back else {})
        wanted |= {EVENTS: "OFF"} if EVENTS in before else {}
        with self._session() as connection:
            found = variables(connection, *wanted)
            gaps = [
                f"{name} is {found.get(name)} at the source (SET GLOBAL {name} = {value})"
                for name, value in wanted.items()
                if found.get(name) != value
            ]
            inside = [] if back else _inside(connection)  # the way back is; whoever else is, the log tells
            return [*gaps, *fence_checks.replicates(connection), *inside]

    def lift(self, tables: Sequence[TableId], before: Mapping[str, Any]) -> list[str]:
        with self._session() as connection:
            now = variables(connection, READ_ONLY, SUPER, EVENTS)
            for name in (SUPER, READ_ONLY, EVENTS):
                if name in before and now.get(name) != before[name]:
                    ask(connection, f"SET GLOBAL {name} = %s", str(before[name]))
        return []

    def close(self) -> None: ...

    @contextmanager
    def _session(self) -> Iterator[pymysql.Connection]:
        with closing(connect(self._endpoint)) as connection:
            ask(connection, f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
            yield connection


def _inside(connection: pymysql.Connection) -> list[str]:
    """Say who has a transaction that has written and has not ended, prepared ones among them."""
    found = [
        f"connection {number} ({user}@{host}), {command}, in a transaction since {seconds} s"
        for number, user, host, command, seconds in ask(connection, OLDER)
    ]
    prepared = listed(connection)
    if prepared is None:
        raise SourceError("the source does not let the job's user ask for prepared transactions", hint=fence_checks.XA)
    return found + [f"the prepared XA transaction {xid}: XA COMMIT or XA ROLLBACK it" for xid in sorted(prepared)]


def _code(error: SourceError) -> int | None:
    cause = error.__cause__
    return cause.args[0] if isinstance(cause, pymysql.err.Error) and cause.args else None
