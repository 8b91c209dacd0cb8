"""The choice of a type for a column whose values go into one that stands already.

What does not live here: which choices there are, and what a standing column takes (StandingTypes of its database).
"""

from __future__ import annotations

from anabranch.config.sections.types_at_target import Types
from anabranch.contracts import StandingTypes, TypeMap, ValueRules
from anabranch.model.datatype import Fidelity
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
