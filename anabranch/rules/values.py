"""Rules for values from a job's settings: the ValueRules of its configuration, with the text forms that its target wants."""

from __future__ import annotations

from dataclasses import replace

from anabranch.config import JobConfig
from anabranch.contracts import TypeMap, ValueRules
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind, LogicalType


def value_rules(config: JobConfig, types: TypeMap, target: str = "") -> ValueRules:
    """Collect them. `types`: those of the job's target. `target`: its name, for its options; the first one's for ""."""
    said, carries = config.types, config.apply.on_error != "stop"
    chosen = config.type_choices(target)
    rules = ValueRules(said.zero_date, said.nul, **chosen, zero_dates=config.zero_dates, carries=carries)
    rules = replace(rules, keeps_nul=types.keeps_nul)
    wanted = {
        kind: types.at_target(LogicalType(kind, target=types.by_setting(kind, rules)), rules).text for kind in Kind
    }
    return replace(rules, texts=tuple((kind, form) for kind, form in wanted.items() if form is not TextForm.OF_KIND))
