"""Contracts of a database in the role of target: what it hands out, by ability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from anabranch.contracts.checks import Checks
from anabranch.contracts.loader import Loader
from anabranch.contracts.reader import TargetReader
from anabranch.contracts.store import TargetStore
from anabranch.contracts.tables import TargetCatalog, TargetTables
from anabranch.contracts.writer import Stager, Writer
from anabranch.model.at_target import AtTarget
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Fit, Kind, LogicalType
from anabranch.model.schema import Column, TableSchema
from anabranch.model.value_rules import ValueRules


class TypeMap(Protocol):
    """The target's types for logical types. It is asked once per column, in any process; nothing connects."""

    def fit(self, type: LogicalType, rules: ValueRules) -> Fit:
        """Choose the type of a column there. Every type gets an answer: what cannot be has the fidelity REFUSED."""

    def by_setting(self, kind: Kind, rules: ValueRules) -> str:
        """Return the type that a setting of the whole job chooses for this kind (LogicalType.target), "" where none does."""

    def why_not_computed(self, column: Column, schema: TableSchema, rules: ValueRules) -> str:
        """Say why a generated column of which rows have values is written there; "" where the target computes it: then it
        gives the same value as the source, whatever the server's release and settings are."""

    def at_target(self, type: LogicalType, rules: ValueRules) -> AtTarget:
        """Say what values look like there, with the type that the job chose (LogicalType.target)."""

    @property
    def keeps_nul(self) -> bool:
        """Say whether text there holds a zero character. Where it does not, a reader of the source refuses such a value before
        the target would, with the key of its row."""


@runtime_checkable
class StandingTypes(Protocol):
    """Says how values go into columns that stand already, as somebody has made them; an ability of a TypeMap whose database has
    types that differ more than the logical types do."""

    def into(self, column: Column, type: LogicalType, standing: str, is_key: bool, rules: ValueRules) -> Fit:
        """Return how a source's column of this logical type, which has the job's choice in it, goes into a column that stands
        as `standing`, as the server spells it. REFUSED, with the reason, where it does not take every value, or where a key
        (`is_key`) would not be found again."""

    def spellings(self, standing: str) -> Sequence[str]:
        """Return what a job may choose (LogicalType.target) for a column that stands so, the best first."""


class TargetConnector(Protocol):
    """A database in the role of target. Picklable: Spark tasks make their own connections from it.

    This is what every target has. What it takes is an ability: RowTarget for one that keeps the state of each row."""

    @property
    def types(self) -> TypeMap: ...

    def store(self) -> TargetStore: ...

    def checks(self) -> Checks: ...


class ReadTarget(Protocol):
    """Rows of a target that can be read, for verification. Picklable."""

    def reader(self, rules: ValueRules) -> TargetReader: ...


@runtime_checkable
class TellsRows(Protocol):
    """Says what rows are by the changes that a target of changes keeps; an ability that not all have."""

    def as_rows(self, job: str) -> ReadTarget:
        """Return the rows of a job. Raises ConfigError where the job's options do not let them be read."""


@runtime_checkable
class ReachedTarget(Protocol):
    """Says soon whether a server answers, where clients wait for one that is away as if it might come at any moment."""

    def unreached(self, seconds: float) -> CheckResult | None:
        """Return a failed check where none answers within so many seconds, or none lets us in. Says meanwhile that it waits."""


class RowTarget(TargetConnector, Protocol):
    """A target that keeps tables as they are at the source: it is loaded, changes are merged into it, it can be verified."""

    def catalog(self) -> TargetCatalog: ...

    def tables(self, rules: ValueRules) -> TargetTables: ...

    def loader(self, rules: ValueRules) -> Loader: ...

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        """Return the job's Writer. `bypass_constraints`: foreign keys and triggers off for its session, where the user may
        switch them off."""

    def stager(self, rules: ValueRules) -> Stager: ...

    def reader(self, rules: ValueRules) -> TargetReader: ...
