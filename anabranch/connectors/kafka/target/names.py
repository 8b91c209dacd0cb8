"""Names of topics: what the job file's template makes of a table, and which of them can be.

Pure. The rule is https://github.com/apache/kafka/blob/4.3.0/clients/src/main/java/org/apache/kafka/common/internals/Topic.java
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from anabranch.connectors.kafka.target.records import PREFIX
from anabranch.model.ids import TableId

LONGEST = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
_PLACE = re.compile(r"\{(\w*)\}")
PLACES = ("job", "schema", "table")


def topic_name(template: str, job: str, table: TableId) -> str:
    """Return the topic of a table, as the rules name it at the target; what is in braces and is none of PLACES stays."""
    values = {"job": job, "schema": table.schema, "table": table.name}
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), template)


def why_not(topic: str) -> str:
    """Say why no topic can have this name, "" where one can."""
    if not _LEGAL.fullmatch(topic):
        return "a topic's name has letters of ASCII, digits, '.', '_' and '-' alone"
    if len(topic) > LONGEST:
        return f"a topic's name has up to {LONGEST} characters, this one {len(topic)}"
    if topic in (".", "..") or topic.startswith("__"):
        return "the name is Kafka's own"
    return f"topics {PREFIX}* have the state of jobs" if topic.startswith(PREFIX) else ""


def refused(template: str, job: str, tables: Iterable[TableId]) -> Iterator[tuple[TableId, str]]:
    """Yield tables that cannot have a topic, each with the reason: the name, or another table's topic. Kafka counts `.` and `_`
    as one character where it names metrics, and makes no two such topics."""
    same = defaultdict[str, list[TableId]](list)
    for table in tables:
        topic = topic_name(template, job, table)
        same[topic.replace(".", "_")].append(table)
        if why := why_not(topic):
            yield table, f"{topic!r} cannot be a topic: {why}"
    for several in same.values():
        for table in several[1:]:
            topics = f"{topic_name(template, job, several[0])} and {topic_name(template, job, table)}"
            yield table, f"{several[0]} and {table} would have topics that Kafka takes for one: {topics}"
