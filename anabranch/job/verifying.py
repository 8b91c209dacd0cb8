"""`verify` for a job: every table that streams, by the definition it was loaded with."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.config.patterns import Pattern
from anabranch.contracts import ComputedReader, TargetReader, TellingReader
from anabranch.errors import ConfigError, StateError
from anabranch.job.left_out import NOTHING, tells_all, unsure
from anabranch.lifecycle.asides import set_aside
from anabranch.lifecycle.repairing import KEYS, repair, require_apply
from anabranch.lifecycle.skipping import sequence_of
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState
from anabranch.model.value_rules import ValueRules
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import RuleSet
from anabranch.trail import identity
from anabranch.trail.history import SchemaHistory
from anabranch.trail.reader import TrailReader, exists
from anabranch.trail.storage import LocalStorage
from anabranch.verify.again import Again, has_one_form
from anabranch.verify.both_ends import Beside
from anabranch.verify.display import Tell, telling
from anabranch.verify.exact import Opening
from anabranch.verify.filtering import Filtering
from anabranch.verify.plan import VerifyTable, with_computed
from anabranch.verify.report import Parked, SetAside, TableResult, Verification
from anabranch.verify.run import LIMIT_KEYS, verify_tables
from anabranch.verify.shapes import shaped
from anabranch.verify.since import verify_since
from anabranch.verify.stretches import Stretch
from anabranch.verify.touched import parents_of
from anabranch.verify.wanted import Wanted
from anabranch.view.definitions import logs_cascades
from anabranch.view.opened import read_of, require_rows, source_of, store_of
from anabranch.view.options import value_rules
from anabranch.view.refusals import refuse_unaged, refuse_while_cut_over
from anabranch.view.running import APPLY, CAPTURE, RUN, running

Known = TypeVar("Known")
PATIENCE = 60.0  # seconds beside a running job, and as long as the first comparison took, until the rest is pending

ANEW = "it was loaded anew, or taken out of the job, while it was compared"
NO_BEGINNING = (
    "the target was told of its changes alone, and the source's rows cannot be looked for by a key: nobody can tell what was"
    " there before"
)

Whole = Callable[[Sequence[VerifyTable], Mapping[TableId, TableState], Beside | None], Verification]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.view.job_view import JobView


def verify(
    job: JobView,
    spark: Callable[[], SparkSession],
    wanted: Wanted,
    *,
    only: Collection[TableId] | None = None,
    stop: Callable[[], bool] = lambda: False,
    is_still: bool = False,
    whole: Whole | None = None,
) -> Verification:
    """Compare both ends. While the job runs, writers may go on: what differs is looked at again until it can be told. Else both
    ends are taken as they are now: the writer has to be quiet, the stream caught up. `only`: of the tables that stream, these.
    `is_still`: nobody writes at either end, as behind the fence of a cut-over, so what differs is final also where an origin is
    left out. `whole`: what compares the tables, if not all of them at once.

    Raises ConfigError for a pattern that is none or that no table of the job fits, for a position that is none and for a target
    that cannot be compared, or not by a sample; StateError while a table of them is not past its load, and where `since` is
    wanted of a job that does not run.
    """
    read_of(job)  # refuses what the job file alone says, before an end is waited for
    if wanted.since:
        sequence_of(job, wanted.since)
    if wanted.sample and job.config.keeps_changes:
        raise ConfigError(
            "a sample is ranges of keys, and a target that keeps changes has none",
            job=job.config.name,
            hint="compare some tables whole (--tables), or what changed behind a position (--since)",
        )
    if wanted.sample and not 0 < wanted.sample.share <= 1:
        raise ConfigError(
            f"a sample of {wanted.sample.share} is no part of the rows", hint="above 0, at most 1: 0.05 is 5%"
        )
    if wanted.since and wanted.max_pause:
        raise ConfigError("rows that changed since a position are judged each at its own", hint="leave out max_pause")
    if wanted.sample and (wanted.since or wanted.repairs):
        other = "rows that changed since a position" if wanted.since else "--repair"
        raise ConfigError(
            f"a sample does not go with {other}",
            job=job.config.name,
            hint="compare either ranges of keys that are drawn (--sample) or what changed (--since); repair by a comparison"
            " of whole tables",
        )
    if wanted.repairs:
        require_rows(job)
        refuse_unaged(job, "--repair")
        refuse_while_cut_over(job)
        require_apply(job)
    states, others = states_of(job, wanted.patterns)
    tables, beside = tables_of(job, states, others), beside_running(job, is_still)
    tables = tables if only is None else [one for one in tables if one.table.source in only]
    found = whole(tables, states, beside) if whole else compared_whole(job, spark, tables, wanted, beside, is_still)
    forget_differing(job, found.tables)
    if wanted.repairs and any(table.differs for table in found.tables):
        done = repair(job, tables, found.tables, stop)
        found = replace(compared_whole(job, spark, tables, wanted, beside, is_still), repaired=tuple(done))
        forget_differing(job, found.tables)
    if beside is not None:
        states, found = still_streaming(job, states, found)
    return replace(found, **not_replicated(job, states))


def forget_differing(job: JobView, found: Iterable[TableResult]) -> None:
    """Forget earlier results of tables that differ: they do not hold, unless this one is kept in their place."""
    differing = [TableId.parse(one.source) for one in found if one.differs and one.compared is None]
    if differing:
        with store_of(job) as store:
            for table in differing:
                store.verifications.forget_verified(job.config.name, table)


def not_replicated(job: JobView, states: Mapping[TableId, TableState]) -> dict[str, Any]:
    """Return what a verification says of tables and changes that are not at the target: parked, and set aside."""
    parked = tuple(Parked(str(t), s.reason) for t, s in sorted(states.items()) if s.is_parked)
    return {"parked": parked, "set_aside": _set_aside(job, states)}


def beside_running(job: JobView, is_still: bool = False) -> Beside | None:
    """Return what a verification beside the running job needs; None where no part runs that follows the source. `is_still`:
    nobody writes at either end, so there is nothing that the trail would not tell."""
    if not any(part.name in (RUN, CAPTURE, APPLY) for part in running(job)):
        return None
    return replace(beside_of(job), tells_all=is_still or tells_all(job))


def beside_of(job: JobView) -> Beside:
    """Return what looks at single rows need, whether the job runs or not. It says of no origin whether it has written."""
    with store_of(job) as store:
        states = store.states.tables(job.config.name)  # parents may be tables that are not looked at
    schemas = {table: state.schema for table, state in states.items() if state.schema}
    parents = {} if logs_cascades(job, source_of(job)) else {table: parents_of(table, schemas) for table in schemas}
    is_told = not job.config.source.leave_out
    return Beside(job.config.name, job.trail, job.config.load.lock, parents, PATIENCE, is_told)


def still_streaming(
    job: JobView, states: Mapping[TableId, TableState], found: Verification
) -> tuple[dict[TableId, TableState], Verification]:
    """Return the states as they are now, and the result without tables that parked while they were compared; of those that were
    loaded anew nobody can tell."""
    with store_of(job) as store:
        now = store.states.tables(job.config.name, whole=False)
    kept = {table: now[table] for table in states if table in now}
    tables = []
    for one in found.tables:
        before, state = states[TableId.parse(one.source)], kept.get(TableId.parse(one.source))
        if state is not None and state.is_parked:
            continue
        is_same = state is not None and state.generation == before.generation
        tables.append(one if is_same else replace(one, **NOTHING, why=ANEW))
    return kept, replace(found, tables=tuple(tables))


def tables_of(job: JobView, states: Mapping[TableId, TableState], others: Collection[TableId]) -> list[VerifyTable]:
    found = [(s, s.schema) for s in states.values() if s.is_streaming and s.schema]
    with closing(read_of(job).reader(value_rules(job))) as reader:
        made = [_table(job, s, schema, others, reader) for s, schema in found]
        return _with_shapes(job, made) if isinstance(reader, TellingReader) else made


def _with_shapes(job: JobView, tables: Sequence[VerifyTable]) -> list[VerifyTable]:
    """Return the tables with the place of the trail behind which messages have their columns and types."""
    history = SchemaHistory()
    if exists(job.trail):
        with TrailReader(job.trail) as trail:
            history = trail.history
    since = [shaped(history.of(one.table.source), one.schema) for one in tables]
    return [replace(one, table=replace(one.table, shaped=at)) for one, at in zip(tables, since, strict=True)]


def _table(
    job: JobView, state: TableState, schema: TableSchema, others: Collection[TableId], reader: TargetReader
) -> VerifyTable:
    table = _as_compared(job.rules, schema, reader)
    is_shared = state.facts.kept or state.target in others
    only_changed = isinstance(reader, TellingReader) and not reader.has_all(table)
    return VerifyTable(schema, table, job.rules.where(schema), is_shared, only_changed)


def _as_compared(rules: RuleSet, schema: TableSchema, reader: TargetReader) -> TargetTable:
    """Return the table with the columns that the target computes, where it says which ones it has."""
    table = rules.target_table(schema)
    types = rules.computed_types(schema, table)
    return (
        with_computed(table, types, reader.computed(table)) if types and isinstance(reader, ComputedReader) else table
    )


def compared_whole(
    job: JobView,
    spark: Callable[[], SparkSession],
    tables: Sequence[VerifyTable],
    wanted: Wanted,
    beside: Beside | None,
    is_still: bool = False,
    stretch: Stretch | None = None,
) -> Verification:
    """Compare tables, or a stretch of one, to the end. What differs cannot be told where a way back was armed meanwhile."""
    found = compared(job, spark, tables, wanted, beside, stretch=stretch)
    assert found is not None, "nothing stops it"
    if beside is None or is_still or not beside.tells_all or tells_all(job):
        return found
    return unsure(found)  # a way back was armed meanwhile


def compared(
    job: JobView,
    spark: Callable[[], SparkSession],
    tables: Sequence[VerifyTable],
    wanted: Wanted,
    beside: Beside | None,
    stop: Callable[[], bool] = lambda: False,
    stretch: Stretch | None = None,
) -> Verification | None:
    """Compare tables, or a stretch of one table; None when stopped."""
    began, expected = place_of(job), expected_identity(job)
    limit_keys = KEYS if wanted.repairs else max(LIMIT_KEYS, len(set_aside(job)) + 1)
    some = [one for one in tables if _can_compare(one, value_rules(job))]
    found: Verification | None
    with telling(wanted.show) as tell:
        if wanted.since:
            found = _since(job, spark, tables, wanted, beside, expected, limit_keys, tell)
        else:
            found = verify_tables(
                spark,
                source_of(job),
                read_of(job),
                some,
                rules=value_rules(job),
                by_rows=wanted.by_rows,
                limit_keys=limit_keys,
                expected_identity=expected,
                beside=beside,
                budget=wanted.budget,
                sample=wanted.sample,
                stretch=stretch,
                opening=_opening(job, wanted, beside, expected),
                tell=tell,
                stop=stop,
            )
    if found is None:
        return None
    if not wanted.since:
        found = replace(found, tables=tuple(_with_unfound(tables, found.tables, value_rules(job))))
    if beside is None:
        return found
    now = place_of(job)
    results = tuple(one if one.exact else replace(one, until=now) for one in found.tables)
    return replace(found, tables=results, positions=(began, now))


def expected_identity(job: JobView) -> str:
    """Return the server that the trail was read from; a snapshot of another one is refused."""
    trail = identity.load(LocalStorage(job.trail))
    return trail.source_identity if trail else ""


def _can_compare(one: VerifyTable, rules: ValueRules) -> bool:
    return not one.only_changed or has_one_form(one, rules)


def _with_unfound(
    tables: Sequence[VerifyTable], found: Sequence[TableResult], rules: ValueRules
) -> Iterator[TableResult]:
    """Yield the results of all tables in their order: also of those of which nothing can be told, and with what was told of."""
    known = {one.source: one for one in found}
    for one in tables:
        name = str(one.table.source)
        if name in known:
            yield replace(known[name], only_changed=one.only_changed)
        elif not _can_compare(one, rules):
            yield TableResult(name, str(one.table.target), 0, 0, False, is_complete=False, pending=1, why=NO_BEGINNING)


def _opening(job: JobView, wanted: Wanted, beside: Beside | None, identity: str) -> Opening | None:
    """Return how both ends are read at one position; None where that is not wanted, or the job does not run."""
    if not wanted.max_pause or beside is None:
        return None
    return Opening(
        job.config.name,
        job.trail,
        job.names.held(job.trail),
        wanted.max_pause,
        source_of(job),
        read_of(job),
        value_rules(job),
        identity,
        beside.lock,
        is_told=beside.tells_all,
    )


def _since(
    job: JobView,
    spark: Callable[[], SparkSession],
    tables: Sequence[VerifyTable],
    wanted: Wanted,
    beside: Beside | None,
    expected: str,
    limit_keys: int,
    tell: Tell,
) -> Verification:
    """Look at rows that changed behind a position."""
    sequence = sequence_of(job, wanted.since)
    if beside is None:
        raise StateError(
            "rows that changed since a position are looked at beside a job that runs, and no part of it does",
            job=job.config.name,
            hint="anabranch run JOB, or verify without --since",
        )
    with TrailReader(job.trail) as trail:
        first, end = trail.first() - 1, trail.end().position.sequence
        if not first <= sequence <= end:
            raise StateError(
                f"the trail does not tell what changed since {wanted.since}: it reaches from {first} to {end}",
                job=job.config.name,
                hint="verify without --since",
            )
        # in front of the trail's first transaction: what the position was called stands nowhere any more
        since = str(trail.position_at(sequence)) if first < sequence else wanted.since
    if "@" in wanted.since and wanted.since != since:
        raise ConfigError(f"there is no {wanted.since}, but {since}", job=job.config.name)
    began = time.monotonic()
    ends = source_of(job), read_of(job), value_rules(job), expected
    with closing(Again(*ends, beside, lambda: False, tell, Filtering(spark))) as again:
        again.until(began + (wanted.budget if wanted.budget < math.inf else beside.patience))
        return Verification(tuple(verify_since(again, tables, sequence, limit_keys)), since=since)


def place_of(job: JobView) -> str:
    """Return where the job is at the target."""
    with store_of(job) as store:
        found = store.jobs.checkpoint(job.config.name)
    return str(found.position) if found else ""


def _set_aside(job: JobView, tables: Collection[TableId]) -> tuple[SetAside, ...]:
    found: dict[str, list[Mapping[str, str | None]]] = {}
    for change in set_aside(job):
        if change.source not in tables:
            continue
        found.setdefault(str(change.source), []).append(change.key)
    return tuple(SetAside(table, len(keys), tuple(keys)) for table, keys in sorted(found.items()))


def states_of(job: JobView, patterns: Sequence[str]) -> tuple[dict[TableId, TableState], frozenset[TableId]]:
    """Return the states of the tables that are looked at, and the target tables that other jobs write to."""
    with store_of(job) as store:
        found = store.states.tables(job.config.name) if store.exists() else {}
        others = store.states.others(job.config.name) if found else frozenset()
    if not found:
        raise StateError("the job has loaded nothing yet", job=job.config.name, hint="anabranch run JOB")
    found = fitting(found, patterns) if patterns else found
    loading = [str(table) for table, state in found.items() if state.is_before_stream]
    if loading:
        raise StateError(
            f"{len(loading)} tables have not finished loading: {', '.join(loading[:5])}",
            job=job.config.name,
            hint="let the job run until it has caught up: anabranch run JOB --until-caught-up",
        )
    return found, others


def fitting(states: Mapping[TableId, Known], patterns: Sequence[str]) -> dict[TableId, Known]:
    """Return what is known (their states, their definitions) of the tables that one of the patterns fits."""
    found: dict[TableId, Known] = {}
    for text in patterns:
        try:
            pattern = Pattern.parse(text)
        except ValueError as error:
            raise ConfigError(
                f"--tables {text!r} is no pattern", hint=f"expected {error}: shop.orders, shop.*"
            ) from None
        fits = {table: state for table, state in states.items() if pattern.matches(table)}
        if not fits:
            raise ConfigError(
                f"--tables {text!r} fits no table of the job",
                hint="the names are those of the source, as anabranch status JOB shows them",
            )
        found.update(fits)
    return found
