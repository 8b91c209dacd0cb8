"""One history's tables at a MySQL or MariaDB target (targets.TargetTables): what is shown, written and refused there.

What does not live here: which rows and tables are drawn (intruder.py, setting_aside.py), servers and databases
(mysql_target.py), what values look like (mysql_target_values.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from anabranch.testing.databases import Database
from anabranch.testing.torture.exempt import ASIDE, INTRUDER, Noted
from anabranch.testing.torture.mysql_snapshots import MysqlSnapshots, connected
from anabranch.testing.torture.mysql_target_values import literal, noted, noted_sql, read_as, shown
from anabranch.testing.torture.tables import LEDGER, Column, Schema, Table
from anabranch.testing.torture.targets import Disturbance, Hides, Refuses
from anabranch.testing.torture.values import Text, copied

# Texts all of them, as a relation that is read as a whole has to be (mysql_snapshots.py).
CREATE_INTRUDER = """
CREATE TABLE IF NOT EXISTS `{0}`.{1} (t VARCHAR(64), k1 VARCHAR(200), k2 VARCHAR(200), did VARCHAR(20), commits INT,
  mends CHAR(1) DEFAULT 'f', line LONGTEXT) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
"""
VIEW_ASIDE = """
SELECT '{table}' AS t, {first} AS k1, {second} AS k2 FROM anabranch.set_aside s
 WHERE s.job = '{space}' AND s.source_table = '{space}.{table}' AND s.discarded_at IS NULL
"""
FIELD = "JSON_UNQUOTE(JSON_EXTRACT(s.`key`, '$.\"{}\"'))"
CONFLICTS = """
SELECT c.kind, c.decision, CASE c.kind WHEN 'exists' THEN c.found ELSE c.`key` END FROM anabranch.conflict c
 WHERE c.job = %s AND c.source_table = %s ORDER BY c.number
"""
# A CHECK is asked of the rows that are there, too; a trigger is not. The number is that of a CHECK that fails.
# https://dev.mysql.com/doc/refman/8.0/en/signal.html
REFUSED_AS = {"mysql": 3819, "mariadb": 4025}
DEED = """
CREATE TRIGGER `{space}`.`{name}` BEFORE {event} ON `{space}`.`{table}` FOR EACH ROW
 IF {refuses} THEN SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'deed'; END IF
