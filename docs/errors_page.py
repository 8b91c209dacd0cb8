"""The page about errors (generate.py writes it)."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch import errors


def error_tree(generated: str) -> Iterator[str]:
    yield "# Errors"
    yield ""
    yield generated
    yield "Every message says where (job, table, position), what, and what to do. The exit code of a command is that of"
    yield "its error. *timed*: a running part waits and tries again, for five minutes or as `[retry]` says; *patient*: for as"
    yield "long as it takes; *manual*: a person decides first; *never*: it would fail again. What the servers' own errors mean:"
    yield "[errors by server](errors-by-server.md)."
    yield ""
    yield "The code is for machines: `status --json` has it in `error` and `last_error`, with the side (source, target, job),"
    yield "the part that had it (`task`, as `shop/apply/north`), and whether it is tried again. Where the log goes as JSON,"
    yield "`run`, `capture`, `load`, `apply`, `receive` and `route` end with such a line (event `error`) in place of the text;"
    yield "so does every verb that was called with `--json`. Codes stay as they are from release to release. Beside those in"
    yield "the table: `part_failed` (a part of `run` has ended with an error of its own), `part_died` (one ended without giving"
    yield "a reason), `not_admitted` (a PostgreSQL does not let the job's user into the database), `unexpected` (a bug)."
    yield ""
    yield "| error | code | side | exit code | retried | meaning |"
    yield "|---|---|---|---|---|---|"
    yield from _errors(errors.AnabranchError, 0)
    yield ""


def _errors(kind: type[errors.AnabranchError], depth: int) -> Iterator[str]:
    meaning = MEANINGS[kind.__name__]
    hint = f" *{kind.default_hint}*" if kind.default_hint else ""
    facts = f"`{kind.code}` | {kind.side} | {kind.exit_code} | {kind.retry}"
    yield f"| {'&nbsp;&nbsp;' * depth}`{kind.__name__}` | {facts} | {meaning}{hint} |"
    for below in vars(errors).values():
        if isinstance(below, type) and kind in below.__bases__:
            yield from _errors(below, depth + 1)


MEANINGS = {
    "AnabranchError": "the root: never raised itself",
    "ConfigError": "job file or command line; all problems of a file in one error",
    "JobChanged": "the job file differs from the job as last run, in a way that needs a load",
    "UnknownName": "a manager has no such job, user, token or secret, or none that whoever asks may see",
    "NotAllowed": "whoever asks a manager has not the role for it",
    "OutOfDate": "what was to be changed has been changed by somebody else",
    "TooOften": "a manager's user has tried to log in too often, and has to wait",
    "TooBusy": "a manager waits for too many answers of ends of jobs to ask for one more",
    "PreflightFailed": "at least one check failed; each is printed with what mends it",
    "ProviderUnavailable": "the OpenID provider of a manager is away, or does not answer as it should.",
    "SparkUnavailable": "a Spark cluster cannot be reached, gives no executor, or has lost its workers again and again.",
    "DifferencesFound": "the two ends are not equal",
    "SourceError": "the source refuses, or its log cannot be followed",
    "SourceUnavailable": "the source cannot be reached.",
    "SourceBusy": "locks and deadlocks at the source.",
    "LogLost": "the log was purged, or belongs to a restored or another server.",
    "UnknownLogEvent": "the log has something this release cannot read; nothing is skipped",
    "ValueRefused": "a value that the target cannot hold, with the row's key and the setting that decides otherwise",
    "SchemaError": "a table's definition is unknown, refused, or contradicts the log",
    "StoppedByChange": "the source changed a table, and `[ddl]` of the job file stops the job in front of such a change",
    "TargetError": "the target refuses",
    "NotTold": "messages of a table do not tell its rows; `verify` leaves it pending, with the reason",
    "TargetUnavailable": "the target cannot be reached.",
    "TargetBusy": "locks, deadlocks, time limits.",
    "TargetFull": "no room at the target.",
    "RowRefused": "one row cannot be applied; the message has its key",
    "Redefined": "the source defines a table otherwise by now than where it is asked what foreign keys make of its columns,"
    " or what labels its types have",
    "Fenced": "another process has taken over this job.",
    "TrailError": "the trail cannot be used",
    "TrailLocked": "a second writer; the message has pid and host of the first",
    "TrailOvertaken": "a [standby](../howto/standby-capture.md) has taken the trail over from this capture; the message has its"
    " process and host",
    "TrailCorrupt": "a checksum, a count or a sequence of the trail is wrong",
    "TrailKeyMissing": "a key of an encrypted trail is not there, or another one is; the message has the ids of both",
    "StorageFull": "no room for the trail; nothing is published.",
    "StateError": "state at the target or beside the trail contradicts the job",
    "Overtaken": "another manager has [taken over the jobs](../howto/manager.md#have-another-machine-stand-by)",
    "ParcelDamaged": "a file of a [parcel](../howto/by-files.md) is not the one that was exported",
    "ParcelRefused": "a parcel's signature, its place in the chain, its trail or its form is not accepted",
    "ParcelMissing": "a parcel, or a part of one, is not there; `--watch` waits for it",
    "TablesParked": "done, but tables are parked or rows set aside; `anabranch status JOB` says why",
    "NotCaughtUp": "the time given with `--seconds` was not enough; a new start goes on from there",
}
