"""`verify` of a job that captures into a trail: answers to those who verify where the trail is applied.

Questions are answered one by one, oldest first, and a little while is waited for further ones: who compares asks
again and again. What cannot be told is answered with the reason. What does not live here: the mailbox
(trail/checks.py), reading rows (verify/source_side.py), who starts this when somebody has asked (asked_checks.py).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.errors import AnabranchError, Retry, SourceError, StateError, StorageFull, TrailKeyMissing
from anabranch.job.asked_checks import LOCK
from anabranch.job.signals import SUPERVISED
from anabranch.job.verifying import expected_identity
from anabranch.lifecycle.encrypting import note_keys
from anabranch.model.schema import TableSchema
from anabranch.spark.engine import Engine
from anabranch.trail import checks
from anabranch.trail.checks import Answer, Question
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.trail.reader import TrailReader, exists
from anabranch.verify.source_side import SourceSide, Stopped
from anabranch.verify.told import Asked, refuse_foreign
from anabranch.view.opened import source_of, target_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from anabranch.model.ids import TableId
    from anabranch.view.job_view import JobView

LINGER = 20.0  # seconds without a question until it ends
POLL = 0.2
ROOM = 0.5  # between two tries to write an answer
TRIES = 3  # of an end that is away


def answer_all(job: JobView, engine: Engine, stop: Callable[[], bool], linger: float = LINGER) -> int:
    """Answer questions until none has come for a while; return how many. While another process does so, the part of a run
    waits for its turn a while, and leaves the rest to the next look; else StateError is raised. It is raised where there
    is no trail yet, too; TrailKeyMissing."""
    if not exists(job.trail):
        raise StateError("there is no trail yet", job=job.config.name, hint="anabranch run JOB")
    job.config.home.mkdir(parents=True, exist_ok=True)
    is_part = bool(os.environ.get(SUPERVISED))
    try:
        lock = OsLock(job.config.home / LOCK, linger if is_part else 0.0, stop)
    except LockHeld as held:
        if is_part:  # no failure: a failure would be the answer to all questions
            return 0
        raise StateError(f"questions are being answered by {held}", job=job.config.name, hint="wait for it") from None
    try:
        note_keys(job)
        return _answer_all(job, engine, stop, linger)
    finally:
        lock.close()


def _answer_all(job: JobView, engine: Engine, stop: Callable[[], bool], linger: float) -> int:
    count, until = 0, time.monotonic() + linger
    while not stop():
        questions = checks.pending(job.trail)
        if questions:
            said = _answer(job, engine, questions[0], stop)
            if said is None:
                break
            _note(job, questions[0], said, stop)
            count, until = count + 1, time.monotonic() + linger
            bound = log.get(job=job.config.name, table=str(questions[0].table))
            bound.info("rows_asked_about", refusal=said.refusal)
        elif time.monotonic() >= until:
            break
        else:
            time.sleep(POLL)
    return count


def _note(job: JobView, question: Question, said: Answer, stop: Callable[[], bool]) -> None:
    """Put an answer into the trail, where its disk has no room as soon as it has; when stopped, the question stays."""
    while not stop():
        try:
            checks.note(job.trail, question.id, said)
            return
        except StorageFull as error:
            log.get(job=job.config.name).warning("answer_waits_for_room", reason=error.message)
            time.sleep(ROOM)


def _answer(job: JobView, engine: Engine, question: Question, stop: Callable[[], bool]) -> Answer | None:
    """Return what is told; None when stopped."""
    for tried in range(TRIES):
        try:
            return _told(job, engine, question, stop)
        except Stopped:
            return None
        except TrailKeyMissing:  # neither could a refusal be written
            raise
        except AnabranchError as error:
            if error.retry is not Retry.TIMED or tried + 1 >= TRIES:
                return Answer({}, error.message)
            time.sleep(2**tried)
    raise AssertionError("the last try answers")


def _told(job: JobView, engine: Engine, question: Question, stop: Callable[[], bool]) -> Answer:
    table, asked = question.table, Asked.from_json(question.what)
    if job.config.source.leave_out:
        raise SourceError("the job leaves out an origin, so its trail does not tell all that changes rows")
    refuse_foreign(asked, schema := _schema(job, table), job.rules.left_out(schema), value_rules(job), table)
    side = SourceSide(engine, job.trail, source_of(job), target_of(job), expected_identity(job), stop)
    return Answer(side.told(asked.table(schema), asked).to_json())


def _schema(job: JobView, table: TableId) -> TableSchema:
    with TrailReader(job.trail, name="verify") as trail:
        found = trail.history.in_force().get(table)
        why = trail.history.parked().get(table, "the trail does not have it")
    if found is None:
        raise SourceError(f"nothing is told of the rows of {table}: {why}", table=str(table))
    return found
