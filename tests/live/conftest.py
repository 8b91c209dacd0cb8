"""A loader of a real PostgreSQL, for the tests of the load and of what is built after it; a PostgreSQL that is a source; a
MySQL or MariaDB at which tables are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.model.endpoint import Endpoint
from anabranch.rows import compiled
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_tables import Place
from rigs.postgresql_load import RULES
from rigs.postgresql_sessions import drop_slots
from rigs.postgresql_slot import Slot
from rigs.streams import Streams, streaming

# What reads a PostgreSQL's log, or rows by COPY, with the compiled decoder, where it is installed, and with the one in Python.
BY_DECODING = (
    "counted", "pgoutput_chunks", "postgresql_binary", "postgresql_changes", "postgresql_copy_out", "postgresql_decoders",
    "postgresql_identities", "postgresql_origins", "postgresql_releases", "postgresql_streaming", "postgresql_verify",
)  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition("test_")[2] in BY_DECODING:
        is_one = metafunc.definition.get_closest_marker("one_decoder")
        python = pytest.param("python", marks=pytest.mark.long) if is_one else "python"
        decodings = ["python"] if compiled.NATIVE is None else ["native", python]
        metafunc.parametrize("decoding", decodings, indirect=True)


@pytest.fixture(autouse=True)
def decoding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Hides the compiled code from the tests of `BY_DECODING` that run with "python"; changes nothing for others."""
    chosen = str(getattr(request, "param", ""))
    if chosen == "python":
        monkeypatch.setattr(compiled, "NATIVE", None)
    return chosen


@pytest.fixture
def streams(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[Streams]:
    with streaming(request, source_database, tmp_path) as make:
        yield make


@pytest.fixture
def endpoint(target_database: Any) -> Endpoint:
    made = endpoint_of(target_database)
    store = target(made).store()
    store.prepare()
    store.close()
    return made


@pytest.fixture
def loader(endpoint: Endpoint) -> Iterator[PostgresLoader]:
    made = PostgresLoader(endpoint, RULES)
    yield made
    made.close()


@pytest.fixture
def place(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Place]:
    found = Place(source_database(mysql_family))
    yield found
    found.close()


@pytest.fixture
def slot(logical_postgresql: Server, request: pytest.FixtureRequest) -> Iterator[Callable[..., Slot]]:
    """`slot(proto_version="2", …)` in a new database, with these options of pgoutput."""
    database = create_database(logical_postgresql, request.node.name[:40])
    made: list[Slot] = []

    def make(two_phase: bool = False, **options: str) -> Slot:
        made.append(Slot(database, options, two_phase))
        return made[-1]

    yield make
    drop_slots(database)
    drop_database(database)
