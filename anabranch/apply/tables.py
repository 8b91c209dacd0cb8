"""The contract of the job's rules, as apply uses them. What does not live here: the rules (`rules/rule_set.py`)."""

from __future__ import annotations

from typing import Protocol

from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.conflict import ConflictPolicy
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import Filter


class Tables(Protocol):
    """Decides what becomes of the source's tables at the target. Asked at the start, and whenever a table comes or
    goes."""

    def target_of(self, table: TableId) -> TableId | None:
        """Return the table's name at the target; None for a table that the job leaves out."""

    def target_table(self, schema: TableSchema) -> TargetTable:
        """Return the table as it looks at the target. Raises ConfigError where the job does not fit the definition."""

    def where(self, schema: TableSchema) -> Filter | None:
        """Return the filter of the rows that are replicated; None for all rows. Raises ConfigError for a filter that
        does not fit."""

    def on_conflict(self, schema: TableSchema) -> ConflictPolicy:
        """Return the policy for rows that differ at the target. Raises ConfigError where it does not fit the table."""
