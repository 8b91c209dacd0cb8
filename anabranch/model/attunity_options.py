"""The `options` of Attunity's configuration row: their grammar, their ranges, and which of them have a counterpart here.

`name[=value]`, separated by `;`. Names are told apart without regard to case. What cannot be used is told and left out, and
never a reason to stop. What does not live here: what an option does (`view/attunity.py`, `job/attunity.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MOST = 2_147_483_647
TRUE, FALSE = ("true", "on"), ("false", "off")
Value = int | bool | str


class Use(StrEnum):
    """Fate of an option here."""

    AT_ONCE = "takes effect at once"
    PARTS = "takes effect as the parts of the job start again"
    NONE = "has no counterpart here and is ignored"


@dataclass(frozen=True, slots=True)
class Option:
    """`least` and `most`: the range of a number; without them it is a switch, or a text where `is_text`. `why`: in place of
    which thing of ours it has no counterpart."""

    use: Use
    default: Value
    least: int | None = None
    most: int = MOST
    is_text: bool = False
    why: str = ""


def _none(default: Value, why: str, least: int | None = None, most: int = MOST, is_text: bool = False) -> Option:
    return Option(Use.NONE, default, least, most, is_text, why)


# In the order of Attunity's guide. Ranges that its table has wrong are those that it must have meant.
OPTIONS: Mapping[str, Option] = {
    "trace": Option(Use.AT_ONCE, False),
    "cdc_update_state_interval": Option(Use.AT_ONCE, 10, 1, 120),
    "target_max_batched_transactions": Option(Use.PARTS, 100, 1, 1000),
    "target_idle_lsn_update_interval": Option(Use.PARTS, 10, 0, 3600),
    "trace_retention_period": Option(Use.AT_ONCE, 24, 1, 744),
    "sql_reconnect_interval": Option(Use.PARTS, 2, 2, 3600),
    "sql_reconnect_limit": Option(Use.PARTS, -1, -1),
    "cdc_restart_limit": Option(Use.PARTS, 6, -1, 3600),
    "cdc_memory_report": Option(Use.AT_ONCE, 0, 0, 1000),
    "target_command_timeout": Option(Use.PARTS, 600, 1, 3600),
    "source_character_set": _none("", "text is read by the character set of its column", is_text=True),
    "source_error_retry_interval": _none(30, "pauses double up to source_reconnect_interval", 1, 3600),
    "source_prefetch_size": _none(100, "the source sends its log by itself", 1, 10_000),
    "source_max_tables_in_query": _none(100, "the log is not asked by queries", 1, 10_000),
    "source_read_retry_interval": _none(2, "the source sends its log by itself", 1, 3600),
    "source_reconnect_interval": Option(Use.PARTS, 30, 1, 3600),
    "source_reconnect_limit": Option(Use.PARTS, -1, -1),
    "source_command_timeout": Option(Use.PARTS, 30, 1, 3600),
    "source_connection_timeout": Option(Use.PARTS, 30, 1, 3600),
    "trace_data_errors": Option(Use.AT_ONCE, True),
    "CDC_stop_on_breaking_schema_changes": Option(Use.PARTS, False),
    "source_oracle_home": _none("", "no client of an Oracle is used", is_text=True),
}
_NAMES = {name.lower(): name for name in OPTIONS}


@dataclass(frozen=True)
class Parsed:
    """The options of a row: `values` of those that are said and can be used, `problems` of those that cannot."""

    values: dict[str, Value] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Value:
        """Return what is said, or Attunity's default."""
        return self.values.get(name, OPTIONS[name].default)

    def number(self, name: str) -> int:
        return int(self[name])

    @property
    def for_parts(self) -> dict[str, Value]:
        """The options that are said and act on parts of the job."""
        return {name: value for name, value in self.values.items() if OPTIONS[name].use is Use.PARTS}


def parse(text: str) -> Parsed:
    """Read `options`. Of an option that is said twice the last one counts."""
    found = Parsed()
    for piece in text.split(";"):
        name, equals, value = (part.strip() for part in piece.partition("="))
        if not (name or equals):
            continue
        known = _NAMES.get(name.lower())
        if known is None:
            found.problems.append(f"option {name!r} is not known, and is ignored")
            continue
        read = _value(OPTIONS[known], value, bool(equals))
        if isinstance(read, Refused):
            found.problems.append(f"option {known} = {value!r} is ignored: expected {read}")
        else:
            found.values[known] = read
    return found


class Refused(str):
    """Words for the value that was expected in place of another."""


def _value(option: Option, text: str, is_said: bool) -> Value | Refused:
    if option.is_text:
        return text
    if option.least is None:
        word = text.lower()
        if not is_said or word in TRUE:
            return True
        return False if word in FALSE else Refused("True, False, on or off")
    try:
        number = int(text)
    except ValueError:
        return Refused(f"a whole number, {option.least} to {option.most}")
    is_in = option.least <= number <= option.most and text.isascii()
    return number if is_in else Refused(f"{option.least} to {option.most}")
