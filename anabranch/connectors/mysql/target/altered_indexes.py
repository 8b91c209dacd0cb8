"""Indexes that the source has dropped or renamed: the target's own go along, between two epochs: ALTER TABLE commits by itself.

An index is ours if it has the name and the parts with which a load builds it; any other of the table stays. So what is there
tells what an attempt before has done. What does not live here: building those that come (`building.py`), when it is done (apply
engine). https://dev.mysql.com/doc/refman/8.0/en/innodb-online-ddl-operations.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.errors import number_and_text
from anabranch.connectors.mysql.target.attempts import IS_GONE
from anabranch.connectors.mysql.target.building import name_to_build, serves
from anabranch.connectors.mysql.target.columns import made_columns
from anabranch.connectors.mysql.target.errors import describe, translate
from anabranch.connectors.mysql.target.indexes import PlannedIndex, plan_indexes
from anabranch.connectors.mysql.target.names import NotMade
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, quoted, run, table_name
from anabranch.connectors.mysql.target.structures import PRIMARY, ExistingTable
from anabranch.contracts import ValueRules
from anabranch.errors import TargetUnavailable
from anabranch.model.schema import TableSchema
from anabranch.rows.altered import AlteredTable
from anabranch.rows.net import TargetTable

NOT_THERE = "the target has none of this name with these columns"


def alter(
    connection: Connection, altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> list[str]:
    """Drop and rename indexes, each by a statement of its own, as far as that is left to do. Returns what was not done, and
    why. Errors of the driver pass that mean something else than a refusal."""
    left = []
    for what, statement in planned(altered, existing, rules, release):
        said = _attempt(connection, statement) if statement.startswith("ALTER ") else statement
        left += [f"{what}: {said}"] if said else []
    return left


def planned(
    altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> Iterator[tuple[str, str]]:
    """Yield what is to be done, for people, with its statement; or with why there is none."""
    place = f"ALTER TABLE {table_name(altered.table.target)}"
    before = _planned(altered.former, altered.former_table, rules, release)
    behind = _planned(altered.schema, altered.table, rules, release)
    for name in altered.indexes.dropped:
        own = _own(before.get(name), existing)
        yield f"index {name} is not dropped", f"{place} DROP KEY {quoted(own)}" if own else NOT_THERE
    for former, name in altered.indexes.renamed:
        own, next_one = _own(before.get(former), existing), behind.get(name)
        to = _free_name(next_one, existing) if next_one else ""
        statement = f"{place} RENAME KEY {quoted(own)} TO {quoted(to)}" if own and to else NOT_THERE
        if own and not release.has("RENAME INDEX"):
            statement = "this release renames no indexes"
        yield f"index {former} is not renamed", statement


def to_build(altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release) -> Iterator[str]:
    """Yield the statements that build the indexes which come, as a plan shows them."""
    for name, one in _planned(altered.schema, altered.table, rules, release).items():
        if name in altered.indexes.added and (to := name_to_build(one, existing)):
            yield one.add(altered.table.target, to)


def without_dropped(
    existing: ExistingTable, altered: AlteredTable, rules: ValueRules, release: Release
) -> ExistingTable:
    """Return what stands behind the indexes that go."""
    before = _planned(altered.former, altered.former_table, rules, release) if altered.indexes.dropped else {}
    gone = {own for name in altered.indexes.dropped if (own := _own(before.get(name), existing))}
    return replace(existing, indexes=[index for index in existing.indexes if index.name not in gone])


def _planned(schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release) -> dict[str, PlannedIndex]:
    columns = made_columns(schema, table, rules, release)
    found = plan_indexes(schema, table, columns, release)
    return {index.name: one for index, one in found if not isinstance(one, NotMade)}


def _own(planned: PlannedIndex | None, existing: ExistingTable) -> str:
    """Return the name of the index here that stands for one of the source's, "" where there is none."""
    if planned is None:
        return ""
    names = {planned.name.lower(), planned.fallback.lower()}
    own = (one for one in existing.indexes if one.name.lower() in names and one.unique is planned.unique)
    own = (one for one in own if one.name != PRIMARY)
    return next((one.name for one in own if serves(planned, one)), "")


def _free_name(planned: PlannedIndex, existing: ExistingTable) -> str:
    used = {index.name.lower() for index in existing.indexes}
    return next((name for name in (planned.name, planned.fallback) if name.lower() not in used), "")


def _attempt(connection: Connection, statement: str) -> str:
    """Carry out a statement. Returns why the server refuses it for good."""
    try:
        run(connection, statement)
    except pymysql.err.Error as error:
        if error.args[0] in IS_GONE:
            return ""
        if isinstance(translate(error, statement), TargetUnavailable):
            raise
        return describe(*number_and_text(error))
    return ""
