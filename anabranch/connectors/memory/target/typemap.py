"""The twin keeps every logical type as it is."""

from __future__ import annotations

from anabranch.contracts import ValueRules
from anabranch.model.at_target import AtTarget, CanonicalForm
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.schema import Column, TableSchema


class MemoryTypes:
    keeps_nul = False  # as a PostgreSQL

    def fit(self, type: LogicalType, rules: ValueRules) -> Fit:
        return Fit(str(type), Fidelity.EXACT)

    def by_setting(self, kind: Kind, rules: ValueRules) -> str:
        return ""

    def why_not_computed(self, column: Column, schema: TableSchema, rules: ValueRules) -> str:
        return "it computes nothing"

    def at_target(self, type: LogicalType, rules: ValueRules) -> AtTarget:
        is_json = type.carried is Kind.JSON and rules.json in ("", "jsonb")
        return AtTarget(canonical=CanonicalForm.JSON_VALUES if is_json else CanonicalForm.OF_KIND)
