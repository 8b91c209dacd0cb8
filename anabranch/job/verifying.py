"""`verify` for a job: every table that streams, by the definition it was loaded with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.config.patterns import Pattern
from anabranch.contracts import ComputedReader, TargetReader
from anabranch.errors import ConfigError, StateError
from anabranch.lifecycle.asides import set_aside
from anabranch.lifecycle.repairing import KEYS, repair, require_apply
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import RuleSet
from anabranch.trail import identity
from anabranch.trail.storage import LocalStorage
from anabranch.verify.plan import VerifyTable, with_computed
from anabranch.verify.report import Parked, SetAside, Verification
from anabranch.verify.run import LIMIT_KEYS, verify_tables
from anabranch.view.opened import source_of, store_of, target_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.view.job_view import JobView


def verify(
    job: JobView,
    spark: Callable[[], SparkSession],
    *,
    repairs: bool = False,
    by_rows: bool = False,
    patterns: Sequence[str] = (),
    stop: Callable[[], bool] = lambda: False,
) -> Verification:
    """Compare both ends as they are now: the writer has to be quiet and the stream caught up.

    With `repairs`, apply puts what differs to what it is at the source, and it is compared once more; then changes may
    go on meanwhile. `patterns`: globs on source tables that are looked at, () for all. Raises ConfigError for a pattern that
    is none or that no table of the job fits, StateError while a table of them is not past its load.
    """
    if repairs:
        require_apply(job)
    states, others = _states(job, patterns)
    tables = _tables(job, states, others)
    parked = tuple(Parked(str(t), s.reason) for t, s in sorted(states.items()) if s.is_parked)
    found = _compared(job, spark, tables, repairs, by_rows)
    if repairs and not found.identical:
        done = repair(job, tables, found.tables, stop)
        found = replace(_compared(job, spark, tables, repairs, by_rows), repaired=tuple(done))
    return replace(found, parked=parked, set_aside=_set_aside(job, states))


def _tables(job: JobView, states: Mapping[TableId, TableState], others: Collection[TableId]) -> list[VerifyTable]:
    found = [(s, s.schema) for s in states.values() if s.is_streaming and s.schema]
    with closing(target_of(job).reader(value_rules(job))) as reader:
        return [
            VerifyTable(
                schema,
                _as_compared(job.rules, schema, reader),
                job.rules.where(schema),
                s.facts.kept or s.target in others,
            )
            for s, schema in found
        ]


def _as_compared(rules: RuleSet, schema: TableSchema, reader: TargetReader) -> TargetTable:
    """Return the table with the columns that the target computes, where it says which ones it has."""
    table = rules.target_table(schema)
    types = rules.computed_types(schema, table)
    return (
        with_computed(table, types, reader.computed(table)) if types and isinstance(reader, ComputedReader) else table
    )


def _compared(
    job: JobView, spark: Callable[[], SparkSession], tables: Sequence[VerifyTable], repairs: bool, by_rows: bool
) -> Verification:
    trail = identity.load(LocalStorage(job.trail))
    found = verify_tables(
        spark,
        source_of(job),
        target_of(job),
        tables,
        rules=value_rules(job),
        by_rows=by_rows,
        limit_keys=KEYS if repairs else max(LIMIT_KEYS, len(set_aside(job)) + 1),
        expected_identity=trail.source_identity if trail else "",
    )
    assert found is not None, "nothing stops it"
    return found


def _set_aside(job: JobView, tables: Collection[TableId]) -> tuple[SetAside, ...]:
    found: dict[str, list[Mapping[str, str | None]]] = {}
    for change in set_aside(job):
        if change.source not in tables:
            continue
        found.setdefault(str(change.source), []).append(change.key)
    return tuple(SetAside(table, len(keys), tuple(keys)) for table, keys in sorted(found.items()))


def _states(job: JobView, patterns: Sequence[str]) -> tuple[dict[TableId, TableState], frozenset[TableId]]:
    """Return the states of the tables that are looked at, and the target tables that other jobs write to."""
    with store_of(job) as store:
        found = store.states.tables(job.config.name) if store.exists() else {}
        others = store.states.others(job.config.name) if found else frozenset()
    if not found:
        raise StateError("the job has loaded nothing yet", job=job.config.name, hint="anabranch run JOB")
    found = _fitting(found, patterns) if patterns else found
    loading = [str(table) for table, state in found.items() if state.is_before_stream]
    if loading:
        raise StateError(
            f"{len(loading)} tables have not finished loading: {', '.join(loading[:5])}",
            job=job.config.name,
            hint="let the job run until it has caught up: anabranch run JOB --until-caught-up",
        )
    return found, others


def _fitting(states: Mapping[TableId, TableState], patterns: Sequence[str]) -> dict[TableId, TableState]:
    """Return the states of tables that one of the patterns fits."""
    found: dict[TableId, TableState] = {}
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
