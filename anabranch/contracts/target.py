"""The contract of a database in the role of target: it hands out the others."""

from __future__ import annotations

from typing import Protocol

from anabranch.contracts.checks import Checks
from anabranch.contracts.loader import Loader
from anabranch.contracts.reader import TargetReader
from anabranch.contracts.store import TargetStore
from anabranch.contracts.values import ValueRules
from anabranch.contracts.writer import Stager, Writer
from anabranch.model.at_target import AtTarget
from anabranch.model.datatype import Fit, Kind, LogicalType


class TypeMap(Protocol):
    """What a target makes of logical types. It is asked once per column, in any process; nothing connects."""

    def fit(self, type: LogicalType, rules: ValueRules) -> Fit:
        """Choose the type of a column there. Every type gets an answer: what cannot be has the fidelity REFUSED."""

    def by_setting(self, kind: Kind, rules: ValueRules) -> str:
        """Return the type that a setting of the whole job chooses for this kind (LogicalType.target), "" where none does."""

    def at_target(self, type: LogicalType, rules: ValueRules) -> AtTarget:
        """Say what values look like there, with the type that the job chose (LogicalType.target)."""


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
