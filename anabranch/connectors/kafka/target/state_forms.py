"""Forms of what is kept of a job: keys and values of its records, and back.

What does not live here: reading and writing records (records.py, changing.py). Keys that a later release adds to a value are
ignored here; a state that only a later release can have written is refused (`read_stored`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.connectors.kafka.target.records import TOPIC, Key, Value
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint, Skipped
from anabranch.model.table_life import TableState, read_stored

if TYPE_CHECKING:
    from anabranch.model.ddl_changes import DdlChange
    from anabranch.rows.messages.protobuf.numbers import Numbers

JOB: Key = ("job",)
CHECKPOINT: Key = ("checkpoint",)
TABLE, SCHEMA, SKIPPED, DDL, TRACE = "table", "schema", "skipped", "ddl", "trace"
FIRST_ROWS, FIELDS = "first_rows", "fields"
Records = Mapping[Key, Value]


@dataclass(frozen=True, slots=True)
class NotedTopic:
    """A topic that a job writes: its id, which another topic of its name would not have, and its number of partitions, by which
    keys find theirs. `begins`: the offset of each partition behind what was there before the job; () where nothing was."""

    name: str
    id: str
    partitions: int
    begins: tuple[int, ...] = ()


def first_rows_key(topic: str) -> Key:
    """Return the key of the record that is committed with the rows of a table's initial load."""
    return (FIRST_ROWS, topic)


def of_kind(records: Records, kind: str) -> Iterator[tuple[Key, Value]]:
    """Yield the records of a kind, in the order of their keys."""
    found = ((key, value) for key, value in records.items() if key[0] == kind)
    yield from sorted(found, key=lambda one: one[0][1:])


def checkpoint_of(records: Records) -> Checkpoint | None:
    found = records.get(CHECKPOINT)
    if found is None:
        return None
    return Checkpoint(
        found["owner"], found["epoch"], Position(found["sequence"], found["position"]), found["commit_time"]
    )


def checkpoint_value(checkpoint: Checkpoint) -> Value:
    return {
        "owner": checkpoint.owner,
        "epoch": checkpoint.epoch,
        "sequence": checkpoint.position.sequence,
        "position": checkpoint.position.native,
        "commit_time": checkpoint.commit_time,
    }


def table_key(table: TableId) -> Key:
    return TABLE, str(table)


def table_of(records: Records, key: Key, whole: bool) -> TableState:
    """Return the state that a record of a table has. `whole`: with its definition."""
    found, definition = records[key], records.get((SCHEMA, key[1])) if whole else None
    life, facts = read_stored(found["state"], found["reason"], found["facts"])
    schema = None
    if definition is not None:
        from anabranch.model.schema import TableSchema  # `status` goes without

        schema = TableSchema.from_json(definition["schema"])
    return TableState(
        TableId.parse(str(key[1])),
        TableId.parse(found["target"]),
        life,
        found["generation"],
        found["low"],
        found["high"],
        found["reason"],
        found["rows_loaded"],
        found["changes_applied"],
        schema,
        facts,
    )


def table_values(state: TableState) -> dict[Key, Value | None]:
    """Return the records of a table's state. One without schema leaves the one that is there."""
    key = table_key(state.source)
    made: dict[Key, Value | None] = {
        key: {
            "target": str(state.target),
            "state": str(state.state),
            "generation": state.generation,
            "low": state.low,
            "high": state.high,
            "reason": state.reason,
            "rows_loaded": state.rows_loaded,
            "changes_applied": state.changes_applied,
            "facts": state.facts.stored(),
        }
    }
    if state.schema is not None:
        made[SCHEMA, key[1]] = {"schema": state.schema.to_json()}
    return made


def no_table(table: TableId) -> dict[Key, Value | None]:
    """Return what removes a table's state."""
    return {table_key(table): None, (SCHEMA, str(table)): None, (FIELDS, str(table)): None}


def fields_of(records: Records, table: TableId) -> Numbers | None:
    """Return the numbers of the fields of a table's columns; None where none were noted: its first message notes them."""
    found = records.get((FIELDS, str(table)))
    if found is None:
        return None
    from anabranch.rows.messages.protobuf.numbers import Numbers  # `status` goes without

    return Numbers.from_json(found)


def fields_values(table: TableId, fields: Numbers) -> dict[Key, Value | None]:
    """Return the record of the numbers of the fields of a table's columns."""
    return {(FIELDS, str(table)): fields.to_json()}


def topic_value(topic: NotedTopic) -> Value:
    return {"id": topic.id, "partitions": topic.partitions, "begins": topic.begins}


def topics_of(records: Records) -> dict[str, NotedTopic]:
    return {
        str(key[1]): NotedTopic(str(key[1]), value["id"], value["partitions"], tuple(value.get("begins", ())))
        for key, value in of_kind(records, TOPIC)
    }


def skipped_value(one: Skipped) -> Value:
    changes = dict(one.changes)
    asked_at = time.time_ns() // 1000
    return {"position": one.position, "commit_time": one.commit_time, "changes": changes, "asked_at": asked_at}


def skipped_of(records: Records) -> list[Skipped]:
    return [
        Skipped(int(key[1]), value["position"], value["commit_time"], value["changes"], value["asked_at"])
        for key, value in of_kind(records, SKIPPED)
    ]


def ddl_values(records: Records, change: DdlChange) -> dict[Key, Value | None]:
    """Return the record of what became of a change of a definition, with the number that is noted already, or the next one."""
    key: Key = (DDL, change.sequence, str(change.source))
    numbers = [value["number"] for _, value in of_kind(records, DDL)]
    number = records[key]["number"] if key in records else max(numbers, default=0) + 1
    return {
        key: {
            "number": number,
            "noted_at": time.time_ns() // 1000,
            "position": change.position,
            "commit_time": change.commit_time,
            "target": str(change.target),
            "statement": change.statement,
            "setting": change.rule.setting,
            "action": change.rule.action,
            "outcome": str(change.outcome),
            "why": change.why,
            "version": change.version,
            "digest": change.digest,
            "by": change.by,
            "source_user": change.source_user,
        }
    }


def ddl_of(records: Records, table: TableId | None) -> list[DdlChange]:
    from anabranch.model.ddl_changes import DdlChange, DdlRule, Outcome  # `status` goes without

    found = [
        DdlChange(
            int(key[1]),
            value["position"],
            value["commit_time"],
            TableId.parse(str(key[2])),
            TableId.parse(value["target"]),
            value["statement"],
            DdlRule(value["setting"], value["action"]),
            Outcome(value["outcome"]),
            value["why"],
            value["version"],
            value["digest"],
            value["by"],
            value["source_user"],
            value["number"],
            value["noted_at"],
        )
        for key, value in of_kind(records, DDL)
        if table is None or key[2] == str(table)
    ]
    return sorted(found, key=lambda one: one.number)
