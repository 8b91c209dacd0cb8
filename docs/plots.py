"""Small plots as SVG: bars side by side, lines over an axis. Written by hand so that the same numbers give the same file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#7b4b94", "#8a6d1d", "#555555")
WIDTH, LEFT, RIGHT, BAR = 860, 60, 200, 22
HEIGHT, TOP, BOTTOM = 280, 30, 40


def bars(title: str, rows: Sequence[tuple[str, Sequence[float]]], unit: str) -> str:
    """A bar per row, as long as the median of its values, with a line from the least to the most."""
    most = max((max(values) for _, values in rows), default=1.0) or 1.0
    height, begin, end = TOP + BAR * len(rows) + 12, 260, WIDTH - 110

    def x(value: float) -> float:
        return begin + (end - begin) * value / most

    parts = [_head(height, title)]
    for number, (name, values) in enumerate(rows):
        middle, y = sorted(values)[len(values) // 2], TOP + BAR * number
        colour = COLOURS[0] if name.endswith("anabranch") else "#b5b5b5"
        parts += [
            f'<text x="{begin - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{begin}" y="{y + 3}" width="{x(middle) - begin:.1f}" height="{BAR - 7}" fill="{colour}"/>',
            f'<line x1="{x(min(values)):.1f}" y1="{y + 10.5}" x2="{x(max(values)):.1f}" y2="{y + 10.5}" stroke="#222222"/>',
            f'<text x="{x(max(values)) + 6:.1f}" y="{y + 15}">{middle:,.0f} {escape(unit)}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def lines(
    title: str,
    across: str,
    curves: Mapping[str, Sequence[Sequence[float]]],
    *,
    is_log: bool,
    limits: Mapping[str, float],
) -> str:
    """`across`: what the points' first numbers are; the second ones go up, by powers of ten where `is_log`."""
    points = [point for curve in curves.values() for point in curve]
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    most = max([*limits.values(), *(y for _, y in points), 1.0]) * 1.05
    least = max(0.1, min(y for _, y in points)) if is_log else 0.0

    def x(value: float) -> float:
        return LEFT + (WIDTH - RIGHT - LEFT) * (value - low) / ((high - low) or 1.0)

    def y(value: float) -> float:
        share = math.log(max(value, least) / least) / math.log(most / least) if is_log else value / most
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    parts = [_head(HEIGHT, title)]
    for value in _ticks(least, most, is_log):
        parts.append(
            f'<line x1="{LEFT}" y1="{y(value):.1f}" x2="{WIDTH - RIGHT}" y2="{y(value):.1f}" stroke="#dddddd"/>'
        )
        parts.append(f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.4g}</text>')
    for step in range(6):
        value = low + (high - low) * step / 5
        parts.append(f'<text x="{x(value):.1f}" y="{HEIGHT - BOTTOM + 14}" text-anchor="middle">{value:,.4g}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}" fill="#555555">{escape(across)}</text>')
    for name, value in limits.items():
        line = f'x1="{LEFT}" y1="{y(value):.1f}" x2="{WIDTH - RIGHT}" y2="{y(value):.1f}"'
        parts.append(f'<line {line} stroke="#cc0000" stroke-dasharray="6 4"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 6}" y="{y(value) + 4:.1f}" fill="#cc0000">{escape(name)}</text>')
    parts += [part for number, item in enumerate(curves.items()) for part in _line(number, *item, x, y)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(number: int, name: str, curve: Sequence[Sequence[float]], x: object, y: object) -> Iterator[str]:
    assert callable(x) and callable(y)
    colour = COLOURS[number % len(COLOURS)]
    places = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in curve)
    yield f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.4"/>'
    yield f'<text x="{WIDTH - RIGHT + 6}" y="{HEIGHT - BOTTOM - 14 * number:.0f}" fill="{colour}">{escape(name)}</text>'


def _ticks(least: float, most: float, is_log: bool) -> list[float]:
    if not is_log:
        return [most / 1.05 * step / 4 for step in range(5)]
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    return [found for power in powers for part in (1, 2, 5) if least <= (found := part * 10.0**power) <= most]


def _head(height: int, title: str) -> str:
    size = f'viewBox="0 0 {WIDTH} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    return f'{head}\n{ground}\n<text x="8" y="16" font-weight="bold">{escape(title)}</text>'
