"""Facts that the checks of a target share: the server as it answers, and how a finding is worded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from anabranch.connectors.mysql.connection import account, family, version
from anabranch.connectors.mysql.rights import Rights
from anabranch.connectors.mysql.target import migrate
from anabranch.connectors.mysql.target.options import MysqlTargetOptions
from anabranch.connectors.mysql.target.own_source import followed, is_server, read_by_the_job, sees
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, ask
from anabranch.connectors.mysql.target.structures import BASE_TABLE, ExistingTable, read_tables
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

NAMES = {"mysql": "MySQL", "mariadb": "MariaDB"}
WRITABLE = (BASE_TABLE, "SYSTEM VERSIONED")  # TABLE_TYPE; the other is MariaDB's


@dataclass
class Live:
    """The facts that the checks of a connected target share. `scheme`: of the target's URL."""

    connection: Connection
    scheme: str
    options: MysqlTargetOptions
    context: PreflightContext
    family: str = ""
    version: tuple[int, int, int] = (0, 0, 0)
    variables: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.family, self.version = family(self.connection), version(self.connection)
        rows = ask(self.connection, "SHOW GLOBAL VARIABLES")
        self.variables = {str(name).lower(): str(value) for name, value in rows}

    @cached_property
    def existing(self) -> dict[TableId, ExistingTable]:
        return read_tables(self.connection, {t.target for t in self.context.targets.values()})

    @cached_property
    def user(self) -> str:
        return account(self.connection)

    @cached_property
    def rights(self) -> Rights:
        return Rights([str(row[0]) for row in ask(self.connection, "SHOW GRANTS")])

    @cached_property
    def release(self) -> Release:
        return Release.of(self.connection)

    @cached_property
    def own(self) -> dict[TableId, TableId]:
        """Source -> the table of the source that it would write to: the job reads this very server."""
        context = self.context
        read = followed(self.connection, context.job) if migrate.is_there(self.connection) else set()
        if sees(self.connection, context.witness) or is_server(self.connection, context.source_identity):
            read |= {*context.tables, *context.waiting}
        found = read_by_the_job(self.connection, [table.target for table in context.targets.values()], read)
        return {source: found[table.target] for source, table in context.targets.items() if table.target in found}

    @property
    def types(self) -> MysqlTypes:
        return MysqlTypes(self.family)

    @property
    def defer_constraints(self) -> bool:
        return self.context.user_choices.get("load.defer_constraints", "").lower() == "true"

    def is_on(self, name: str) -> bool:
        """Return whether a variable is on; one that the server does not have is off."""
        return self.variables.get(name, "OFF").upper() not in ("OFF", "0", "")

    def number(self, name: str, otherwise: int = 0) -> int:
        value = self.variables.get(name, "")
        return int(value) if value.isdigit() else otherwise

    def tables(self) -> Iterator[tuple[TargetTable, ExistingTable]]:
        """Yield the job's target tables that are there already; no views."""
        for table in self.context.targets.values():
            existing = self.existing.get(table.target)
            if existing is not None and existing.type in WRITABLE:
                yield table, existing

    def first_loads(self) -> Iterator[tuple[TargetTable, ExistingTable]]:
        """Keep the tables that this job did not load."""
        return ((t, e) for t, e in self.tables() if t.source not in self.context.loaded)

    def new(self) -> Iterator[TargetTable]:
        """Yield the tables that the job would make."""
        return (t for t in self.context.targets.values() if t.target not in self.existing)


Check = Callable[[Live], Iterator[CheckResult]]
