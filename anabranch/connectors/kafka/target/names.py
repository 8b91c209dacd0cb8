"""Names of topics: what the job file's template makes of a table, and which of them can be.

Pure. The rule is https://github.com/apache/kafka/blob/4.3.0/clients/src/main/java/org/apache/kafka/common/internals/Topic.java
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.records import PREFIX
from anabranch.model.ids import TableId

LONGEST = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
_PLACE = re.compile(r"\{(\w*)\}")
SHOWN = 10  # tables of a message
PLACES = ("job", "schema", "table")


def topic_name(template: str, job: str, table: TableId) -> str:
    """Return the topic of a table, as the rules name it at the target; what is in braces and is none of PLACES stays."""
    values = {"job": job, "schema": table.schema, "table": table.name}
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), template)


def transactions_topic(options: KafkaTargetOptions, job: str) -> str:
    """Return the topic that is told of transactions, "" for none."""
    return _PLACE.sub(lambda found: job if found[1] == "job" else found[0], options.transactions)


def schema_changes_topic(options: KafkaTargetOptions, job: str) -> str:
    """Return the topic that is told of changed definitions, "" for none: the one that Debezium calls by its prefix."""
    return job if options.schema_changes else ""


def _beside(options: KafkaTargetOptions, job: str) -> dict[str, str]:
    """Return the topics that are about no table, with what they are told of."""
    named = {transactions_topic(options, job): "the transactions"}
    named.setdefault(schema_changes_topic(options, job), "the schema changes")
    return {topic: what for topic, what in named.items() if topic}


@dataclass(frozen=True, slots=True)
class WantedTopic:
    """A topic that a job writes, with its number of partitions. `table`: whose it is, as named at the target, None for the
    one of all tables, and those that are told of transactions and of changed definitions."""

    name: str
    partitions: int
    table: TableId | None


def wanted_topics(options: KafkaTargetOptions, job: str, tables: Iterable[TableId]) -> dict[str, WantedTopic]:
    """Return all topics of a job by their names, those of tables in their order."""
    made = [
        WantedTopic(
            topic_name(options.topic, job, table), options.partitions_of(table), None if options.is_single else table
        )
        for table in tables
    ]
    made += [WantedTopic(topic, 1, None) for topic in _beside(options, job)]
    return {one.name: one for one in made}


def unknown_tables(options: KafkaTargetOptions, tables: Iterable[TableId]) -> str:
    """Return why `table_partitions` names tables that the job does not have; "" where it has all, or none is known."""
    there = {str(table) for table in tables}
    unknown = sorted((options.table_partitions or {}).keys() - there)
    have = f"the job has {', '.join(sorted(there)[:SHOWN])}{', …' if len(there) > SHOWN else ''}"
    return f"[target.options] table_partitions names {', '.join(unknown)}; {have}" if unknown and there else ""


UNKNOWN = "name tables as the rules do at the target, schema.table; or leave the entry out"
UNKNOWN_NOW = "leave the entry as it is: it counts again when the table, parked or dropped, comes back"


def why_not(topic: str) -> str:
    """Say why no topic can have this name, "" where one can."""
    if not _LEGAL.fullmatch(topic):
        return "a topic's name has letters of ASCII, digits, '.', '_' and '-' alone"
    if len(topic) > LONGEST:
        return f"a topic's name has up to {LONGEST} characters, this one {len(topic)}"
    if topic in (".", "..") or topic.startswith("__"):
        return "the name is Kafka's own"
    return f"topics {PREFIX}* have the state of jobs" if topic.startswith(PREFIX) else ""


def refused(options: KafkaTargetOptions, job: str, tables: Iterable[TableId]) -> Iterator[tuple[TableId | None, str]]:
    """Yield tables that cannot have a topic (None: a topic that is no table's), each with the reason: the name, or another
    one's topic. Kafka counts `.` and `_` as one character where it names metrics, and makes no two such topics."""
    same = defaultdict[str, list[tuple[TableId | None, str]]](list)
    wanted: list[tuple[TableId | None, str]] = [(table, topic_name(options.topic, job, table)) for table in tables]
    if options.is_single:
        wanted = [(None, topic) for topic in dict.fromkeys(topic for _, topic in wanted)]
    beside = _beside(options, job)
    wanted += [(None, topic) for topic in beside if not options.is_single or (None, topic) not in wanted]
    for table, topic in wanted:
        same[topic.replace(".", "_")].append((table, topic))
        if why := why_not(topic):
            yield table, f"{topic!r} cannot be a topic: {why}"
    for (first, topic), *others in same.values():
        for table, other in others:
            both = f"{first or 'all tables'} and {table or beside.get(other, 'all tables')}"
            yield table, f"{both} would have topics that Kafka takes for one: {topic} and {other}"
