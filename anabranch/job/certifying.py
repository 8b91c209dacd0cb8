"""`types` of a job: each pair of types that it has, tried on both servers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from anabranch import waits
from anabranch.errors import AnabranchError
from anabranch.job.printing import source_definitions
from anabranch.scan.certificate import Certificate, Certifying, PairSeen, pairs_of
from anabranch.version import __version__
from anabranch.view.opened import source_of, target_of
from anabranch.view.options import value_rules
from anabranch.view.refusals import refuse_beside_trail

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema
    from anabranch.rows.net import TargetTable
    from anabranch.view.job_view import JobView


def certificate(job: JobView, values: int, seed: int, is_every: bool = False) -> Certificate:
    """Try each pair with so many values drawn by the seed, and with the edges. `is_every`: every type of which the source knows
    edges, whatever tables there are. Raises the error of an end that is away."""
    refuse_beside_trail(job, "a certificate of types")
    rules = value_rules(job)
    fit = partial(job.types.fit, rules=rules)
    try:
        trying = Certifying(source_of(job), target_of(job), rules, seed, values)
        with waits.in_tasks():
            seen: list[PairSeen]
            seen = (
                trying.seen_types(job.rules.target_table, fit) if is_every else trying.seen(pairs_of(_tables(job), fit))
            )
    except AnabranchError as error:
        error.job = error.job or job.label
        raise
    source, target = trying.releases
    when = datetime.now(UTC).isoformat(timespec="seconds")
    ends = (_named(job.config.source.endpoint.scheme, source), _named(job.endpoint.scheme, target))
    return Certificate(job.label, *ends, when, seed, __version__, seen)


def _tables(job: JobView) -> list[tuple[TableSchema, TargetTable]]:
    """Return the job's tables; without those that it cannot replicate as they are defined, which preflight names."""
    found = []
    for _, schema in sorted(source_definitions(job, None).items()):
        try:
            found.append((schema, job.rules.target_table(schema)))
        except AnabranchError:
            continue
    return found


def _named(scheme: str, release: str) -> str:
    return f"{scheme} {release}".strip()
