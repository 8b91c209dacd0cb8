"""Read from the headers of a job's messages to which transactions of the source they belong.

What does not live here: what is made of it (forgotten.py), headers (`rows/messages/format.py`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from anabranch.brokers.settings import patience
from anabranch.connectors.kafka.connection import reader
from anabranch.errors import TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.rows.messages.format import POSITION

Place = tuple[str, int]  # topic and partition
FIRST_LOOK, LARGER = 256, 16  # messages before the end that are looked at, and how many times as many the next time


def open_ones(endpoint: Endpoint, ranges: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
    """Return the greatest sequence of the messages in each range of offsets (from, behind the last), committed or not. Places
    that have none of a job's are left out. Raises KafkaException, TargetUnavailable."""
    with closing(reader(endpoint, "read_uncommitted")) as consumer:
        found = {
            place: max(_sequences(endpoint, consumer, place, *ends), default=None) for place, ends in ranges.items()
        }
    return {place: sequence for place, sequence in found.items() if sequence is not None}


def first_one(endpoint: Endpoint, place: Place, begin: int, end: int) -> int | None:
    """Return the sequence of the first message of a job's in a range of offsets, committed or not; None where there is none.
    Raises KafkaException, TargetUnavailable."""
    with closing(reader(endpoint, "read_uncommitted")) as consumer:
        return next(_sequences(endpoint, consumer, place, begin, end), None)


def newest(endpoint: Endpoint, ranges: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
    """Return the sequence of the last committed message in each range of offsets; places without any are left out. Raises
    KafkaException, TargetUnavailable."""
    with closing(reader(endpoint)) as consumer:
        found = {place: _last(endpoint, consumer, place, *ends) for place, ends in ranges.items()}
    return {place: sequence for place, sequence in found.items() if sequence is not None}


def _last(endpoint: Endpoint, consumer: Consumer, place: Place, begin: int, end: int) -> int | None:
    look = FIRST_LOOK
    while True:
        told = deque(_sequences(endpoint, consumer, place, max(begin, end - look), end), maxlen=1)
        if told or end - look <= begin:
            return told[0] if told else None
        look *= LARGER


def _sequences(endpoint: Endpoint, consumer: Consumer, place: Place, begin: int, end: int) -> Iterator[int]:
    """Yield the sequences of messages of jobs in a range of a partition, in their order."""
    if begin >= end:
        return
    consumer.assign([TopicPartition(*place, begin)])
    until = time.monotonic() + patience(endpoint)
    while True:
        message = consumer.poll(0.2)
        if message is None:
            if time.monotonic() > until:
                raise TargetUnavailable(f"topic {place[0]} could not be read up to its end")
            continue
        until = time.monotonic() + patience(endpoint)
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return
        if error is not None:
            raise KafkaException(error)
        if message.offset() >= end:
            return
        told = dict(message.headers() or ()).get(POSITION)
        if told is not None:
            yield int(told.partition(b"@")[0])
