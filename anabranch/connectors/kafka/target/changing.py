"""Changes of a job's state: compare and set, each in one transaction under the job's transactional id.

Whoever writes first begins with `init_transactions`, which ends the transaction of whoever wrote before, and lets none of
theirs commit from then on. What is then read up to its end is all there is, and stays so until this writer commits, or is
itself refused because another one has begun. So a comparison that holds after reading holds when the change is committed:
there is no lock, and a process that died has left none. Who is refused reads again, and compares again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from anabranch.connectors.kafka import errors
from anabranch.connectors.kafka.connection import patience, transactional
from anabranch.connectors.kafka.errors import translated, translated_error
from anabranch.connectors.kafka.target.forgotten import end_forgotten
from anabranch.connectors.kafka.target.records import Key, Records, Value, encoded, encoded_value, topic_of
from anabranch.errors import AnabranchError
from anabranch.model.endpoint import Endpoint

TRIES = 5
Changes = Mapping[Key, Value | None]


class Changing:
    """The writer of a job's state, and what it knows of it.

    Delivery: a change is committed whole when `change` returns, and compared with all that was committed before."""

    def __init__(self, endpoint: Endpoint, job: str, more: Mapping[str, Any] | None = None) -> None:
        """Set up the writer. `more`: settings of its producer."""
        self.records = Records(endpoint, job)
        self.producer: Producer | None = None
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
                end_forgotten(self._endpoint, self._job, producer, self.records)
            self.records.refresh(is_decided=True)
            self.producer = producer
        return self.producer

    def doubt(self) -> None:
        """Let go of a producer that has lost a line to a broker: one that has started again may have forgotten how the last
        transaction ended, and the next one would decide about it. Call it between two transactions."""
        if self.producer is not None:
            self.producer.poll(0)
            if self._has_lost_a_line:
                self.give_up()

    def _hear(self, error: KafkaError) -> None:
        self._has_lost_a_line |= error.code() in errors.LOST_LINE

    def change(self, decide: Callable[[Mapping[Key, Value]], Changes]) -> None:
        """Commit what `decide` says for the records that there are. It is called again where somebody came first; what it
        raises passes, and nothing is written then."""
        for left in range(TRIES - 1, -1, -1):
            self.doubt()
            was_begun = self.producer is not None  # then another process may have written since
            producer = self.begin()
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
                self.commit(changes)
                return
            except KafkaException as error:
                self.give_up()
                if not left or errors.of(error).code() not in errors.FENCED:
                    raise translated_error(errors.of(error), "write the job's state") from error

    def write(self, changes: Changes) -> None:
        """Add records to the open transaction. Raises KafkaException."""
        assert self.producer is not None, "a transaction is open"
        topic = topic_of(self._job)
        for key, value in changes.items():
            self.producer.produce(topic, encoded_value(value), encoded(key), partition=0)

    def commit(self, changes: Changes) -> None:
        """Commit the open transaction, which has these changes. Raises KafkaException; its outcome may then be unknown."""
        producer = self.producer
        assert producer is not None, "a transaction is open"
        _again(lambda: producer.commit_transaction(patience(self._endpoint)))
        self.records.took(changes.items())

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


def _again(action: Callable[[], None]) -> None:
    """Do what librdkafka says may be done again, as often as it needs for its answer; each try waits itself."""
    for left in range(TRIES - 1, -1, -1):
        try:
            action()
            return
        except KafkaException as error:
            if not left or not errors.of(error).retriable():
                raise
