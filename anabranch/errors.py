"""The one error tree. Every message says where, what and what to do.

    AnabranchError
    ├── ConfigError            exit 2   job file or command line
    │   ├── JobChanged         exit 2   the job file differs from what is running (K32)
    │   ├── UnknownName        exit 2   a manager has no such job, user or token, or none for who asks
    │   ├── NotAllowed         exit 2   whoever asks a manager has not the role for it
    │   ├── OutOfDate          exit 2   somebody else has changed it meanwhile
    │   ├── TooOften           exit 2   whoever asks a manager has to wait
    │   └── TooBusy            exit 2   a manager has too much to do for one more question
    ├── PreflightFailed        exit 3
    ├── DifferencesFound       exit 4
    ├── SourceError            exit 5   the source refuses, or its log cannot be followed
    │   ├── SourceUnavailable  exit 5   retried
    │   │   └── SourceBusy     exit 5   other sessions are in the way: retried
    │   ├── LogLost            exit 5   purged, restored or another server
    │   ├── UnknownLogEvent    exit 5
    │   ├── ValueRefused       exit 5   a value the logical type cannot hold (zero date)
    │   └── SchemaError        exit 5   definition unknown or contradicting the log
    │       └── StoppedByChange  exit 5   [ddl] of the job file stops it in front of a change
    ├── TargetError            exit 6   the target refuses
    │   ├── TargetUnavailable  exit 6   retried
    │   │   ├── TargetBusy     exit 6   other sessions are in the way: retried
    │   │   └── TargetFull     exit 6   waits for room
    │   ├── RowRefused         exit 6   one row cannot be applied
    │   ├── NotTold            exit 6   what a target keeps does not tell a table's rows
    │   └── Fenced             exit 6   another owner applies this job (K9)
    ├── TrailError             exit 7
    │   ├── ParcelDamaged      exit 7   a file of a parcel is not the one that was exported
    │   ├── ParcelRefused      exit 7   a parcel does not go with keys, chain or trail
    │   ├── ParcelMissing      exit 7   a parcel, or a part of one, is not there: waited for
    │   ├── TrailLocked        exit 7   a second writer
    │   ├── TrailOvertaken     exit 7   another capture has taken a shared trail over
    │   ├── TrailCorrupt       exit 7
    │   ├── TrailKeyMissing    exit 7   a key of an encrypted trail is not there, or is another one
    │   └── StorageFull        exit 7   waits for room, nothing is published
    ├── StateError             exit 7   state at the target or beside the trail contradicts the job
    │   └── Overtaken          exit 7   another manager has taken over the jobs
    ├── ProviderUnavailable exit 1  an OpenID provider does not answer as it should: who logs in by it waits
    ├── SparkUnavailable       exit 1   retried: a cluster cannot be reached, or has no room for us
    ├── TablesParked           exit 8   done, but not all of it
    └── NotCaughtUp            exit 9

What lives here: the classes, their exit code, stable code, side and retry policy. What does not: translation of driver
errors (each connector's `errors.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

NOT_ADMITTED = (
    "not_admitted"  # code of an error that keeps the job's user out of a database: preflight says how to let it in
)


class Retry(StrEnum):
    """The retry that a supervisor may make after an error."""

    NEVER = "never"  # it would fail again: configuration, a refused row
    TIMED = "timed"  # the other end may come back: wait and try again, for a time
    PATIENT = "patient"  # it goes on as soon as a person has done something: wait for as long as that takes
    MANUAL = "manual"  # a person has to decide first


class Side(StrEnum):
    """The place where the cause of an error is."""

    SOURCE = "source"
    TARGET = "target"
    JOB = "job"  # the job file, the trail, the state, this machine


class AnabranchError(Exception):
    """Root of the tree. `message` is one line, `hint` says what to do; `job`, `table` and `position` say where, and
    `task` which part of the job had the error. `code` is for machines: it stays the same whatever the class is called."""

    exit_code = 1
    code = "error"
    side = Side.JOB
    retry = Retry.NEVER
    default_hint = ""
    task: str | None = None

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        job: str | None = None,
        table: str | None = None,
        position: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        self.job = job
        self.table = table
        self.position = position

    def __str__(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (("job", self.job), ("table", self.table), ("position", self.position))
            if value
        ]
        place = f"{', '.join(where)}: " if where else ""
        return f"{place}{self.message}" + (f" — {self.hint}" if self.hint else "")

    def named(self) -> dict[str, Any]:
        """Return facts for a log line about an error that is tried again."""
        return {"code": self.code, "side": str(self.side), "retried": True}

    def facts(self) -> dict[str, Any]:
        """Return facts for machines, beside the message."""
        return {
            "code": self.code,
            "class": type(self).__name__,
            "side": str(self.side),
            "exit_code": self.exit_code,
            "retry": str(self.retry),
            "task": self.task,
            "table": self.table,
            "position": self.position,
        }


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault in a job file. `key` as the file writes it, e.g. `[load] lock`; `line` counts from 1."""

    message: str
    line: int | None = None
    key: str = ""
    expected: str = ""
    nearest: str = ""

    def __str__(self) -> str:
        where = (f"line {self.line}", self.key) if self.line else (self.key,)
        return (
            ", ".join(filter(None, where))
            + ": " * any(where)
            + self.message
            + (f"; expected {self.expected}" if self.expected else "")
            + (f"; did you mean {self.nearest}?" if self.nearest else "")
        )


