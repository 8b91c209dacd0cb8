"""A figure as a line on stdout, and whether it keeps its floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True)
class Figure:
    """`W2 capture mysql ratio=0.09 goal=0.07 ok rows_per_s=…`. Without a goal it is shown, not judged."""

    workload: str  # "W2 capture"
    source: str
    unit: str
    value: float
    goal: float | None = None
    is_most: bool = False  # the goal is the most that is allowed, not the least
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_kept(self) -> bool:
        if self.goal is None:
            return True
        return self.value <= self.goal if self.is_most else self.value >= self.goal

    def __str__(self) -> str:
        verdict = "shown" if self.goal is None else "ok" if self.is_kept else "MISSED"
        goal = "-" if self.goal is None else f"{self.goal:g}"
        facts = "".join(f" {name}={text(value)}" for name, value in self.facts.items())
        return f"{self.workload} {self.source} {self.unit}={text(self.value)} goal={goal} {verdict}{facts}"


def text(value: object) -> str:
    """Three digits are more than these figures can carry."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def middle(values: Sequence[float]) -> float:
    return float(median(values))


def percentile(values: Sequence[float], share: float) -> float:
    """`values` in ascending order."""
    return values[min(len(values) - 1, int(share * len(values)))]
