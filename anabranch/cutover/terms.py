"""Hold the settings of a cut-over, and the two ends that it works with."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.contracts import FencedSource
from anabranch.errors import ConfigError, StateError
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import source_of, target_of
from anabranch.view.options import name_at_source
from anabranch.view.refusals import TAKE_OVER

if TYPE_CHECKING:
    from anabranch.contracts import RowTarget, SourceConnector, SourceFence, TargetStore
    from anabranch.model.checks import CheckResult
    from anabranch.model.cutover import Verifies
    from anabranch.model.ids import TableId
    from anabranch.view.job_view import JobView

Verified = tuple[str, Mapping[str, Any]]
"""Holds what differs, "" for nothing, and facts for the note."""


class Comparing(Protocol):
    """Compares both ends, as Verifies says. Every method may be repeated."""

    def before(self, verifies: Verifies) -> str:
        """Compare beside the job, and start, what would take time behind the fence. Returns what differs, "" for nothing."""

    def at_fence(self, verifies: Verifies) -> Verified:
        """Compare them while nobody writes."""


class WayBack(Protocol):
    """The job that brings changes of the target back to the source, as a cut-over lets it begin, or go on.

    It goes on where it is *held*: it was cut over itself before, so that its fence shuts the target of this cut-over, and its
    apply stands still. Every method may be repeated."""

    @property
    def name(self) -> str:
        """Return its name."""

    @property
    def is_wanted(self) -> bool:
        """Return whether the job that is cut over asks for it, or it is held."""

    def checks(self) -> list[CheckResult]:
        """Say whether it can be armed: its job file, both ends in their other roles. Changes nothing."""

    def arm(self) -> Mapping[str, Any]:
        """Let it begin at the target's present position, unless it is held. Returns facts for the note, `said` for people."""

    def disarm(self) -> list[str]:
        """Remove it again, where it is there and not held. Returns what could not be removed."""

    def is_held(self) -> bool:
        """Return whether it is held, and was not released."""

    def strays(self, patience: float) -> Collection[TableId] | None:
        """Return the tables of its source to which somebody else has written since it is held, by its trail; None where nobody
        can tell that up to now, also not after `patience` seconds for its capture to come there."""

    def open(self) -> None:
        """Lift its fence, which shuts the target of this cut-over."""

    def shut(self) -> list[str]:
        """Raise its fence again, as it was. Returns who is in the way, in which case it does not stand."""

    def release(self) -> None:
        """Note that its own cut-over is taken back: its apply goes on."""


NOT_RUN = "anabranch run JOB loads and follows first"
NOT_ARMED = "a way back begins with the cut-over of its job, or by anabranch arm FILE"


@dataclass(frozen=True)
class Terms:
    """The wishes for one run of it, in seconds where they are times.

    - `flip`: the user's command, [] for none. `margin`: steps of counters that are left out.
    - `max_lag`: how long a commit of now may take to the target before the source is fenced. `grace`: how long the source is
      watched behind the flip. `wait`: for older transactions, and for the target to be at the fence.
    - `comparing`: compares both ends, as `verifies` says. `allows_parked`: also where not all rows are at the target.
    - `way_back`: is armed in its step, where it is wanted. `returns`: the job is itself a way back.
    - `verified_within`: hours within which `verify --watch` has to have found each table equal, 0 for no bound.
    - `tell`: is given a line for people now and then.
    """

    flip: Sequence[str]
    margin: int
    max_lag: float
    grace: float
    wait: float
    comparing: Comparing
    verifies: Verifies
    allows_parked: bool
    way_back: WayBack
    returns: bool
    tell: Callable[[str], None]
    verified_within: int = 0


@dataclass(frozen=True)
class Ends:
    """The ends of a job as a cut-over opens them."""

    job: JobView
    store: TargetStore
    source: SourceConnector
    target: RowTarget
    fence: SourceFence


def opened(job: JobView, store: TargetStore, needs_trail: bool = True, at_most: float = math.inf) -> Ends:
    """Open them. `needs_trail`: else what the target keeps of the job will do. `at_most`: seconds for each question to the
    source. Raises StateError where there is neither, ConfigError where its source cannot be fenced."""
    uuid, source = trail_uuid(job), source_of(job, at_most)
    if uuid is None and not needs_trail and store.exists():
        uuid = (store.jobs.job(job.config.name) or {}).get("uuid")
    if uuid is None or not store.exists():
        is_armed = job.config.load.existing == TAKE_OVER
        raise StateError("the job has not begun", job=job.label, hint=NOT_ARMED if is_armed else NOT_RUN)
    if not isinstance(source, FencedSource):
        name = job.config.source.endpoint.scheme
        raise ConfigError(f"a {name} source cannot be fenced", job=job.label, hint="end its writers by hand")
    return Ends(job, store, source, target_of(job), source.fence(name_at_source(job.config.name, uuid)))
