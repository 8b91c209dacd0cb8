"""A job file that was edited (K32): what the changes mean for each table, compared with the job as it last ran, and
taking them over.

Tables that are left out are forgotten. Tables whose target or filter changed are parked, with those that foreign keys
connect them with, and wait for a load. New tables wait for theirs. What does not live here: loading them
(`loading.py`), single differences of the file (`config/changes.py`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.config import JobConfig, Rule, TableEntry, describe_change
from anabranch.config.changes import FORM, JSON, TEXTS_AS_JSON, WHERE, options_of
from anabranch.contracts import TargetStore
from anabranch.databases import SOURCE, TARGET
from anabranch.errors import ConfigError, SchemaError
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.load_groups import ancestors, load_command, parents_first
from anabranch.model.schema import TableSchema, component
from anabranch.model.table_life import TableState, wait_for_load
from anabranch.model.writers import own_targets
from anabranch.preflight.cascades import check_cascades
from anabranch.preflight.report import Report
from anabranch.rows.json_texts import is_json
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import RuleSet
from anabranch.trail import retention
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import catalog_of, require_rows, source_of, store_of
from anabranch.view.options import value_rules
from anabranch.view.refusals import targets_left_out
from anabranch.view.running import require_stopped

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

NEW, GONE, CHANGED, WITH = "new", "left out", "changed", "connected"


@dataclass(frozen=True, slots=True)
class TableChange:
    """A change of one table that the edited job file means. `kind`: `new`, `left out`, `changed`, or `connected`
    (foreign keys lead from it to one that changed). `why` names the differences. `recreates`: the target table has to
    be made anew."""

    table: TableId
    kind: str
    why: str = ""
    recreates: bool = False


@dataclass(frozen=True)
class Plan:
    """The result of comparing. `lines`: the differences of the file. `changes`: what they mean for tables; empty where
    all tables stay as they are. `notes`: what a difference does not reach, though one would think so. `together`: the tables
    that a load brings in, those in one that foreign keys change with each other unseen by the log, parents first."""

    lines: tuple[str, ...]
    changes: tuple[TableChange, ...]
    notes: tuple[str, ...] = ()
    together: tuple[tuple[TableId, ...], ...] = ()

    @property
    def loads(self) -> list[TableChange]:
        return [change for change in self.changes if change.kind != GONE]

    @property
    def commands(self) -> dict[tuple[TableId, ...], str]:
        """The commands that load the tables, each by those that it brings in."""
        recreated = {change.table for change in self.loads if change.recreates}
        return {group: load_command(group, not recreated.isdisjoint(group)) for group in self.together}


def plan(job: JobView, execute: bool) -> Plan | None:
    """Return what the edited job file means; with `execute`, take it over. None where the job has never run: its first
    start loads every table. Raises ConfigError for what only a new job can do, StateError where the job runs and is to
    be changed."""
    if execute:
        require_stopped(job)
    with store_of(job) as store:
        known = store.jobs.job(job.config.name) if store.exists() else None
        if known is None:
            return None
        states = store.states.tables(job.config.name)
        found = _plan(job, json.loads(known["definition"]), states)
        if found.loads:
            require_rows(job)
        if execute and found.lines:
            _take_over(job, store, found, states)
            definition = json.dumps(job.config.fingerprint(job.target))
            store.jobs.save_job(job.config.name, {**known, "definition": definition})
        return found


def reshaped(job: JobView, before: Mapping[str, Any], schemas: Mapping[TableId, TableSchema]) -> frozenset[TableId]:
    """Return the tables that have another form at the target than the edited job file says. Raises nothing for settings that
    do not fit a table."""
    former = RuleSet(_former(job.config, before, job.target), job.types, job.target)
    kept = {table: schema for table, schema in schemas.items() if job.rules.includes(table)}
    return frozenset(table for table, schema in kept.items() if _form(former, schema) != _form(job.rules, schema))


def _form(rules: RuleSet, schema: TableSchema) -> TargetTable | None:
    try:
        return rules.target_table(schema)
    except (ConfigError, SchemaError):
        return None


def left_out(job: JobView, execute: bool) -> list[str]:
    """Return the targets that the job file no longer names. With `execute`, stop holding the trail for them. What the
    job left in their databases stays there."""
    found = targets_left_out(job)
    if execute and found:
        require_stopped(job)
        for name, held in found.items():
            for one in held:
                retention.unregister(job.trail, one)
            shutil.rmtree(job.config.home / "targets" / name, ignore_errors=True)
    return list(found)


# --- what it means ----------------------------------------------------------------------------------------------------


def _plan(job: JobView, before: dict[str, Any], states: Mapping[TableId, TableState]) -> Plan:
    found = {change.what: change for change in describe_change(before, job.config.fingerprint(job.target))}
    if other := [found[what] for what in (WHERE, FORM) if what in found]:
        raise ConfigError(
            f"the job file is of another job: {', '.join(map(str, other))}",
            job=job.config.name,
            hint="put it back, or remove the job's state (anabranch drop JOB --execute) and load again",
        )
    if at_source := [change for change in found.values() if change.role == SOURCE]:
        raise ConfigError(
            f"the job's source objects forbid it: {', '.join(map(str, at_source))}",
            job=job.config.name,
            hint="put it back, or remove the job's state (anabranch drop JOB --execute) and load again",
        )
    if at_topics := [change for change in found.values() if job.config.has_messages and change.role == TARGET]:
        raise ConfigError(
            f"messages that are there forbid it: {', '.join(map(str, at_topics))}",
            job=job.config.name,
            hint="put it back, or let another job write other topics",
        )
    schemas = {table: state.schema for table, state in states.items() if state.schema}
    if not found:
        return Plan((), ())
    former = RuleSet(_former(job.config, before, job.target), job.types, job.target)
    present, logs_cascades = _source(job, states.keys())
    job.rules.targets({*states, *present})  # raises if two tables share a target
    if not logs_cascades:
        Report(job.config.name, tuple(check_cascades(job.rules, present.values(), value_rules(job)))).require()
    gone = [TableChange(table, GONE) for table in sorted(states) if not job.rules.includes(table)]
    _require_built(job, [states[change.table] for change in gone])
    changed = {c.table: c for c in _changed(former, job.rules, schemas, present, has_json=JSON in found)}
    new = present.keys() - states.keys()
    kept = {table: schema for table, schema in schemas.items() if job.rules.includes(table)}
    below = set() if logs_cascades else {t for t in kept if ancestors({**present, **kept}, t) & new}
    beside = sorted(component([*changed, *below], kept) - changed.keys())
    with_it = [
        TableChange(table, WITH, _connected(table, [*changed, *sorted(new)], {**present, **kept})) for table in beside
    ]
    fresh = [TableChange(table, NEW) for table in sorted(new)]
    notes = tuple(_older(job.rules, kept, present)) if TEXTS_AS_JSON & found.keys() else ()
    changes = (*changed.values(), *with_it, *fresh)
    together = _together([change.table for change in changes], {**present, **kept}, logs_cascades)
    return Plan(tuple(map(str, found.values())), (*gone, *changes), notes, together)


def _together(
    tables: Sequence[TableId], schemas: Mapping[TableId, TableSchema], logs_cascades: bool
) -> tuple[tuple[TableId, ...], ...]:
    """Return the tables, each in a group with those that foreign keys change with it unseen by the log."""
    if logs_cascades:
        return tuple((table,) for table in tables)
    found: list[tuple[TableId, ...]] = []
    for table in tables:
        linked = [
            one for one in found if any(table in ancestors(schemas, t) or t in ancestors(schemas, table) for t in one)
        ]
        group = parents_first({table, *(t for one in linked for t in one)}, schemas)
        found = [*(one for one in found if one not in linked), tuple(group)]
    return tuple(found)


def _require_built(job: JobView, states: Iterable[TableState]) -> None:
    """Require that the tables are loaded and built. Keys that a load took off, also those of other tables, are back
    only when it is complete. Raises ConfigError."""
    for state in states:
        if state.is_before_stream or (state.is_streaming and not state.is_built):
            raise ConfigError(
                f"the load of {state.source} has not finished",
                job=job.config.name,
                hint="put the file back, let it end (anabranch run JOB --until-caught-up), then leave the table out",
            )


def _former(config: JobConfig, before: Mapping[str, Any], target: str = "") -> JobConfig:
    """Return the job with its rules, tables and types as they were when it last ran for this target."""
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
    types = config.types.model_copy(update={"map": before.get("types", {}).get("map", {})})
    rules = [Rule.model_validate(rule) for rule in before["rules"]]
    source = config.source.model_copy(update={"options": options_of(before, SOURCE, config.source.options)})
    made = config.model_copy(update={"rules": rules, "tables": entries, "types": types, "source": source})
    return made.with_target_options(options_of(before, TARGET, config.target_options(target)), target)


def _source(job: JobView, read: Collection[TableId]) -> tuple[dict[TableId, TableSchema], bool]:
    """Return the source's present definitions of included tables, and whether its log has what foreign keys change.
    Tables that the job itself writes and has not `read` are left out."""
    with catalog_of(source_of(job)) as catalog:
        own = own_targets(catalog.writers(), trail_uuid(job) or "").difference(read)
        wanted = catalog.tables(lambda table: table not in own and job.rules.includes(table), whole=False)
        return wanted, catalog.log.logs_cascades()


def _changed(
    former: RuleSet,
    now: RuleSet,
    schemas: Mapping[TableId, TableSchema],
    present: Mapping[TableId, TableSchema],
    has_json: bool,
) -> Iterator[TableChange]:
    """Yield the tables whose target or filter has changed. `has_json`: the target's type for JSON has changed."""
    for table, schema in sorted(schemas.items()):
        if not now.includes(table):
            continue
        was, where_was = former.target_table(schema), former.where(schema)
        try:
            is_, where_is = now.target_table(schema), now.where(schema)
        except ConfigError:  # the settings name columns that the source got later
            newer = present.get(table, schema)
            is_, where_is = now.target_table(newer), now.where(newer)
        why = [*_differences(was, is_)]
        json_columns = [
            n for n, t in zip(is_.columns, is_.types, strict=True) if t.carried is Kind.JSON and not t.target
        ]
        why += [f"column {name}: another type for JSON" for name in json_columns if has_json]
        other = [n for n in is_.columns if n in was.columns and _has_json(was, n) is not _has_json(is_, n)]
        why += [f"column {name}: text and JSON are two forms" for name in other]
        if where_was != where_is:
            texts = [f"{one.text!r}" if one else "every row" for one in (where_was, where_is)]
            why.append(f"rows: {texts[0]} -> {texts[1]}")
        if why:
            recreates = was.target == is_.target and (was != is_ or bool((has_json and json_columns) or other))
            yield TableChange(table, CHANGED, "; ".join(why), recreates)


