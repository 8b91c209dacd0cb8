"""The settings of a job for apply: values that do not change while apply runs. No behaviour lives here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.contracts import Emptying
from anabranch.model.column_changes import APPLY_ALL, ActionsOf, WhyNotBack, nothing_known
from anabranch.model.endpoint import USUAL, EndLimits
from anabranch.trail import retention


@dataclass(frozen=True)
class ApplySettings:
    """The settings of one job at one target."""

    per_transaction: bool = False  # one target transaction for each of the source's
    appliers: int = 1  # sessions that carry out source transactions at once; more only where `per_transaction`
    is_relaxed: bool = False  # these commit in any order that dependencies allow
    truncate: Emptying = Emptying.TRUNCATE
    lock: str = "none"  # what a snapshot may lock at the source when rows are read again
    logs_cascades: bool = False  # does the source's log have what its foreign keys do?
    parks: bool = False  # park tables whose rows are refused
    parks_taken: bool = (
        False  # park tables with rows of a pair whose unique values another row has, whatever else stops
    )
    in_pair: bool = False  # the other site writes these tables, too
    twin: str = ""  # the job that goes the other way, where both take deletes (K23)
    ddl_from: str = ""  # the site of a pair at which columns are added; "": they are at neither
    why_not_back: WhyNotBack = nothing_known  # why a column that comes does not come back from the other site as it is
    sets_aside: bool = False  # set single refused rows aside, where nothing depends on them
    aside_limit: int = 1000  # changes of a table that may be set aside
    rests: bool = False  # leave the checkpoint where it is while the log has nothing for us: another job reads it (K21)
    at_once: int = 0  # transactions of the source in one epoch, at most, at a target of changes; 0: however many
    stage_rows: int | None = None  # row images from which executors plan an epoch; None: the measured default
    choices: Mapping[str, str] = field(default_factory=dict)  # PreflightContext.user_choices
    actions: ActionsOf = lambda table: APPLY_ALL  # what becomes of changes of definitions
    retry: EndLimits = USUAL  # how long an end is waited for
    names: retention.Names = field(default_factory=retention.Names)  # names of this target's holds of the trail
