"""The steps from one definition of a table to the next one, as far as the target's table goes with them.

What does not live here: when they come (`altering.py`), how a target carries them out (its Writer).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce

from anabranch.model.check_changes import NO_CHECKS, CheckChanges, check_changes
from anabranch.model.column_changes import (
    ASK,
    EXACT,
    IGNORE,
    KEEP,
    OF_INDEXES,
    PARK,
    STOP,
    ColumnChange,
    TableActions,
    Untold,
    differences,
    ignored,
)
from anabranch.model.comment_changes import NO_COMMENTS, comment_changes
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.foreign_key_changes import NO_KEY_CHANGES, foreign_key_changes
from anabranch.model.index_changes import NO_CHANGES, IndexChanges, index_changes, passed_over
from anabranch.model.schema import TableSchema
from anabranch.rows.altered import (
    AlteredTable,
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    ColumnRetyped,
    DefaultChanged,
    NullabilityChanged,
    Step,
)
from anabranch.rows.net import TargetTable

Fits = Callable[[LogicalType], Fit]
KINDS = {
    ColumnAdded: ColumnChange.ADD,
    ColumnDropped: ColumnChange.DROP,
    ColumnRenamed: ColumnChange.RENAME,
    ColumnRetyped: ColumnChange.TYPE,
    NullabilityChanged: ColumnChange.NULLABILITY,
    DefaultChanged: ColumnChange.DEFAULT,
}
CHANGED: Mapping[ColumnChange, type[ColumnRetyped | NullabilityChanged | DefaultChanged]] = {
    ColumnChange.TYPE: ColumnRetyped,
    ColumnChange.NULLABILITY: NullabilityChanged,
    ColumnChange.DEFAULT: DefaultChanged,
}


class NotFollowed(Exception):
    """The target's table does not go with the change; the text says why."""


class Stops(Exception):
    """The job file stops the job in front of the change; the text is its line."""


def altered_table(
    former: tuple[TableSchema, TargetTable],
    now: tuple[TableSchema, TargetTable],
    untold: Untold,
    actions: TableActions,
    fits: Fits,
) -> AlteredTable:
    """Return the table with the steps that its target needs. `fits`: returns how the target stores a type. Raises Stops for a
    step at which the job file stops, NotFollowed for one that it parks, and where the job's rules make something else of the
    table now, apart from the steps."""
    if untold.built:
        if former[1] != now[1]:
            raise NotFollowed("the job's rules make another table of it now")
        return AlteredTable(*former, *now, ())
    if untold.swapped and actions.of(ColumnChange.SWAP) == PARK:
        raise NotFollowed(actions.line(ColumnChange.SWAP))
    steps = tuple(_steps(former, now, untold, actions.of(ColumnChange.DROP) == KEEP))
    if actions.of(ColumnChange.DEFAULT) == IGNORE:
        steps = tuple(step for step in steps if not isinstance(step, DefaultChanged))
    beside = _beside(former[0], now[0], dict(untold.renamed), actions)
    comments = comment_changes(former[0], now[0], dict(untold.renamed)).of(now[1].source_columns)
    comments = NO_COMMENTS if actions.of(ColumnChange.COMMENTS) == IGNORE else comments
    checks = _checks(former[0], now[0], untold, actions)
    followed = frozenset(beside) | ({ColumnChange.COMMENTS} if comments else frozenset())
    followed |= {ColumnChange.CHECKS} if checks else frozenset()
    keys = NO_KEY_CHANGES
    if not untold.swapped and actions.of(ColumnChange.FOREIGN_KEYS) != IGNORE:
        keys = foreign_key_changes(former[0], now[0])
    followed |= {ColumnChange.FOREIGN_KEYS} if keys else frozenset()
    followed |= {ColumnChange.PARTITIONS} if untold.rows_went else frozenset()
    kinds = _kinds(steps, followed)
    for kind in kinds:
        if actions.of(kind) == STOP:
            raise Stops(actions.line(kind))
    for kind in kinds:
        if actions.of(kind) == PARK:
            raise NotFollowed(actions.line(kind))
    _refuse_inexact(steps, now[1], actions, fits)
    if rescaled := [
        step.name for step in steps if isinstance(step, ColumnRetyped) and _is_rescaled(former, now, step, untold)
    ]:
        raise NotFollowed(
            f"{rescaled[0]} has another number of digits behind the point, which the target's type has as a text"
        )
    if chosen := [
        step.name for step in steps if isinstance(step, ColumnRetyped) and _is_chosen(former, now, step, untold)
    ]:
        raise NotFollowed(f"the job's rules make another type of {chosen[0]} now")
    if not now[1].key and any(isinstance(step, ColumnDropped) and step.keeps for step in steps):
        raise NotFollowed("it has no key: rows with another value in a column that is kept could not be told apart")
    if _without(former[1], steps, dict(untold.renamed)) != _without(now[1], steps, {n: n for _, n in untold.renamed}):
        raise NotFollowed("the job's rules make another table of it now")
    indexes = reduce(IndexChanges.plus, beside.values(), NO_CHANGES)
    left_out = ignored(former[0], now[0], untold)
    passed = passed_over(former[0], now[0], dict(untold.renamed), indexes)
    return AlteredTable(*former, *now, steps, indexes, followed, passed, left_out, comments, checks, keys)


