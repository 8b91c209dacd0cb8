"""Changes of a job's state: compare and set, each in one transaction under the job's transactional id.

Whoever writes first begins with `init_transactions`, which ends the transaction of whoever wrote before, and lets none of
theirs commit from then on. What is then read up to its end is all there is, and stays so until this writer commits, or is
itself refused because another one has begun. So a comparison that holds after reading holds when the change is committed:
there is no lock, and a process that died has left none. Who is refused reads again, and compares again.

A commit that was confirmed is none before it can be read: a broker that is killed in between may forget it (forgotten.py).
Nor is it one where a line to a broker was lost until then: another process may have aborted what was forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from anabranch import log
from anabranch.brokers import codes
from anabranch.brokers.settings import patience
from anabranch.connectors.kafka.connection import administrator, transactional
from anabranch.connectors.kafka.errors import translated, translated_error
from anabranch.connectors.kafka.target.forgotten import end_forgotten, left_open
from anabranch.connectors.kafka.target.records import (
    BECOMES_READABLE_S,
    Key,
    Records,
    Value,
    encoded,
    encoded_value,
    topic_of,
)
from anabranch.connectors.kafka.target.sequences import Place
from anabranch.errors import AnabranchError, TargetUnavailable
from anabranch.model.endpoint import Endpoint

TRIES = 5
SLOW_S = 10.0  # that a broker which has lost no line may take until a commit that it has confirmed is readable
FORGOTTEN = "the brokers have confirmed the transaction, and it cannot be read"
LOOKED_UP = (
    "a broker that was killed may have forgotten it: the next try looks whether it is there, and does it again if not"
)
Changes = Mapping[Key, Value | None]


class Changing:
    """The writer of a job's state, and what it knows of it.

    Delivery: a change is committed whole when `change` returns, so that no broker forgets it, and compared with all that was
    committed before."""

    def __init__(self, endpoint: Endpoint, job: str, more: Mapping[str, Any] | None = None) -> None:
        """Set up the writer. `more`: settings of its producer."""
        self.records = Records(endpoint, job)
        self.producer: Producer | None = None
        self._administrator: AdminClient | None = None
        self._has_lost_a_line = False
        self._endpoint, self._job, self._more = endpoint, job, dict(more or {})

    def begin(self) -> Producer:
        """Return the producer that nobody has followed yet as far as is known, with all records read that others have written;
        a new one where there is none. Raises TargetUnavailable."""
        if self.producer is None:
            self._has_lost_a_line = False
            producer = transactional(self._endpoint, topic_of(self._job), self._more | {"error_cb": self._hear})
            with translated("begin to write the job's state"):
                _again(lambda: producer.init_transactions(patience(self._endpoint)))
                producer.poll(0)  # what it has heard meanwhile is told here, and not behind the first commit
                self._has_lost_a_line = False  # one to a broker that is away, while it looked for another
                is_ended = end_forgotten(self._endpoint, self._job, producer, self.records)
            self.records.refresh(is_decided=True)
            if not is_ended and self._hears_of_a_lost_line(producer):  # else others have something open there
                raise TargetUnavailable(FORGOTTEN, hint=LOOKED_UP)
            self.producer = producer
        return self.producer

    def doubt(self) -> None:
        """Let go of a producer that has lost a line to a broker: one that has started again may have forgotten how the last
        transaction ended, and the next one would decide about it. Call it between two transactions."""
        if self.producer is not None and self._hears_of_a_lost_line(self.producer):
            self.give_up()

    def _hears_of_a_lost_line(self, producer: Producer) -> bool:
        producer.poll(0)
        return self._has_lost_a_line

    def _hear(self, error: KafkaError) -> None:
        self._has_lost_a_line |= error.code() in codes.LOST_LINE

    def change(self, decide: Callable[[Mapping[Key, Value]], Changes]) -> None:
        """Commit what `decide` says for the records that there are. It is called again where somebody came first; what it
        raises passes, and nothing is written then."""
        unread: Changes = {}
        for left in range(TRIES - 1, -1, -1):
            self.doubt()
            was_begun = self.producer is not None  # then another process may have written since
            producer = self.begin()
            if unread and self.has(unread):
                return
            try:
                changes = decide(self.records.there)
            except AnabranchError:
                if not was_begun:
                    raise
                changes = {}
            if not changes:
                if not was_begun:
                    return
                self.give_up()
                continue
            try:
                producer.begin_transaction()
                self.write(changes)
                if self.commit(changes):
                    return
                unread = changes
            except KafkaException as error:
                self.give_up()
                if not left or codes.of(error).code() not in codes.FENCED:
                    raise translated_error(codes.of(error), "write the job's state") from error
        if unread:
            raise TargetUnavailable(FORGOTTEN, hint=LOOKED_UP)

    def has(self, changes: Changes) -> bool:
        """Return whether the records that there are have these changes."""
        there = self.records.there
        return all(encoded_value(there.get(key)) == encoded_value(value) for key, value in changes.items())

    def write(self, changes: Changes) -> None:
        """Add records to the open transaction. Raises KafkaException."""
        assert self.producer is not None, "a transaction is open"
        topic = topic_of(self._job)
        for key, value in changes.items():
            self.producer.produce(topic, encoded_value(value), encoded(key), partition=0)

    def commit(self, changes: Changes, places: Iterable[Place] = ()) -> bool:
        """Commit the open transaction, which has these changes, and messages in `places`, and return whether it is over for
        sure: its changes can be read, and no line to a broker was lost before, since one that has started again may have
        forgotten the commit, and another process have aborted it, which makes all readable, too. Else the producer is given up:
        whoever begins next finds out how the transaction has ended, so that none decides about the one before it. Raises
        KafkaException; its outcome may then be unknown."""
        producer, state = self.producer, (topic_of(self._job), 0)
        assert producer is not None, "a transaction is open"
        _again(lambda: producer.commit_transaction(patience(self._endpoint)))
        left = self._unreadable({state, *places}, BECOMES_READABLE_S)
        if state in left and not self._hears_of_a_lost_line(producer):
            left = self._unreadable({state}, SLOW_S)
        if self._hears_of_a_lost_line(producer) or state in left:
            self.give_up()
            log.get(job=self._job).warning("commit_in_doubt", topic=state[0], is_readable=state not in left)
            return False
        self.records.took(changes.items())
        return True

    def _unreadable(self, places: set[Place], seconds: float) -> set[Place]:
        """Return those of the partitions that are not readable up to their end in this time, or whose end nobody tells."""
        self._administrator = self._administrator or administrator(self._endpoint)
        try:
            return set(left_open(self._administrator, places, seconds, seconds))
        except (KafkaException, TargetUnavailable):
            self._administrator = None  # whose view of the cluster may be that of before
            return places

    def abort(self) -> None:
        """End the open transaction without a trace for readers, or give the producer up: whoever begins next ends it then."""
        if self.producer is None:
            return
        with suppress(KafkaException):
            self.producer.abort_transaction(patience(self._endpoint))
        self.give_up()  # the next one looks whether a broker has forgotten the abort

    def give_up(self) -> None:
        """Let go of the producer, whose state is in doubt: what it has not sent is not sent any more."""
        if self.producer is not None:
            self.producer.purge()
        self.producer = None

    def close(self) -> None:
        self.give_up()
        self.records.close()
        self._administrator = None


def _again(action: Callable[[], None]) -> None:
    """Do what librdkafka says may be done again, as often as it needs for its answer; each try waits itself."""
    for left in range(TRIES - 1, -1, -1):
        try:
            action()
            return
        except KafkaException as error:
            if not left or not codes.of(error).retriable():
                raise
