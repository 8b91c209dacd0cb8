"""Indexes of a PostgreSQL that go along with the source's: what is not certain is told, and rows go on."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from anabranch.connectors.postgresql.target import altered_indexes
from anabranch.model.index_changes import IndexChanges
from anabranch.rows.altered import AlteredTable
from rigs.chunks import INT, schema

NOBODY: Any = None


@pytest.mark.parametrize(
    ("error", "is_told"),
    [
        (psycopg.errors.InsufficientPrivilege("permission denied to create temporary tables"), True),
        (psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"), False),
        (psycopg.OperationalError("server closed the connection unexpectedly"), False),
    ],
)
def test_an_index_that_cannot_be_compared_is_told_and_parks_no_table(
    error: psycopg.Error, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user may have no right to temporary tables; what is waited for still comes again."""

    def own(*_: object) -> str:
        raise error

    monkeypatch.setattr(altered_indexes, "_own", own)
    table = schema("a", {"id": INT}, ["id"])
    altered = AlteredTable(table, NOBODY, table, NOBODY, (), IndexChanges(dropped=("i",)))
    if is_told:
        (line,) = altered_indexes.alter(NOBODY, altered)
        assert "index i is not dropped" in line and "permission denied" in line
    else:
        with pytest.raises(type(error)):
            altered_indexes.alter(NOBODY, altered)
