"""The start of a job of a pair: it notes how it decides now, and does not write while its twin would decide otherwise (K23).

Both jobs do so at every start, so files that do not go together any more stop whichever starts next. What does not live here:
the comparison (`pairing.py`), what a load or `arm` notes besides (`beginning.py`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.errors import ConfigError, SourceUnavailable, TargetError
from anabranch.lifecycle.beginning import pair_facts
from anabranch.model.checks import CheckVerdict
from anabranch.model.column_changes import WhyNotBack, nothing_known
from anabranch.model.state import PAIR
from anabranch.rules.standing_types import why_not_back as why
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import store_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView


def note_pairing(job: JobView) -> None:
    """Note at the target how the job decides by its file as it is now, for its twin; nothing for a job without [pair], or one
    that has not begun there. A target that cannot be asked is passed over, and settings that do not fit: the start says so."""
    if job.config.pair is None:
        return
    with suppress(TargetError, ConfigError), store_of(job) as store:
        known = store.jobs.job(job.config.name) if store.exists() else None
        if known is None or known["uuid"] != trail_uuid(job):
            return
        facts = pair_facts(job)
        if known.get(PAIR) != facts[PAIR]:
            store.jobs.save_job(job.config.name, {**known, **facts})


def twin_of(job: JobView) -> str:
    """Return the twin of a job whose pair takes deletes, "" for any other."""
    pair = job.config.pair
    return pair.twin if pair is not None and pair.deletes == "newest" else ""


def why_not_back(job: JobView) -> WhyNotBack:
    """Return what tells why a column that comes at the source does not come back from the other site as it is. Nothing does for
    a job without both databases, nor where both are of one family, which have each other's types."""
    pair = job.config.pair
    if pair is None or pair.ddl_from != pair.site or job.config.hop is not None:
        return nothing_known
    from anabranch.lifecycle.reversing import foreseen, written_end

    spelled, there, back = foreseen(job), job.types, written_end(job).types
    return nothing_known if spelled is None else lambda column, type: why(column, type, there, spelled, back)


def refuse_unlike_twin(job: JobView) -> None:
    """Raise ConfigError if the twin, as it began last, decides otherwise than this job. A source that is away is passed over:
    the twin cannot write there either, and compares before it does."""
    if job.config.pair is None:
        return
    from anabranch.lifecycle.pairing import twin_results

    try:
        found = twin_results(job)
    except SourceUnavailable as away:
        log.get(job=job.config.name).warning("twin_is_not_compared", reason=str(away))
        return
    for result in found:
        if result.verdict is CheckVerdict.FAILED:
            raise ConfigError(result.message, job=job.config.name, hint=result.hint)
