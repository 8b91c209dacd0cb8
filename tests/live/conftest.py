"""A loader of a real PostgreSQL, for the tests of the load and of what is built after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from customers import RULES, endpoint_of

from anabranch.connectors.postgresql import target
from anabranch.connectors.postgresql.load import PostgresLoader
from anabranch.model.endpoint import Endpoint


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
