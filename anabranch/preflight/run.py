"""Asks both ends and the rules, and gathers the answers in one report. Reads only.

What does not live here: what is checked (`rules.py`, `cascades.py`, `connectors/<db>/<role>/preflight.py`), how it is shown
(`report.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from anabranch.config import JobConfig
from anabranch.config.options import owners
from anabranch.contracts import Checks, PreflightContext, SourceConnector, TargetConnector, longest_of
from anabranch.errors import (
    NOT_ADMITTED,
    AnabranchError,
    PreflightFailed,
    Side,
    SourceError,
    SourceUnavailable,
    TargetError,
    TargetUnavailable,
)
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.writers import own_targets
from anabranch.preflight.cascades import check_cascades
from anabranch.preflight.known import KnownJob
from anabranch.preflight.report import Report
from anabranch.preflight.rules import Selection, select
from anabranch.rows import zero_dates
from anabranch.rows.compiled import compiled
from anabranch.rows.installed import COST, REMEDY, reason, version
from anabranch.rules.rule_set import RuleSet

RIGHTS = {Side.SOURCE: "source.rights", Side.TARGET: "target.rights"}
REACHED = {Side.SOURCE: "source.reached", Side.TARGET: "target.reached"}
STATE = "target.state"  # a check: may the job's user read and write its state at the target?
FULL_IMAGES = "tables.full_images"  # in PreflightContext.user_choices: tables that need full row images (K27)
FORM = "target.form"  # in PreflightContext.user_choices of a job that keeps changes: what its target keeps
TAKE_OVER = "take_over"  # [load] existing: the tables stand with their rows, as if the job had loaded them
GIVEN = "capture.given"  # in PreflightContext.user_choices: keys of [capture] that stand in the job file
Answer = TypeVar("Answer")


def preflight(
    config: JobConfig,
    rules: RuleSet,
    source: SourceConnector,
    target: TargetConnector,
    known: Callable[[], KnownJob] = KnownJob,
    identity: Callable[[], str] = str,
    goes_on: bool = False,
) -> Report:
    """Return every check, whatever the others say. `known` asks the target for what this job has begun already,
    `identity` the source who it is. An end that is away is not asked again: each try may take as long as opening a connection.

    Raises the error of an end that cannot be asked at all; of two, the source's, with the other as a note. With `goes_on` that
    is a failed check, REACHED, beside the other end's."""
    errors: list[AnabranchError] = []
    begun = _asked(Side.TARGET, known, errors) or KnownJob()
    unread = len(errors)
    selection = _asked(Side.SOURCE, lambda: _select(config, rules, source, begun), errors) or Selection({})
    context = _context(config, rules, selection, begun, _asked(Side.SOURCE, identity, errors) or "")
    asked = [
        _asked(Side.SOURCE, lambda: _run(source.checks(), context), errors),
        _asked(Side.TARGET, lambda: _witnessed(source, target, context, _is_lost(Side.SOURCE, errors)), errors),
    ]
    closed = tuple(one for one in asked[1] or () if one.check == STATE and one.verdict == CheckVerdict.FAILED)
    if unread and closed and not errors[unread:]:
        return Report(config.name, closed)  # without what the job has begun the other checks would advise wrongly
    if errors and all(error.code == NOT_ADMITTED for error in errors):
        return Report(config.name, tuple(_shut(error) for error in {str(error): error for error in errors}.values()))
    for error in errors:
        error.job = error.job or config.name
    if errors and not goes_on:
        raise _first(errors)
    return Report(
        config.name,
        (
            *_not_entered(errors, bool(unread)),
            _decoder(config.capture.decoding),
            *_unused(config),
            *(() if unread else _unarmed(config, begun)),
            *selection.results,
            *(result for results in asked for result in results or ()),
        ),
        min((error.exit_code for error in errors), default=PreflightFailed.exit_code),
    )


def _decoder(decoding: str) -> CheckResult:
    """Say what decodes the log, and the cost of doing without the compiled decoder: reading is slower, never wrong."""
    if compiled(decoding):
        return CheckResult(
            "job.decoder", CheckVerdict.OK, f"the compiled decoder reads the log (anabranch-native {version()})"
        )
    why = '[capture] decoding = "python" asks for it' if decoding == "python" else reason()
    return CheckResult("job.decoder", CheckVerdict.OK, f"Python reads the log: {why}; {COST}", REMEDY)


def _unarmed(config: JobConfig, begun: KnownJob) -> Iterator[CheckResult]:
    """Say that a job whose tables stand has no place to begin at yet."""
    if config.load.existing == TAKE_OVER and not begun.loaded:
        why = "the job is not armed: it never loads, and has no place of the source's log to begin at"
        yield CheckResult(
            "job.armed", CheckVerdict.WARNING, why, "anabranch arm JOB, before anybody writes at its source"
        )


def _unused(config: JobConfig) -> Iterator[CheckResult]:
    """Name options of other databases that do nothing here: whoever wrote them expects something of them."""
    ends = f"{config.source.endpoint.scheme}:// -> {config.ends[next(iter(config.ends))].scheme}://"
    for section, key in config.unused:
        of = ", ".join(f"{name}://" for name in owners(key))
        why = f"[{section}] {key} has no effect from {ends}: it is an option of {of}"
        yield CheckResult("job.options", CheckVerdict.WARNING, why, "take it out of the job file")


