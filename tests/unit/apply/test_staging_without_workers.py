"""An epoch that executors would stage, and no executor comes: the driver does it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.apply.staging import Executors
from anabranch.contracts import ValueRules
from anabranch.errors import AnabranchError, ConfigError, SparkUnavailable


class Away:
    def __init__(self, error: AnabranchError) -> None:
        self.error = error

    def each(self, tasks: object) -> list[Any]:
        raise self.error


def executors(error: AnabranchError) -> Executors:
    return Executors("shop", Path("trail"), cast(Any, None), ValueRules(), cast(Any, Away(error)), 1)


LARGE = cast(Any, SimpleNamespace(refs=(SimpleNamespace(rows=10, has_barriers=False),)))
FEED, CONTEXT = cast(Any, SimpleNamespace(refs=())), cast(Any, SimpleNamespace(tables={}))


def test_nothing_is_staged_where_the_workers_are_away() -> None:
    away = executors(SparkUnavailable("no executor"))
    assert away.takes(LARGE, CONTEXT) and away.stage(FEED, CONTEXT) == []
    assert not away.takes(LARGE, CONTEXT), "the next epoch does not wait for them again"
    away.away.until = 0.0
    assert away.takes(LARGE, CONTEXT), "and a later one asks"


def test_workers_that_are_not_fit_end_the_part() -> None:
    with pytest.raises(ConfigError, match="other code"):
        executors(ConfigError("the worker on x has other code")).stage(FEED, CONTEXT)
