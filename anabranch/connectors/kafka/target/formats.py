"""The format of a job's messages, as its file and its state say. What does not live here: the formats (`rows/messages/`)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from anabranch.connectors.kafka.target.names import topic_name
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.records import Key, Value
from anabranch.connectors.kafka.target.state_forms import JOB
from anabranch.errors import ConfigError
from anabranch.rows.messages.format import Format, Settings
from anabranch.rows.messages.formats import format_of


def format_for(options: KafkaTargetOptions, job: str, records: Mapping[Key, Value]) -> Format:
    """Return the format. `records`: the job's state, which tells its source. Raises ConfigError for options that it has not."""
    if options.format == "plain" and (options.schema or options.decimal != "string"):
        raise ConfigError('format = "plain" has no schema, and decimals as text', hint='format = "debezium" has both')
    scheme, database = _source(records)
    settings = Settings(
        job=job,
        source=scheme,
        database=database,
        topic=lambda table: topic_name(options.topic, job, table.target),
        schema=options.schema,
        tombstones=options.tombstones,
        decimal=options.decimal,
    )
    return format_of(options.format, settings)


def _source(records: Mapping[Key, Value]) -> tuple[str, str]:
    """Return the name of the source's connector, and the database that it is connected to, as the job was run last."""
    definition = json.loads(records.get(JOB, {}).get("definition", "{}"))
    scheme, _, place = str(definition.get("source", "")).partition("://")
    return scheme, place.partition("/")[2]
