"""Small charts of a measure as SVG text, for a page: no script, no style of its own.

What does not live here: the points (`manager/statistics.py`), colours (`static/style.css`).
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from anabranch.manager.statistics import Point, Series

GAP_STEPS = 2.5  # a pause of more than so many steps breaks the line


def sparkline(series: Series, title: str, width: int = 240, height: int = 40) -> str:
    """Return the SVG of a series, from its begin to its end: the line of averages, and the maxima as an area behind. `title`:
    what a screen reader says; the greatest value is added."""
    most = max((point.maximum for point in series.points), default=0.0)
    told = f"{title}: at most {most:g} {series.unit}" if series.points else f"{title}: nothing was measured"
    lines = "".join(_line(piece, series, most, width, height) for piece in pieces(series))
    return (
        f'<svg class="sparkline" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'preserveAspectRatio="none" xmlns="http://www.w3.org/2000/svg"><title>{escape(told)}</title>{lines}</svg>'
    )


def pieces(series: Series) -> list[list[Point]]:
    """Return the points in runs without a gap."""
    found: list[list[Point]] = []
    for point in series.points:
        if not found or point.at - found[-1][-1].at > GAP_STEPS * series.step:
            found.append([])
        found[-1].append(point)
    return found


def _line(points: Sequence[Point], series: Series, most: float, width: int, height: int) -> str:
    def place(at: float, value: float) -> str:
        x = (at - series.begin) / max(1, series.end - series.begin) * width
        y = height - 1 - (value / most if most else 0.0) * (height - 2)
        return f"{min(max(x, 0.0), width):.1f},{y:.1f}"

    if len(points) == 1:  # a line needs two ends
        points = [points[0], Point(points[0].at + series.step, points[0].average, points[0].maximum)]
    top = [place(point.at, point.maximum) for point in points]
    area = " ".join([place(points[0].at, 0.0), *top, place(points[-1].at, 0.0)])
    line = " ".join(place(point.at, point.average) for point in points)
    return (
        f'<polygon class="most" points="{area}" fill="currentColor" fill-opacity="0.15"/>'
        f'<polyline class="average" points="{line}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    )
