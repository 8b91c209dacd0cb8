"""The format `avro`: Debezium's envelopes in Avro, each with the number of its schema in front, as schema registries have it.

A byte of 0, four bytes of the number (highest first), the value:
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format. What does not
live here: what an envelope has (debezium/), the registry (a connector).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from anabranch.errors import ConfigError, RowRefused
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.messages.avro.encoding import DoesNotFit, Encoder, encoder
from anabranch.rows.messages.avro.schemas import Schema, avro_text, same_names
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.debezium.schemas import key_struct, value_struct
from anabranch.rows.messages.format import Messages, Settings
from anabranch.rows.net import TargetTable

MAGIC = b"\x00"


@dataclass(frozen=True)
class _Side:
    """Keys or values of a table: what stands in front of each, and what writes it."""

    front: bytes
    write: Encoder


class AvroFormat:
    """Makes messages of `debezium`, and writes them in Avro. Asks for the number of a schema once for each table."""

    def __init__(self, settings: Settings) -> None:
        if settings.schema_id is None:
            raise ConfigError('format = "avro" needs a schema registry', hint="[target.options] registry")
        if settings.transactions:
            raise ConfigError('format = "avro" has no topic of transactions', hint='format = "debezium" has it')
        self._settings, self._schema_id = settings, settings.schema_id
        self._json = DebeziumFormat(replace(settings, schema=False))
        self._sides: dict[tuple[str, TargetTable], tuple[_Side, _Side]] = {}

    def check(self, tables: Sequence[TargetTable]) -> list[str]:
        same_named = [
            f"columns {', '.join(same)} of {table.source} would have one name in Avro"
            for table in tables
            if (same := same_names(table.columns))
        ]
        return same_named + self._json.check(tables)

    def begin(self) -> None:
        self._json.begin()

    def messages(self, batch: ChangeBatch) -> Messages:
        return self._encoded(self._json.messages(batch))

    def end(self) -> Messages:
        return self._encoded(self._json.end())

    def _encoded(self, made: Messages) -> Messages:
        keys, values = list[bytes | None](), list[bytes | None]()
        sides = [self._sides_of(*of) for of in zip(made.topics, made.tables, strict=True)]
        for at, message in zip(made.topic.tolist(), made.each(), strict=True):
            key, value = sides[at]
            keys.append(_written(key, message.key, message.table))
            values.append(_written(value, message.value, message.table))
        return replace(made, key=pa.array(keys, pa.large_binary()), value=pa.array(values, pa.large_binary()))

    def _sides_of(self, topic: str, table: TargetTable | None) -> tuple[_Side, _Side]:
        assert table is not None, "there are no messages of transactions"
        if (topic, table) not in self._sides:
            key, value = (self._side(subject, schema) for subject, schema in subjects(self._settings, table))
            self._sides[topic, table] = key, value
        return self._sides[topic, table]

    def _side(self, subject: str, schema: Schema) -> _Side:
        if not schema["fields"]:  # of a table without a key
            return _Side(b"", encoder(schema))
        number = self._schema_id(subject, avro_text(schema))
        return _Side(MAGIC + number.to_bytes(4, "big"), encoder(schema))


def subjects(settings: Settings, table: TargetTable) -> Iterator[tuple[str, Schema]]:
    """Yield key and value of a table: the name that a registry has for its schemas, and the schema."""
    topic = settings.topic(table)
    yield f"{topic}-key", key_struct(table, topic, settings.decimal)
    yield f"{topic}-value", value_struct(table, topic, settings.decimal, settings.source)


def known_subjects(settings: Settings, table: TargetTable) -> Iterator[tuple[str, Schema]]:
    """Yield as `subjects` what has a schema: the key of a table that has one, values where the source is known."""
    for subject, schema in islice(subjects(settings, table), 2 if settings.source else 1):
        if schema["fields"]:
            yield subject, schema


def texts(settings: Settings, table: TargetTable) -> Iterator[tuple[str, str]]:
    """Yield subjects and texts of the schemas of a table."""
    for subject, schema in known_subjects(settings, table):
        yield subject, avro_text(schema)


def _written(side: _Side, text: bytes | None, table: TargetTable | None) -> bytes | None:
    if text is None:
        return None
    into = bytearray(side.front)
    try:
        side.write(json.loads(text), into)
    except DoesNotFit as error:
        hint = 'leave the column out ([[tables]] columns.drop), or take format = "debezium"'
        raise RowRefused(
            f"a value cannot be told in Avro: {error}", table=str(table.source) if table else "", hint=hint
        ) from None
    return bytes(into)