def _not_entered(errors: list[AnabranchError], is_begun_unread: bool) -> Iterator[CheckResult]:
    """Report ends that cannot be asked: away, or refusing the login."""
    for error in errors:
        yield CheckResult(REACHED[error.side], CheckVerdict.FAILED, error.message, error.hint)
    if errors and is_begun_unread:
        why = "what the job has begun is in its target's state, which cannot be read: the source is checked as for a new job"
        yield CheckResult("job.begun", CheckVerdict.WARNING, why, "mend the target's end, then check again")


def _shut(error: AnabranchError) -> CheckResult:
    """Report an end whose database does not let the job's user in. Nothing else of the job can be judged then."""
    return CheckResult(RIGHTS[error.side], CheckVerdict.FAILED, error.message, error.hint)


def _asked(end: Side, ask: Callable[[], Answer], errors: list[AnabranchError]) -> Answer | None:
    if _is_away(end, errors):
        return None
    try:
        return ask()
    except (SourceError, TargetError) as error:
        if str(error) not in map(str, errors):
            errors.append(error)
        return None


def _is_away(end: Side, errors: list[AnabranchError]) -> bool:
    return any(error.side is end and isinstance(error, SourceUnavailable | TargetUnavailable) for error in errors)


def _is_lost(end: Side, errors: list[AnabranchError]) -> bool:
    """Return whether an end is away, or has refused us."""
    return any(error.side is end for error in errors)


def _first(errors: list[AnabranchError]) -> AnabranchError:
    """Return the error with the lowest exit code, with the others as notes."""
    first, *others = sorted(errors, key=lambda error: error.exit_code)
    for other in others:
        first.add_note(str(other))
    return first


def _select(config: JobConfig, rules: RuleSet, source: SourceConnector, known: KnownJob) -> Selection:
    present: list[TableId] = []

    def wanted(table: TableId) -> bool:
        if table in own:
            return False
        present.append(table)
        return rules.includes(table) and table not in known.parked

    with closing(source.catalog()) as catalog:
        writers = catalog.writers()
        own = own_targets(writers, known.uuid) - known.definitions.keys() - known.parked
        now: dict[TableId, TableSchema] = catalog.tables(wanted, whole=False)
        logs_cascades = catalog.log.logs_cascades()
    selection = select(rules, present, now, known)
    selection.logs_cascades = logs_cascades
    selection.writers = tuple(w for w in writers if w.key != known.uuid or w.through)
    selection.unseen = rules.unseen(present)
    selection.waiting = frozenset(filter(rules.includes, present)) - selection.tables.keys()
    if not logs_cascades:
        selection.results += check_cascades(rules, selection.tables.values(), rules.values)
    return selection


def _witnessed(
    source: SourceConnector, target: TargetConnector, context: PreflightContext, is_lost: bool
) -> list[CheckResult]:
    """Run the target's checks while the source lets them see whether it is their own database, and answers what they ask of
    its values, unless it cannot be asked."""
    if is_lost:
        return _run(target.checks(), context)
    with source.witness() as witness:
        return _run(target.checks(), replace(context, witness=witness, longest=partial(longest_of, source)))


def _run(checks: Checks, context: PreflightContext) -> list[CheckResult]:
    """Run checks. An end that cannot be reached raises its error: that is no failed check."""
    with closing(checks):
        return checks.run(context)


def _context(
    config: JobConfig, rules: RuleSet, selection: Selection, known: KnownJob, identity: str
) -> PreflightContext:
    choices = choices_of(config, rules.target_name)
    choices[FULL_IMAGES] = ", ".join(map(str, selection.needs_full_images))
    if config.target is not None and config.keeps_changes:
        choices[FORM] = config.target.form if config.has_change_tables else config.target.endpoint.scheme
    dropped = {table: left for table, schema in selection.tables.items() if (left := rules.left_out(schema))}
    return PreflightContext(
        config.name,
        choices,
        selection.tables,
        selection.targets,
        dropped,
        frozenset(selection.tables) if config.load.existing == TAKE_OVER else known.loaded,
        selection.logs_cascades,
        selection.waiting,
        known.source_name,
        identity,
        writers=selection.writers,
        filtered=frozenset(filter(rules.has_filter, selection.tables)),
        leave_out=frozenset(config.source.leave_out),
        told_by=selection.told_by,
        instances=selection.instances,
        unseen=selection.unseen,
        stand=frozenset(selection.tables) if config.load.existing == TAKE_OVER and not known.loaded else frozenset(),
    )


def choices_of(config: JobConfig, target: str) -> dict[str, str]:
    """Return what the job file says for this target, as PreflightContext has it."""
    choices = {
        f"{section}.{key}": _text(value)
        for section in ("load", "capture", "apply", "types", "ddl", "compat")
        for key, value in getattr(config, section).model_dump(by_alias=True).items()
    }
    choices |= {f"types.{kind}": chosen for kind, chosen in config.type_choices(target).items()}
    choices[zero_dates.ASKED] = json.dumps(config.zero_dates)
    choices[GIVEN] = ", ".join(sorted(config.capture.model_fields_set))
    return choices


def _text(value: object) -> str:
    """Return a setting as the job file writes it, "" for one that is absent."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
