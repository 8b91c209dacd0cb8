"""Facts that the checks of a target share: the database as it answers, and how a finding is worded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.target.catalog import ExistingTable, may_bypass_constraints, read_tables
from anabranch.connectors.postgresql.target.own_source import followed, read_by_the_job, sees
from anabranch.contracts import PreflightContext
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

WRITABLE = ("table", "partitioned table")


@dataclass
class Live:
    """The facts that the checks of a connected target share."""

    connection: Connection
    context: PreflightContext
    version: int = 0
    user: str = ""
    existing: dict[TableId, ExistingTable] = field(default_factory=dict)
    defer_constraints: bool = False
    own: dict[TableId, TableId] = field(
        default_factory=dict
    )  # by source: the table of the source that it would write to
    may_bypass: bool = False  # foreign keys and triggers are off for what this user's job writes

    def __post_init__(self) -> None:
        self.version = int(self.one("SELECT current_setting('server_version_num')"))
        self.user = self.one("SELECT current_user::text")
        self.may_bypass = may_bypass_constraints(self.connection)
        self.existing = read_tables(self.connection, {t.target for t in self.context.targets.values()})
        self.own = self._own_source()
        self.defer_constraints = self.context.user_choices.get("load.defer_constraints", "").lower() == "true"

    def _own_source(self) -> dict[TableId, TableId]:
        read = followed(self.connection, self.context.job)
        if sees(self.connection, self.context.witness):
            read |= {*self.context.tables, *self.context.waiting}
        if not read:
            return {}
        targets = self.context.targets
        found = read_by_the_job(self.connection, [table.target for table in targets.values()], read)
        return {source: found[table.target] for source, table in targets.items() if table.target in found}

    def one(self, query: str, *values: object) -> str:
        row = self.connection.execute(query.encode(), values).fetchone()
        return str(row[0]) if row else ""

    def true(self, query: str, *values: object) -> bool:
        return self.one(query, *values) == "True"

    def tables(self) -> Iterator[tuple[TargetTable, ExistingTable]]:
        """Yield the job's target tables that are there already."""
        for table in self.context.targets.values():
            if table.target in self.existing:
                yield table, self.existing[table.target]

    def first_loads(self) -> Iterator[tuple[TargetTable, ExistingTable]]:
        """Keep the tables that this job did not load."""
        return ((t, e) for t, e in self.tables() if t.source not in self.context.loaded)
