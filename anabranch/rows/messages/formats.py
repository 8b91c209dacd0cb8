"""The formats by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from anabranch.errors import ConfigError
from anabranch.rows.messages.avro.envelope import AvroFormat
from anabranch.rows.messages.avro.envelope import texts as avro_texts
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.exbase import ExbaseFormat
from anabranch.rows.messages.format import Format, Settings
from anabranch.rows.messages.plain import PlainFormat
from anabranch.rows.messages.protobuf.envelope import ProtobufFormat
from anabranch.rows.messages.protobuf.envelope import texts as protobuf_texts
from anabranch.rows.net import TargetTable

FORMATS: Mapping[str, Callable[[Settings], Format]] = {
    "avro": AvroFormat,
    "debezium": DebeziumFormat,
    "exbase": ExbaseFormat,
    "plain": PlainFormat,
    "protobuf": ProtobufFormat,
}
# Of formats whose schemas are in a registry: subjects and texts of a table's key, where it has one, and of its values.
TEXTS: Mapping[str, Callable[[Settings, TargetTable], Iterator[tuple[str, str]]]] = {
    "avro": avro_texts,
    "protobuf": protobuf_texts,
}


def format_of(name: str, settings: Settings) -> Format:
    """Return the format of this name. Raises ConfigError for one that is not there, or cannot be with these settings."""
    if name not in FORMATS:
        raise ConfigError(f"no format {name!r}: there are {', '.join(FORMATS)}")
    return FORMATS[name](settings)
