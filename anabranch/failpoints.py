"""Named places where the product can be made to fail, for tests and for `anabranch torture`.

`reach("trail.synced")` stands once in the code, where the table POINTS says. Nothing happens there unless the environment
asks for it:

    ANABRANCH_FAILPOINTS="apply.committed=exit@2;trail.synced=delay:0.3;load.copied=raise:TargetUnavailable"
    ANABRANCH_FAILPOINTS_LOG=/tmp/reached

`name=action@n` acts when the place is reached for the n-th time in a process (default: the first), and once: with a log
once in all processes that share it. Actions: `exit` (`exit:CODE`; at once, as after SIGKILL), `raise` (an error that nobody
expects; `raise:CLASS` one of anabranch.errors), `delay:SECONDS`, `full` (`full:SECONDS`; the disk has no room from then on,
at this place, for so long). The log gets a line for the first reach of each name in a process, and `name=action@n PID`
for what acted.

What does not live here: when a fault is worth it (`testing/torture`), faults from outside (`testing/faults.py`).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from anabranch import errors
from anabranch.errors import AnabranchError, ConfigError

VARIABLE, LOG_VARIABLE = "ANABRANCH_FAILPOINTS", "ANABRANCH_FAILPOINTS_LOG"
EXIT_CODE = 137  # what a shell says of a process that SIGKILL ended
FULL_SECONDS = 0.5
ACTIONS = ("exit", "raise", "delay", "full")

POINTS = {
    # capture
    "capture.begin.read": "a trail begins: definitions were read at a place of the log, nothing is noted yet",
    "capture.begin.noted": "a trail begins: definitions are in the schema history, its first position is not flushed",
    "capture.following": "the source's log was opened behind the trail's end",
    "capture.read": "something was read from the source's log, the trail does not have it yet",
    "capture.appended": "a chunk was appended, it is not flushed yet",
    "capture.published": "a chunk is published, nobody was told yet",
    "capture.statement": "a statement, or rows by other columns, were read from the log, before their effect is noted",
    "capture.statement.noted": "what that does is noted in the schema history, its barrier is not in the trail",
    "capture.heartbeat": "the log has moved on without anything for us, before the trail says so",
    "capture.prepared": "a prepared transaction is staged, durably; the trail's position is not past it",
    "capture.decided": "a prepared transaction's end is noted with its rows, they are not in the trail yet",
    "capture.decided.published": "a prepared transaction is in the trail, its staged rows are still there",
    "capture.kept": "rows of an open transaction are beside the trail, in part",
    "capture.rewound": "what was not appended is forgotten, the log is read again from the trail's end",
    # verify
    "verify.reached": "up to which key a large table was equal is kept at the target, the rest of it is not compared",
    "verify.kept": "the result of a table is kept at the target, those of others in the same round are not",
    # trail
    "trail.recovery.adopted": "a trail is opened: whole frames behind the published end were found",
    "trail.recovery.removed": "a trail is opened: segments behind its end are gone, its history is not settled yet",
    "trail.encryption": "a trail is opened: its format is noted, where its keys are is not yet",
    "trail.rekey": "the trail has another key, data keys of older files are wrapped by the former one",
    "trail.rekey.wrapped": "data keys are wrapped anew, their file does not have its name yet",
    "trail.segment.opened": "a new segment has its header",
    "trail.frame": "before a frame is written",
    "trail.frame.written": "a frame is in the file, not synced",
    "trail.history.noted": "a line of the schema history is in its file, not synced",
    "trail.history.synced": "the schema history is durable, the frames are not",
    "trail.synced": "the frames are durable, their end is not published",
    "trail.publish": "before the published end is moved",
    "trail.published": "the published end has moved",
    "trail.segment.sealing": "a segment is full, before its index is written",
    "trail.segment.sealed": "a full segment is closed, the next one is not there yet",
    "trail.staging.written": "rows of a prepared transaction are written, they do not count yet",
    "trail.staging.renamed": "the file of a prepared transaction has its name",
    "trail.history.restored": "a damaged history is kept under another name, the exported one is not in its place yet",
    "lease.claimed": "a shared trail's next epoch is claimed, the former claim is still there",
    "lease.fenced": "a shared trail is taken over: the former writer's files are replaced, nothing is recovered yet",
    "trail.register": "before a reader or a hold is registered with the trail",
    "trail.advance": "before a reader says how far it is",
    "trail.drop": "before segments that nobody needs are removed",
    "trail.drop.removed": "old segments are gone, since when the others wait is not noted yet",
    "trail.pack.written": "a packed segment is complete, under another name",
    "trail.pack.renamed": "a packed segment has its name, the one it replaces is still there",
    "trail.replica.begun": "a replica has its mark, it is of no trail yet",
    "trail.replica.bytes": "before bytes of a segment of a replica are written",
    "trail.replica.file": "before bytes of a load's file are written beside a replica",
    "trail.replica.left": "a segment of a replica is whole, the next one is not there yet",
    "trail.replica.packed": "a packed segment of a replica has its name, the next one is not there yet",
    "trail.replica.synced": "what came for a replica is durable, its end is not published",
    "trail.replica.published": "the published end of a replica has moved, whoever sent it was not told",
    # pump
    "pump.registered": "a pump is registered with its trail, it has not connected yet",
    "pump.welcome": "the next hop has said what it has, nothing is sent yet",
    "pump.sent": "a piece of the trail is sent, nobody has asked whether it came",
    "pump.acknowledged": "the next store has what was sent, the trail is held for it still",
    # a trail in a store of objects
    "store.begun": "a pump knows where the trail in a store ends, it has put nothing yet",
    "store.put": "a piece is in the store, the pump has not noted it",
    "store.noted": "a piece is noted beside the trail, which is held for it still",
    "store.removing": "that old pieces of a store go is written there, they are still there",
    "store.registered": "a reader of a store has its object there, it has read nothing yet",
    "store.read": "a piece was read out of a store and is whole, nothing of it is in the replica",
    "store.applied": "a piece is in the replica, durably, it is not noted beside it",
    "store.marked": "that the replica has a piece is noted beside it, the store does not know",
    "store.acknowledged": "the store knows what a reader has",
    # change tables
    "changes.noted": "a MySQL has noted which change tables are to come, none of them is there",
    "changes.following": "a MySQL has noted which instances of tables are to come to a job that runs, none of them is there",
    "changes.made": "the change tables are there, the job does not know of them",
    "first.read": "all rows of a table are read in one snapshot and written, their transaction is open",
    "first.committed": "a table's first rows and its state are at the target",
    "changes.known": "the tables are known at the target, the checkpoint is not there yet",
    # load
    "load.held": "the trail is held for the load, the target knows of nothing yet",
    "load.pending": "the tables are known at the target, the checkpoint is not there yet",
    "load.begun": "the checkpoint stands at the target, nothing is loaded",
    "load.table.created": "a target table was made, its load's generation has not begun",
    "load.generations.written": "new tables, their states and ledgers are written in the open transaction",
    "load.generation": "a table's load has its ledger",
    "load.snapshot": "a chunk's snapshot is open, its marks are known",
    "load.copied": "a chunk's rows are copied, not committed",
    "load.committed": "a chunk is committed, the driver does not know",
    "load.handover": "before a loaded table is handed over to the stream",
    "load.handed.over": "a loaded table is handed over, the driver goes on",
    "load.rows.holding": "the trail is held again for parked tables that keep their rows, no state says so yet",
    "load.rows.held": "the trail is held again for a parked table that keeps its rows, it does not go on yet",
    "load.rows.kept": "a parked table goes on with its rows, others that were parked with it are not told yet",
    "load.vouched": "the trail is held for a table that streams without a load, the target does not say so yet",
    "trail.load.file": "a chunk's file is in the trail, the ledger does not name it yet",
    "trail.load.manifest": "every chunk of a table is in the trail, its manifest is not there yet",
    "trail.load.taken": "tables of a trail's load are handed over at the target, the trail is not told",
    "trail.check.answer": "rows were summed up for who verifies where the trail is applied, before that is in the trail",
    "trail.check.answered": "the answer to who verifies where the trail is applied is in the trail, its question is, too",
    "trail.load.asked": "a load that was asked for where its trail is applied has ended, nobody is told",
    "trail.load.gone": "a table's folder says that its files are gone, they are still there",
    "trail.load.through": "a table's manifest is in the trail, the ledger does not say so yet",
    "load.done": "every table is handed over, the trail is still held",
    # apply
    "apply.claim": "before this process makes the checkpoint its own",
    "apply.claimed": "the checkpoint is this process's own",
    "apply.stage": "in a task: before its net changes are staged",
    "apply.staged": "an epoch's net changes are staged, its transaction has not begun",
    "apply.begin": "before the checkpoint is compared and moved",
    "apply.begun": "the checkpoint is moved in the open transaction, nothing is merged",
    "apply.emptied": "tables were emptied by a statement that commits, the checkpoint stands before it",
    "apply.truncated": "a table was emptied in the open transaction",
    "apply.merged": "a table's net changes are merged in the open transaction",
    "apply.merged.staged": "a table's staged changes are merged in the open transaction",
    "apply.cascaded": "a foreign key's action is carried out in the open transaction",
    "apply.pipelined": "source transactions are committed one by one, the target need not have all of them on its disk",
    "apply.carried": "one of several appliers has carried out a source transaction, whose turn to commit may not have come",
    "apply.in.turn": "one of several appliers has committed its transaction in turn, nobody was told yet",
    "apply.out.of.turn": "one of several appliers has committed its transaction beyond the checkpoint, nobody was told yet",
    "apply.relaxed.carried": "one of several appliers that keep no order has carried out a transaction, nothing is noted",
    "apply.relaxed.ended": "a run of several appliers that keep no order has ended, the checkpoint stands where it began",
    "apply.one": "one source transaction was carried out row by row, before its commit",
    "apply.saved": "table states are saved in the open transaction",
    "apply.commit": "before COMMIT is sent",
    "attunity.noted": "the trace has what is new, the row of the state does not say it yet",
    "attunity.configured": "the trace tells of another configuration, the job's parts do not have it yet",
    "changes.low_end_moved": "readers may not ask for old changes any more, which are still there",
    "changes.removed": "old changes are removed from change tables, their places are still there",
    "changes.idle_noted": "the time is noted in the open transaction, while the source has no changes",
    "apply.appended": "changes are appended to change tables, in the open transaction",
    "apply.committed": "the target has committed, this process does not know",
    "apply.moved.on": "the checkpoint moves over log that holds nothing for us, before its commit",
    "apply.altering": "the target's table is about to be altered by a statement that commits by itself; its state says so",
    "apply.altered.apart": "that statement is through, the epoch of its transaction has not begun",
    "apply.altering.filled": "added columns have a default for rows that are there, which is about to be taken off again",
    "apply.created": "a table that the source has made is made at the target, and not noted yet",
    "apply.dropping": "a target's table is about to be dropped or renamed by a statement that commits; its state says so",
    "apply.dropped.apart": "that statement is through, the epoch of its transaction has not begun",
    "apply.dropped": "the epoch that drops a table, or replicates it no longer, is about to be committed",
    "apply.altered": "the epoch that alters a table is about to be committed",
    "apply.drop.asking": "the same as apply.asking, for a table that is to be dropped",
    "apply.dropped.behind": "a table that waited is dropped at its place, its state does not say so yet",
    "apply.renamed.behind": "a table that waited has its next name, its state does not say so yet",
    "apply.asking": "the trail is held for a table that waits for a decision about a change, the target does not say so yet",
    "apply.altered.behind": "a table that resumes is altered at its place, its state does not say so yet",
    "apply.caught.up": "a table that resumes is altered at its place, and has to go on from there",
    "ddl.replaced": "a person's statements have altered a table at the target, which does not know of the decision yet",
    "ddl.decided": "a table may go on behind a decision about a change, others that waited with it are not told yet",
    "apply.ddl.noted": "what became of a change of a definition is noted in the epoch's transaction",
    "apply.conflict": "an epoch was rolled back after a conflict, before it goes row by row",
    "apply.parking": "the trail is held for a table that the target refuses rows of, which is not parked yet",
    "apply.left": "a table that is to be loaded again is taken out, who asked for it is not told",
    "apply.conflict.noted": "a disagreement is settled and noted in the epoch's transaction",
    "apply.set.aside": "a row that the target refuses is set aside in the epoch's transaction",
    "apply.aside.settled": "what was set aside for a row is released or discarded, before its commit",
    "apply.window": "a table's window ends with the epoch that is committed next",
    "apply.reread": "rows were read from the source again, the target does not have them yet",
    "apply.repair": "rows that differ were read from the source, the target does not have them yet",
    "apply.pair.stands": "a column that comes to a table of a pair was found at the target, nothing is noted of it",
    "apply.pair.filled": "a row that won over one with a column that it lacks has the column's default, in the open epoch",
    "apply.pair.due": "older rows behind deletes of the other site are about to be removed",
    "apply.pair.standing": "rows that stood against the other site are about to be written again",
    "apply.pair.stood": "rows that stood against the other site are written again, this process does not know",
    "apply.pair.cleared": "older rows behind deletes of the other site are removed, this process does not know",
    "apply.registered": "apply is registered with the trail, before its first epoch",
    "apply.build": "before indexes and foreign keys of a table are built",
    "apply.built": "indexes and foreign keys of a table are built, nobody was told",
    "apply.built.told": "that a table is built is about to be saved",
    "rules.import.written": "a job file with other rules is written beside the one that it replaces",
    # parcels
    "parcel.export.writing": "a parcel is about to be written under another name",
    "parcel.export.written": "a parcel is whole under another name, that is not noted",
    "parcel.export.noted": "that a parcel is about to get its name is noted",
    "parcel.export.renamed": "a parcel has its name, the trail does not know that it was exported",
    "parcel.export.reached": "the trail knows that a parcel was exported, and still keeps what is in it",
    "parcel.import.arriving": "a parcel's manifest is accepted, none of its files is copied",
    "parcel.import.verified": "a parcel's files lie beside the trail, verified",
    "parcel.import.placed": "a parcel's files have their names in the trail, no reader was told",
    "parcel.import.history": "lines of the schema history are in, no reader was told",
    "parcel.import.published": "readers see what is in a parcel, that it was imported is not noted",
    "parcel.import.noted": "that a parcel was imported is noted",
    "parcel.import.removing": "a parcel that was imported has lost its name, and is about to be removed",
    # rewind
    "rewind.held": "the trail is held from the earlier place on, nothing has changed at the target",
    "rewind.opened": "a table's keys are taken off, the checkpoint stands where it was",
    "rewind.commit": "the checkpoint and the windows are moved back in the open transaction",
    "rewind.committed": "the target is at the earlier place, nobody was told",
    # manager
    "manager.audit": "an action is carried out in a transaction that has no entry of it yet",
    "manager.file": "a version of a job's file is in the store, where commands read it stands the former one",
    "manager.job.start": "a job is to run, its process is not started",
    "manager.job.started": "a job's process is started, and has noted nothing of itself yet",
    "manager.job.stop": "a job is to stop, its process was not told",
    "manager.operation.marked": "an operation is marked as running, its process is not started",
    "manager.operation.started": "an operation's process is started",
    "manager.operation.ended": "an operation's process has ended, how is not noted",
    # cut-over
    "cutover.noted": "a step is noted as begun, nothing of it is done",
    "cutover.denied": "the source refuses writes, the marker is not written",
    "cutover.marked": "the marker is behind the last write, its place is not noted",
    "cutover.claimed": "the checkpoint is taken from apply, that is not noted",
    "cutover.admitted": "the way back passes the fence, it is not armed",
    "cutover.opened": "a return has opened the old side, the flip command is not started",
    "cutover.flipped": "the flip command has ended well, that is not noted",
    "cutover.carried.out": "a step is carried out, that is not noted",
    "cutover.lifted": "the source takes writes again, that is not noted",
    "cutover.reported": "the report is written, the end is not noted",
    # state.db
    "state.write": "before something is written to state.db",
    "state.written": "something was written to state.db",
}


class FailpointReached(Exception):
    """The error that `raise` raises: none of ours, so nothing expects it."""


@dataclass(slots=True)
class _Point:
    """A name with what happens at it, while anything is armed."""

    name: str
    log: int | None  # file descriptor
    actions: list[_Action] = field(default_factory=list)
    reached: int = 0


@dataclass(slots=True)
class _Action:
    text: str  # as it was asked for
    kind: str
    value: str
    at: int
    until: float | None = None  # of `full`, once it has begun


_points: dict[str, _Point] = {}  # empty while nothing is armed
_mutex = threading.Lock()
_FORM = re.compile(r"(?P<name>[^=@:]+)=(?P<kind>[a-z]+)(?::(?P<value>[^@]*))?(?:@(?P<at>[1-9]\d*))?")


def reach(name: str) -> None:
    """Mark the place `name`. Costs a look at an empty dictionary where nothing is armed."""
    if _points and (point := _points.get(name)) is not None:  # somebody may disarm at this moment
        _reached(point)


def arm(environment: Mapping[str, str]) -> None:
    """Take over what the variables ask for, instead of what was armed before. Raises ConfigError."""
    text, log = environment.get(VARIABLE, ""), environment.get(LOG_VARIABLE, "")
    actions = [_parsed(part.strip()) for part in text.split(";") if part.strip()]
    for point in _points.values():
        if point.log is not None:
            os.close(point.log)
            break
    _points.clear()
    if not actions and not log:
        return
    handle = _opened(log) if log else None
    points = {name: _Point(name, handle) for name in POINTS}
    for name, action in actions:
        points[name].actions.append(action)
    _points.update(points)


def _parsed(text: str) -> tuple[str, _Action]:
    found = _FORM.fullmatch(text)
    if not found:
        raise _refused(f"{text!r} is no failpoint", "name=action, name=action:value, name=action@n; ; between them")
    name, kind, value = found["name"], found["kind"], found["value"] or ""
    if name not in POINTS:
        near = get_close_matches(name, POINTS, 1, 0)
        raise _refused(f"there is no failpoint {name!r}", f"did you mean {near[0]}?")
    if kind not in ACTIONS:
        raise _refused(f"{text!r}: {kind!r} is no action", "one of " + ", ".join(ACTIONS))
    if not _is_good(kind, value):
        expected = {"exit": "a number", "raise": "a class of anabranch.errors"}.get(kind, "seconds")
        raise _refused(f"{text!r}: {value!r} is not {expected}", f"{kind}:… takes {expected}")
    return name, _Action(text, kind, value, int(found["at"] or 1))


def _is_good(kind: str, value: str) -> bool:
    if kind == "raise":
        return not value or _error_class(value) is not None
    if not value:
        return kind != "delay"
    return bool(re.fullmatch(r"\d{1,3}" if kind == "exit" else r"\d+(\.\d+)?", value))


def _error_class(name: str) -> type[AnabranchError] | None:
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, AnabranchError) else None


def _refused(message: str, hint: str) -> ConfigError:
    return ConfigError(f"{VARIABLE}: {message}", hint=hint)


def _opened(log: str) -> int:
    try:
        return os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(f"{LOG_VARIABLE}: {log} cannot be written: {error.strerror}", hint="name a file") from None


def _reached(point: _Point) -> None:
    with _mutex:
        point.reached += 1
        due = [one for one in point.actions if one.until is not None or one.at == point.reached]
        if point.reached == 1:
            _note(point, point.name)
    for one in due:
        _act(point, one)


def _note(point: _Point, line: str) -> None:
    if point.log is not None:
        os.write(point.log, f"{line}\n".encode())


def _is_first(point: _Point, action: _Action) -> bool:
    """Return whether this process is the first, of all that share the log, to carry the action out; then notes it there."""
    if point.log is None:
        return True
    fcntl.flock(point.log, fcntl.LOCK_EX)
    try:
        lines = os.pread(point.log, 1 << 20, 0).decode().splitlines()
        if action.text in (line.partition(" ")[0] for line in lines):
            return False
        _note(point, f"{action.text} {os.getpid()}")
        return True
    finally:
        fcntl.flock(point.log, fcntl.LOCK_UN)


def _act(point: _Point, action: _Action) -> None:
    if action.until is None and not _is_first(point, action):
        return
    if action.kind == "exit":
        os._exit(int(action.value or EXIT_CODE))
    if action.kind == "delay":
        time.sleep(float(action.value))
    elif action.kind == "full":
        _no_room(point, action)
    elif action.kind == "raise":
        error = _error_class(action.value)
        raise error(f"failpoint {point.name}") if error else FailpointReached(point.name)


def _no_room(point: _Point, action: _Action) -> None:
    now = time.monotonic()
    if action.until is None:
        action.until = now + float(action.value or FULL_SECONDS)
    if now < action.until:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), point.name)


arm(os.environ)
