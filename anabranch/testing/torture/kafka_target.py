"""Kafka as a history's target (targets.TargetFamily): a private broker, what is made and removed there.

A job keeps changes there and no rows: nothing is parked, set aside, loaded again or written by others, and there is one target.
What does not live here: the states that topics tell (kafka_snapshots.py), what is not drawn (docs/explanation/torture.md).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException

from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database
from anabranch.testing.kafka import start_kafka
from anabranch.testing.torture.kafka_snapshots import SECONDS, KafkaSnapshots, administrator, state_of
from anabranch.testing.torture.mysql_target_values import carried
from anabranch.testing.torture.no_rows import NoRows
from anabranch.testing.torture.place import LOCK_SECONDS
from anabranch.testing.torture.sources import Kinds
from anabranch.testing.torture.tables import Column
from anabranch.testing.torture.targets import Found, Private, TargetFamily

HAS_ALL = (8, 0, 33)  # a MySQL whose every value has a form in messages
NO_ROWS = "a Kafka keeps messages and no rows"
POLL_SECONDS = 0.02


@dataclass
class KafkaTarget:
    name: str = "kafka"
    error: type[Exception] = KafkaException
    lost: type[Exception] = KafkaException
    has_policies: bool = False
    keeps_changes: bool = True
    form: str = ""
    is_alone: bool = False
    preloaded: Sequence[str] = (
        "anabranch.connectors.kafka.target.appender",
        "anabranch.connectors.kafka.target.first_rows",
        "anabranch.connectors.kafka.target.preflight",
        "anabranch.connectors.kafka.target.store",
        "anabranch.lifecycle.first_rows",
        "confluent_kafka.admin",
    )
    choices: Mapping[str, Sequence[str | int | bool]] = field(
        default_factory=lambda: {
            "initial_load": (True,),  # what a table has when the job begins is a part of what it has later
            "topic": ("{job}.{table}",),
            "partitions": (1, 3, 3, 5),
            "compression": ("lz4", "none", "zstd"),
            "linger_ms": (0, 20),
        }
    )

    @contextmanager
    def private(self, directory: Path) -> Iterator[Private]:
        with start_kafka(directory / "kafka") as server:
            try:
                yield Private(Database(server, ""))
            finally:
                server.stop(immediate=True)

    def kinds(self, known: Kinds, source: str, target: Database) -> Kinds:
        return replace(known, all=carried(known.all, source, "mysql", HAS_ALL)) if source == "postgresql" else known

    def entered(self, end: Endpoint) -> Database:
        raise ConfigError("--target: of this kind only private ones can be tortured", hint="--target kafka")

    def found(self, target: Database) -> Found:
        topics = _topics(target)
        jobs = [name.removeprefix(state_of("")) for name in topics if name.startswith(state_of(""))]
        return Found(sorted({name.partition(".")[0] for name in topics}), jobs)

    def of_history(self, target: Database, name: str) -> Database:
        return target

    def prepare(self, target: Database, name: str) -> None:
        self.drop(target, name)

    def drop(self, target: Database, name: str) -> None:
        _remove(target, [topic for topic in _topics(target) if topic.startswith(f"{name}.")])

    def forget(self, target: Database, job: str) -> None:
        _remove(target, [topic for topic in _topics(target) if topic == state_of(job)])

    def drop_state(self, target: Database) -> None:
        """Do nothing: the state of each job is its own."""

    @contextmanager
    def beside(self, target: Database, name: str) -> Iterator[Database | str]:
        yield f"{NO_ROWS}, and is a job's only target"

    def tables(self, target: Database, namespace: str) -> KafkaTables:
        return KafkaTables(target, namespace)


class KafkaTables(NoRows):
    """One history's topics (targets.TargetTables)."""

    def snapshots(
        self,
        columns: Mapping[str, Sequence[Column]],
        beside: Sequence[str] = (),
        passing: Mapping[str, Sequence[Sequence[Column]]] | None = None,
    ) -> KafkaSnapshots:
        if beside or passing:
            self.refuse()
        return KafkaSnapshots(self.target, self.namespace, columns)

    def flush(self) -> None:
        """Do nothing: a broker that is killed loses nothing, the machine goes on."""


def family(name: str) -> TargetFamily:
    return KafkaTarget()


def _topics(target: Database) -> list[str]:
    return sorted(administrator(target).list_topics(timeout=SECONDS).topics)


def _remove(target: Database, topics: list[str]) -> None:
    """Remove topics, and wait until brokers tell of none of them any more."""
    if not topics:
        return
    client = administrator(target)  # which has to be there until its answers are
    for one in client.delete_topics(topics, operation_timeout=SECONDS).values():
        try:
            one.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    until = time.monotonic() + LOCK_SECONDS
    while set(topics) & set(_topics(target)):
        if time.monotonic() > until:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"topics are still there: {', '.join(topics)}"))
        time.sleep(POLL_SECONDS)
