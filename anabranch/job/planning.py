"""A job file that was edited (K32): what it means table by table, against the job as last run, and taking it over.

Tables that are left out are forgotten, those that look or are filtered otherwise are parked with what foreign keys connect
them with, and wait for a load; new ones wait for theirs. What does not live here: loading them (`loading.py`), single
differences of the file (`config/changes.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from anabranch.abc import JOINS, RECREATE, RESUMES, TableState, TargetStore
from anabranch.config import JobConfig, describe_change
from anabranch.config.job import Rule, TableEntry, Types
from anabranch.ddl.rules import RuleSet
from anabranch.errors import ConfigError, StateError
from anabranch.job import ends
from anabranch.job.drop import running
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema, component
from anabranch.rows.net import TargetTable
from anabranch.trail import retention

if TYPE_CHECKING:
    from anabranch.job.job import Job

NEW, GONE, CHANGED, WITH = "new", "left out", "changed", "connected"


@dataclass(frozen=True, slots=True)
class TableChange:
    """`kind`: `new` · `left out` · `changed` · `connected`: foreign keys lead from it to one that changed. `why` says what is
    otherwise. `recreates`: the target table has to be made anew."""

    table: TableId
    kind: str
    why: str = ""
    recreates: bool = False


@dataclass(frozen=True)
class Plan:
    """`lines`: what the file says otherwise. `changes`: what that means; none where all tables stay as they are."""

    lines: tuple[str, ...]
    changes: tuple[TableChange, ...]

    @property
    def loads(self) -> list[TableChange]:
        return [change for change in self.changes if change.kind != GONE]


def plan(job: Job, execute: bool) -> Plan | None:
    """None where the job has never run: its first start loads every table. Raises ConfigError for what only a new job can
    do, StateError where the job runs and is to be changed."""
    if execute and (parts := list(running(job))):
        raise StateError(f"the job is running: {', '.join(parts)}", job=job.config.name, hint="stop it first")
    store = ends.target_of(job).store()
    try:
        known = store.job(job.config.name) if store.exists() else None
        if known is None:
            return None
        states = store.tables(job.config.name)
        found = _plan(job, json.loads(known["definition"]), states)
        if execute and found.lines:
            _take_over(job, store, found, states)
            store.save_job(job.config.name, {**known, "definition": json.dumps(job.config.fingerprint())})
        return found
    finally:
        store.close()


# --- what it means ----------------------------------------------------------------------------------------------------


def _plan(job: Job, before: dict[str, Any], states: Mapping[TableId, TableState]) -> Plan:
    lines = describe_change(before, job.config.fingerprint())
    if moved := [line for line in lines if line.startswith("source: ")]:
        raise ConfigError(
            f"another source is another job: {moved[0]}",
            job=job.config.name,
            hint="put it back, or remove the job's state (anabranch drop JOB --execute) and load again",
        )
    schemas = {table: state.schema for table, state in states.items() if state.schema}
    former, present = RuleSet(_former(job.config, before)), _present(job)
    job.rules.targets({*states, *present} if lines else ())  # none shares its target with another
    changed = {c.table: c for c in _changed(former, job.rules, schemas)}
    gone = [TableChange(table, GONE) for table in sorted(states) if not job.rules.includes(table)]
    kept = {table: schema for table, schema in schemas.items() if job.rules.includes(table)}
    beside = sorted(component(changed, kept) - changed.keys())
    with_it = [TableChange(table, WITH, _connected(table, changed, kept)) for table in beside]
    new = [TableChange(table, NEW) for table in sorted(present.keys() - states.keys())]
    return Plan(tuple(lines), (*gone, *changed.values(), *with_it, *(new if lines else ())))


def _former(config: JobConfig, before: Mapping[str, Any]) -> JobConfig:
    """The job as its rules, tables and types were when it last ran."""
    entries = [
        TableEntry.model_validate(
            {
                "name": name,
                "columns": {key: one[key] for key in ("drop", "rename", "type") if one.get(key)},
                "where": one.get("where"),
            }
        )
        for name, one in before["tables"].items()
    ]
    types = {**config.types.model_dump(by_alias=True), "json": before["json"], **before.get("types", {})}
    rules = [Rule.model_validate(rule) for rule in before["rules"]]
    return config.model_copy(update={"rules": rules, "tables": entries, "types": Types.model_validate(types)})


def _present(job: Job) -> dict[TableId, TableSchema]:
    catalog = ends.source_of(job).catalog()
    try:
        return catalog.tables(job.rules.includes, whole=False)
    finally:
        catalog.close()


def _changed(former: RuleSet, now: RuleSet, schemas: Mapping[TableId, TableSchema]) -> Iterator[TableChange]:
    for table, schema in sorted(schemas.items()):
        if not now.includes(table):
            continue
        was, is_ = former.target_table(schema), now.target_table(schema)
        where_was, where_is = former.where(schema), now.where(schema)
        why = [*_differences(was, is_)]
        if where_was != where_is:
            texts = [f"{one.text!r}" if one else "every row" for one in (where_was, where_is)]
            why.append(f"rows: {texts[0]} -> {texts[1]}")
        if why:
            recreates = was.target == is_.target and was != is_
            yield TableChange(table, CHANGED, "; ".join(why), recreates)


def _differences(was: TargetTable, is_: TargetTable) -> Iterator[str]:
    if was.target != is_.target:
        yield f"target: {was.target} -> {is_.target}"
    before = dict(zip(was.source_columns, zip(was.columns, was.types, strict=True), strict=True))
    after = dict(zip(is_.source_columns, zip(is_.columns, is_.types, strict=True), strict=True))
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield f"column {name}: {_shown(before.get(name))} -> {_shown(after.get(name))}"


def _shown(column: tuple[str, object] | None) -> str:
    return f"{column[0]} {getattr(column[1], 'target', '') or column[1]}" if column else "left out"


def _connected(table: TableId, changed: Iterable[TableId], schemas: Mapping[TableId, TableSchema]) -> str:
    found = next(one for one in changed if table in component([one], schemas))
    return f"foreign keys connect it with {found}"


# --- taking it over ---------------------------------------------------------------------------------------------------


def _take_over(job: Job, store: TargetStore, found: Plan, states: Mapping[TableId, TableState]) -> None:
    for change in found.changes:
        state = states.get(change.table)
        if state is None:
            continue
        if change.kind == GONE:
            store.forget_table(job.config.name, state)
        else:
            store.save_table(job.config.name, _waiting(state, change), state)
        retention.unregister(job.trail, f"{retention.LOAD}{change.table}")


def _waiting(state: TableState, change: TableChange) -> TableState:
    """Parked until it is loaded again."""
    facts = {name: value for name, value in state.facts.items() if name not in (JOINS, RESUMES)}
    if change.recreates:
        facts[RECREATE] = "yes"
    reason = f"the job file was changed ({change.why}); anabranch load JOB --table {change.table} brings it in"
    return replace(state, state="parked", low="", high="", reason=reason, facts=facts)