"""
EVENTS = ("INSERT", "UPDATE")
DURABLE = "SET GLOBAL innodb_flush_log_at_trx_commit = {}"
SHORT = "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1"  # seconds; no less can be said


@dataclass(frozen=True)
class MysqlTargetTables:
    target: Database
    namespace: str

    def snapshots(
        self,
        columns: Mapping[str, Sequence[Column]],
        beside: Sequence[str] = (),
        passing: Mapping[str, Sequence[Sequence[Column]]] | None = None,
    ) -> MysqlSnapshots:
        return MysqlSnapshots(self.target, self.namespace, columns, tuple(beside), passing or {})

    def show(self, relation: str, schema: Schema) -> None:
        made = {INTRUDER: CREATE_INTRUDER.format(self.namespace, INTRUDER), ASIDE: self._view(schema)}
        self.target.execute(made[relation])

    def _view(self, schema: Schema) -> str:
        selects = []
        for table in (table for table in schema.tables if table.key):
            keys = [noted_sql(table.column(name).of, FIELD.format(name)) for name in table.key]
            first, second, *_ = [*keys, "NULL"]
            selects.append(VIEW_ASIDE.format(table=table.name, space=self.namespace, first=first, second=second))
        return f"CREATE OR REPLACE VIEW `{self.namespace}`.{ASIDE} AS {' UNION '.join(selects)}"

    @contextmanager
    def intrude(self, tables: Sequence[Table]) -> Iterator[MysqlIntrusion]:
        """Lock every row and gap of the tables: nobody else writes to them then, and readers go on."""
        with closing(connected(Database(self.target.server, self.namespace), autocommit=False)) as connection:
            session = MysqlIntrusion(connection)
            session.run(SHORT)
            session.run("COMMIT")
            for table in sorted(tables, key=lambda one: one.name):
                session.ask(f"SELECT `{table.key[0]}` FROM `{table.name}` FOR UPDATE")
            yield session
            connection.commit()

    def mend(self, *, is_over: bool) -> None:
        relation = f"`{self.namespace}`.{INTRUDER}"
        self.target.execute(f"DELETE FROM {relation}" if is_over else f"UPDATE {relation} SET mends = 't'")

    def noted(self, schema: Schema) -> list[Noted]:
        found = []
        for table in schema.tables:
            source = f"{self.namespace}.{table.name}"
            for kind, decision, row in self.target.query(CONFLICTS, [self.namespace, source]):
                texts: Mapping[str, Text] = json.loads(row)
                key = (noted(table.column(name).of, texts[name]) for name in table.key)
                found.append(Noted(table.name, kind, decision, tuple(copied(text).encode() for text in key)))
        return found

    def disturb(self, table: str, how: Disturbance) -> None:
        if isinstance(how, Hides):
            raise ValueError("no MySQL hides rows from its users")
        number, refuses = REFUSED_AS[self.target.server.name], _refused(how)
        made = (
            DEED.format(
                space=self.namespace, table=table, name=_name(table, e), event=e, refuses=refuses, number=number
            )
            for e in EVENTS
        )
        self._change(*self._dropped(table), *made)

    def calm(self, table: str, how: Disturbance) -> None:
        self._change(*self._dropped(table))

    def flush(self) -> None:
        """A server that leaves its log in memory at a commit leaves it there at this statement, too."""
        self.target.execute(DURABLE.format(1), "FLUSH ENGINE LOGS", DURABLE.format(0))

    def _dropped(self, table: str) -> Iterator[str]:
        return (f"DROP TRIGGER IF EXISTS `{self.namespace}`.`{_name(table, event)}`" for event in EVENTS)

    def _change(self, *statements: str) -> None:
        """Apply holds the table while it writes: short waits, many of them."""
        self.target.execute(SHORT, *statements)


def _name(table: str, event: str) -> str:
    return f"deed_{event.lower()}_{table}"


def _refused(how: Refuses) -> str:
    """Return the condition that is true of the rows that a table refuses."""
    if not how.key:
        return "TRUE"
    key = ", '/', ".join(f"NEW.`{name}`" for name in how.key)
    return f"MOD(CRC32(CONCAT({key})), {how.parts}) = {how.part}"


@dataclass
class MysqlIntrusion:
    """Writes in a transaction of `connection` that has locked the tables; a place is a condition on the key."""

    connection: Any
    may_insert: bool = True  # whoever may write may switch foreign keys off

    @property
    def has_written(self) -> bool:
        return bool(self.ask(f"SELECT 1 FROM {INTRUDER} LIMIT 1"))

    def rows(self, table: Table) -> list[tuple[str, dict[str, Text]]]:
        found = []
        for row in self._read(table):
            texts = dict(zip((column.name for column in table.columns), row, strict=True))
            found.append((_place(table, [texts[name] for name in table.key]), texts))
        return found

    def delete(self, table: Table, place: str) -> None:
        self.run(f"DELETE FROM `{table.name}` WHERE {place}")

    def update(self, table: Table, place: str, column: str, text: Text) -> None:
        self.run(f"UPDATE `{table.name}` SET `{column}` = {literal(table.column(column).of, text)} WHERE {place}")

    def insert(self, table: Table, row: Mapping[str, Text]) -> None:
        names = ", ".join(f"`{name}`" for name in row)
        made = ", ".join(literal(table.column(name).of, text) for name, text in row.items())
        self.run(f"INSERT INTO `{table.name}` ({names}) VALUES ({made})")

    def note(self, table: Table, key: Sequence[Text], did: str) -> None:
        lines = ["\t".join(map(copied, row)).encode() for row in self._read(table, _place(table, key))]
        line = f"\\x{lines[0].hex()}" if lines else None
        ((commits,),) = self.ask(f"SELECT COUNT(*) FROM {LEDGER}")
        self.run(
            f"INSERT INTO {INTRUDER} (t, k1, k2, did, commits, line) VALUES (%s, %s, %s, %s, %s, %s)",
            [table.name, key[0], key[1] if len(key) > 1 else None, did, int(commits), line],
        )

    def _read(self, table: Table, place: str = "TRUE") -> Iterator[list[Text]]:
        names = ", ".join(read_as(column.of, column.name) for column in table.columns)
        of = [shown(column.of) for column in table.columns]
        for row in self.ask(f"SELECT {names} FROM `{table.name}` WHERE {place}"):
            yield [None if value is None else text(value) for text, value in zip(of, row, strict=True)]

    def ask(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def run(self, sql: str, values: Sequence[object] | None = None) -> None:
        with self.connection.cursor() as cursor:
            cursor.execute(sql, values)


def _place(table: Table, key: Sequence[Text]) -> str:
    of = (table.column(name).of for name in table.key)
    wanted = (f"`{name}` <=> {literal(kind, text)}" for name, kind, text in zip(table.key, of, key, strict=True))
    return " AND ".join(wanted)
