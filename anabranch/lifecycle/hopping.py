"""Loads of jobs with a trail at an end: what a capture leaves in the trail for those who apply it, and waiting for it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from anabranch.config.hops import Hop
from anabranch.errors import AnabranchError, ConfigError
from anabranch.lifecycle.encrypting import note_keys
from anabranch.model.condition import Waiting
from anabranch.trail.reader import has_begun
from anabranch.trail_end import facts, manifests
from anabranch.trail_end.facts import SourceFacts
from anabranch.view.opened import catalog_of, source_of

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

POLL_S = 0.2
THERE = "for the load at the source's site"
Tell = Callable[[str, Waiting | AnabranchError], None]


class Waits(Protocol):
    """The part of a Stop that waiting needs."""

    def asked(self) -> bool: ...

    def wait(self, seconds: float) -> bool: ...


def note_source(job: JobView) -> None:
    """Note in a trail between jobs what those who apply it would ask its source."""
    if job.config.hop is not Hop.CAPTURE:
        return
    with catalog_of(source_of(job)) as catalog:
        log = catalog.log
        scheme = job.config.source.endpoint.scheme
        found = SourceFacts(scheme, log.logs_cascades(), log.logs_whole_rows(), _values(job))
    facts.save(job.trail, found)


def refuse_other_values(job: JobView) -> None:
    """Raise ConfigError where an apply would decide otherwise about values than the load into its trail has: rows of the load
    and of the stream would differ."""
    there = facts.load(job.trail) if job.config.hop is Hop.APPLY else None
    if there is None or there.values == (here := _values(job)):
        return
    keys = sorted(key for key in here if here[key] != there.values.get(key))
    raise ConfigError(
        f"{', '.join(keys)}: here the file says otherwise than where was captured ({_said(there.values, keys)})",
        job=job.config.name,
        hint="say the same in both files; where it was changed there, load again there",
    )


def _values(job: JobView) -> dict[str, str]:
    """Return what the job file decides about values as they are read, by its keys."""
    types, columns = job.config.types, (" ".join(one) for one in sorted(job.config.zero_dates))
    return {"[types] nul": types.nul, "[types] zero_date": types.zero_date, "columns.zero_date": ", ".join(columns)}


def _said(values: Mapping[str, str], keys: list[str]) -> str:
    return ", ".join(f"{key} = {values.get(key, '')!r}" for key in keys)


def await_trail(job: JobView, stop: Waits, tell: Tell) -> None:
    """Wait until the trail of an apply has begun, and says what its source is; or until stopped."""
    _await(lambda: _missing(job), stop, tell)
    note_keys(job)


def await_load(job: JobView, stop: Waits, tell: Tell) -> None:
    """Wait until the trail has all rows of the load at the source's site, or until stopped."""
    _await(lambda: _missing(job) or ("" if has_whole_load(job) else THERE), stop, tell)
    note_keys(job)


def has_whole_load(job: JobView) -> bool:
    """Return whether the load at the source's site has ended: no manifest of a first load comes any more."""
    return manifests.is_complete(job.trail)


def _missing(job: JobView) -> str:
    is_there = has_begun(job.trail) and facts.load(job.trail) is not None
    return "" if is_there else f"for the job that captures into {job.trail}"


def _await(missing: Callable[[], str], stop: Waits, tell: Tell) -> None:
    said = ""
    while not stop.asked() and (why := missing()):
        if why != said:
            tell(why, Waiting.CAPTURE)
            said = why
        stop.wait(POLL_S)
