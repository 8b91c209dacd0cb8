"""Let every store that a manager opens be a PostgreSQL, so that tests of tests/unit/manager are run on one, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from anabranch.manager import store
from anabranch.manager.store_postgresql import PostgresKeeper
from anabranch.testing.databases import Database
from rigs.endpoints import endpoint_of


@pytest.fixture(autouse=True)
def keepers(target_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PostgresKeeper]]:
    """The connections that were opened, all to one new database."""
    made: list[PostgresKeeper] = []

    def keeper(_: Path) -> PostgresKeeper:
        made.append(PostgresKeeper(endpoint_of(target_database)))
        return made[-1]

    monkeypatch.setattr(store, "SqliteKeeper", keeper)
    yield made
    for one in made:
        with suppress(psycopg.Error):
            one.close()
