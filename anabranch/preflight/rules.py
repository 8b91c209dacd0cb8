"""The job file against the tables that the source has: matches, targets, columns, filters.

What does not live here: anything that asks a server; the definitions come in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from anabranch.config.toml_text import text_of
from anabranch.errors import ConfigError, SchemaError
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.writers import SourceWriter
from anabranch.preflight.known import KnownJob
from anabranch.rows.conflict import OnConflict
from anabranch.rows.net import TargetTable
from anabranch.rules.ghosts import HINT
from anabranch.rules.rule_set import RuleSet


@dataclass
class Selection:
    """The tables that the rules select from the source. `targets` has those whose form at the target is clear, without
    refused columns, so that their other columns are checked too.
    """

    tables: Mapping[TableId, TableSchema]
    targets: dict[TableId, TargetTable] = field(default_factory=dict)
    needs_full_images: list[TableId] = field(
        default_factory=list
    )  # tables whose filter uses other columns than the key's, or where a missing row is to be written from its change
    results: list[CheckResult] = field(default_factory=list)
    logs_cascades: bool = False
    unseen: tuple[TableId, ...] = ()  # PreflightContext.unseen
    waiting: frozenset[TableId] = frozenset()  # included and not followed at present
    writers: tuple[SourceWriter, ...] = ()  # to tables of the source, without the job itself
    told_by: dict[TableId, str] = field(default_factory=dict)  # PreflightContext.told_by
    instances: dict[TableId, tuple[TargetTable, ...]] = field(default_factory=dict)  # PreflightContext.instances

    def add(
        self, check: str, verdict: CheckVerdict, message: str, hint: str = "", table: TableId | None = None
    ) -> None:
        self.results.append(CheckResult(check, verdict, message, hint, str(table) if table else ""))


def select(
    rules: RuleSet, present: Collection[TableId], now: Mapping[TableId, TableSchema], known: KnownJob | None = None
) -> Selection:
    """Apply the rules to the source's tables. `present`: all tables that the source showed, `now`: the definitions of
    those that rules include.
    """
    known = known or KnownJob()
    selection = Selection(known.replicated(rules, now))
    _matches(rules, present, selection, known)
    _shared_targets(rules, selection)
    for schema in selection.tables.values():
        _table(rules, schema, selection)
    for pattern in rules.unused_types(selection.tables.values()):
        selection.add(
            "job.types", CheckVerdict.WARNING, f"[types.map] {pattern!r} matches no column", "check its spelling"
        )
    selection.results += known.differences(rules, now)
    if selection.tables and all(result.verdict == CheckVerdict.OK for result in selection.results):
        selection.add(
            "job.tables", CheckVerdict.OK, f"{len(selection.tables)} tables fit the rules and settings of the job"
        )
    return selection


def _matches(rules: RuleSet, present: Collection[TableId], selection: Selection, known: KnownJob) -> None:
    for problem in rules.without_match(present):
        hint = (
            f"did you mean {problem.nearest}?"
            if problem.nearest
            else "check the spelling, and whether the user may see it"
        )
        selection.add("job.rules", CheckVerdict.WARNING, str(replace(problem, nearest="")), hint)
    for found in rules.contradictions(present):
        selection.add("job.rules", CheckVerdict.WARNING, str(found.problem), found.hint)
    if left := rules.left_to_tools(present):
        message = f"left out as tables that a tool works with: {', '.join(map(str, left))}"
        selection.add("job.rules", CheckVerdict.WARNING, message, HINT)
    if selection.tables:
        selection.add("job.rules", CheckVerdict.OK, f"the rules select {len(selection.tables)} tables")
    elif known.reshaped:
        pass  # said already
    elif known.has_begun:
        selection.add(
            "job.rules", CheckVerdict.WARNING, "no table is followed at present", "anabranch status JOB says why"
        )
    else:
        selection.add(
            "job.rules", CheckVerdict.FAILED, "the rules select no table", "check [[rules]] and what the user may see"
        )


def _shared_targets(rules: RuleSet, selection: Selection) -> None:
    try:
        rules.targets(selection.tables)
    except ConfigError as error:
        for problem in error.problems:
            selection.add("job.targets", CheckVerdict.FAILED, str(problem), error.hint)


def _table(rules: RuleSet, schema: TableSchema, selection: Selection) -> None:
    try:
        for result in _refused(rules, schema):
            selection.results.append(result)
        accepted = _without_refused(rules, schema)
        selection.targets[schema.id] = rules.target_table(accepted)
        if rules.keeps_changes:
            selection.needs_full_images.append(schema.id)
            selection.instances[schema.id] = rules.instances(accepted, strict=True)
        _filter(rules, accepted, selection)
        _on_conflict(rules, accepted, selection)
    except ConfigError as error:
        for problem in error.problems:
            selection.add("job.columns", CheckVerdict.FAILED, str(problem), error.hint, schema.id)
    except SchemaError as error:
        selection.add("job.types", CheckVerdict.FAILED, error.message, error.hint, schema.id)


def _refused(rules: RuleSet, schema: TableSchema) -> Iterator[CheckResult]:
    for column in rules.refused(schema):
        reason = column.refusal or "this type is not in the type map"
        hint = f"[[tables]] name = {text_of(str(schema.id))}, columns = {{ drop = [{text_of(column.name)}] }}"
        if column.name in schema.primary_key:
            hint = "it belongs to the primary key and cannot be left out: exclude the table"
        message = f"column {column.name} {column.native}: refused, {reason}"
        yield CheckResult("job.types", CheckVerdict.FAILED, message, hint, str(schema.id))


def _without_refused(rules: RuleSet, schema: TableSchema) -> TableSchema:
    """Return the table without refused columns, except key columns: without those the table has no form at the target."""
    refused = {column.name for column in rules.refused(schema)} - set(schema.primary_key)
    return replace(schema, columns=tuple(column for column in schema.columns if column.name not in refused))


def _filter(rules: RuleSet, schema: TableSchema, selection: Selection) -> None:
    found = rules.where(schema)
    is_needed = found and not set(found.columns) <= set(schema.primary_key)
    if is_needed and schema.id not in selection.needs_full_images:
        selection.needs_full_images.append(schema.id)


def _on_conflict(rules: RuleSet, schema: TableSchema, selection: Selection) -> None:
    policy = rules.on_conflict(schema)
    if policy.pair:
        selection.told_by[schema.id] = policy.newest_by
    writes_missing = policy.name in (OnConflict.SOURCE_WINS, OnConflict.NEWEST)
    if writes_missing and schema.id not in selection.needs_full_images:
        selection.needs_full_images.append(schema.id)
