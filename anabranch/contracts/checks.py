"""The contract of preflight: what checks may look at, and how they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from anabranch.model.checks import CheckResult
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.writers import SourceWriter

if TYPE_CHECKING:
    from anabranch.rows.net import TargetTable


def _not_asked(table: TableSchema, columns: Sequence[str]) -> None:
    """Answer for a source that is not there to be asked."""


@dataclass(frozen=True)
class PreflightContext:
    """The facts that checks may look at: the job's settings as plain values, the selected tables and their target forms."""

    job: str
    user_choices: Mapping[str, str]  # "load.existing", "load.lock", "load.defer_constraints", "types.json", …
    tables: Mapping[TableId, TableSchema]
    targets: Mapping[TableId, TargetTable]
    dropped_columns: Mapping[TableId, tuple[str, ...]] = field(default_factory=dict)
    loaded: frozenset[TableId] = frozenset()  # already loaded by this job: their target tables may hold rows
    logs_cascades: bool = False  # the source's log has what its foreign keys do to other rows (K1)
    waiting: frozenset[TableId] = frozenset()  # included and not followed at present: new ones, and parked ones
    source_name: str = ""  # LogOptions.name, where the job has one already
    source_identity: str = ""  # LogReader.identity, as the source gives it now; "" where nobody asked
    witness: str = ""  # SourceConnector.witness, while it is open
    writers: tuple[SourceWriter, ...] = ()  # SourceCatalog.writers, without the job itself
    filtered: frozenset[TableId] = frozenset()  # tables of which the job leaves rows out
    leave_out: frozenset[str] = frozenset()  # LogOptions.leave_out
    told_by: Mapping[TableId, str] = field(
        default_factory=dict
    )  # of a job of a pair: by source table, the column at the target by which the newest row is told
    longest: Callable[[TableSchema, Sequence[str]], Mapping[str, int] | None] = _not_asked  # SourceLengths.longest

    unseen: tuple[TableId, ...] = ()  # tables, or schema.*, that rules include and of which the source has shown none
    stand: frozenset[TableId] = frozenset()  # tables with whose rows a job that never loads is about to begin

    instances: Mapping[TableId, tuple[TargetTable, ...]] = field(default_factory=dict)
    """Map each source table of a job with change tables to its form in each of them, in the order of the job file."""


class Checks(Protocol):
    """Every check of one end; each that fails says so, the others go on. Reads only."""

    def run(self, context: PreflightContext) -> list[CheckResult]: ...

    def close(self) -> None: ...
