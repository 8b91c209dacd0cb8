"""The route of statistics: how a measure of a job has gone.

What does not live here: keeping them (`manager/statistics.py`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query

from anabranch.api.asking import AskedRoute, Asks, TheManager
from anabranch.api.jobs import Name
from anabranch.errors import ConfigError
from anabranch.manager.statistics import HOUR, Measured, Point

routes = APIRouter(prefix="/jobs", tags=["statistics"], route_class=AskedRoute)
_From = Annotated[datetime | None, Query(alias="from", description="By default an hour before `to`.")]
_To = Annotated[datetime | None, Query(description="By default now.")]
_Step = Annotated[int | None, Query(ge=1, le=31_622_400, description="Seconds between two points; else chosen.")]


@dataclass(frozen=True)
class PointAnswer:
    """The average and the greatest of a measure from `at` on, for a step. `state`: of the measure `state`, the worst."""

    at: str
    average: float
    maximum: float
    state: str | None


@dataclass(frozen=True)
class SeriesAnswer:
    """A measure over time. Where nobody measured, or nobody knew, there is no point."""

    job: str
    measure: Measured
    unit: str
    begin: str
    end: str
    step: int
    points: list[PointAnswer]


@routes.get("/{name}/statistics")
def statistics(
    manager: TheManager,
    caller: Asks,
    name: Name,
    measure: Measured = Measured.LAG,
    begin: _From = None,
    to: _To = None,
    step: _Step = None,
) -> SeriesAnswer:
    """Return how a measure of a job has gone, in at most 1,000 points. Seconds are kept for an hour, minutes for a week,
    hours for two years."""
    manager.job(caller, name)
    now = int(time.time())
    last = _second(to) if to else now
    first = _second(begin) if begin else last - HOUR
    found = manager.statistics.series(name, measure, first, last, step, now)
    points = [_point(one) for one in found.points]
    return SeriesAnswer(name, measure, found.unit, _text(found.begin), _text(found.end), found.step, points)


def _point(found: Point) -> PointAnswer:
    return PointAnswer(_text(found.at), found.average, found.maximum, found.state)


def _second(moment: datetime) -> int:
    """Return a moment in seconds since 1970; one without a zone is UTC. Raises ConfigError for what no clock of ours says."""
    if not 1971 <= moment.year <= 9998:  # whatever the zone, and an hour before it
        raise ConfigError(f"the year {moment.year} is out of range", hint="from and to are of the years 1971 to 9998")
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
