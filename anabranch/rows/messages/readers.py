"""Readers of messages, by the names of formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.errors import ConfigError
from anabranch.rows.messages.debezium.told import DebeziumTold
from anabranch.rows.messages.told import ExbaseTold, PlainTold, ToldTable
from anabranch.rows.net import TargetTable

READERS: Mapping[str, Callable[[TargetTable, str], ToldTable]] = {
    "debezium": DebeziumTold,
    "exbase": ExbaseTold,
    "plain": PlainTold,
}


def refuse_unread(format: str) -> None:
    """Raise ConfigError for a format whose messages are not read back."""
    if format not in READERS:
        raise ConfigError(
            f'messages of format = "{format}" are not read back, so that nothing can be compared',
            hint=f"those of {', '.join(READERS)} are",
        )
