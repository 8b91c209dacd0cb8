"""Transactions that a broker has forgotten: their messages are in a partition, and nothing there says what became of them.

A coordinator that starts again ends what is left, and takes partitions whose leader it does not know yet for deleted: they get
no marker, be it of a commit or of an abort. Seen at Kafka 4.3.0, a single broker that was killed. The marker of the next
transaction of the same producer id counts for such messages, too, whatever they are. So they are ended here, before there is
one, as their own transaction was: what a transaction of a job has committed elsewhere says which. What does not live here: when
a producer begins (changing.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from anabranch import log
from anabranch.brokers import codes
from anabranch.brokers.settings import patience
from anabranch.connectors.kafka.connection import administrator, end_of
from anabranch.connectors.kafka.target.records import BECOMES_READABLE_S, PAUSE_S, Records, topic_of
from anabranch.connectors.kafka.target.sequences import Place, newest, open_ones
from anabranch.connectors.kafka.target.state_forms import checkpoint_of, first_rows_key, topics_of
from anabranch.errors import TargetUnavailable
from anabranch.model.endpoint import Endpoint

NOBODY_READS = b"[]"  # the key of the record, without a value, that carries a marker to its partition


def end_forgotten(endpoint: Endpoint, job: str, producer: Producer, records: Records) -> bool:
    """End what earlier producers of the job have left open, as the rest of its transaction has ended, so that all of `records`
    is readable. Return whether what was ended is readable by now. `producer` has begun, and has no transaction open. Raises
    KafkaException, TargetUnavailable."""
    client, limit = administrator(endpoint), patience(endpoint)
    records.refresh()
    state = (topic_of(job), 0)
    noted = topics_of(records.there).values()
    begins = {
        (one.name, number): one.begins[number] if one.begins else 0 for one in noted for number in range(one.partitions)
    }
    ends = left_open(client, [state, *begins], limit)
    if not ends:
        return True
    left = open_ones(endpoint, {place: ends[place] for place in ends if place != state})
    if state in ends:
        readable = ends_at(client, begins, True, limit)
        told = newest(endpoint, {place: (begins[place], end) for place, end in readable.items()})
        is_committed = any(not _is_known(records, topic, sequence) for (topic, _), sequence in told.items())
        _end(producer, [state, *left], is_committed, limit)
    else:
        records.refresh(is_decided=True)  # all of it is readable by now, which it may not have been above
        for is_committed in (True, False):
            mine = [place for place, sequence in left.items() if _is_known(records, place[0], sequence) is is_committed]
            _end(producer, mine, is_committed, limit)
    return not left_open(client, list(left), limit)


def _is_known(records: Records, topic: str, sequence: int) -> bool:
    """Whether the state says that what a message of this topic belongs to is committed. `sequence`: of its transaction at the
    source; 0: it is a row of the initial load."""
    if not sequence:
        return first_rows_key(topic) in records.there
    checkpoint = checkpoint_of(records.there)
    return checkpoint is not None and sequence <= checkpoint.position.sequence


def _end(producer: Producer, places: Sequence[Place], is_committed: bool, limit: float) -> None:
    """Write a marker to partitions, for which each of them needs a record."""
    if not places:
        return
    failed = list[str]()
    producer.begin_transaction()
    for topic, number in places:
        producer.produce(
            topic, None, NOBODY_READS, partition=number, on_delivery=lambda error, _: failed.append(str(error))
        )
    if producer.flush(limit) or failed:  # a client ends a transaction without a word where no record has arrived
        raise TargetUnavailable(f"cannot end what a broker has forgotten: {failed[0] if failed else 'no answer'}")
    if is_committed:
        producer.commit_transaction(limit)
    else:
        producer.abort_transaction(limit)
    where = [f"{topic}[{number}]" for topic, number in places]
    log.get().warning("forgotten_transaction_ended", is_committed=is_committed, partitions=where)


def left_open(
    client: AdminClient, places: Iterable[Place], limit: float, seconds: float = BECOMES_READABLE_S
) -> dict[Place, tuple[int, int]]:
    """Return partitions that are not readable up to where they end now: to where they are, and the end. What is committed
    becomes readable a moment later. `limit`: seconds for an answer. Raises KafkaException, TargetUnavailable."""
    until = time.monotonic() + seconds
    written = ends_at(client, places, False, limit)
    while True:
        readable = ends_at(client, written, True, limit)
        found = {place: (readable.get(place, 0), end) for place, end in written.items()}
        left = {place: (to, end) for place, (to, end) in found.items() if to < end}
        if not left or time.monotonic() > until:
            return left
        time.sleep(PAUSE_S)


def ends_at(client: AdminClient, places: Iterable[Place], is_committed: bool, limit: float) -> Mapping[Place, int]:
    """Return where partitions end; those that are not there are left out, since whoever needs them names them."""
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for topic, number in places}
    isolation = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
    ends = {}
    told = client.list_offsets(asked, isolation_level=isolation, request_timeout=limit) if asked else {}
    for place, found in told.items():
        try:
            ends[place.topic, place.partition] = end_of(found.result(limit + 1), place.topic, place.partition)
        except KafkaException as error:
            if codes.of(error).code() not in (
                *codes.ABSENT,
                KafkaError._NOENT,
            ):  # the latter where none of them is there
                raise
            missing = client.list_topics(place.topic, timeout=limit).topics[place.topic].error
            if missing is None or missing.code() not in codes.ABSENT:
                raise  # it is there, and has no leader at this moment
    return ends
