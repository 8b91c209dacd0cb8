"""MySQL and MariaDB as a history's target (targets.TargetFamily): private servers, what is made and removed.

A server is one target as a whole: a job's second target cannot be another database of it, and is a PostgreSQL. Nobody is
kept from switching foreign keys off, and no row is hidden from anybody. What does not live here: one history's tables
(mysql_target_tables.py), reading them (mysql_snapshots.py). What is not drawn for such a target:
docs/explanation/torture.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pymysql

from anabranch.errors import PreflightFailed
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database
from anabranch.testing.servers import start_mariadb, start_mysql
from anabranch.testing.torture import worst
from anabranch.testing.torture.ends import version_of
from anabranch.testing.torture.mysql_entered import entered
from anabranch.testing.torture.mysql_target_tables import MysqlTargetTables
from anabranch.testing.torture.mysql_target_values import carried
from anabranch.testing.torture.place import LOCK_SECONDS
from anabranch.testing.torture.sources import Kinds
from anabranch.testing.torture.targets import STATE, Found, Private, TargetFamily

# Nothing here has to survive a power failure, and what is to be lost must not be on its way to the disk already.
FAST = (
    "--skip-log-bin",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-log-at-timeout=10",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=64M",
    "--local-infile=1",
)
# Without `uuid = "native"`, which a MySQL has not, and composites, which no history has.
CHOICES: Mapping[str, Sequence[str | int | bool]] = {
    "json": ("json", "text"),
    "uuid": ("char", "binary"),
    "instant": ("fitting", "timestamp", "datetime"),
    "arrays": ("text", "json"),
    "computed": ("computed", "values"),
}
PROBE = "torture_0"  # a name that no history has: seeds begin with 1
KEPT_IN = (
    "SELECT c.table_name FROM information_schema.columns c JOIN information_schema.tables t"
    " ON (t.table_schema, t.table_name) = (c.table_schema, c.table_name)"
    f" WHERE t.table_type = 'BASE TABLE' AND c.table_schema = '{STATE}' AND c.column_name = 'job' ORDER BY 1"
)


@dataclass
class MysqlTarget:
    name: str
    error: type[Exception] = pymysql.err.MySQLError
    lost: type[Exception] = pymysql.err.OperationalError
    has_policies: bool = False
    keeps_changes: bool = False
    form: str = ""
    is_alone: bool = False
    preloaded: Sequence[str] = (
        "anabranch.connectors.mariadb.target",
        "anabranch.connectors.mysql.target.apply",
        "anabranch.connectors.mysql.target.load",
        "anabranch.connectors.mysql.target.store",
        "pymysql",
    )
    choices: Mapping[str, Sequence[str | int | bool]] = field(default_factory=lambda: CHOICES)

    @contextmanager
    def private(self, directory: Path) -> Iterator[Private]:
        start = {"mariadb": start_mariadb, "mysql": start_mysql}[self.name]
        options = (*FAST, f"--init-connect={worst.at_each_login(self.name)}")
        with start(directory / f"target-{self.name}", options=options) as server:
            try:
                worst.make_user(server)
                yield Private(Database(server, ""))
            finally:
                server.stop(immediate=True)

    def kinds(self, known: Kinds, source: str, target: Database) -> Kinds:
        return replace(known, all=carried(known.all, source, self.name, version_of(target.server)))

    def entered(self, end: Endpoint) -> Database:
        target = Database(entered(end, "target"), "")
        _require_rights(target)
        return target

    def found(self, target: Database) -> Found:
        schemas = [str(name) for (name,) in target.query("SELECT schema_name FROM information_schema.schemata")]
        jobs = [job for table in _kept_in(target) for (job,) in target.query(f"SELECT DISTINCT job FROM {_at(table)}")]
        return Found(schemas, sorted({str(job) for job in jobs}))

    def of_history(self, target: Database, name: str) -> Database:
        return target

    def prepare(self, target: Database, name: str) -> None:
        self.drop(target, name)

    def drop(self, target: Database, name: str) -> None:
        target.execute(f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}", f"DROP DATABASE IF EXISTS `{name}`")

    def forget(self, target: Database, job: str) -> None:
        wait = f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}, innodb_lock_wait_timeout = {LOCK_SECONDS}"
        removed = (f"DELETE FROM {_at(table)} WHERE job = '{job}'" for table in _kept_in(target))
        target.execute(wait, "SET SESSION foreign_key_checks = 0", *removed)

    def drop_state(self, target: Database) -> None:
        if not any(target.query(f"SELECT 1 FROM {_at(table)} LIMIT 1") for table in _kept_in(target)):
            self.drop(target, STATE)

    @contextmanager
    def beside(self, target: Database, name: str) -> Iterator[Database | str]:
        yield "a MySQL or MariaDB is one target, however many databases it has"

    def tables(self, target: Database, namespace: str) -> MysqlTargetTables:
        return MysqlTargetTables(target, namespace)


def family(name: str) -> TargetFamily:
    return MysqlTarget(name)


def _kept_in(target: Database) -> list[str]:
    """The tables in which the product keeps anything by job."""
    return [str(table) for (table,) in target.query(KEPT_IN)]


def _at(table: str) -> str:
    return f"`{STATE}`.`{table}`"


def _require_rights(target: Database) -> None:
    with closing(target.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@GLOBAL.read_only")
        if int(_only(cursor)):
            raise PreflightFailed("--target: it is read-only", hint="name its primary, or SET GLOBAL read_only = 0")
        try:
            cursor.execute(f"CREATE DATABASE {PROBE}")
            cursor.execute(f"DROP DATABASE {PROBE}")
        except pymysql.err.MySQLError as error:
            raise PreflightFailed(
                f"--target: its user may not make databases: {error.args[-1]}",
                hint=f"GRANT ALL ON `torture\\_%`.* TO {target.server.user}; GRANT ALL ON `{STATE}`.* TO it",
            ) from error


def _only(cursor: Any) -> Any:
    return cursor.fetchone()[0]
