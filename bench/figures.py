"""What was measured: the runs of each side, a figure as a line that a script can read, and whether it keeps its goal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.processes import Cost

Curve = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Side:
    """One of those that are compared, and what each of its runs took for the same `work`: rows, changes."""

    name: str  # "anabranch", "ceiling", a peer's
    what: str  # the command, in words
    work: int
    costs: Sequence[Cost]

    @property
    def rates(self) -> list[float]:
        """Of each run, per second."""
        return [self.work / cost.seconds for cost in self.costs]

    @property
    def rate(self) -> float:
        return middle(self.rates)

    @property
    def cpu(self) -> float:
        return middle([cost.cpu for cost in self.costs])

    @property
    def rss(self) -> float:
        return max(cost.rss for cost in self.costs)

    def to_json(self) -> dict[str, Any]:
        kinds = list(dict.fromkeys(kind for cost in self.costs for kind in cost.each))
        each = {kind: [cost.each[kind] for cost in self.costs if kind in cost.each] for kind in kinds}
        return {
            "name": self.name,
            "what": self.what,
            "work": self.work,
            "seconds": [round(cost.seconds, 4) for cost in self.costs],
            "cpu_s": [round(cost.cpu, 3) for cost in self.costs],
            "rss_mb": round(self.rss, 1),
            "processes": {
                kind: {
                    "cpu_s": round(middle([use.cpu for use in uses]), 3),
                    "rss_mb": round(max(use.rss for use in uses), 1),
                }
                for kind, uses in each.items()
            },
        }


@dataclass(frozen=True)
class Figure:
    """`W2 capture mysql ratio=0.52 goal=0.5 ok rows_per_s=…`. Without a goal it is shown, not judged."""

    workload: str  # "W2 capture"
    source: str  # "mysql", or the pair: "mysql-pg"
    unit: str
    value: float
    goal: float | None = None
    is_most: bool = False  # the goal is the most that is allowed, not the least
    facts: Mapping[str, object] = field(default_factory=dict)
    sides: Sequence[Side] = ()
    curves: Mapping[str, Curve] = field(default_factory=dict)  # for a plot

    @property
    def is_kept(self) -> bool:
        if self.goal is None:
            return True
        return self.value <= self.goal if self.is_most else self.value >= self.goal

    @property
    def verdict(self) -> str:
        return "shown" if self.goal is None else "ok" if self.is_kept else "short"

    def __str__(self) -> str:
        goal = "-" if self.goal is None else f"{self.goal:g}"
        facts = "".join(f" {name}={text(value)}" for name, value in {**self.facts, **_sides(self.sides)}.items())
        return f"{self.workload} {self.source} {self.unit}={text(self.value)} goal={goal} {self.verdict}{facts}"

    def to_json(self) -> dict[str, Any]:
        return {
            "workload": self.workload,
            "source": self.source,
            "unit": self.unit,
            "value": _rounded(self.value),
            "goal": self.goal,
            "is_most": self.is_most,
            "verdict": self.verdict,
            "facts": {name: _rounded(value) for name, value in self.facts.items()},
            "sides": [side.to_json() for side in self.sides],
            "curves": {
                name: [[_rounded(x), _rounded(y)] for x, y in thinned(curve)] for name, curve in self.curves.items()
            },
        }


def compared(
    workload: str,
    source: str,
    ours: Side,
    other: Side,
    goal: float | None,
    *,
    facts: Mapping[str, object] | None = None,
    others: Sequence[Side] = (),
) -> Figure:
    """How fast we are as a part of what the other does: the medians; the extremes are of runs that stood side by side."""
    runs = [a / b for a, b in zip(ours.rates, other.rates, strict=False)]
    spread = {"ratio_min": min(runs), "ratio_max": max(runs)}
    sides = (ours, other, *others)
    return Figure(
        workload, source, "ratio", ours.rate / other.rate, goal, facts={**spread, **(facts or {})}, sides=sides
    )


def table(figure: Figure) -> list[str]:
    """For people: a line per side, with the median and the extremes of its runs, and one per kind of process."""
    lines = [str(figure)]
    for side in figure.sides:
        rates = sorted(side.rates)
        spread = f"{side.rate:>11,.0f} /s ({rates[0]:,.0f} to {rates[-1]:,.0f})"
        lines.append(f"    {side.name:<14} {spread}  {side.cpu:.2f} s of processor, {side.rss:.0f} MB  [{side.what}]")
        for kind, use in side.to_json()["processes"].items():
            lines.append(f"        {kind:<18} {use['cpu_s']:>7.2f} s  {use['rss_mb']:>7.0f} MB")
    return lines


def _sides(sides: Sequence[Side]) -> dict[str, object]:
    found: dict[str, object] = {}
    for side in sides:
        prefix = "" if side.name == "anabranch" else f"{side.name}_"
        found |= {f"{prefix}rows_per_s": side.rate, f"{prefix}cpu_s": side.cpu, f"{prefix}rss_mb": side.rss}
    return found


def text(value: object) -> str:
    """Three digits are more than these figures can carry."""
    if not isinstance(value, float):
        return str(value).replace(" ", "_")
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _rounded(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


def middle(values: Sequence[float]) -> float:
    return float(median(values))


def percentile(values: Sequence[float], share: float) -> float:
    """`values` in ascending order."""
    return values[min(len(values) - 1, int(share * len(values)))]


def distribution(values: Sequence[float]) -> Curve:
    """(share in percent, value) of what is in ascending order: fine where the tail is."""
    shares = [*range(0, 90, 2), *range(90, 99), 99, 99.5, 99.9, 99.95, 99.99]
    return [(float(share), percentile(values, share / 100)) for share in shares]


def thinned(curve: Curve, most: int = 400) -> Curve:
    step = -(-len(curve) // most) or 1
    return curve[::step]
