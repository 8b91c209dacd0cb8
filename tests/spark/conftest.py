"""One Spark session for all tests here: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.spark.session import session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    found = session("anabranch tests", "local[2]")
    yield found
    found.stop()
