"""The choice of a type for a column whose values go into one that stands already, and whether they do without one.

What does not live here: which choices there are, and what a standing column takes (StandingTypes of its database).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from anabranch.config.sections.types_at_target import Types
from anabranch.contracts import StandingTypes, TypeMap, ValueRules
from anabranch.model.datatype import Fidelity, LogicalType
from anabranch.model.schema import Column
from anabranch.rules.choices import TypeChoices


def chosen(
    back: TypeMap, column: Column, standing: str, is_keyed: bool = False, is_key: bool = False
) -> tuple[str | None, str]:
    """Return the type to choose for a column that is to go into one that stands as `standing`: "" for none. With it what is
    lost, "" for nothing. None and the reason where no choice helps. `back`: the type map of the database where it stands."""
    if not isinstance(back, StandingTypes):
        return "", ""
    rules = ValueRules()
    choices = TypeChoices(Types(), back, rules)
    usual = ""
    lossy: tuple[str, str] | None = None
    for candidate in ("", *back.spellings(standing)):
        type = choices.of(column, candidate, is_keyed)
        assert type is not None, "the caller has looked"
        fit = back.into(column, type, standing, is_key, rules)
        if fit.fidelity is Fidelity.REFUSED:
            usual = usual or fit.reason
        elif fit.changes_values:
            lossy = lossy or (candidate, fit.reason)
        else:
            return candidate, ""
    return lossy or (None, usual)


def why_not_back(
    column: Column,
    type: LogicalType,
    there: TypeMap,
    spelled: Callable[[str], LogicalType | None],
    back: TypeMap,
) -> str:
    """Return why a column that is made at the other end does not go back into the one that stands here as it came; "" where it
    does, and where a person has chosen its type. `type`: the job's for it; `spelled`: how the other end's types are read;
    `back`: the type map of the database where it stands."""
    rules = ValueRules()
    made = there.fit(type, rules).native
    read = None if type.target else spelled(made)
    if read is None or not isinstance(back, StandingTypes):
        return ""
    fit = back.into(replace(column, type=read, native=made), read, column.native, False, rules)
    return f"{column.native} is {made} there, which is {fit.native} here" if fit.fidelity is Fidelity.REFUSED else ""
