"""The contract of a database in the role of target: it hands out the others."""

from __future__ import annotations

from typing import Protocol

from anabranch.contracts.checks import Checks
from anabranch.contracts.loader import Loader
from anabranch.contracts.reader import TargetReader
from anabranch.contracts.store import TargetStore
from anabranch.contracts.values import ValueRules
from anabranch.contracts.writer import Stager, Writer
from anabranch.model.datatype import Fit, LogicalType


class TypeMap(Protocol):
    def fit(self, type: LogicalType, rules: ValueRules) -> Fit: ...


class TargetConnector(Protocol):
    """A database in the role of target. Picklable: Spark tasks make their own connections from it."""

    @property
    def types(self) -> TypeMap: ...

    def store(self) -> TargetStore: ...

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        """`bypass_constraints`: foreign keys and triggers off for its session, where the user may switch them off."""

    def stager(self, rules: ValueRules) -> Stager: ...

    def loader(self, rules: ValueRules) -> Loader: ...

    def reader(self, rules: ValueRules) -> TargetReader: ...

    def checks(self) -> Checks: ...
