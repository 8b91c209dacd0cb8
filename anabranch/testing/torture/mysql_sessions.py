"""What a session of a history says to a MySQL or MariaDB, and what its errors mean.

What does not live here: the sessions beside each other (sessions.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from anabranch.testing.databases import connect
from anabranch.testing.servers import Server
from anabranch.testing.torture.altering import alter_sql
from anabranch.testing.torture.ends import version_of
from anabranch.testing.torture.growing import grow_sql
from anabranch.testing.torture.history import (
    PASSING,
    History,
    Statement,
    Transaction,
    ledger_sql,
    sql,
    truncate_sql,
)
from anabranch.testing.torture.passing import passing_sql
from anabranch.testing.torture.speaker import COMMITTED, ROLLED_BACK, Collided, Lost, Result
from anabranch.testing.torture.values import exact_collation

# What a statement may fail of; it is taken back alone. Duplicate key, missing parent, referenced row, cascades too deep,
# a value that does not fit, NULL or nothing where a value has to be, truncating what is referred to
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
REFUSALS = frozenset(
    {1022, 1048, 1062, 1169, 1216, 1217, 1264, 1364, 1406, 1451, 1452, 1557, 1690, 1701, 1761, 1762, 3008}
)
# Deadlock, lock wait timeout, changed since it was read: the session rolls back.
COLLISIONS = frozenset({1205, 1213, 1020})
# A table that was altered: it is younger than the transaction, or has them only later in another session's order.
GROWN = frozenset({1054, 1412})
# A table that was dropped or renamed, or not made: there is one, there is none to drop, there is none.
PASSED = frozenset({1050, 1051, 1054, 1136, 1146, 1412})
# The server went away, ends, or ended the session.
LOST = frozenset({0, 1053, 1317, 1927, 2003, 2006, 2013, 2055, 4031})
SETTINGS = (
    "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', autocommit = 0,"
    " innodb_lock_wait_timeout = 1, lock_wait_timeout = 2"
)


class MysqlSpeaker:
    """speaker.Speaker."""

    def __init__(self, server: Server, history: History, session: int) -> None:
        """Raises Lost, also where opening the tables collides with another session's statement: it is opened again."""
        import pymysql

        self.history, self._exact = history, exact_collation(server.name, version_of(server))
        try:
            self._connection = self._connect(server, session)
        except pymysql.err.MySQLError as error:
            if error.args[0] in LOST | COLLISIONS:
                raise Lost from error
            raise

    def carry_out(self, transaction: Transaction, results: list[Result], hold: Callable[[], None]) -> str:
        import pymysql

        try:
            return self._attempt(transaction, results, hold)
        except pymysql.err.MySQLError as error:
            number = error.args[0] if error.args else 0
            if number in COLLISIONS or (number in GROWN and self.history.grows):
                raise Collided from error
            if number in PASSED and self.history.passes:
                raise Collided from error
            if number in LOST or isinstance(error, pymysql.err.InterfaceError):
                raise Lost from error
            raise

    def roll_back(self) -> None:
        import pymysql

        with suppress(pymysql.err.MySQLError):  # it went away: whoever asks next finds out
            self._connection.query("ROLLBACK")
            self._connection.query("SET foreign_key_checks = 1")

    def close(self) -> None:
        self._connection.close()

    def _attempt(self, transaction: Transaction, results: list[Result], hold: Callable[[], None]) -> str:
        connection = self._connection
        if transaction.alone:
            results.append(_ask(connection, self._alone(transaction.alone, transaction.number)))
            return ROLLED_BACK if results[0].error else COMMITTED
        if not transaction.checks:
            connection.query("SET foreign_key_checks = 0")
        for statement in transaction.statements:
            if not transaction.checks:
                self._hold_parents(statement)
            results.append(_ask(connection, sql(statement)))
        hold()
        last = [ledger_sql(transaction.number), "COMMIT"] if transaction.commits else ["ROLLBACK"]
        last += [] if transaction.checks else ["SET foreign_key_checks = 1"]
        connection.query("; ".join(last))
        for _ in last[1:]:
            connection.next_result()
        return COMMITTED if transaction.commits else ROLLED_BACK

    def _alone(self, statement: Statement, number: int) -> str:
        if statement.do == "truncate":
            return truncate_sql(statement.table, number)
        if statement.do in PASSING:
            return passing_sql(self.history.schema, statement, number, self._exact)
        made = alter_sql if statement.do == "alter" else grow_sql
        return made(self.history.schema[statement.table], statement, number, self._exact)

    def _hold_parents(self, statement: Statement) -> None:
        """Lock the parents, as keys that are on do.

        Without it a child may come under a parent that another session is removing, and no log tells whether it came
        before or after the others were cleared."""
        for name in [part.table for part in statement.parts] or [statement.table]:
            for key in self.history.schema[name].foreign_keys if name else ():
                self._connection.query(f"SELECT * FROM {key.parent} LOCK IN SHARE MODE")

    def _connect(self, server: Server, session: int) -> Any:
        made = open_session(server, self.history.database)
        try:
            self._prepare(made, session)
        except BaseException:  # whatever it was: its locks go, and it is passed on
            made.close()
            raise
        return made

    def _prepare(self, made: Any, session: int) -> None:
        made.query(SETTINGS)
        image = self.history.images[session] if session < len(self.history.images) else ""
        if image:
            made.query(f"SET SESSION binlog_row_image = '{image}'")
        # MySQL 8.0.33 that was just restarted, and whose tables several sessions open at once, was seen to leave out what a
        # key does to children (seed 133): a session opens them all before it changes anything.
        for table in self.history.schema.steady:
            made.query(f"SELECT * FROM {table.name} LIMIT 0")
        made.commit()


def open_session(server: Server, database: str) -> Any:
    """Open a session that counts rows found rather than rows changed, and takes several statements at once."""
    from pymysql.constants import CLIENT

    flags = CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS
    return connect(server, database, client_flag=flags, connect_timeout=10)


def _ask(connection: Any, statement: str) -> Result:
    """Raises what ends the transaction."""
    import pymysql

    try:
        return Result(0, connection.query(statement))
    except pymysql.err.MySQLError as error:
        if error.args[0] not in REFUSALS:
            error.add_note(statement[:2000])
            raise
        return Result(error.args[0])
