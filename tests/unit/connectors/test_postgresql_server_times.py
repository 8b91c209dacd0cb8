"""Dates and times that are numbers, in the server's text form (no server; what one prints: tests/live)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source.server_times import date_text, time_text, timestamp_text

START = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.dates())
def test_a_date_is_the_calendars(one: date) -> None:
    assert date_text((one - START.date()).days) == one.isoformat()


@given(st.datetimes())
def test_a_timestamp_is_the_calendars(one: datetime) -> None:
    text = timestamp_text((one.replace(tzinfo=UTC) - START) // timedelta(microseconds=1), "+00")
    assert text.endswith("+00")
    whole, _, fraction = text[:-3].partition(".")
    assert datetime.fromisoformat(whole) + timedelta(microseconds=int(fraction.ljust(6, "0") or 0)) == one
    assert not fraction.endswith("0")


@given(st.integers(-2_400_000, -720_000))
def test_years_before_christ_go_on_backwards(days: int) -> None:
    """Every 400 years the calendar is the same."""
    later = date_text(days + 146_097 * 20)
    year, rest = date_text(days).split("-", 1)
    assert rest == f"{later.split('-', 1)[1]} BC" and 1 - int(year) == int(later.split("-")[0]) - 8000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (date_text(-2_147_483_648 + 10_957), "-infinity"),
        (date_text((2_147_483_647 + 10_957) - (1 << 32)), "infinity"),
        (date_text(-719_163), "0001-12-31 BC"),
        (timestamp_text((1 << 63) - 1), "infinity"),
        (timestamp_text(-(1 << 63), "+00"), "-infinity"),
        (timestamp_text(-1), "1969-12-31 23:59:59.999999"),
        (timestamp_text(-63_517_824_000_000_000, "+00"), "0044-03-15 00:00:00+00 BC"),
        (time_text(86_400_000_000), "24:00:00"),
        (time_text(0), "00:00:00"),
        (time_text(3_661_000_100), "01:01:01.0001"),
    ],
)
def test_ends_and_edges(text: str, expected: str) -> None:
    assert text == expected


@pytest.mark.parametrize("microseconds", [-1, 86_400_000_001])
def test_what_is_no_time_of_a_day_is_refused(microseconds: int) -> None:
    with pytest.raises(ValueError, match="no time of a day"):
        time_text(microseconds)
