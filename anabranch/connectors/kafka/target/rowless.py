"""Answers about rows for a target that has none: nothing is there, and nothing is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from anabranch.contracts import Enforced
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.rows.keys import EnforcedKey, UniqueKey
    from anabranch.rows.net import TargetTable


class NoCatalog:
    """Says that nothing at a log of messages refuses, changes or removes what is written."""

    def unique_keys(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[UniqueKey]]:
        return {}

    def guards(self, tables: Sequence[TargetTable]) -> Enforced:
        return Enforced(keys=False, triggers=False)

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[EnforcedKey]:
        return []

    def close(self) -> None: ...


class NoTables:
    """Has nothing to build behind the first messages, and no numbers to raise at the end."""

    def raise_sequences(self, tables: Sequence[TargetTable]) -> list[str]:
        return []

    def close(self) -> None: ...
