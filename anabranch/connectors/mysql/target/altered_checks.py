"""Checks that the source has dropped go at the target, too, between two epochs: ALTER TABLE commits by itself. Those that come
have to mean the same here.

A check is ours if it has the name under which a load builds it, as where it is built. What is there tells what an attempt
before has done. What does not live here: building those that come (`building.py`), when it is done (apply engine).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from anabranch.connectors.mysql.target.altered_indexes import attempt
from anabranch.connectors.mysql.target.attempts import IS_GONE
from anabranch.connectors.mysql.target.names import NotMade, shortened
from anabranch.connectors.mysql.target.planned import PlannedCheck, plan_checks
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, quoted, table_name
from anabranch.connectors.mysql.target.structures import ExistingTable
from anabranch.contracts import Conflict, ValueRules
from anabranch.rows.altered import AlteredTable

# https://dev.mysql.com/doc/refman/8.0/en/alter-table.html · https://mariadb.com/kb/en/alter-table/
DROPS = {"mysql": "DROP CHECK", "mariadb": "DROP CONSTRAINT"}


def refuse_unmade(altered: AlteredTable, rules: ValueRules, release: Release) -> None:
    """Raise Conflict for a check that comes, and that does not mean just the same here."""
    planned = plan_checks(altered.schema, altered.table, rules, release) if altered.checks.added else {}
    without = {
        check.name: check.refusal for check in altered.schema.checks if check.term is None
    }  # own words are not enough
    for name in altered.checks.added:
        if why := without.get(name, "") or (planned[name] if isinstance(planned[name], NotMade) else ""):
            raise Conflict(altered.table.source, f"check {name} cannot be made: {why}")


def refuse_taken(existing: ExistingTable, altered: AlteredTable, rules: ValueRules, release: Release) -> None:
    """Raise Conflict for a check that comes where another one has its name here, before anything is done. `existing`: behind
    the checks that go."""
    planned = plan_checks(altered.schema, altered.table, rules, release) if altered.checks.added else {}
    for name in altered.checks.added:
        if not isinstance(one := planned[name], PlannedCheck):
            continue
        for taken in (one.name, one.fallback):
            if taken in existing.checks and _bare(existing.checks[taken]) != _bare(one.condition):
                why = f"check {name} cannot be made: the target's check {taken} has another condition: drop it there"
                raise Conflict(altered.table.source, why)


def _bare(condition: str) -> str:
    """Return a condition without what servers print in ways of their own."""
    text = re.sub(r"\b_utf8mb[34](?=\\?')|[`()\s\\]", "", condition)
    return text if "'" in text else text.lower()


def alter(
    connection: Connection, altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> None:
    """Drop checks, each by a statement of its own, as far as that is left to do. Raises Conflict for one that stays, and would
    refuse rows that the source has. Errors of the driver pass that mean something else than a refusal."""
    for name, statement in dropped(altered, existing, rules, release):
        number, said = attempt(connection, statement)
        if said and number not in IS_GONE:
            raise Conflict(altered.table.source, f"check {name} cannot be dropped, and would refuse rows: {said}")


def dropped(
    altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> Iterator[tuple[str, str]]:
    """Yield the checks that go and stand here, with the statement. Raises Conflict for one that no load would have made."""
    before = plan_checks(altered.former, altered.former_table, rules, release) if altered.checks.dropped else {}
    for name in altered.checks.dropped:
        planned = before.get(name)
        if isinstance(planned, PlannedCheck):
            own = next((one for one in (planned.name, planned.fallback) if one in existing.checks), "")
        elif (other := shortened(name)) in existing.checks:
            why = f"the target's check {other} is not one that the job would have made, and may refuse rows: drop it there"
            raise Conflict(altered.table.source, why)
        else:
            own = ""
        if own:
            yield name, f"ALTER TABLE {table_name(altered.table.target)} {DROPS[release.family]} {quoted(own)}"


def without_dropped(
    existing: ExistingTable, altered: AlteredTable, rules: ValueRules, release: Release
) -> ExistingTable:
    """Return what stands behind the checks that go."""
    before = plan_checks(altered.former, altered.former_table, rules, release) if altered.checks.dropped else {}
    found = (before.get(name) for name in altered.checks.dropped)
    gone = {name for one in found if isinstance(one, PlannedCheck) for name in (one.name, one.fallback)}
    return replace(existing, checks={name: text for name, text in existing.checks.items() if name not in gone})


def to_build(altered: AlteredTable, rules: ValueRules, release: Release) -> Iterator[str]:
    """Yield the statements that build the checks which come, as a plan shows them."""
    for name, one in plan_checks(altered.schema, altered.table, rules, release).items() if altered.checks.added else ():
        if name in altered.checks.added and isinstance(one, PlannedCheck):
            yield one.add(one.name)