def install_hint(extra: str) -> str:
    """Say how a part that was left out is installed. There is no release on a package index yet."""
    return f"pip install '.[{extra}]' in a checkout of anabranch"


class ConfigError(AnabranchError):
    """A job file or a command line that is wrong. `problems` has every problem of a job file; the message repeats them."""

    code = "configuration"
    exit_code = 2

    def __init__(
        self, message: str, *, problems: Sequence[Problem] = (), hint: str = "", job: str | None = None
    ) -> None:
        lines = [message, *(f"  {problem}" for problem in problems)]
        super().__init__("\n".join(lines), hint=hint, job=job)
        self.problems = tuple(problems)


class JobChanged(ConfigError):
    """The job file differs from the job as last run in a way that needs a load or a decision (K32)."""

    code = "job_changed"
    retry = Retry.MANUAL


class UnknownName(ConfigError):
    """A manager has no such thing, or none that whoever asks may see: both are answered alike."""

    code = "unknown_name"


class NotAllowed(ConfigError):
    """Whoever asks a manager has not the role for what is asked."""

    code = "not_allowed"


class OutOfDate(ConfigError):
    """Somebody else has changed it: it is another version than whoever wants to change it has seen."""

    code = "out_of_date"


class TooOften(ConfigError):
    """Somebody has tried to log in too often. `seconds`: how long to wait."""

    code = "too_often"

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"too many attempts to log in: wait {self.seconds} s", hint="then try again")


class TooBusy(ConfigError):
    """A manager has too much to do for one more question to the ends of jobs."""

    code = "too_busy"
    default_hint = "an end may be away: ask again in some seconds"


class PreflightFailed(AnabranchError):
    code = "preflight_failed"
    exit_code = 3


class DifferencesFound(AnabranchError):
    code = "differences_found"
    exit_code = 4


class SourceError(AnabranchError):
    code = "source_refused"
    side = Side.SOURCE
    exit_code = 5
    retry = Retry.MANUAL


class SourceUnavailable(SourceError):
    code = "source_unavailable"
    retry = Retry.TIMED
    default_hint = "check that the source is running and reachable"


class SourceBusy(SourceUnavailable):
    code = "source_busy"
    default_hint = "other sessions at the source are in the way: end long transactions there, or start again later"


class LogLost(SourceError):
    code = "log_lost"
    default_hint = (
        "the source no longer has what the trail needs: "
        "remove the job's state (anabranch drop JOB --execute) and load again"
    )


class UnknownLogEvent(SourceError):
    code = "unknown_log_event"


