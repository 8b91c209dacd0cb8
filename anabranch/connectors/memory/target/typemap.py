"""The twin keeps every logical type as it is."""

from __future__ import annotations

from anabranch.contracts import ValueRules
from anabranch.model.datatype import Fidelity, Fit, LogicalType


class MemoryTypes:
    def fit(self, type: LogicalType, rules: ValueRules) -> Fit:
        return Fit(str(type), Fidelity.EXACT)
