"""How the findings of a target's preflight are worded, and findings that need no server: types, and what is not carried over.

What does not live here: what a database can hold and build, which is its own (`target/preflight_*.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from anabranch.contracts import PreflightContext, ValueRules
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.rows import zero_dates
from anabranch.rows.net import TargetTable

NAMED = 3  # of the columns or things that a finding is about, this many stand in its message
# What a thing of a definition is called: one of them, several, what they will not be.
NOT_CARRIED = {
    "indexes": ("index", "indexes", "built"),
    "checks": ("check", "checks", "built"),
    "foreign_keys": ("foreign key", "foreign keys", "built"),
    "computed": ("computed column", "computed columns", "made"),
    "defaults": ("the default of", "defaults", "carried over"),
    "partitions": ("partitions by", "partitioned tables", "carried over"),
}


def ok(check: str, message: str) -> CheckResult:
    return CheckResult(f"target.{check}", CheckVerdict.OK, message)


def warning(
    check: str, message: str, hint: str, table: TargetTable | None = None, names: Iterable[str] = ()
) -> CheckResult:
    source = str(table.source) if table else ""
    return CheckResult(f"target.{check}", CheckVerdict.WARNING, message, hint, source, tuple(names))


def failed(
    check: str, message: str, hint: str, table: TargetTable | None = None, names: Iterable[str] = ()
) -> CheckResult:
    return replace(warning(check, message, hint, table, names), verdict=CheckVerdict.FAILED)


def some(names: Iterable[str]) -> str:
    """Return the first names, and how many there are beside."""
    found = list(names)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more


def toml(text: str) -> str:
    """Return a string as the job file has it. https://toml.io/en/v1.0.0#string"""
    return "'" + text + "'" if '"' in text and "'" not in text else json.dumps(text, ensure_ascii=False)


def value_rules(context: PreflightContext) -> ValueRules:
    """Return the job's choices for values ([types]), and the zero dates that its columns were found to hold. Asked for each
    column of each table."""
    chosen = context.user_choices
    return _value_rules(tuple([chosen.get(word) or "" for word in _CHOICES]), chosen.get(zero_dates.ASKED) or "[]")


_WORDS = tuple(one.name for one in fields(ValueRules) if isinstance(one.default, str))
_CHOICES = tuple(f"types.{word}" for word in _WORDS)


@cache
def _value_rules(chosen: tuple[str, ...], asked: str) -> ValueRules:
    dates = tuple((table, column, date) for table, column, date in json.loads(asked))
    made: dict[str, Any] = {word: value for word, value in zip(_WORDS, chosen, strict=True) if value}
    return ValueRules(**made, zero_dates=dates)


def source_type(native: str, logical: LogicalType) -> str:
    """Return the source's type without sizes and labels."""
    if logical.carried in (Kind.ENUM, Kind.SET, Kind.JSON):
        return str(logical.kind)
    name, bracket, rest = native.partition("(")
    return name + rest.partition(")")[2] if bracket else native


def type_findings(exact: int, groups: Mapping[Fit, list[tuple[str, str, str]]]) -> Iterator[CheckResult]:
    """Report one line for all columns that are exact, and one for each other type of the target and reason. `groups`: per fit
    its columns as source type, target type, and table with column."""
    if exact:
        yield ok("types", f"{exact} columns exact")
    for fit, columns in sorted(groups.items(), key=lambda group: (group[0].fidelity, group[0].native)):
        sources, natives, names = (sorted(set(part)) for part in zip(*columns, strict=True))
        native = natives[0] if len(natives) == 1 else fit.native
        reason = f": {fit.reason}" if fit.reason else ""
        text = f"{', '.join(sources)} as {native} is {fit.fidelity}{reason} ({some(names)})"
        if fit.fidelity is Fidelity.REFUSED:
            hint = "correct [types.map] or [[tables]] columns.type, or drop the columns ([[tables]] columns.drop)"
            yield failed("types", text, hint, names=names)
        elif fit.fidelity is Fidelity.EXACT:
            yield ok("types", text)
        else:
            yield warning("types", text, "", names=names)


def not_carried(groups: Mapping[tuple[str, str], list[tuple[TargetTable, str]]]) -> Iterator[CheckResult]:
    """Report what the target will not get, one line per kind (a key of NOT_CARRIED) and reason. `groups`: table and name."""
    for (kind, why), found in groups.items():
        one, many, becomes = NOT_CARRIED[kind]
        names = [f"{table.source}.{name}" for table, name in found]
        if len(found) == 1:
            (table, name), *_ = found
            yield warning(kind, f"{one} {name} will not be {becomes}: {why}", "", table, names)
        else:
            yield warning(kind, f"{len(found)} {many} will not be {becomes}: {why} ({some(names)})", "", names=names)
