"""A server of a test alone, on which statements of strangers are run: the tables that they ask for are made for them, and what
they have made of these is told by the catalogue and by the rows, not by us.

What does not live here: the statements (`ddl_corpora.py`), what a job makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql

from anabranch.connectors.mysql.source.statement_tokens import tokens
from anabranch.model.ids import TableId
from anabranch.testing.databases import connect
from anabranch.testing.servers import Server
from rigs.scenario import ticked

SCHEMA = "ground"
SYSTEM = ("information_schema", "mysql", "performance_schema", "sys")
TRIES = 40  # things that one statement may ask for
EVERYTHING = frozenset(
    """ALTER ANALYZE CALL CREATE DELETE DO DROP EXPLAIN INSERT LOAD OPTIMIZE RENAME REPAIR REPLACE TRUNCATE UPDATE
    WITH""".split()  # noqa: SIM905 - a table of words
)  # verbs of what may change a table; others are in HARMLESS, and some of them would end the server
OF_ALL = frozenset(("INSTANCE", "LOGFILE", "ROLE", "SERVER", "TABLESPACE", "UNDO", "USER"))  # not of one database
_QUOTED = re.compile(r"'((?:[^']|'')*)'")
# What a definition says, and what tells rows: each of one kind of fact per table.
DEFINITIONS = {
    "columns": "SELECT TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT,"
    " CHARACTER_SET_NAME, COLLATION_NAME, REPLACE(EXTRA, 'INVISIBLE', ''), GENERATION_EXPRESSION"
    " FROM information_schema.COLUMNS",
    "comments": "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_COMMENT, EXTRA LIKE '%INVISIBLE%' FROM"
    " information_schema.COLUMNS",
    "primary": "SELECT TABLE_SCHEMA, TABLE_NAME, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS"
    " WHERE INDEX_NAME = 'PRIMARY'",
    "indexes": "SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE, SEQ_IN_INDEX, COLUMN_NAME, SUB_PART, COLLATION,"
    " INDEX_TYPE FROM information_schema.STATISTICS WHERE INDEX_NAME <> 'PRIMARY'",
    "constraints": "SELECT TABLE_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, CONSTRAINT_TYPE FROM"
    " information_schema.TABLE_CONSTRAINTS WHERE CONSTRAINT_TYPE <> 'PRIMARY KEY'",
    "keys": "SELECT CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME, UPDATE_RULE, DELETE_RULE, REFERENCED_TABLE_NAME"
    " FROM information_schema.REFERENTIAL_CONSTRAINTS",
    "partitions": "SELECT TABLE_SCHEMA, TABLE_NAME, PARTITION_NAME, SUBPARTITION_NAME, PARTITION_METHOD,"
    " PARTITION_EXPRESSION, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS",
    "table": "SELECT TABLE_SCHEMA, TABLE_NAME, ENGINE, TABLE_COLLATION, TABLE_COMMENT FROM information_schema.TABLES",
}
Facts = Mapping[str, Sequence[tuple[Any, ...]]]
"""Maps kinds of facts, as DEFINITIONS names them, and "rows", to what is so of one table."""


@dataclass(frozen=True)
class Ran:
    """A statement that the server took: the tables before and behind it, and what its log has of it, each with the schema of
    its session. `error`: why it was not taken; "": it was."""

    before: Mapping[TableId, Facts] = field(default_factory=dict)
    behind: Mapping[TableId, Facts] = field(default_factory=dict)
    logged: Sequence[tuple[str, str]] = ()
    error: str = ""

    def changed(self) -> Iterator[tuple[TableId, frozenset[str]]]:
        """Yield each table that is another one behind the statement, with the kinds of facts; of one that came or went: all."""
        for table in sorted(self.before.keys() | self.behind.keys()):
            one, other = self.before.get(table), self.behind.get(table)
            kinds = frozenset((*DEFINITIONS, "rows"))
            if one is not None and other is not None:
                kinds = frozenset(kind for kind in kinds if one.get(kind) != other.get(kind))
            if kinds:
                yield table, kinds


def may_be_run(sql: str) -> bool:
    words = [token.word for token in tokens(sql)]
    at = 2 if words[:2] == ["SET", "STATEMENT"] else next((n for n, word in enumerate(words) if word), 0)
    return words[at : at + 1] != [] and (words[at] in EVERYTHING or at == 2) and OF_ALL.isdisjoint(words[at : at + 6])


class Ground:
    """Runs statements, one after the other, each where nothing is but what it asks for."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._session = connect(server)
        self._do("SET sql_mode = '', foreign_key_checks = 0")
        self.made: list[str] = []  # names of tables, as statements have them

    def close(self) -> None:
        self._session.close()

    def run(self, sql: str, between: Callable[[], None] = lambda: None) -> Ran:
        """Run a statement, and what it asks for before. `between`: called when all is there, each time that it is tried."""
        self._clear()
        with closing(connect(self.server, SCHEMA)) as session, closing(session.cursor()) as cursor:
            cursor.execute("SET sql_mode = '', binlog_format = 'STATEMENT', lock_wait_timeout = 5")
            asked: set[str] = set()
            for _ in range(TRIES):
                before, place = self.look(), self._end()
                between()
                try:
                    cursor.execute(sql)
                except pymysql.err.MySQLError as error:
                    if not self._makes_room(sql, error, asked):
                        return Ran(error=str(error))
                else:
                    with suppress(pymysql.err.MySQLError):
                        while cursor.nextset():
                            pass
                    return Ran(before, self.look(), self._logged(*place))
        return Ran(error="it asks for more and more")

    def look(self) -> dict[TableId, Facts]:
        """Return what is so of each table."""
        found: dict[TableId, dict[str, list[tuple[Any, ...]]]] = {}
        for schema, name, kind in self._ask(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES"
        ):
            if schema.lower() not in SYSTEM and kind in ("BASE TABLE", "SYSTEM VERSIONED"):
                found[TableId(schema, name)] = {}
        for fact, query in DEFINITIONS.items():
            for schema, name, *rest in self._ask(query) if found else ():
                if (table := TableId(schema, name)) in found:
                    found[table].setdefault(fact, []).append(tuple(rest))
        for table, facts in found.items():
            for one in facts.values():
                one.sort(key=repr)
            facts["rows"] = self._ask(f"CHECKSUM TABLE {_full(table)}")
            facts["rows"] += self._ask(f"SELECT COUNT(*) FROM {_full(table)}")
        return dict(found)

    # --- the ground ---------------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        for (name,) in self._ask("SHOW DATABASES"):
            if name.lower() not in SYSTEM:
                self._do(f"DROP DATABASE {ticked(name)}")
        self._do(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
        self.made = []

    def _makes_room(self, sql: str, error: pymysql.err.MySQLError, asked: set[str]) -> bool:
        """Give the statement what the server misses. Returns whether there was anything new to give."""
        number, text = error.args[0], str(error.args[1]) if len(error.args) > 1 else ""
        if f"{number} {text}" in asked and number != CANNOT_DROP:
            return False
        asked.add(f"{number} {text}")
        names = [name.replace("''", "'") for name in _QUOTED.findall(text)]
        give = _GIVES.get(number)
        try:
            return give is not None and bool(names or number in NAMELESS) and bool(give(self, names, sql))
        except pymysql.err.MySQLError:
            return False

    def _table(self, names: Sequence[str], sql: str) -> bool:
        for name in names[0].split(","):
            schema, _, alone = name.partition(".") if "." in name else (SCHEMA, "", name)
            full = f"{ticked(schema)}.{ticked(alone)}"
            self._do(f"CREATE DATABASE IF NOT EXISTS {ticked(schema)}")
            self._do(f"CREATE TABLE {full} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {full} VALUES (1, 1), (2, 5)")
            self.made.append(full)
        return True

    def _schema(self, names: Sequence[str], sql: str) -> bool:
        self._do(f"CREATE DATABASE {ticked(names[0])}", f"CREATE TABLE {ticked(names[0])}.inside (id INT)")
        return True

    def _no_schema(self, names: Sequence[str], sql: str) -> bool:
        self._do(f"DROP DATABASE {ticked(names[0])}")
        return True

    def _no_table(self, names: Sequence[str], sql: str) -> bool:
        name = names[0] if "." not in names[0] else names[0].partition(".")[2]
        for (schema,) in self._ask("SELECT TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_NAME = %s", [name]):
            if schema.lower() not in SYSTEM:
                self._do(f"DROP TABLE {ticked(schema)}.{ticked(name)}")
        return True

    def _column(self, names: Sequence[str], sql: str) -> bool:
        return self._each(f"ADD COLUMN {ticked(names[0].rpartition('.')[2])} INT DEFAULT 7")

    def _no_column(self, names: Sequence[str], sql: str) -> bool:
        return self._each(f"DROP COLUMN {ticked(names[0])}")

    def _index(self, names: Sequence[str], sql: str) -> bool:
        return self._each(f"ADD INDEX {ticked(names[0])} (v)")

    def _no_index(self, names: Sequence[str], sql: str) -> bool:
        return self._each(f"DROP INDEX {ticked(names[0])}")

    def _no_primary(self, names: Sequence[str], sql: str) -> bool:
        return self._each("DROP PRIMARY KEY")

    def _check(self, names: Sequence[str], sql: str) -> bool:
        return self._each(f"ADD CONSTRAINT {ticked(names[0])} CHECK (v > 0)")

    def _no_check(self, names: Sequence[str], sql: str) -> bool:
        return self._each(f"DROP CONSTRAINT {ticked(names[0])}")

    def _partitions(self, names: Sequence[str], sql: str) -> bool:
        found = re.search(r"PARTITION\s+((?:\w+\s*,\s*)*\w+)", re.sub(r"[`]", "", sql), re.IGNORECASE)
        said = [name.strip() for name in (found[1] if found else "").split(",")]
        parts = [f"PARTITION {name} VALUES LESS THAN ({2 + at})" for at, name in enumerate(said)]
        return self._each(
            f"PARTITION BY RANGE (id) ({', '.join([*parts, 'PARTITION last_one VALUES LESS THAN MAXVALUE'])})"
        )

    def _dropped(self, names: Sequence[str], sql: str) -> bool:
        """Give what a statement drops, in the order of what it may be."""
        name = ticked(names[0])
        ways = ["ADD COLUMN {0} INT DEFAULT 7", "ADD INDEX {0} (v)"]
        if re.search(r"\bforeign\s+key\b", sql, re.IGNORECASE):
            self._do(f"CREATE TABLE IF NOT EXISTS {SCHEMA}.parent (id INT PRIMARY KEY)")
            ways = [f"ADD CONSTRAINT {{0}} FOREIGN KEY (v) REFERENCES {SCHEMA}.parent (id)", *ways]
        elif re.search(r"\b(index|key)\b", sql, re.IGNORECASE):
            ways.reverse()
        elif re.search(r"\bconstraint\b", sql, re.IGNORECASE):
            ways = ["ADD CONSTRAINT {0} CHECK (v > 0)", *ways]
        for way in ways:
            with suppress(pymysql.err.MySQLError):
                return self._each(way.format(name))
        return False

    def _each(self, clause: str) -> bool:
        """Alter the tables that were made for the statement. Returns whether one of them was."""
        failed: pymysql.err.MySQLError | None = None
        done = False
        for table in self.made:
            try:
                self._do(f"ALTER TABLE {table} {clause}")
                done = True
            except pymysql.err.MySQLError as error:
                failed = error
        if failed is not None and not done:
            raise failed
        return done

    # --- the server ---------------------------------------------------------------------------------------------------

    def _ask(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with closing(self._session.cursor()) as cursor:
            cursor.execute(query, values or None)
            return list(cursor.fetchall())

    def _do(self, *statements: str) -> None:
        for statement in statements:
            self._ask(statement)

    def _end(self) -> tuple[str, int]:
        """Return the place at which the server's log ends."""
        ((file, offset, *_),) = self._ask("SHOW MASTER STATUS")
        return file, offset

    def _logged(self, file: str, offset: int) -> list[tuple[str, str]]:
        """Return the statements that the log has from a place on, each with its session's schema."""
        found = []
        for _, _, kind, _, _, text in self._ask(f"SHOW BINLOG EVENTS IN '{file}' FROM {offset}"):
            if kind in ("Query", "Query_compressed"):
                used = re.match(r"use `((?:[^`]|``)*)`; ", text)
                found.append((text[used.end() :] if used else text, used[1].replace("``", "`") if used else ""))
        return found


CANNOT_DROP = 1091
NAMELESS = (1068, 1505, 1507, 1735)
# https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html · https://mariadb.com/kb/en/mariadb-error-codes/
_GIVES: Mapping[int, Callable[[Ground, Sequence[str], str], bool]] = {
    1007: Ground._no_schema,
    1008: Ground._schema,
    1049: Ground._schema,
    1050: Ground._no_table,
    1051: Ground._table,
    1054: Ground._column,
    1060: Ground._no_column,
    1061: Ground._no_index,
    1068: Ground._no_primary,
    1072: Ground._column,
    CANNOT_DROP: Ground._dropped,
    1146: Ground._table,
    1176: Ground._index,
    1505: Ground._partitions,
    1507: Ground._partitions,
    1735: Ground._partitions,
    3821: Ground._check,
    3822: Ground._no_check,
    4025: Ground._no_check,
}


def _full(table: TableId) -> str:
    return f"{ticked(table.schema)}.{ticked(table.name)}"
