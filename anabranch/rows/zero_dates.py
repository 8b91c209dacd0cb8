"""Dates that the calendar does not have (0000-00-00, 2024-00-15): the job's choice for a column, and the raw value and
text form that stand for such a date.

What does not live here: how such dates are found (each connector).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.raw import INFINITE, parse_text

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema
    from anabranch.model.value_rules import ValueRules

STOP, NULL = "stop", "null"
ASKED = "types.zero_dates"  # in PreflightContext.user_choices: ValueRules.zero_dates as JSON
KINDS = (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT)
_MIDNIGHT: Mapping[Kind, str] = {Kind.DATE: "", Kind.TIMESTAMP: " 00:00:00.000000", Kind.INSTANT: " 00:00:00.000000+00"}


def choice(rules: ValueRules, schema: TableSchema, column: str) -> str:
    """Return the choice for a column: STOP, NULL, or a date.

    In a primary key a date of the calendar could be another row's: only an infinite one may stand for 0000-00-00 there,
    and any other choice becomes STOP.
    """
    if not rules.zero_dates and rules.zero_date in (STOP, NULL):
        return rules.zero_date
    table, found = str(schema.id), rules.zero_date
    for its_table, its_column, its_choice in rules.zero_dates:
        if (its_table, its_column) == (table, column):
            found = its_choice
    if column in schema.primary_key and found not in (NULL, *INFINITE):
        return STOP
    return found


def text_of(type: LogicalType, date: str) -> str:
    """Return the text form of the date that stands for one that is none: at midnight, in UTC."""
    return date if date in INFINITE else date + _MIDNIGHT[type.kind]


def raw_of(type: LogicalType, date: str) -> int:
    found: int = parse_text(type, text_of(type, date))
    return found
