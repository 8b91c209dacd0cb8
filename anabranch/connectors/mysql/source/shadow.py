"""The shadow of a drill at a MySQL or MariaDB: a database with empty copies of tables, and a note of whose it is.

`CREATE TABLE … LIKE` copies what the server knows of a table (columns, generated ones among them, indexes, checks, partitions,
character sets), and leaves out foreign keys and triggers: a key to a table of the application would lock its rows, and a
trigger would write to them. What is made, written and removed stands in the server's log or does not, all of it alike: replicas
would stop at the removal of what they do not have.
https://dev.mysql.com/doc/refman/8.0/en/create-table-like.html · https://mariadb.com/kb/en/create-table/#create-table-like

What does not live here: what is asked before it is made (shadow_outlook.py), the comparison (shadow_rows.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

import pymysql

from anabranch.connectors.mysql.connection import account, ask, connect, family, version
from anabranch.connectors.mysql.rights import grant, log_right
from anabranch.connectors.mysql.source import shadow_outlook, shadow_rows
from anabranch.connectors.mysql.source.chunks import qualified
from anabranch.connectors.mysql.source.expressions import name
from anabranch.connectors.sql.giving_way import unless_awaited
from anabranch.contracts import Outlook, Unlike
from anabranch.errors import AnabranchError, SourceError, SourceUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId

NOTE = "anabranch_drill_note"  # in the shadow: which job's drill made it, and whether it is logged
LOCK_SECONDS = 5  # whoever changes a definition would keep us, and we those who wait behind us
HAS_DATABASE = "SELECT 1 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s"
TABLES = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s"
# No session but those of the user itself is seen without PROCESS: then nobody is given way to.
AWAITED = """
SELECT 1 FROM information_schema.PROCESSLIST
 WHERE LOWER(STATE) = 'waiting for table metadata lock' AND LOCATE(%s, INFO) LIMIT 1
"""


class MysqlShadow:
    """`contracts.Shadow`. A server of this family does not number its rows."""

    numbers_rows = False

    def __init__(self, endpoint: Endpoint, schema: str, job: str) -> None:
        self.endpoint, self.schema, self.job = endpoint, schema, job
        self._session: pymysql.Connection | None = None
        self._is_comparing = False
        self._is_logged = True

    @property
    def _open(self) -> pymysql.Connection:
        if self._session is None or not self._session.open:
            self._session = connect(self.endpoint, read_timeout=None)  # a comparison takes as long as it takes
            ask(self._session, f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}")
        return self._session

    @property
    def _note(self) -> str:
        return f"{name(self.schema)}.{name(NOTE)}"

    def owner(self) -> str | None:
        if not ask(self._open, HAS_DATABASE, self.schema):
            return None
        if (NOTE,) not in ask(self._open, TABLES, self.schema):
            return ""
        found = ask(self._open, f"SELECT job FROM {self._note}")
        return str(found[0][0]) if found else ""

    def is_begun(self) -> bool:
        """Look for no table but the note, and no row in that: each statement that makes something commits here."""
        if not ask(self._open, HAS_DATABASE, self.schema):
            return False
        others = [one for (one,) in ask(self._open, TABLES, self.schema) if one != NOTE]
        return not others and self.owner() == ""

    def outlook(self, tables: Collection[TableId], admits_log: bool) -> Outlook:
        found = shadow_outlook.outlook(self._open, self.schema, tables, admits_log)
        self._is_logged = found.options.get("sql_log_bin", True) is not False
        return found

    def make(self, tables: Mapping[TableId, TableId]) -> None:
        session = self._open
        with self._logging(session, self._is_logged):
            ask(session, f"CREATE DATABASE {name(self.schema)} CHARACTER SET utf8mb4")
            ask(session, f"CREATE TABLE {self._note} (id INT PRIMARY KEY, job VARCHAR(190), logged INT) ENGINE=InnoDB")
            ask(session, f"INSERT INTO {self._note} VALUES (1, %s, %s)", self.job, int(self._is_logged))
            for table, shadow in tables.items():
                ask(session, f"CREATE TABLE {qualified(shadow)} LIKE {qualified(table)}")

    def unlike(
        self, table: TableId, shadow: TableId, key: Sequence[str], columns: Sequence[str], limit: int
    ) -> Unlike | None:
        session = self._open
        with closing(connect(self.endpoint, watched=False)) as watch:

            def end() -> None:
                ask(watch, f"KILL QUERY {session.thread_id()}")

            def compare() -> Unlike:
                self._is_comparing = True
                found = shadow_rows.unlike(session, table, shadow, key, columns, limit)
                self._is_comparing = False
                return found

            found = unless_awaited(compare, lambda: bool(ask(watch, AWAITED, table.name)), end, SourceUnavailable)
        if found is None:
            self.close()
        return found

    def remove(self) -> list[str]:
        """Remove the tables, then the database with the note: whoever is stopped between finds it again. Without a note nothing
        but the database may stand at replicas, or not: its removal is logged, and passes where it is not there."""
        session = self._open
        there = [str(one) for (one,) in ask(session, TABLES, self.schema)]
        note = ask(session, f"SELECT logged FROM {self._note}") if NOTE in there else []
        with self._logging(session, bool(note[0][0]) if note else True):
            ask(session, "SET SESSION foreign_key_checks = 0")
            for table in sorted(there):
                if table != NOTE:
                    ask(session, f"DROP TABLE IF EXISTS {qualified(TableId(self.schema, table))}")
            ask(session, f"DROP DATABASE IF EXISTS {name(self.schema)}")
        return [f"source: database {self.schema}"]

    def close(self) -> None:
        """End a comparison, too, that its process was called away from: it would keep the tables."""
        session, self._session = self._session, None
        if session is None:
            return
        number, was_comparing, self._is_comparing = session.thread_id(), self._is_comparing, False
        if was_comparing:
            with suppress(AnabranchError), closing(connect(self.endpoint, watched=False)) as other:
                ask(other, f"KILL {number}")
        with suppress(pymysql.err.Error, OSError):
            session._force_close() if was_comparing else session.close()

    @contextmanager
    def _logging(self, session: pymysql.Connection, is_logged: bool) -> Iterator[None]:
        """Let the session's statements stand in the log, or not."""
        if is_logged:
            yield
            return
        try:
            ask(session, "SET SESSION sql_log_bin = 0")
        except SourceError as error:
            if shadow_outlook.code_of(error) not in shadow_outlook.DENIED:
                raise
            right = log_right(family(session), version(session))
            text = f"{account(session)} may not keep its writes out of the log any more, as the drill has done"
            raise SourceError(text, hint=grant(right, "*.*", account(session))) from None
        try:
            yield
        finally:
            self.close()
