"""Several addresses in one URL: which of the servers a session is opened at, and whether that server still is the one.

The first that can be written is taken. `read_only` alone does not tell a replica, since the fence of a cut-over leaves it on at
a primary: where every address answers, none can be written, and just one follows no other server, it is that one.
https://dev.mysql.com/doc/refman/8.0/en/server-system-variables.html#sysvar_read_only
What does not live here: the order of the addresses (connectors/sql/servers.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import pymysql

from anabranch.connectors.mysql.errors import number_and_text, translate
from anabranch.connectors.sql.servers import NONE_FITS, in_order, remember
from anabranch.errors import SourceUnavailable
from anabranch.model.endpoint import Endpoint

_NO_CONNECTION = 2003
_UNKNOWN_STATEMENT, _NOT_ALLOWED = 1064, 1227
# The first that the server knows. https://mariadb.com/kb/en/show-replica-status/ (all sources of a MariaDB)
_FOLLOWS = ("SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")


class _Session(Protocol):
    host: Any
    port: Any
    was_open: bool | None

    def _force_close(self) -> None: ...


Some = TypeVar("Some", bound=_Session)


def choose(endpoint: Endpoint, opened: Callable[[Endpoint], Some]) -> Some:
    """Return a session at the server that can be written. Those that are away, or read-only, are passed over, while a server
    that refuses us is not. Raises what the driver raises."""
    order = in_order(endpoint)
    if len(order) == 1:
        return opened(order[0])
    passed, left, answers = list[str](), list[tuple[Endpoint, Some]](), 0
    try:
        for one in order:
            try:
                session = opened(one)
                left.append((one, session))
                is_open, follows = _role(session)
            except (pymysql.err.Error, OSError) as error:
                passed.append(_passed(one, error))
                continue
            if is_open:
                return _taken(endpoint, left, is_open)
            answers += 1
            passed.append(f"{one.place}: it is read-only{follows}")
            if follows:
                left.pop()[1]._force_close()
        if answers == len(order) and len(left) == 1:
            return _taken(endpoint, left, is_open=False)
    finally:
        for _, session in left:
            session._force_close()
    raise pymysql.err.OperationalError(_NO_CONNECTION, NONE_FITS + "; ".join(passed))


def stay(session: _Session) -> None:
    """Close a session that was chosen among several servers if its server is not the one any more: a switchover that is planned
    ends none, and a user who passes `read_only` would go on writing. Raises what the driver raises, as for a lost line."""
    if session.was_open is None:
        return
    is_open, follows = _role(session)
    if is_open:
        session.was_open = True
    elif session.was_open or follows:
        session._force_close()
        why = f"{session.host}:{session.port}: it is read-only{follows} now, and was the primary before"
        raise pymysql.err.OperationalError(_NO_CONNECTION, why)


def _taken(endpoint: Endpoint, left: list[tuple[Endpoint, Some]], is_open: bool) -> Some:
    one, session = left.pop()
    session.was_open = is_open
    remember(endpoint, one)
    return session


def _role(session: Any) -> tuple[bool, str]:
    """Return whether it can be written, and else, in words, whether it follows another server; "" where it does not."""
    if not _rows(session, "SELECT @@GLOBAL.read_only")[0][0]:
        return True, ""
    for statement in _FOLLOWS:
        try:
            return False, ", and follows another server" * bool(_rows(session, statement))
        except pymysql.err.Error as error:
            number, _ = number_and_text(error)
            if number == _NOT_ALLOWED:
                return False, ", and whether it follows another one is not shown to our user (GRANT REPLICATION CLIENT)"
            if number != _UNKNOWN_STATEMENT:
                raise
    return False, ""


def _rows(session: Any, statement: str) -> list[tuple[Any, ...]]:
    with session.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def _passed(one: Endpoint, error: pymysql.err.Error | OSError) -> str:
    """Return why a server is passed over. Raises the error, with the address, where the server refuses us."""
    found = translate(error)
    if isinstance(found, SourceUnavailable):
        return f"{one.place}: {found.message}"
    if isinstance(error, pymysql.err.Error):
        number, text = number_and_text(error)
        if number:
            raise type(error)(number, f"{one.place}: {text}") from error
    raise error
