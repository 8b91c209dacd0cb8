"""`[retry]` of the job file, with `source` and `target`."""

from __future__ import annotations

import math

from pydantic import Field

from anabranch.config.section import Section
from anabranch.model.endpoint import EndLimits


class RetryEnd(Section):
    """Time limits towards one end."""

    connect_s: int = Field(default=10, ge=1, le=3600)
    """How long opening a connection may take, to each address that a name stands for; PostgreSQL's takes 2 at least."""
    statement_s: int = Field(default=-1, ge=-1, le=86400)
    """How long a statement may take; then it is ended and tried again; -1: without limit. It does not hold for what copies or
    compares rows, prepares the source, or builds indexes."""
    silence_s: int = Field(default=30, ge=5, le=3600)
    """After so long without an answer, also to a second connection, the end counts as away: the line is cut."""
    interval_s: int | None = Field(default=None, ge=1, le=3600)
    """The longest pause between two tries; pauses begin short and double. When absent: 1 in capture, 10 elsewhere."""
    give_up_s: int | None = Field(default=None, ge=-1)
    """How long an end that was reached and is away is tried again until the part ends with its error; -1: for ever. When
    absent: 300, and for a target under `run` without `--until-caught-up` for ever."""
    limit: int = Field(default=-1, ge=-1, le=2147483647)
    """After so many tries without success the part ends, too; -1: however many."""
    lock_s: int | None = Field(default=None, ge=-1)
    """How long others who hold a lock or an older transaction are waited for; -1: for ever. When absent: for ever by what
    prepares the source, 300 elsewhere, and for a target under `run` without `--until-caught-up` for ever."""

    @property
    def is_unlimited(self) -> bool:
        """True if the end is waited for without limit: the job file leaves that to `run`, or says so."""
        return self.give_up_s in (None, -1) and self.limit < 0

    def limits(self, interval: float, is_patient: bool) -> EndLimits:
        """Return the limits. `is_patient`: where the job file says nothing, the end is waited for without limit."""
        usual = math.inf if is_patient else EndLimits().away
        return EndLimits(
            connect=self.connect_s,
            statement=_seconds(self.statement_s),
            silence=self.silence_s,
            interval=self.interval_s or interval,
            away=usual if self.give_up_s is None else _seconds(self.give_up_s),
            tries=_seconds(self.limit),
            least=EndLimits().least if self.give_up_s is None else 1,
            lock=usual if self.lock_s is None else _seconds(self.lock_s),
        )


def _seconds(value: int) -> float:
    return math.inf if value < 0 else float(value)


class Retry(Section):
    """Time limits towards both ends, and what is tried again."""

    source: RetryEnd = RetryEnd.model_construct()
    """The source."""
    target: RetryEnd = RetryEnd.model_construct()
    """The target, or each of several."""
    restarts_per_hour: int = Field(default=5, ge=-1, le=3600)
    """How often in an hour `run` starts a part again that died; -1: always. One more, and `run` ends with its code."""
