"""The beginning of a job at a Kafka: its topics, made or taken as they are, and noted with its state.

A topic that nobody has noted counts as the job's where it has no messages: a process that died has made it, or somebody who
reads already. What does not live here: making topics (topics.py), their names (names.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.connectors.kafka.target import state_forms as forms
from anabranch.connectors.kafka.target.changing import Changes, Changing
from anabranch.connectors.kafka.target.elsewhere import noted_elsewhere
from anabranch.connectors.kafka.target.formats import refuse_options
from anabranch.connectors.kafka.target.names import WantedTopic, refused, wanted_topics
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.records import TOPIC, Key, Value
from anabranch.connectors.kafka.target.topics import (
    FoundTopic,
    add_partitions,
    ends_of,
    found_topics,
    make_topics,
    refuse_changed,
    with_messages,
)
from anabranch.errors import StateError, TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

OTHERS = (
    'take other names ([target.options] topic), write behind what is there (topics = "existing"), or delete them if nobody '
    "reads them any more"
)

SHARED = (
    "take other names ([target.options] topic); or, if that job is no more, remove it: anabranch drop JOB --execute"
)
FEW = (
    "add partitions to it; or say fewer in the job file ([target.options] partitions, table_partitions), where no key is in "
    "the topic yet"
)
MANY = "delete them, or say so in the job file ([target.options] partitions, table_partitions)"


@dataclass
class KafkaTopics:
    """The topics of a job's tables."""

    endpoint: Endpoint
    options: KafkaTargetOptions

    def begin(
        self, job: str, uuid: str, tables: Sequence[tuple[TableSchema, TargetTable]], at: int, commit_time: int
    ) -> None:
        refuse_options(self.options)
        refuse_names(self.options, job, [table.target for _, table in tables])
        wanted = wanted_topics(self.options, job, [table.target for _, table in tables])
        names = list(wanted)
        changing = Changing(self.endpoint, job)
        try:
            changing.begin()
            noted = forms.topics_of(changing.records.there)
            refuse_changed(noted, found_topics(self.endpoint, noted))
            self._refuse_shared(changing, job, names)
            made = self._made({name: one for name, one in wanted.items() if name not in noted})
            ends = ends_of(self.endpoint, made.values()) if self.options.topics == "existing" else {}

            def decide(records: Mapping[Key, Value]) -> Changes:
                new = {name: self._noted(one, wanted[name].partitions, ends) for name, one in made.items()}
                keys = {name: (TOPIC, name) for name in new}
                return {keys[name]: forms.topic_value(one) for name, one in new.items() if keys[name] not in records}

            changing.change(decide)
            self._refuse_shared(
                changing, job, names
            )  # of two jobs that begin at once, one at least sees the other here
        finally:
            changing.close()

    def _noted(self, topic: FoundTopic, partitions: int, ends: Mapping[tuple[str, int], int]) -> forms.NotedTopic:
        """Return a topic as it is noted. `partitions`: the first of more; a key stays where an earlier beginning put it."""
        begins = tuple(ends.get((topic.name, number), 0) for number in range(partitions)) if ends else ()
        return forms.NotedTopic(topic.name, topic.id, partitions, begins)

    def _refuse_shared(self, changing: Changing, job: str, names: Sequence[str]) -> None:
        """Raise StateError where another job writes to topics; this job's notes of them go, so that nobody is in its way."""
        if not (shared := noted_elsewhere(self.endpoint, job, names)):
            return
        keys: list[Key] = [(TOPIC, name) for name in shared]
        changing.change(lambda records: {key: None for key in keys if key in records})
        raise StateError("; ".join(shared_words(shared)), job=job, hint=SHARED)

    def _made(self, wanted: Mapping[str, WantedTopic]) -> dict[str, FoundTopic]:
        """Return topics, made where the job makes them. Raises TargetError."""
        names, options = list(wanted), self.options
        if options.topics == "existing":
            found = found_topics(self.endpoint, names)
            if missing := sorted(set(names) - found.keys()):
                what = f'[target.options] topics = "existing", and there are no topics {", ".join(missing)}'
                raise TargetError(what, hint='make them, or let the job do it (topics = "create")')
            if why := [
                too_few(one, wanted[name])
                for name, one in sorted(found.items())
                if one.partitions < wanted[name].partitions
            ]:
                raise TargetError("; ".join(why), hint=FEW)
            return found
        before = found_topics(self.endpoint, names)
        refuse_used(with_messages(self.endpoint, before.values()))
        make_topics(self.endpoint, options, (one for name, one in wanted.items() if name not in before))
        if few := {
            name: wanted[name].partitions for name, one in before.items() if one.partitions < wanted[name].partitions
        }:
            add_partitions(self.endpoint, few)
        found = found_topics(self.endpoint, names)
        if many := [too_many(one, wanted[name]) for name, one in sorted(found.items()) if has_more(one, wanted[name])]:
            raise TargetError("; ".join(many), hint=MANY)
        return found

    def close(self) -> None: ...


def shared_words(shared: Mapping[str, str]) -> list[str]:
    return [f"job {other} writes to topic {name}" for name, other in sorted(shared.items())]


def too_few(topic: FoundTopic, wanted: WantedTopic) -> str:
    """Return the words for a topic that lacks partitions: keys would be in others than the job file's number says."""
    return f"topic {topic.name} has {topic.partitions} partitions, the job file says {wanted.partitions}"


def has_more(topic: FoundTopic, wanted: WantedTopic) -> bool:
    return topic.partitions > wanted.partitions


def too_many(topic: FoundTopic, wanted: WantedTopic) -> str:
    return f"topic {topic.name} is there, and has {topic.partitions} partitions, more than {wanted.partitions}"


def refuse_names(options: KafkaTargetOptions, job: str, tables: Iterable[TableId]) -> None:
    """Raise TargetError for tables that cannot have a topic."""
    if found := [why for _, why in refused(options, job, tables)]:
        raise TargetError("; ".join(found), hint="[target.options] topic, or [[rules]] target, gives other names")


def refuse_used(topics: Sequence[str]) -> None:
    """Raise StateError where topics have messages of others."""
    if topics:
        raise StateError(f"topics {', '.join(topics)} have messages that are not the job's", hint=OTHERS)