def _beside(
    former: TableSchema, now: TableSchema, renamed: Mapping[str, str], actions: TableActions
) -> dict[ColumnChange, IndexChanges]:
    """Return what becomes of indexes and unique keys at the target, by the kinds of which something does."""
    followed = [kind for kind in OF_INDEXES if actions.of(kind) != IGNORE]
    found = {kind: index_changes(former, now, renamed, OF_INDEXES[kind]) for kind in followed}
    return {kind: changes for kind, changes in found.items() if changes}


def _checks(former: TableSchema, now: TableSchema, untold: Untold, actions: TableActions) -> CheckChanges:
    """Return what becomes of checks at the target. A copy that a tool swaps in has its own by other names."""
    if untold.swapped or actions.of(ColumnChange.CHECKS) == IGNORE:
        return NO_CHECKS
    return check_changes(former, now)


def _kinds(steps: tuple[Step, ...], beside: Iterable[ColumnChange]) -> list[ColumnChange]:
    return sorted({*(KINDS[type(step)] for step in steps), *beside})


def _refuse_inexact(steps: tuple[Step, ...], table: TargetTable, actions: TableActions, fits: Fits) -> None:
    """Raise NotFollowed where the job file wants types to be stored exactly, and the target does not."""
    for step in steps:
        if isinstance(step, ColumnAdded | ColumnRetyped) and actions.of(KINDS[type(step)]) == EXACT:
            fit = fits(table.type_of(table.columns[table.source_columns.index(step.name)]))
            if fit.fidelity is not Fidelity.EXACT:
                why = f": {fit.reason}" if fit.reason else ""
                line = actions.line(KINDS[type(step)])
                raise NotFollowed(f"{line}, and {step.name} is {fit.native} there, {fit.fidelity}{why}")


def _is_rescaled(
    former: tuple[TableSchema, TargetTable], now: tuple[TableSchema, TargetTable], step: ColumnRetyped, untold: Untold
) -> bool:
    """Return whether rows that are there would be printed otherwise, where the job has chosen a type for a decimal number."""
    before = {name: source for source, name in untold.renamed}.get(step.name, step.name)
    types = [column.type for column in (former[0].column(before), now[0].column(step.name))]
    scales = {type.scale for type in types if type is not None and type.kind is Kind.DECIMAL}
    chosen = now[1].type_of(now[1].columns[now[1].source_columns.index(step.name)]).target
    return bool(chosen) and len(scales) > 1


def _is_chosen(
    former: tuple[TableSchema, TargetTable], now: tuple[TableSchema, TargetTable], step: ColumnRetyped, untold: Untold
) -> bool:
    """Return whether the job file chooses another type for a column that has got labels: it names types by their labels."""
    before = {name: source for source, name in untold.renamed}.get(step.name, step.name)
    types = [table.types[table.source_columns.index(name)] for (_, table), name in ((former, before), (now, step.name))]
    return types[1].kind in (Kind.ENUM, Kind.SET) and types[0].target != types[1].target


def asks(altered: AlteredTable, actions: TableActions) -> str:
    """Return the line of the job file that asks a person about one of the steps; "" where none does."""
    kinds = _kinds(altered.steps, altered.beside)
    return next((actions.line(kind) for kind in kinds if actions.of(kind) == ASK), "")


def refuse_aside(altered: AlteredTable, number: int) -> None:
    """Raise NotFollowed where changes that are set aside, so many, have values for columns as they were, or were set aside by
    the unique keys and checks of before."""
    is_other = any(not isinstance(step, ColumnAdded) for step in altered.steps)
    if number and (is_other or not {ColumnChange.UNIQUE_KEYS, ColumnChange.CHECKS}.isdisjoint(altered.beside)):
        by = "columns" if is_other else "unique keys and checks"
        raise NotFollowed(f"{number} changes of it are set aside, by its former {by}: release or discard them before")


def _steps(
    former: tuple[TableSchema, TargetTable], now: tuple[TableSchema, TargetTable], untold: Untold, keeps: bool
) -> Iterator[Step]:
    before, behind = ({column.name for column in schema.columns} for schema, _ in (former, now))
    filled, renamed = dict(untold.filled), dict(untold.renamed)
    here, there = (dict(zip(table.source_columns, table.columns, strict=True)) for _, table in (former, now))
    for name in here:
        if name not in behind and name not in renamed:
            yield ColumnDropped(name, keeps)
    for name, to in untold.renamed:
        if name in here and to in there and here[name] != there[to]:
            yield ColumnRenamed(name, to)
    for name in there:
        if name not in before and name not in renamed.values():
            yield ColumnAdded(name, filled.get(name))
    for name in here:
        if (to := renamed.get(name, name)) in there:
            yield from (CHANGED[kind](to) for kind in sorted(differences(former[0].column(name), now[0].column(to))))


def _without(table: TargetTable, steps: tuple[Step, ...], renamed: Mapping[str, str]) -> tuple[object, ...]:
    """Return what makes the table, without columns that come or go and what changes of others; `renamed`: the source's names
    of now."""
    gone = {step.name for step in steps if isinstance(step, ColumnAdded | ColumnDropped)}
    retyped = {step.name for step in steps if isinstance(step, ColumnRetyped)}
    columns = [
        (name := renamed.get(source, source), "" if source in renamed else target, None if name in retyped else type)
        for source, target, type in zip(table.source_columns, table.columns, table.types, strict=True)
        if source not in gone
    ]
    return table.target, table.key, table.computed, columns
