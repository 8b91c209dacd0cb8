"""Hold the settings of a cut-over, and the two ends that it works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.contracts import FencedSource
from anabranch.errors import ConfigError, StateError
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import source_of, target_of
from anabranch.view.options import name_at_source

if TYPE_CHECKING:
    from anabranch.contracts import RowTarget, SourceConnector, SourceFence, TargetStore
    from anabranch.view.job_view import JobView

Verified = tuple[bool, Mapping[str, Any]]


@dataclass(frozen=True)
class Terms:
    """The wishes for one run of it, in seconds where they are times.

    - `flip`: the user's command, [] for none. `margin`: steps of counters that are left out.
    - `max_lag`: how long a commit of now may take to the target before the source is fenced. `grace`: how long the source is
      watched behind the flip. `wait`: for older transactions, and for the target to be at the fence.
    - `verify`: compares both ends, where it `is_verified`. `allows_parked`: also where not all rows are at the target.
    - `tell`: is given a line for people now and then.
    """

    flip: Sequence[str]
    margin: int
    max_lag: float
    grace: float
    wait: float
    verify: Callable[[], Verified]
    is_verified: bool
    allows_parked: bool
    tell: Callable[[str], None]


@dataclass(frozen=True)
class Ends:
    """The ends of a job as a cut-over opens them."""

    job: JobView
    store: TargetStore
    source: SourceConnector
    target: RowTarget
    fence: SourceFence


def opened(job: JobView, store: TargetStore) -> Ends:
    """Open them. Raises StateError where the job has no trail, ConfigError where its source cannot be fenced."""
    uuid, source = trail_uuid(job), source_of(job)
    if uuid is None or not store.exists():
        raise StateError("the job has not begun", job=job.label, hint="anabranch run JOB loads and follows first")
    if not isinstance(source, FencedSource):
        name = job.config.source.endpoint.scheme
        raise ConfigError(f"a {name} source cannot be fenced", job=job.label, hint="end its writers by hand")
    return Ends(job, store, source, target_of(job), source.fence(name_at_source(job.config.name, uuid)))