def _older(
    now: RuleSet, schemas: Mapping[TableId, TableSchema], present: Mapping[TableId, TableSchema]
) -> Iterator[str]:
    """Yield tables with columns that stay texts though the job file makes JSON of them: what they are made of does not stand in
    the definition by which the table was loaded, which is of an earlier release."""
    for table, schema in sorted(schemas.items()):
        here, there = _form(now, schema), _form(now, present.get(table, schema))
        if here is None or there is None:
            continue
        texts = [name for name in here.columns if name in there.columns and not _has_json(here, name)]
        if names := [name for name in texts if _has_json(there, name)]:
            yield (
                f"{table}: {', '.join(names)} stay text, because the table was loaded by an earlier release;"
                f" anabranch load JOB --table {table.typed} --recreate makes JSON of them"
            )


def _has_json(table: TargetTable, column: str) -> bool:
    return is_json(table.type_of(column))


def _differences(was: TargetTable, is_: TargetTable) -> Iterator[str]:
    if was.target != is_.target:
        yield f"target: {was.target} -> {is_.target}"
    before = dict(zip(was.source_columns, zip(was.columns, was.types, strict=True), strict=True))
    after = dict(zip(is_.source_columns, zip(is_.columns, is_.types, strict=True), strict=True))
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield f"column {name}: {_shown(before.get(name))} -> {_shown(after.get(name))}"
    names = dict(was.computed), dict(is_.computed)
    for name in dict.fromkeys((*names[0], *names[1])):
        if names[0].get(name) != names[1].get(name):
            yield f"column {name}: computed as {names[0].get(name, 'none')} -> {names[1].get(name, 'none')}"


def _shown(column: tuple[str, object] | None) -> str:
    return f"{column[0]} {getattr(column[1], 'target', '') or column[1]}" if column else "left out"


def _connected(table: TableId, changed: Iterable[TableId], schemas: Mapping[TableId, TableSchema]) -> str:
    found = [str(one) for one in changed if table in component([one], schemas)]
    return f"foreign keys connect it with {', '.join(found)}"


# --- taking it over ---------------------------------------------------------------------------------------------------


def _take_over(job: JobView, store: TargetStore, found: Plan, states: Mapping[TableId, TableState]) -> None:
    for change in found.changes:
        state = states.get(change.table)
        if state is None:
            continue
        if change.kind == GONE:
            store.states.forget_table(job.config.name, state)
        else:
            command = next(text for group, text in found.commands.items() if change.table in group)
            store.states.save_table(job.config.name, _waiting(state, change, command), state)
        retention.unregister(job.trail, job.names.table(change.table))


def _waiting(state: TableState, change: TableChange, command: str) -> TableState:
    """Return the state of a table that stays parked until it is loaded again."""
    reason = f"the job file was changed ({change.why}); {command} brings it in"
    return wait_for_load(state, reason, change.recreates)
