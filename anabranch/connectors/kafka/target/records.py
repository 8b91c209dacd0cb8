"""The state of a job as records of its own compacted topic: what is committed there, by key, and where the topic is.

Topic `anabranch.JOB` has one partition. A record's key is a JSON list, its value a JSON object; a tombstone removes it. What
does not live here: writing (changing.py), what the values mean (state_forms.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from anabranch.brokers import codes
from anabranch.brokers.settings import patience
from anabranch.connectors.kafka import errors
from anabranch.connectors.kafka.connection import administrator, end_of, reader
from anabranch.connectors.kafka.errors import translated
from anabranch.errors import AnabranchError, TargetUnavailable
from anabranch.model.endpoint import Endpoint

PREFIX = "anabranch."
TOPIC = "topic"  # the first part of the keys of topics that a job writes
# What is committed becomes readable a moment later, when the broker has written so into each partition. Whoever left a
# transaction open and is gone is not waited for any longer.
BECOMES_READABLE_S, PAUSE_S = 2.0, 0.005
# A broker forgets a day later that a record was removed: who has not read for long begins at the beginning.
READ_ANEW_S = 3600.0

OPEN_HINT = (
    "nobody else may write to the topic: kafka-transactions.sh --bootstrap-server BROKER find-hanging --topic TOPIC, or "
    "describe-producers --topic TOPIC --partition 0, says who does; abort ends it"
)

Key = tuple[str | int, ...]
Value = Mapping[str, Any]


def topic_of(job: str) -> str:
    """Return the topic that has the state of a job, which is also its transactional id."""
    return PREFIX + job


def encoded(key: Key) -> bytes:
    return json.dumps(key, ensure_ascii=False, separators=(",", ":")).encode()


def encoded_value(value: Value | None) -> bytes | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def decided_within(endpoint: Endpoint) -> float:
    """Return the seconds that may pass until all is readable where no transaction of the job is open: those of one answer."""
    return patience(endpoint)


class Records:
    """The committed records of one job, as of the last `refresh`. One consumer, made on first use."""

    def __init__(self, endpoint: Endpoint, job: str) -> None:
        self._endpoint, self._place = endpoint, TopicPartition(topic_of(job), 0)
        self._consumer: Consumer | None = None
        self._administrator: AdminClient | None = None
        self._read = -1  # the offset up to which everything is known; -1: nothing was read yet
        self.there: dict[Key, Value] = {}
        self.is_there = False  # the topic
        self._asked = 0.0  # when everything up to the end was known, in monotonic seconds

    def refresh(self, is_decided: bool = False) -> None:
        """Read what was committed before this call. `is_decided`: no transaction of the job is open, so all that is written has
        to become readable, however long a broker that has just started takes for it. Raises TargetUnavailable, TargetError."""
        try:
            with translated("read the job's state"):
                self._refresh(is_decided)
        except AnabranchError:
            self.close()  # a client that has met a broker as it started may go on telling that a topic has no leader
            raise

    def _refresh(self, is_decided: bool) -> None:
        end = self._end(is_decided)
        if end is None:
            self._forget()
            return
        now = time.monotonic()
        if end < self._read or now - self._asked > READ_ANEW_S:  # the topic was removed, and made again; or see above
            self._forget()
        self.is_there = True
        if end != self._read:
            self._read_to(end)
        self._asked = now

    def took(self, changes: Iterable[tuple[Key, Value | None]]) -> None:
        """Take over what this process has committed; it is read again later, to the same effect."""
        self.is_there = True
        for key, value in changes:
            self._put(key, value)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._administrator = None
        self._forget()

    def _forget(self) -> None:
        self.there, self._read, self.is_there = {}, -1, False

    def _end(self, is_decided: bool) -> int | None:
        """Return the offset up to which records are readable, once those are that were written before; None where there is no
        topic."""
        written = self._latest(IsolationLevel.READ_UNCOMMITTED)
        until = time.monotonic() + (decided_within(self._endpoint) if is_decided else BECOMES_READABLE_S)
        while written is not None:
            readable = self._latest(IsolationLevel.READ_COMMITTED)
            is_late = time.monotonic() > until
            if is_late and is_decided and readable is not None and readable < written:
                raise TargetUnavailable(self._open_words(readable, written), hint=OPEN_HINT)
            if readable is None or readable >= written or is_late:
                return readable
            time.sleep(PAUSE_S)
        return None

    def _open_words(self, readable: int, written: int) -> str:
        where = f"partition {self._place.partition} of topic {self._place.topic}"
        what = f"is readable up to offset {readable} of {written}, so a transaction is open there"
        return f"{where} {what}: none of the job's own, whose transactional id is {self._place.topic}"

    def _latest(self, isolation: IsolationLevel) -> int | None:
        if self._administrator is None:
            self._administrator = administrator(self._endpoint)
        asked = {self._place: OffsetSpec.latest()}
        limit = patience(self._endpoint)
        try:
            (found,) = self._administrator.list_offsets(
                asked, isolation_level=isolation, request_timeout=limit
            ).values()
            return end_of(found.result(limit + 1), self._place.topic, self._place.partition)
        except KafkaException:
            told = self._administrator.list_topics(self._place.topic, timeout=limit).topics[self._place.topic].error
            if told is not None and told.code() in codes.ABSENT:
                return None  # and not just without a leader at this moment
            if told is not None and told.code() in errors.RIGHTS:
                raise KafkaException(told) from None  # which the first question does not tell
            raise

    def _read_to(self, end: int) -> None:
        self._consumer = consumer = self._consumer or reader(self._endpoint)
        # From offset 0, or where the topic begins by now (auto.offset.reset): for OFFSET_BEGINNING a new client asks the
        # brokers first, and where it knows none yet it waits for half a second before it asks again.
        consumer.assign([TopicPartition(self._place.topic, 0, max(self._read, 0))])
        self._take(consumer, end)
        consumer.unassign()  # else the client goes on asking for more until the next refresh

    def _take(self, consumer: Consumer, end: int) -> None:
        """Take what comes up to an offset."""
        until = time.monotonic() + patience(self._endpoint)
        while self._read < end:
            message = consumer.poll(0.2)
            if message is None:
                if time.monotonic() > until:
                    raise TargetUnavailable(f"topic {self._place.topic} could not be read up to its end")
                if self._is_removed():
                    self._forget()
                    return
                continue
            if message.error() is None:
                self._put(tuple(json.loads(message.key())), json.loads(message.value()) if message.value() else None)
                self._read = max(self._read, message.offset() + 1)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._read = message.offset()
            elif message.error().code() in codes.ABSENT and self._is_removed():
                self._forget()
                return
            else:
                raise KafkaException(message.error())

    def _is_removed(self) -> bool:
        """Return whether the topic is not there any more, which the client tells a reader half a minute later."""
        try:
            return self._latest(IsolationLevel.READ_COMMITTED) is None
        except (KafkaException, TargetUnavailable):
            return False  # a leader that is away for a moment is waited for, as whoever reads does anyway

    def _put(self, key: Key, value: Value | None) -> None:
        if value is None:
            self.there.pop(key, None)
        else:
            self.there[key] = value
