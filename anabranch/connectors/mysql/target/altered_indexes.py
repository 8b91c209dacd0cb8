"""Indexes that the source has dropped or renamed: the target's own go along, between two epochs: ALTER TABLE commits by itself.

An index is ours if it has the name and the parts with which a load builds it; any other of the table stays. So what is there
tells what an attempt before has done. What does not live here: building those that come (`building.py`), when it is done (apply
engine). https://dev.mysql.com/doc/refman/8.0/en/innodb-online-ddl-operations.html
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.errors import number_and_text
from anabranch.connectors.mysql.target.attempts import ALONE, IS_GONE, LOG_FULL
from anabranch.connectors.mysql.target.building import name_to_build, serves
from anabranch.connectors.mysql.target.columns import made_columns
from anabranch.connectors.mysql.target.errors import describe, translate
from anabranch.connectors.mysql.target.indexes import PlannedIndex, plan_indexes
from anabranch.connectors.mysql.target.names import NotMade
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, quoted, run, table_name
from anabranch.connectors.mysql.target.structures import PRIMARY, ExistingTable
from anabranch.contracts import Conflict, ValueRules
from anabranch.errors import TargetUnavailable
from anabranch.model.index_changes import may_refuse
from anabranch.model.schema import TableSchema
from anabranch.rows.altered import AlteredTable
from anabranch.rows.net import TargetTable

NOT_THERE = "the target has none of this name with these columns"
NEEDED = frozenset(
    (1553, 1075)
)  # by a foreign key, or by a column that counts: it goes where another takes its place at once


def alter(
    connection: Connection, altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> list[str]:
    """Drop and rename indexes, each by a statement of its own, as far as that is left to do. Returns what was not done, and
    why. Raises Conflict for a unique key that stays and may refuse rows of the source. Errors of the driver pass that mean
    something else than a refusal."""
    left = []
    for name, own in _dropped(altered, existing, rules, release):
        said = _drop(connection, altered, name, own, existing, rules, release) if own else NOT_THERE
        left += [f"index {name} is not dropped: {said}"] if said else []
    for name, statement in _renamed(altered, existing, rules, release):
        said = attempt(connection, statement)[1] if statement.startswith("ALTER ") else statement
        left += [f"index {name} is not renamed: {said}"] if said else []
    return left


def planned(
    altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> Iterator[tuple[str, str]]:
    """Yield what is to be done, for people, with its statement; or with why there is none."""
    there = {index.name for index in existing.indexes}
    for name, own in _dropped(altered, existing, rules, release):
        yield f"index {name} is not dropped", _drop_line(altered, own) if own in there else NOT_THERE
    for name, statement in _renamed(altered, existing, rules, release):
        yield f"index {name} is not renamed", statement


def _dropped(
    altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> Iterator[tuple[str, str]]:
    """Yield indexes that go: the source's name, and the target's. Where none of ours is there it is the name under which the
    server may still be building it, for an apply that was killed: dropping it waits for that. "" where no name is free."""
    before = _planned(altered.former, altered.former_table, rules, release) if altered.indexes.dropped else {}
    for name in altered.indexes.dropped:
        one = before.get(name)
        yield name, _own(one, existing) or (_free_name(one, existing) if one else "")


def _drop_line(altered: AlteredTable, own: str) -> str:
    return f"ALTER TABLE {table_name(altered.table.target)} DROP KEY {quoted(own)}"


def _drop(
    connection: Connection,
    altered: AlteredTable,
    name: str,
    own: str,
    existing: ExistingTable,
    rules: ValueRules,
    release: Release,
) -> str:
    """Drop an index; where something needs it, with the one that takes its place. Returns why it stays. Raises Conflict for a
    unique key that stays, and that rows of the source may break."""
    number, said = attempt(connection, _drop_line(altered, own))
    if number in IS_GONE:
        return "" if any(index.name == own for index in existing.indexes) else NOT_THERE
    if number in NEEDED:
        wanted = _needed(existing, own)
        for one in _planned(altered.schema, altered.table, rules, release).values():
            if not _takes_place(one, wanted) or not (to := name_to_build(one, _without(existing, {own}))):
                continue
            if not attempt(connection, f"{_drop_line(altered, own)}, ADD {one.line(to)}")[0]:
                return ""
    if said and may_refuse(altered.former, altered.schema, name):
        raise Conflict(
            altered.table.source,
            f"unique key {own} of {altered.table.target} cannot be dropped, and would refuse rows that the source has: {said}",
        )
    return said


def _needed(existing: ExistingTable, own: str) -> list[tuple[str, ...]]:
    """Return with which columns what takes the place of an index has to begin: those of foreign keys, and its first one."""
    columns = next((_lower(index.columns) for index in existing.indexes if index.name == own), ())
    keys = [_lower(key.columns) for key in existing.foreign_keys]
    keys += [_lower(key.parent_columns) for key in existing.referenced_by]
    return [columns[:1], *(key for key in keys if columns[: len(key)] == key)]


def _takes_place(planned: PlannedIndex, wanted: Iterable[tuple[str, ...]]) -> bool:
    """Return whether an index begins with all of these columns, and refuses no row."""
    is_plain = not (planned.unique or planned.kind or planned.expressions or any(planned.prefixes))
    return is_plain and all(_lower(planned.columns)[: len(one)] == one for one in wanted)


def _renamed(
    altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> Iterator[tuple[str, str]]:
    """Yield indexes that get another name: the source's former one, and the statement, or why there is none. Names of those
    that are dropped before are free then."""
    place = f"ALTER TABLE {table_name(altered.table.target)}"
    existing = without_dropped(existing, altered, rules, release)
    before = _planned(altered.former, altered.former_table, rules, release) if altered.indexes.renamed else {}
    behind = _planned(altered.schema, altered.table, rules, release) if altered.indexes.renamed else {}
    for former, name in altered.indexes.renamed:
        own, next_one = _own(before.get(former), existing), behind.get(name)
        to = _free_name(next_one, existing) if next_one else ""
        if not (own and to and next_one):
            yield former, NOT_THERE
        elif release.has("RENAME INDEX"):
            yield former, f"{place} RENAME KEY {quoted(own)} TO {quoted(to)}"
        else:
            yield former, f"{place} DROP KEY {quoted(own)}, ADD {before[former].line(to)}"


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
    return _without(existing, gone)


def _without(existing: ExistingTable, names: Set[str]) -> ExistingTable:
    return replace(existing, indexes=[index for index in existing.indexes if index.name not in names])


def _lower(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


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


def attempt(connection: Connection, statement: str) -> tuple[int, str]:
    """Carry out a statement. Returns the error by which the server refuses it for good, and what it is; 0 where it does not."""
    try:
        run(connection, statement)
    except pymysql.err.Error as error:
        if error.args[0] == LOG_FULL and not statement.endswith(ALONE):
            return attempt(connection, statement + ALONE)
        if isinstance(translate(error, statement), TargetUnavailable):
            raise
        return error.args[0], describe(*number_and_text(error))
    return 0, ""
