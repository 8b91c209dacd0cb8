"""Checks that the source has dropped go at the target, too, inside the epoch; those that come have to mean the same here.

A check is ours if it has the name and the definition with which a load builds it. What does not live here: building those that
come (`structures.py`), when it is done (apply engine).
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import WAITED_FOR, describe, meaning
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target.altered_indexes import attempt
from anabranch.connectors.postgresql.target.planned import PlannedCheck, plan_checks
from anabranch.connectors.postgresql.target.printed_definitions import check_definition
from anabranch.connectors.postgresql.target.structures import CONSTRAINTS
from anabranch.connectors.postgresql.verbatim import NOT_VALID, NotCarried
from anabranch.contracts import Conflict, ValueRules
from anabranch.rows.altered import AlteredTable


def refuse_unmade(altered: AlteredTable, rules: ValueRules) -> None:
    """Raise Conflict for a check that comes, and that does not mean just the same here."""
    planned = plan_checks(altered.schema, altered.table, rules) if altered.checks.added else {}
    for name in altered.checks.added:
        if isinstance(why := planned[name], NotCarried):
            raise Conflict(altered.table.source, f"check {name} cannot be made: {why}")


def alter(connection: Connection, altered: AlteredTable, rules: ValueRules) -> None:
    """Drop checks, in the open transaction. Raises Conflict for one that stays, and would refuse rows that the source has.
    Errors of the driver pass that mean something else than a refusal."""
    for name, statement in dropped(connection, altered, rules):
        if said := attempt(connection, statement):
            raise Conflict(altered.table.source, f"check {name} cannot be dropped, and would refuse rows: {said}")


def dropped(connection: Connection, altered: AlteredTable, rules: ValueRules) -> Iterator[tuple[str, str]]:
    """Yield the checks that go and stand here, with the statement. Raises Conflict for one that has the name alone."""
    if not altered.checks.dropped:
        return
    target = altered.table.target
    rows = connection.execute(CONSTRAINTS, (target.schema, target.name)).fetchall()
    there = {name: definition.removesuffix(NOT_VALID) for name, _, definition in rows}
    before = plan_checks(altered.former, altered.former_table, rules)
    for name in altered.checks.dropped:
        if own := _own(connection, altered, name, before.get(name), there):
            yield name, f"ALTER TABLE {qualified(target)} DROP CONSTRAINT {quote(own)}"


def to_build(altered: AlteredTable, rules: ValueRules) -> Iterator[str]:
    """Yield the statements that build the checks which come, as a plan shows them."""
    for name, one in plan_checks(altered.schema, altered.table, rules).items() if altered.checks.added else ():
        if name in altered.checks.added and isinstance(one, PlannedCheck):
            yield from (one.add, one.validate)


def _own(
    connection: Connection,
    altered: AlteredTable,
    name: str,
    planned: PlannedCheck | NotCarried | None,
    there: dict[str, str],
) -> str:
    """Return the name of the check here that stands for one of the source's, "" where there is none. Raises Conflict."""
    if not isinstance(planned, PlannedCheck):
        names, written = (name, name), ""
    else:
        names = (planned.name, planned.renamed().name)
        written = _definition(connection, altered, planned) if not set(names).isdisjoint(there) else ""
    for one in names:
        if written and there.get(one) == written:
            return one
    if other := next((one for one in names if there.get(one, "").startswith("CHECK ")), ""):
        why = f"the target's check {other} is not the one that the job would have made, and may refuse rows: drop it there"
        raise Conflict(altered.table.source, why)
    return ""


def _definition(connection: Connection, altered: AlteredTable, planned: PlannedCheck) -> str:
    try:
        return check_definition(connection, altered.table.target, planned.condition, planned.tail)
    except psycopg.Error as error:
        if meaning(error)[0] in WAITED_FOR:
            raise
        why = f"whether the target's check {planned.name} is the job's is not certain: {describe(error)}"
        raise Conflict(altered.table.source, why) from error
