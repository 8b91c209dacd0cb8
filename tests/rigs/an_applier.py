"""An Applier put together as `apply/run.py` does it, out of what a test has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from anabranch.apply.altering import Altering
from anabranch.apply.epoch import Applier
from anabranch.apply.merge_carrier import MergeCarrier
from anabranch.apply.patience import Patience
from anabranch.apply.progress import Progress
from anabranch.apply.settings import ApplySettings
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.conflict import STRICT, ConflictPolicy
from anabranch.rows.net import TargetTable


def _nowhere(table: TableId) -> TableId | None:
    return None


def an_applier(
    job: str,
    trail: Any,
    writer: Any,
    store: Any,
    context_of: Callable[[Any], Any],
    *,
    owner: str = "me",
    filtered: Any = None,
    patience: Patience | None = None,
    waiting: Callable[[str, Any], None] = lambda why, error: None,
    settled: Callable[[TableId], bool] = lambda table: False,
    **settings: Any,
) -> Applier:
    """`settings`: of ApplySettings. Nothing is asked of the target yet."""
    found = ApplySettings(**settings)
    patience = patience or Patience(retry=found.retry)
    progress = Progress(job, trail, writer, store, owner, context_of, _nowhere, found, patience=patience)
    tables = TablesOf({})
    return Applier(
        progress, MergeCarrier(progress, writer, filtered), Altering(progress, writer, tables), waiting, settled
    )


@dataclass(frozen=True)
class TablesOf:
    """The rules of a job that replicates `targets` whole."""

    targets: Mapping[TableId, TargetTable]
    policies: Callable[[TableSchema], ConflictPolicy] = lambda schema: STRICT

    def target_of(self, table: TableId) -> TableId | None:
        return self.targets[table].target if table in self.targets else None

    def target_table(self, schema: TableSchema) -> TargetTable:
        return self.targets[schema.id]

    def where(self, schema: TableSchema) -> None:
        return None

    def on_conflict(self, schema: TableSchema) -> ConflictPolicy:
        return self.policies(schema)


def tell(applier: Applier, **settings: Any) -> None:
    """From here on the job says something else."""
    applier.progress.settings = replace(applier.progress.settings, **settings)


def writes_by(applier: Applier, writer: Any) -> None:
    """From here on another writer of the same job, which it claims."""
    applier.progress.writer.close()
    writer.claim(applier.progress.job, applier.progress.owner)
    applier.progress.writer = writer
    assert isinstance(applier.carrier, MergeCarrier)
    applier.carrier.writer = writer
