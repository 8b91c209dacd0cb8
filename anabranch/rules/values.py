"""Rules for values from a job's settings: the ValueRules of its configuration, with the text forms that its target wants."""

from __future__ import annotations

from dataclasses import replace

from anabranch.config import JobConfig
from anabranch.contracts import TypeMap, ValueRules
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind, LogicalType


def value_rules(config: JobConfig, types: TypeMap) -> ValueRules:
    """Collect them. `types`: those of the job's target."""
    said, carries = config.types, config.apply.on_error != "stop"
    rules = ValueRules(
        said.zero_date,
        said.nul,
        said.json,
        said.geometry,
        said.vector,
        said.large_objects,
        config.zero_dates,
        carries=carries,
    )
    wanted = {
        kind: types.at_target(LogicalType(kind, target=types.by_setting(kind, rules)), rules).text for kind in Kind
    }
    return replace(rules, texts=tuple((kind, form) for kind, form in wanted.items() if form is not TextForm.OF_KIND))
