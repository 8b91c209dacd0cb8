"""A message has every logical type: what it looks like is the format's affair (`rows/messages/`)."""

from __future__ import annotations

from anabranch.contracts import ValueRules
from anabranch.model.at_target import AtTarget, CanonicalForm
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.schema import Column, TableSchema


class KafkaTypes:
    keeps_nul = True

    def fit(self, type: LogicalType, rules: ValueRules) -> Fit:
        return Fit(str(type), Fidelity.EXACT)

    def by_setting(self, kind: Kind, rules: ValueRules) -> str:
        return ""

    def why_not_computed(self, column: Column, schema: TableSchema, rules: ValueRules) -> str:
        return "a message computes nothing"

    def at_target(self, type: LogicalType, rules: ValueRules) -> AtTarget:
        return AtTarget(canonical=CanonicalForm.OF_KIND)
