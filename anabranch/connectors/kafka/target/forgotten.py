"""Transactions that a broker has forgotten: their messages are in a partition, and nothing there says that they were aborted.

A coordinator that starts again aborts what has timed out meanwhile, and takes partitions whose leader it does not know yet for
deleted: they get no marker of the end. Seen at Kafka 4.3.0, a single broker that was killed. Such messages would be committed
with the next transaction of the same producer id. What does not live here: when a producer begins (changing.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from anabranch import log
from anabranch.connectors.kafka import errors
from anabranch.connectors.kafka.connection import administrator, patience
from anabranch.model.endpoint import Endpoint

NOBODY_READS = b"[]"  # the key of a record that is aborted at once


def abort_forgotten(endpoint: Endpoint, producer: Producer, places: Iterable[tuple[str, int]]) -> None:
    """Abort what earlier producers of this transactional id have left open in partitions (topic, number). `producer` has begun,
    and has no transaction open, so a partition that is not readable up to its end has such messages, or some of other
    programs, which stay as they are. Raises KafkaException."""
    wanted, limit = list(places), patience(endpoint)
    if not wanted:
        return
    client = administrator(endpoint)
    written = _ends(client, wanted, IsolationLevel.READ_UNCOMMITTED, limit)
    readable = _ends(client, wanted, IsolationLevel.READ_COMMITTED, limit)
    left = [place for place in wanted if readable.get(place, 0) < written.get(place, 0)]
    if not left:
        return
    producer.begin_transaction()
    for topic, number in left:
        producer.produce(topic, None, NOBODY_READS, partition=number)
    producer.flush(limit)
    producer.abort_transaction(limit)
    log.get().warning("forgotten_transaction_aborted", partitions=[f"{topic}[{number}]" for topic, number in left])


def _ends(
    client: AdminClient, places: list[tuple[str, int]], isolation: IsolationLevel, limit: float
) -> dict[tuple[str, int], int]:
    """Return where partitions end; those that are not there are left out, since whoever needs them names them."""
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for topic, number in places}
    ends = {}
    for place, found in client.list_offsets(asked, isolation_level=isolation, request_timeout=limit).items():
        try:
            ends[place.topic, place.partition] = int(found.result(limit + 1).offset)
        except KafkaException as error:
            if errors.of(error).code() not in errors.ABSENT:
                raise
    return ends
