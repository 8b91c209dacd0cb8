"""Change tables as a history's target (targets.TargetFamily), at a PostgreSQL, a MySQL or a MariaDB of the kit's own.

A database has the change tables of one job: at a PostgreSQL each history has one of its own, at a MySQL or MariaDB, where the
server is a target as a whole, histories go one after the other. What does not live here: how change tables are read
(change_readers.py, change_snapshots.py), what is not drawn (docs/explanation/torture.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from anabranch.config.sections.target import CHANGE_TABLES
from anabranch.errors import ConfigError
from anabranch.model.change_names import SCHEMA
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database, connect
from anabranch.testing.torture.change_readers import asking_at
from anabranch.testing.torture.change_snapshots import ChangeSnapshots
from anabranch.testing.torture.no_rows import NoRows
from anabranch.testing.torture.sources import Kinds
from anabranch.testing.torture.tables import Column
from anabranch.testing.torture.targets import CHANGES, ChangesDatabase, Found, Private, TargetFamily, target_family

SIX_DIGITS = "real"  # of which a MySQL prints six digits, in what a procedure gives as in any SELECT


@dataclass
class ChangesTarget:
    """`rows`: the family that has rows at such a server."""

    rows: TargetFamily
    has_policies: bool = False
    keeps_changes: bool = True
    form: str = CHANGE_TABLES
    choices: Mapping[str, Sequence[str | int | bool]] = field(default_factory=lambda: {"heartbeat_s": (300, 1, 1, 0)})

    def __post_init__(self) -> None:
        self.name = self.rows.name + CHANGES
        self.error, self.lost = self.rows.error, self.rows.lost
        self.is_alone = self.rows.name != "postgresql"
        at = "postgresql" if self.rows.name == "postgresql" else "mysql"
        self.preloaded: Sequence[str] = (
            *self.rows.preloaded,
            *(f"anabranch.connectors.{at}.target.change_tables.{name}" for name in ("checks", "instances", "writer")),
        )

    @contextmanager
    def private(self, directory: Path) -> Iterator[Private]:
        with self.rows.private(directory) as made:
            yield Private(ChangesDatabase(made.target.server, made.target.name))

    def kinds(self, known: Kinds, source: str, target: Database) -> Kinds:
        found = self.rows.kinds(known, source, target)
        if self.rows.name == "postgresql":
            return found
        return replace(found, all=[kind for kind in found.all if kind.at_target != SIX_DIGITS])

    def entered(self, end: Endpoint) -> Database:
        raise ConfigError("--target: of this kind only private ones can be tortured", hint=f"--target {self.name}")

    def found(self, target: Database) -> Found:
        return self.rows.found(target)

    def of_history(self, target: Database, name: str) -> Database:
        return target if self.is_alone else ChangesDatabase(target.server, name)

    def prepare(self, target: Database, name: str) -> None:
        self.drop(target, name)
        if not self.is_alone:
            self._administer(target, f"CREATE DATABASE {name}")

    def drop(self, target: Database, name: str) -> None:
        if self.is_alone:
            self.rows.drop(target, SCHEMA)
        else:
            self._administer(target, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _administer(self, target: Database, statement: str) -> None:
        with closing(connect(target.server)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(statement)

    def forget(self, target: Database, job: str) -> None:
        self.rows.forget(target, job)

    def drop_state(self, target: Database) -> None:
        self.rows.drop_state(target)

    @contextmanager
    def beside(self, target: Database, name: str) -> Iterator[Database | str]:
        yield "what keeps changes is a job's only target"

    def tables(self, target: Database, namespace: str) -> ChangeTables:
        return ChangeTables(target, namespace)


class ChangeTables(NoRows):
    """One history's change tables (targets.TargetTables)."""

    def snapshots(
        self,
        columns: Mapping[str, Sequence[Column]],
        beside: Sequence[str] = (),
        passing: Mapping[str, Sequence[Sequence[Column]]] | None = None,
    ) -> ChangeSnapshots:
        if beside or passing:
            self.refuse()
        return ChangeSnapshots(asking_at(self.target, self.namespace, columns), columns)

    def flush(self) -> None:
        target_family(self.target.server.name).tables(self.target, self.namespace).flush()


def family(name: str) -> TargetFamily:
    return ChangesTarget(target_family(name.removesuffix(CHANGES)))
