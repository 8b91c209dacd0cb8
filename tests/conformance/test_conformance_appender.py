"""Conformance of targets that take changes: the twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.target import MemoryTarget
from anabranch.model.endpoint import Endpoint
from anabranch.testing.conformance import appender
from anabranch.testing.conformance.appender import AppendSubject


@pytest.fixture
def subject() -> Iterator[AppendSubject]:
    connector = MemoryTarget(Endpoint("memory", "", 0, "", "", "appended"))
    with closing(connector.store()) as store:
        store.prepare()
    yield AppendSubject(connector, lambda: database("appended").appended)
    forget(["appended"])


@pytest.mark.parametrize("check", appender.CHECKS, ids=lambda check: check.__name__)
def test_appender(check: Callable[[AppendSubject], None], subject: AppendSubject) -> None:
    check(subject)