class ValueRefused(SourceError):
    code = "value_refused"


class SchemaError(SourceError):
    code = "definition"


class StoppedByChange(SchemaError):
    """The job file stops the job in front of a change of a table's definition."""

    code = "stopped_by_change"


class TargetError(AnabranchError):
    code = "target_refused"
    side = Side.TARGET
    exit_code = 6
    retry = Retry.MANUAL


class TargetUnavailable(TargetError):
    code = "target_unavailable"
    retry = Retry.TIMED
    default_hint = "check that the target is running and reachable"


class TargetBusy(TargetUnavailable):
    code = "target_busy"
    default_hint = "other sessions at the target are in the way: end long transactions there, or start again later"


class TargetFull(TargetUnavailable):
    code = "target_full"
    retry = Retry.PATIENT
    default_hint = "make room at the target; the job goes on by itself"


class RowRefused(TargetError):
    """`is_taken`: another row at the target has values that have to be unique."""

    code = "row_refused"
    is_taken = False


class NotTold(TargetError):
    """Messages of a table do not tell its rows: verification leaves it pending, with this as the reason."""

    code = "not_told"
    retry = Retry.NEVER


class Redefined(RowRefused):
    """The source was asked for a value or for its types and by now defines the table otherwise. The log says so further
    on, and parks the table."""

    code = "redefined"
    side = Side.SOURCE
    default_hint = "load it again: anabranch load JOB --table TABLE --recreate"


class Fenced(TargetError):
    code = "fenced"
    retry = Retry.NEVER
    default_hint = "another process has taken over this job: let only one apply run for each target"


class TrailError(AnabranchError):
    code = "trail"
    exit_code = 7
    retry = Retry.MANUAL


class TrailLocked(TrailError):
    code = "trail_locked"
    retry = Retry.NEVER


class TrailOvertaken(TrailError):
    """Another capture has claimed a trail that captures on several machines share."""

    code = "trail_overtaken"
    retry = Retry.NEVER
    default_hint = (
        "nothing is lost: the other one has all that this one has published; start this one again with --standby"
    )


class TrailCorrupt(TrailError):
    code = "trail_corrupt"


class TrailKeyMissing(TrailError):
    code = "trail_key_missing"
    default_hint = "put the key back; without it nobody can read what it encrypts: load again"


class StorageFull(TrailError):
    code = "storage_full"
    retry = Retry.PATIENT
    default_hint = "make room; capture goes on by itself"


class ParcelDamaged(TrailError):
    """A file of a parcel is not the one that was exported."""

    code = "parcel_damaged"


class ParcelRefused(TrailError):
    """A parcel does not go with the keys that were given, the parcels before it, or the trail that takes it in."""

    code = "parcel_refused"


class ParcelMissing(TrailError):
    """A parcel, or a part of one, is not there, while what comes behind it is, or is to come."""

    code = "parcel_missing"
    retry = Retry.PATIENT


class StateError(AnabranchError):
    code = "state"
    exit_code = 7
    retry = Retry.MANUAL


class Overtaken(StateError):
    """Another manager leads now: what this one would have written is not written."""

    code = "overtaken"
    retry = Retry.NEVER
    default_hint = "this manager ends; started again, it stands by"


class ProviderUnavailable(AnabranchError):
    """An OpenID provider is away, or does not answer as it should. Users with passwords and tokens are not affected."""

    code = "provider_unavailable"
    retry = Retry.TIMED
    default_hint = "look at the provider, and try again; users of the manager itself log in with their passwords"


class SparkUnavailable(AnabranchError):
    """A Spark cluster is away, has no executor for us, or has lost what it did."""

    code = "spark_unavailable"
    retry = Retry.TIMED
    default_hint = "look at the cluster; the job goes on from where it is"


class TablesParked(AnabranchError):
    code = "tables_parked"
    exit_code = 8


class NotCaughtUp(AnabranchError):
    code = "not_caught_up"
    exit_code = 9
