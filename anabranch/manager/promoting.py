"""Promotion: what was tried in one job goes into another, which has ends of its own; shown as a difference before.

What does not live here: texts (`config/promoted_text.py`), versions (`jobs.py`), who may (`manager.py`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.config.effects import Effect
from anabranch.config.hop_kinds import Kind, kind_of
from anabranch.config.promoted_text import copied, merged
from anabranch.config.rule_text import SECTIONS
from anabranch.errors import ConfigError, OutOfDate
from anabranch.manager.jobs import JobVersion
from anabranch.manager.masking import masked


@dataclass(frozen=True)
class Wanted:
    """A promotion as it is asked for. `ends`: of a new job, the URL of each end by its name; a job that is there keeps its own.
    `secrets`: the names that variables have there, by those that they have here. `sections`: what goes into a job that is
    there."""

    ends: Mapping[str, str]
    secrets: Mapping[str, str]
    sections: tuple[str, ...] = SECTIONS


@dataclass(frozen=True)
class Promotion:
    """A promotion as it is to be. `text`: of the job's file; `difference`: as `diff -u` has it, without passwords, against the
    present file of the job, and of a new one against that which it comes from; `of_version`: the version of that present
    file, None of a new job; `effects`: what the changes of a job that is there take before they hold."""

    is_new: bool
    text: str
    difference: str
    is_needed: bool
    of_version: int | None
    effects: Sequence[Effect] = ()


def refuse_hop(text: str, is_there: bool) -> None:
    """Raise ConfigError for the file of a hop of a trail. `is_there`: the job that gets it; a pump may still be copied, since
    it has a source and a target as a job has."""
    kind = kind_of(text)
    if kind is not Kind.JOB and (is_there or kind is not Kind.PUMP):
        raise ConfigError(
            f"what is promoted is a {kind.noun}, which passes a trail on and has no rules", hint="copy its file by hand"
        )


def refuse_other(into: str, present: JobVersion | None, expected: int | None) -> None:
    """Raise OutOfDate for a job that is not at the version that was seen; None stands for any."""
    if expected is not None and (present is None or present.version != expected):
        is_now = f"at version {present.version}, not {expected}" if present else "not there any more"
        raise OutOfDate(
            f"the job {into} is {is_now}: somebody else has changed it",
            job=into,
            hint="look at what would change, and promote again",
        )


def promotion(text: str, into: str, present: JobVersion | None, wanted: Wanted) -> Promotion:
    """Return what a job file becomes as that of `into`. `present`: that job's file, None where there is no such
    job. Raises ConfigError."""
    if present is None:
        made = copied(text, into, wanted.ends, wanted.secrets)
    elif wanted.ends:
        raise ConfigError(f"the job {into} has ends of its own", job=into, hint="leave ends out")
    else:
        made = merged(present.text, text, wanted.secrets, wanted.sections)
    against = text if present is None else present.text
    lines = difflib.unified_diff(
        masked(against).splitlines(), masked(made).splitlines(), "before", "after", lineterm=""
    )
    difference = "".join(f"{line}\n" for line in lines)
    return Promotion(present is None, made, difference, made != against, present.version if present else None)
