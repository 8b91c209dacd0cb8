"""The format of a job's messages, as its file and its state say. What does not live here: the formats (`rows/messages/`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from anabranch.connectors.kafka.target.names import topic_name, transactions_topic
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.records import Key, Value
from anabranch.connectors.kafka.target.state_forms import JOB, SCHEMA
from anabranch.errors import ConfigError
from anabranch.model.schema import TableSchema
from anabranch.rows.messages.format import Format, Settings
from anabranch.rows.messages.formats import format_of
from anabranch.rows.net import TargetTable


def format_for(options: KafkaTargetOptions, job: str, records: Mapping[Key, Value]) -> Format:
    """Return the format. `records`: the job's state, which tells its source. Raises ConfigError for options that it has not."""
    refuse_options(options)
    scheme, database = _source(records)
    settings = Settings(
        job=job,
        source=scheme,
        database=database,
        topic=lambda table: topic_name(options.topic, job, table.target),
        schema=options.schema,
        tombstones=options.has_tombstones,
        decimal=options.decimal,
        transactions=transactions_topic(options, job),
        types=_types_of(records),
    )
    return format_of(options.format, settings)


def refuse_options(options: KafkaTargetOptions) -> None:
    """Raise ConfigError for options that do not go together."""
    chosen = f'format = "{options.format}"'
    if options.format != "debezium" and (options.schema or options.decimal != "string"):
        raise ConfigError(f"{chosen} has no schema, and decimals as text", hint='format = "debezium" has both')
    if options.format == "plain" and options.transactions:
        hint = "each message has the header anabranch.transaction; other formats have such a topic"
        raise ConfigError(f"{chosen} tells nothing of transactions to a topic", hint=hint)


def _source(records: Mapping[Key, Value]) -> tuple[str, str]:
    """Return the name of the source's connector, and the database that it is connected to, as the job was run last."""
    definition = json.loads(records.get(JOB, {}).get("definition", "{}"))
    scheme, _, place = str(definition.get("source", "")).partition("://")
    return scheme, place.partition("/")[2]


def _types_of(records: Mapping[Key, Value]) -> Callable[[TargetTable], Sequence[str]]:
    """Return what names the types of a table's columns: as the definition at the job's state has them, which are the source's
    own words, else our words for them."""

    @cache
    def types(table: TargetTable) -> Sequence[str]:
        found = records.get((SCHEMA, str(table.source)))
        if found is None:
            return tuple(map(str, table.types))
        known = {column.name: column.native for column in TableSchema.from_json(found["schema"]).columns}
        return tuple(known[name] for name in table.source_columns)

    return types
