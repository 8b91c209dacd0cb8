"""The formats by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.errors import ConfigError
from anabranch.rows.messages.avro.envelope import AvroFormat
from anabranch.rows.messages.debezium.envelope import DebeziumFormat
from anabranch.rows.messages.exbase import ExbaseFormat
from anabranch.rows.messages.format import Format, Settings
from anabranch.rows.messages.plain import PlainFormat

FORMATS: Mapping[str, Callable[[Settings], Format]] = {
    "avro": AvroFormat,
    "debezium": DebeziumFormat,
    "exbase": ExbaseFormat,
    "plain": PlainFormat,
}


def format_of(name: str, settings: Settings) -> Format:
    """Return the format of this name. Raises ConfigError for one that is not there, or cannot be with these settings."""
    if name not in FORMATS:
        raise ConfigError(f"no format {name!r}: there are {', '.join(FORMATS)}")
    return FORMATS[name](settings)
