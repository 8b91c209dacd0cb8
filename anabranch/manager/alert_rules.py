"""Rules of alerts: what is measured of which jobs, over what, for how long. Kept as a whole, with sensible ones by default.

What does not live here: alerts themselves (`alerts.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from anabranch.errors import ConfigError
from anabranch.manager.store import ManagerStore, now

MOST = 200  # rules


class Kind(StrEnum):
    """LAG: seconds above `threshold`; STATE: a job that is to run has failed or died; PARKED: more tables than `threshold` are;
    DISK: less than `threshold` percent is free where jobs have their homes."""

    LAG = "lag"
    STATE = "state"
    PARKED = "parked"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. `jobs`: a pattern with `*` and `?`; `for_s`: seconds that it must hold; `calm_s`: seconds that it must not hold
    before the alert is over; `repeat_hours`: until an alert that goes on is told again, 0: never."""

    name: str
    kind: Kind
    threshold: float = 0.0
    jobs: str = "*"
    for_s: float = 60.0
    calm_s: float = 60.0
    repeat_hours: float = 24.0

    def is_about(self, job: str) -> bool:
        """Return whether the rule is about this job."""
        return self.kind is not Kind.DISK and fnmatchcase(job, self.jobs)


USUAL = (
    Rule("lag", Kind.LAG, 60.0, for_s=300.0),
    Rule("state", Kind.STATE),
    Rule("parked", Kind.PARKED, for_s=0.0),
    Rule("disk", Kind.DISK, 10.0, for_s=300.0),
)


class AlertRules:
    """The rules of one manager."""

    def __init__(self, store: ManagerStore) -> None:
        self._store = store
        self._kept: tuple[Rule, ...] | None = None

    def all(self) -> tuple[Rule, ...]:
        """Return the rules."""
        if self._kept is None:
            row = self._store.row("SELECT rules FROM alert_rules")
            told = json.loads(row["rules"]) if row else None
            self._kept = USUAL if told is None else tuple(Rule(**{**one, "kind": Kind(one["kind"])}) for one in told)
        return self._kept

    def set(self, rules: Sequence[Rule], by: str) -> None:
        """Let these be the rules, from now on. Raises ConfigError for names that come twice, and numbers that make no sense."""
        check(rules)
        text = as_text(rules)
        with self._store.writing() as connection:
            connection.execute("DELETE FROM alert_rules")
            connection.execute("INSERT INTO alert_rules VALUES (1, ?, ?, ?)", (text, now(), by))
        self._kept = None  # read again: the transaction may be a part of one that is taken back


def as_text(rules: Sequence[Rule]) -> str:
    """Return rules as JSON text."""
    return json.dumps([asdict(rule) for rule in rules])


def check(rules: Sequence[Rule]) -> None:
    """Raise ConfigError for rules that cannot be."""
    names = [rule.name for rule in rules]
    if len(rules) > MOST or len(set(names)) < len(names) or not all(0 < len(name) <= 64 for name in names):
        raise ConfigError(
            f"at most {MOST} rules, each with a name of its own of up to 64 characters", hint="mend the list"
        )
    for rule in rules:
        numbers = (rule.threshold, rule.for_s, rule.calm_s, rule.repeat_hours)
        if not all(0 <= number < 1e9 for number in numbers) or (rule.kind is Kind.DISK and rule.threshold > 100):
            raise ConfigError(
                f"the rule {rule.name} has a number that makes no sense", hint="0 or more; percent to 100"
            )
