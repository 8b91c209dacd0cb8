"""A PostgreSQL source that is only in the way for a moment is told apart from one that is away."""

from __future__ import annotations

import psycopg
import pytest

from anabranch.connectors.postgresql.source.errors import translate
from anabranch.errors import SourceBusy, SourceError, SourceUnavailable


@pytest.mark.parametrize(
    "error, kind, hint",
    [
        (
            psycopg.errors.DeadlockDetected("deadlock detected"),
            SourceBusy,
            "other sessions at the source are in the way",
        ),
        (psycopg.errors.SerializationFailure("could not serialize"), SourceBusy, "other sessions at the source"),
        (psycopg.errors.AdminShutdown("terminating connection"), SourceUnavailable, "check that the source is running"),
        (psycopg.errors.UndefinedTable("no such relation"), SourceError, "the table is gone at the source"),
    ],
)
def test_who_loses_a_deadlock_at_the_source_is_not_told_that_the_source_is_away(
    error: psycopg.Error, kind: type[SourceError], hint: str
) -> None:
    found = translate(error, "ask for the size of shop.orders")
    assert type(found) is kind and hint in found.hint
    assert found.message.startswith("ask for the size of shop.orders: ")
