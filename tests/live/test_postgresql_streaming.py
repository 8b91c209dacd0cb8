"""Large transactions of a real PostgreSQL, read while they are open: the trail is the same as without that, whatever the
sessions do and whatever dies in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from customers import endpoint_of
from streaming_rig import ALL_TO_DISK, IN_MEMORY, Rig, Sessions, small_memory, tables

from anabranch.capture.uncommitted import Limits
from anabranch.rows.uncommitted import LogChanges, LogEnded, LogTakenBack
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

Make = Callable[..., Rig]


@pytest.fixture
def make(source_database: Callable[[Server], Database], tmp_path: Path) -> Iterator[Make]:
    """`make(server)`: a database and its trail; `make(of=rig, streaming=False)`: another one of the same database."""
    made: list[Rig] = []

    def rig(server: Server | None = None, of: Rig | None = None, **options: Any) -> Rig:
        if of is None:
            assert server is not None
            database = source_database(server)
            small_memory(database)
            database.execute(*tables())
        else:
            database = of.database
        made.append(Rig(database, endpoint_of(database), tmp_path / f"trail{len(made)}", **options))
        return made[-1]

    yield rig
    for one in made:
        one.drop()


@pytest.mark.parametrize("limits", [ALL_TO_DISK, Limits(200_000, 1e9), IN_MEMORY], ids=["disk", "both", "memory"])
@pytest.mark.parametrize("seed", range(4))
def test_rule_06_the_trail_is_the_same_as_without(
    seed: int, limits: Limits, logical_postgresql: Server, make: Make
) -> None:
    one = make(logical_postgresql, limits=limits)
    other = make(of=one, streaming=False)
    with closing(Sessions(one.database, seed)) as sessions:
        for number in range(120):
            sessions.step()
            if number % 20 == 0 and not sessions.locking:
                one.follow()
        sessions.end_all()
    one.follow()
    other.follow()
    assert one.found() == other.found()
    kinds = {kind for kind, _ in one.given}
    assert {LogChanges, LogEnded} <= kinds and not other.given
    assert one.kept() == []


FILL = "INSERT INTO own0 SELECT n, 0, repeat('x', 200), '' FROM generate_series({}, {}) n"
