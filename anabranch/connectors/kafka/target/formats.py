"""The format of a job's messages, as its file and its state say. What does not live here: the formats (`rows/messages/`)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from anabranch.connectors.kafka.registry import Registry
from anabranch.connectors.kafka.target.names import topic_name, transactions_topic
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.records import Key, Value
from anabranch.connectors.kafka.target.state_forms import JOB, SCHEMA, fields_of
from anabranch.errors import ConfigError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.messages.format import Format, Settings
from anabranch.rows.messages.formats import format_of
from anabranch.rows.messages.protobuf.numbers import Numbers
from anabranch.rows.net import TargetTable

_PER_TABLE = re.compile(r"\{(?:schema|table)\}")
NoteFields = Callable[[TargetTable, Numbers], None]
REGISTRY_HINT = (
    'format = "avro" or "protobuf", and [target.options] registry, the address of a schema registry, need each other'
)


def format_for(
    options: KafkaTargetOptions,
    job: str,
    records: Mapping[Key, Value],
    registry: Registry | None = None,
    note_fields: NoteFields | None = None,
) -> Format:
    """Return the format. `records`: the job's state, which tells its source. `note_fields`: as of Settings. Raises ConfigError
    for options that it has not."""
    refuse_options(options)
    made = settings_of(options, job, records, registry)
    return format_of(options.format, made if note_fields is None else replace(made, note_fields=note_fields))


def settings_of(
    options: KafkaTargetOptions, job: str, records: Mapping[Key, Value], registry: Registry | None = None
) -> Settings:
    """Return the settings of the format. `records`, `registry`: as of `format_for`."""
    scheme, database = _source(records)
    return Settings(
        job=job,
        source=scheme,
        database=database,
        topic=lambda table: topic_name(options.topic, job, table.target),
        schema=options.schema,
        tombstones=options.has_tombstones,
        decimal=options.decimal,
        transactions=transactions_topic(options, job),
        types=_types_of(records),
        schema_id=None if registry is None else registry.number,
        latest=(lambda subject: None) if registry is None else registry.latest,
        fields=lambda table: fields_of(records, table.source),
        named=(lambda table: f"{job}.{table.target.schema}.{table.target.name}") if options.is_single else None,
    )


def registry_of(options: KafkaTargetOptions, endpoint: Endpoint) -> Registry | None:
    """Return the registry that the job file names, None where it names none. Raises ConfigError."""
    variables = os.environ if endpoint.variables is None else endpoint.variables
    if not options.registry:
        return None
    return Registry(options.registry, endpoint.option("ssl_ca"), variables, format=options.format)


def refuse_options(options: KafkaTargetOptions) -> None:
    """Raise ConfigError for options that do not go together."""
    chosen = f'format = "{options.format}"'
    if options.is_registered and options.schema:
        raise ConfigError(f"{chosen} has its schemas in the registry", hint="leave [target.options] schema out")
    if options.format != "debezium" and not options.is_registered and (options.schema or options.decimal != "string"):
        raise ConfigError(f"{chosen} has no schema, and decimals as text", hint='format = "debezium" has both')
    if options.is_single and (bad := _PER_TABLE.findall(options.topic)):
        hint = 'such as topic = "{job}"'
        raise ConfigError(f'mode = "single" has one topic, and topic has {" and ".join(bad)} in it', hint=hint)
    if options.is_single and options.partitions != 1:
        hint = 'leave it out; mode = "table" has as many as you like, and no order between them'
        raise ConfigError(f'mode = "single" has one partition, partitions is {options.partitions}', hint=hint)
    if options.is_single and options.table_partitions:
        hint = 'leave it out; mode = "table" has a topic for each table'
        raise ConfigError(
            'mode = "single" has one topic of one partition, and table_partitions is about tables', hint=hint
        )
    if options.is_single and options.is_registered:
        hint = 'format = "debezium" has one topic, too, with schema = true'
        raise ConfigError(
            f'{chosen} has subjects by topic, which are of one table: not with mode = "single"', hint=hint
        )
    if options.is_registered != bool(options.registry):
        raise ConfigError(f"{chosen} with {'no' if not options.registry else 'a'} registry", hint=REGISTRY_HINT)
    if options.schema_changes and options.format != "debezium":
        hint = 'format = "debezium" has it; anabranch ddl ls JOB has a line for each of them'
        raise ConfigError(f"{chosen} has no topic of schema changes", hint=hint)
    if options.initial_load and options.is_single:
        what = 'mode = "single" has whole transactions in their order, and initial_load tables of several moments'
        raise ConfigError(what, hint="leave out one of the two")
    if options.initial_load and options.format == "exbase":
        hint = "initial_load = false, or another format, which all have such a message"
        raise ConfigError(f"{chosen} has no message for rows that are there when a job begins", hint=hint)
    if (options.format == "plain" or options.is_registered) and options.transactions:
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

    read: dict[TableId, tuple[Value, Mapping[str, str]]] = {}

    def types(table: TargetTable) -> Sequence[str]:
        found = records.get((SCHEMA, str(table.source)))
        if found is None:
            return tuple(map(str, table.types))
        if table.source not in read or read[table.source][0] is not found:  # a definition may change while the job runs
            columns = TableSchema.from_json(found["schema"]).columns
            read[table.source] = found, {column.name: column.native for column in columns}
        known = read[table.source][1]
        return tuple(known.get(name, str(type)) for name, type in zip(table.source_columns, table.types, strict=True))

    return types
