"""`scenario(server, *statements)` makes a job between a new database there and a new one at the PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scenario import Scenario

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server


@pytest.fixture
def scenario(
    source_database: Callable[[Server], Database], target_database: Database, tmp_path: Path
) -> Iterator[Callable[..., Scenario]]:
    made: list[Scenario] = []

    def make(server: Server, *statements: str, **options: Any) -> Scenario:
        database = source_database(server)
        database.execute(*statements)
        made.append(Scenario(database, target_database, tmp_path / f"job{len(made)}", **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
