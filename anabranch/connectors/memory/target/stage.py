"""Stager of the twin: net changes that are kept until the epoch that takes them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from typing import Any

from anabranch.connectors.memory.database import Database
from anabranch.rows.net import StagedNet, TableNet


class MemoryStager:
    def __init__(self, database: Database) -> None:
        self._database = database

    def stage(self, job: str, nets: Iterable[TableNet]) -> list[StagedNet]:
        found = []
        for net in nets:
            name = uuid.uuid4().hex
            self._database.staged[name] = net
            found.append(StagedNet(net.table, name, counts_of(net), digest_of(net), net.checked))
        return found

    def close(self) -> None:
        pass


def _parts(net: TableNet) -> dict[str, Any]:
    updates = {f"update{i}": one.values for i, one in enumerate(net.updates)}
    parts = {"delete": net.deletes, "insert": net.inserts, "multiset": net.multiset, **updates}
    return {name: part for name, part in parts.items() if part is not None}


def counts_of(net: TableNet) -> dict[str, int]:
    return {name: part.num_rows for name, part in _parts(net).items()}


def digest_of(net: TableNet) -> int:
    """Return a digest that is equal for equal rows within a process."""
    rows = Counter((name, str(row)) for name, part in _parts(net).items() for row in part.to_pylist())
    return hash(frozenset(rows.items()))
