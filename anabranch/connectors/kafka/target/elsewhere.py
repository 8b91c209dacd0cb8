"""Topics that other jobs at the cluster write, read from the states of all of them at once.

What does not live here: the job's own state (records.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from anabranch.brokers import codes
from anabranch.brokers.settings import patience
from anabranch.connectors.kafka.connection import administrator, reader
from anabranch.connectors.kafka.errors import translated
from anabranch.connectors.kafka.target.forgotten import ends_at, left_open
from anabranch.connectors.kafka.target.records import PREFIX, TOPIC, topic_of
from anabranch.connectors.kafka.target.sequences import Place
from anabranch.errors import TargetUnavailable
from anabranch.model.endpoint import Endpoint

ASKED_S = 5.0  # for one answer, while a state is waited for


def noted_elsewhere(endpoint: Endpoint, job: str, names: Iterable[str]) -> dict[str, str]:
    """Return those of the topics that other jobs write, each with the job: one client reads all their states, however many
    there are. Jobs whose state we may not see are not asked."""
    wanted, limit = set(names), patience(endpoint)
    if not wanted:
        return {}
    with translated("look for the state of jobs"):
        client = administrator(endpoint)
        told = client.list_topics(timeout=limit).topics
        places = [(name, 0) for name in told if name.startswith(PREFIX) and name != topic_of(job)]
        if not places:
            return {}
        left_open(client, places, limit)  # what is committed becomes readable a moment later
        states = _States(wanted)
        states.read(endpoint, client, ends_at(client, places, True, limit))
    return {name: topic.removeprefix(PREFIX) for topic, noted in sorted(states.noted.items()) for name in noted}


class _States:
    """Read the states of several jobs, and keep which of the wanted topics each one notes."""

    def __init__(self, wanted: set[str]) -> None:
        self.noted: dict[str, set[str]] = {}  # by the topic of the state
        self._wanted = wanted

    def read(self, endpoint: Endpoint, client: AdminClient, ends: Mapping[Place, int]) -> None:
        """Read states up to `ends`. Raises KafkaException, TargetUnavailable."""
        left = {place: end for place, end in ends.items() if end}
        if not left:
            return
        with closing(reader(endpoint)) as consumer:
            consumer.assign([TopicPartition(*place, 0) for place in left])
            until = time.monotonic() + patience(endpoint)
            while left:
                message = consumer.poll(0.2)
                if message is not None:
                    until = time.monotonic() + patience(endpoint) if message.error() is None else until
                    self._hear(client, message, left)
                elif time.monotonic() > until:
                    raise TargetUnavailable(f"topic {min(left)[0]} could not be read up to its end")
                else:
                    self._forget_removed(client, list(left), left)  # a reader is told of that half a minute later

    def _hear(self, client: AdminClient, message: Any, left: dict[Place, int]) -> None:
        """Take what a reader was told. A state that is read up to its end goes from `left`, as does what is none of ours."""
        place, error = (message.topic(), message.partition()), message.error()
        if error is not None and error.code() in codes.ABSENT:
            self._forget_removed(client, [place], left)
        elif error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        elif error is not None:
            if message.offset() >= left.get(place, 0):
                left.pop(place, None)
        elif place in left:
            try:
                self._note(place[0], tuple(json.loads(message.key())), message.value())
            except (ValueError, TypeError, IndexError):
                self._forget(place, left)

    def _note(self, topic: str, key: tuple[Any, ...], value: bytes | None) -> None:
        if key[0] == TOPIC and key[1] in self._wanted:
            change = self.noted.setdefault(topic, set())
            change.discard(key[1]) if value is None else change.add(key[1])

    def _forget_removed(self, client: AdminClient, places: Iterable[Place], left: dict[Place, int]) -> None:
        """Forget states that were removed meanwhile: their leaders say so, and the list of topics. Brokers that are away for a
        moment say nothing."""
        with suppress(KafkaException, TargetUnavailable):  # the next look tells, until the time is over
            for place in set(places) - set(ends_at(client, places, True, ASKED_S)):
                self._forget(place, left)

    def _forget(self, place: Place, left: dict[Place, int]) -> None:
        left.pop(place, None)
        self.noted.pop(place[0], None)
