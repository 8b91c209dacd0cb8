"""Sessions of who reads change tables (change_snapshots.Asking): by COPY of the functions at a PostgreSQL, by CALL of the
procedures at a MySQL or MariaDB.

Only what docs/howto/change-tables.md names is asked. What does not live here: when it is asked, and what is made of the answers
(change_snapshots.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pymysql
from pymysql.constants import CLIENT, ER

from anabranch.testing.databases import Database
from anabranch.testing.torture import postgresql_snapshots
from anabranch.testing.torture.change_snapshots import Asking, Changed, Range
from anabranch.testing.torture.mysql_snapshots import Lines, connected, results_of
from anabranch.testing.torture.mysql_target_values import shown
from anabranch.testing.torture.postgresql_snapshots import copied_out
from anabranch.testing.torture.tables import Column

HEAD = 4  # columns that stand before those of a table
NONE_YET = (psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedFunction)
# The same of a MySQL or MariaDB: no database, no function.
NOT_MADE = frozenset({ER.BAD_DB_ERROR, ER.SP_DOES_NOT_EXIST, ER.NO_SUCH_TABLE})


def asking_at(target: Database, namespace: str, columns: Mapping[str, Sequence[Column]]) -> Asking:
    """Return a session that reads the change tables of a history; it does not connect yet."""
    kind = PostgresqlAsking if target.server.name == "postgresql" else MysqlAsking
    return kind(target, namespace, columns)


@dataclass
class PostgresqlAsking:
    target: Database
    namespace: str
    columns: Mapping[str, Sequence[Column]]
    _connection: Any = field(default=None, init=False)

    def end(self) -> str:
        try:
            (found,) = self._asked("SELECT encode(cdc.fn_cdc_get_max_lsn(), 'hex')")
        except NONE_YET:
            return ""
        return found.decode().strip()

    def keys(self) -> Mapping[str, Sequence[int]]:
        query = "SELECT capture_instance, column_name FROM cdc.index_columns ORDER BY capture_instance, index_ordinal"
        (found,) = self._asked(query)
        return keys_of(self.namespace, self.columns, [line.decode().split("\t") for line in found.splitlines()])

    def read(self, behind: str, to: str) -> Range:
        keyed, least = self.keys(), self._least(behind)
        all_changes = [self._all(table, least[table], to) for table in self.columns]
        net_changes = [self._net(table, least[table], to) for table in keyed]
        times = (
            "SELECT encode(start_lsn, 'hex'), extract(epoch FROM tran_end_time) FROM cdc.lsn_time_mapping"
            f" WHERE start_lsn > '\\x{behind}'::bytea AND start_lsn <= '\\x{to}'::bytea"
        )
        *answers, placed = self._asked(*all_changes, *net_changes, times)
        changes = {
            table: [*map(_changed, lines.splitlines())] for table, lines in zip(self.columns, answers, strict=False)
        }
        net = {
            table: [*map(_net, lines.splitlines())] for table, lines in zip(keyed, answers[len(changes) :], strict=True)
        }
        known = (line.decode().split("\t") for line in placed.splitlines())
        return Range(changes, net, [(lsn, float(time)) for lsn, time in known])

    def _least(self, behind: str) -> Mapping[str, str]:
        """Return the first place of a range, by table."""
        if behind:
            (found,) = self._asked(f"SELECT encode(cdc.fn_cdc_increment_lsn('\\x{behind}'::bytea), 'hex')")
            return dict.fromkeys(self.columns, found.decode().strip())
        begins = self._asked(
            *(f"SELECT encode(cdc.fn_cdc_get_min_lsn('{self.namespace}_{table}'), 'hex')" for table in self.columns)
        )
        return {table: found.decode().strip() for table, found in zip(self.columns, begins, strict=True)}

    def _all(self, table: str, least: str, to: str) -> str:
        head = """encode("__$start_lsn", 'hex'), encode("__$seqval", 'hex'), "__$operation", encode("__$update_mask", 'hex')"""
        called = f'cdc."fn_cdc_get_all_changes_{self.namespace}_{table}"'
        return f"SELECT {head}, {self._names(table)} FROM {called}('\\x{least}', '\\x{to}', 'all update old')"

    def _net(self, table: str, least: str, to: str) -> str:
        called = f'cdc."fn_cdc_get_net_changes_{self.namespace}_{table}"'
        return f"SELECT \"__$operation\", {self._names(table)} FROM {called}('\\x{least}', '\\x{to}', 'all')"

    def _names(self, table: str) -> str:
        return ", ".join(f'"{column.name}"' for column in self.columns[table])

    def _asked(self, *queries: str) -> list[bytes]:
        """Return the rows of each query as lines of COPY, in one round trip."""
        if self._connection is None:
            options = {"options": postgresql_snapshots.OPTIONS, "connect_timeout": postgresql_snapshots.CONNECT_SECONDS}
            self._connection = self.target.connect(**options)
        text = "; ".join(f"COPY ({query}) TO STDOUT" for query in queries)
        return copied_out(self._connection.pgconn, text.encode(), len(queries))

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection = None


@dataclass
class MysqlAsking:
    target: Database
    namespace: str
    columns: Mapping[str, Sequence[Column]]
    _connection: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._lines = {table: Lines([shown(column.of) for column in some]) for table, some in self.columns.items()}

    def end(self) -> str:
        try:
            ((found,),) = self._asked("SELECT HEX(cdc.fn_cdc_get_max_lsn())")
        except pymysql.err.MySQLError as error:
            if error.args[0] not in NOT_MADE:
                raise
            return ""
        return str(found[0]).lower()

    def keys(self) -> Mapping[str, Sequence[int]]:
        query = "SELECT capture_instance, column_name FROM cdc.index_columns ORDER BY capture_instance, index_ordinal"
        (found,) = self._asked(query)
        return keys_of(self.namespace, self.columns, found)

    def read(self, behind: str, to: str) -> Range:
        keyed, least = self.keys(), self._least(behind)
        called = [(table, "all", "all update old") for table in self.columns] + [
            (table, "net", "all") for table in keyed
        ]
        calls = [
            f"CALL cdc.`fn_cdc_get_{kind}_changes_{self.namespace}_{table}`(x'{least[table]}', x'{to}', '{option}')"
            for table, kind, option in called
        ]
        times = (
            "SELECT HEX(m.start_lsn), UNIX_TIMESTAMP(m.tran_end_time) FROM cdc.lsn_time_mapping AS m"
            f" WHERE m.start_lsn > x'{behind}' AND m.start_lsn <= x'{to}'"
        )
        *answers, placed = self._asked(*calls, times)
        changes, net = dict[str, list[Changed]](), dict[str, list[tuple[int, bytes]]]()
        for (table, kind, _), rows in zip(called, answers[::2], strict=True):  # behind each answer is that it was given
            lines = self._lines[table]
            if kind == "all":
                changes[table] = [
                    Changed(lsn.hex(), seqval.hex(), int(operation), mask.hex(), lines.of_row(tuple(row))[:-1])
                    for lsn, seqval, operation, mask, *row in rows
                ]
            else:
                net[table] = [(int(operation), lines.of_row(tuple(row))[:-1]) for _, operation, _, *row in rows]
        return Range(changes, net, [(str(lsn).lower(), float(time)) for lsn, time in placed])

    def _least(self, behind: str) -> Mapping[str, str]:
        """Return the first place of a range, by table."""
        if behind:
            ((found,),) = self._asked(f"SELECT HEX(cdc.fn_cdc_increment_lsn(x'{behind}'))")
            return dict.fromkeys(self.columns, str(found[0]))
        begins = self._asked(
            *(f"SELECT HEX(cdc.fn_cdc_get_min_lsn('{self.namespace}_{table}'))" for table in self.columns)
        )
        return {table: str(found[0][0]) for table, found in zip(self.columns, begins, strict=True)}

    def _asked(self, *queries: str) -> list[Any]:
        """Return the rows of each answer, in one round trip."""
        if self._connection is None:
            self._connection = connected(self.target, client_flag=CLIENT.MULTI_STATEMENTS)
        return list(results_of(self._connection, "; ".join(queries)))

    def close(self) -> None:
        if self._connection is not None:
            with suppress(pymysql.err.Error, OSError):
                self._connection.close()
        self._connection = None


def keys_of(
    namespace: str, columns: Mapping[str, Sequence[Column]], told: Sequence[Sequence[Any]]
) -> Mapping[str, Sequence[int]]:
    """Return the places of the key's columns, by table. `told`: capture instance and column, in the key's order."""
    found: dict[str, list[int]] = {}
    for instance, name in told:
        table = str(instance).removeprefix(f"{namespace}_")
        if table in columns:
            found.setdefault(table, []).append([column.name for column in columns[table]].index(str(name)))
    return found


def _changed(line: bytes) -> Changed:
    lsn, seqval, operation, mask, row = line.split(b"\t", HEAD)
    return Changed(lsn.decode(), seqval.decode(), int(operation), mask.decode(), row)


def _net(line: bytes) -> tuple[int, bytes]:
    operation, _, row = line.partition(b"\t")
    return int(operation), row
