"""Statements of DDL that are carried out: with short waits for locks, again and again, and what a server refuses for good as a
text instead of an error.

ALTER TABLE waits for everybody who is at the table, and everybody who comes waits behind it: so it waits for a second, and
tries again. https://dev.mysql.com/doc/refman/8.0/en/metadata-locking.html
What does not live here: which statements these are (`building.py`, `taken_off.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pymysql

from anabranch.connectors.mysql.errors import number_and_text
from anabranch.connectors.mysql.target.errors import describe, translate
from anabranch.connectors.mysql.target.session import Connection, run
from anabranch.errors import TargetBusy, TargetUnavailable

LOCK_WAIT = "SET SESSION lock_wait_timeout = 1"  # seconds
LOCK_TRIES, LOCK_PAUSE_S = 60, 0.5
# What is to be made is there: somebody whose answer was lost has made it. Database, table, column, index, foreign key, check:
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
IS_THERE = frozenset({1007, 1050, 1060, 1061, 1826, 3822})
MADE = frozenset({1007, 1050})  # a whole database or table; of the others none is "there" in a table that is being made
IS_GONE = frozenset({1051, 1091, 3821})  # what is to be dropped: table, index or key, check
LOG_FULL = 1799  # changes of others while an index is built do not fit: innodb_online_alter_log_max_size
ALONE = ", LOCK=SHARED"


def attempt(
    connection: Connection,
    statement: str,
    what: str,
    done: str = "built",
    is_single: bool = True,
    behind: str = "",
    beside: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> list[str]:
    """Carry out a statement. Returns why the server refuses it for good. Raises TargetUnavailable for anything that passes.

    `is_single`: it makes or drops one thing, which may have been done meanwhile; of several the server does none then.
    `behind`: a comment that ends it; `beside`: what each attempt holds meanwhile.
    """
    for _ in range(LOCK_TRIES):
        try:
            with beside():
                run(connection, f"{statement} {behind}".rstrip())
            return []
        except (pymysql.err.Error, OSError) as error:
            number = error.args[0] if error.args else 0
            if is_single and number in IS_THERE | IS_GONE:
                return []
            found = translate(error, f"{what} could not be {done}")
            if isinstance(found, TargetUnavailable) and not isinstance(found, TargetBusy):
                raise found from None
            if number == LOG_FULL and not statement.endswith(ALONE):
                statement += ALONE
            elif not isinstance(found, TargetBusy):
                return [f"{what} could not be {done}: {describe(*number_and_text(error))}"]
        time.sleep(LOCK_PAUSE_S)
    raise TargetUnavailable(f"build {what}: its tables are locked", hint="end long transactions at the target")
