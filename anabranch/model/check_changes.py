"""Checks of a table that come and go between two definitions of it, as the source asks its rows for them.

What does not live here: differences for people (`schema_changes.py`), what a check means (`term.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.model.schema import Check, TableSchema

NOT_ENFORCED = "the source does not enforce it"


@dataclass(frozen=True, slots=True)
class CheckChanges:
    """`added`: names behind the change; `dropped`: names before it. A name may be in both: it is another check then."""

    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.dropped)

    def __str__(self) -> str:
        found = [f"add check {name}" for name in self.added] + [f"drop check {name}" for name in self.dropped]
        return ", ".join(found)


NO_CHECKS = CheckChanges()


def check_changes(then: TableSchema, now: TableSchema) -> CheckChanges:
    """Return the checks that come and go, without those that the target is without. None where a source has no statements in
    its log: its definitions show only the latest state."""
    if then.numbers or now.numbers:
        return NO_CHECKS
    before, behind = _asked(then), _asked(now)
    gone = tuple(name for name, check in before.items() if not check.left_out and not _is_same(behind.get(name), check))
    came = tuple(name for name, check in behind.items() if not check.left_out and not _is_same(before.get(name), check))
    return CheckChanges(came, gone)


def leaving_checks_out(then: TableSchema, now: TableSchema, ignores: bool) -> TableSchema:
    """Return the next definition as a target has it: without the checks of `then` that it is without, and, with `ignores`,
    without those that come."""
    before = _asked(then)
    checks = tuple(replace(c, left_out=_is_left_out(before.get(c.name), c, ignores)) for c in now.checks)
    return now if checks == now.checks else replace(now, checks=checks)


def redefined_unseen(former: TableSchema, now: TableSchema) -> str:
    """Return the name of a check that a target has and that is another one by now, which the target is without; "" where there
    is none, or where a source has no statements in its log. Nothing would take the one of before off again."""
    if former.numbers or now.numbers:
        return ""
    behind = _asked(now)
    stands = (check for check in _asked(former).values() if not check.left_out)
    return next((one.name for one in stands if one.name in behind and behind[one.name].left_out), "")


def as_at_source(table: TableSchema) -> TableSchema:
    """Return a definition that a target has as the source has it: without columns and checks, none is left out."""
    checks = tuple(replace(check, left_out=False) for check in table.checks)
    return replace(table.leaving_out(()), checks=checks)


def _is_left_out(before: Check | None, now: Check, ignores: bool) -> bool:
    is_there = before is not None and _is_same(before, now)
    return before.left_out if before is not None and is_there else ignores


def _asked(table: TableSchema) -> Mapping[str, Check]:
    return {check.name: check for check in table.checks if check.refusal != NOT_ENFORCED}


def _is_same(one: Check | None, other: Check) -> bool:
    return one is not None and (one.text, one.term) == (other.text, other.term)
