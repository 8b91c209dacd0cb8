"""Alerts: what a rule finds wrong, told when it begins, when it ends, and now and then in between; kept over restarts.

An alert and its messages are noted in one transaction, before anything is sent. What does not live here: rules
(`alert_rules.py`), sending (`notifying.py`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from anabranch.manager.alert_rules import AlertRules, Kind, Rule
from anabranch.manager.measures import Measure
from anabranch.manager.store import ManagerStore, now
from anabranch.manager.store_contract import Writing

KEPT = 1000  # alerts that are over
Verdict = tuple[bool | None, str]  # whether the rule holds, None where nobody knows; and what is so, for people


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert. `job`: "" where it is about the machine; `ended`: None while it goes on; `not_sent`: why messages of it were
    given up, by way."""

    id: int
    rule: str
    job: str
    text: str
    began: str
    told: str
    ended: str | None
    not_sent: Mapping[str, str]


class Alerts:
    """The alerts of one manager. `ways`: returns the names of the ways by which messages go."""

    def __init__(self, store: ManagerStore, rules: AlertRules, home: Path, ways: Callable[[], Collection[str]]) -> None:
        self._store, self._rules, self._home, self._ways = store, rules, home, ways
        self._holds: dict[tuple[str, str], float] = {}  # since when, monotonic
        self._calm: dict[tuple[str, str], float] = {}
        # Measures that were judged, and nothing was so; by which rules, of which jobs that were to run
        self._quiet: Mapping[str, Measure] = {}
        self._quiet_by: tuple[Sequence[Rule], Collection[str]] = (), ()

    def look(self, moment: float, measures: Mapping[str, Measure], wanted: Collection[str]) -> None:
        """Judge every rule once. `moment`: monotonic seconds; `wanted`: the jobs that are to run."""
        is_open = {
            (row["rule"], row["job"]): row for row in self._store.rows("SELECT * FROM alert WHERE ended IS NULL")
        }
        judged, held, rules = set(), {job for _, job in is_open}, self._rules.all()
        new = self._new(measures, held, wanted, rules)
        for rule in rules:
            for job, (holds, text) in self._verdicts(rule, new, wanted):
                key = rule.name, job
                judged.add(key)
                if holds:
                    held.add(job)
                    self._calm.pop(key, None)
                    since = self._holds.setdefault(key, moment)
                    if key not in is_open and moment - since >= rule.for_s:
                        self._open(key, text)
                    elif key in is_open and _is_due(is_open[key]["told"], rule.repeat_hours):
                        self._note(is_open[key]["id"], "repeated", text)
                elif holds is not None:
                    self._holds.pop(key, None)
                    if key in is_open and moment - self._calm.setdefault(key, moment) >= rule.calm_s:
                        self._note(is_open[key]["id"], "recovered", text)
                        del self._calm[key]
        for key in is_open.keys() - judged - {key for key in is_open if key[1] in wanted and key[1] not in measures}:
            self._note(is_open[key]["id"], "recovered", "its rule or its job is gone")
        self._quiet = {job: one for job, one in measures.items() if job not in held} if held else measures
        self._quiet_by = rules, wanted

    def _new(
        self, measures: Mapping[str, Measure], held: Collection[str], wanted: Collection[str], rules: Sequence[Rule]
    ) -> Mapping[str, Measure]:
        """Return the measures that have to be judged: all but those of jobs for which no rule held at the last look, and of
        which nothing is new since. At rest a job's measure is the same one."""
        quiet, (by, were_wanted) = self._quiet, self._quiet_by
        if by is not rules:
            return measures
        other = set() if were_wanted == wanted else set(were_wanted) ^ set(wanted)
        return {job: one for job, one in measures.items() if quiet.get(job) is not one or job in held or job in other}

    def all(self, limit: int = 100, *, is_open: bool = False) -> list[Alert]:
        """Return alerts, the newest first. `is_open`: only those that go on."""
        where = "WHERE ended IS NULL" if is_open else ""
        rows = self._store.rows(f"SELECT * FROM alert {where} ORDER BY id DESC LIMIT ?", (limit,))
        failed = self._store.rows("SELECT alert, way, error FROM alert_message WHERE given_up IS NOT NULL")
        return [
            Alert(**row, not_sent={one["way"]: one["error"] for one in failed if one["alert"] == row["id"]})
            for row in rows
        ]

    def _verdicts(
        self, rule: Rule, measures: Mapping[str, Measure], wanted: Collection[str]
    ) -> Iterator[tuple[str, Verdict]]:
        if rule.kind is Kind.DISK:
            usage = shutil.disk_usage(self._home)
            free = 100 * usage.free / usage.total
            yield "", (free < rule.threshold, f"{free:.1f} % of the disk is free where jobs have their homes")
        for job, measure in measures.items():
            if rule.is_about(job):
                yield job, verdict(rule, measure) if job in wanted else (False, "the job is not to run")

    def _open(self, key: tuple[str, str], text: str) -> None:
        with self._store.writing() as connection:
            at = now()
            values = (*key, text, at, at)
            connection.execute("INSERT INTO alert (rule, job, text, began, told) VALUES (?, ?, ?, ?, ?)", values)
            made = connection.execute(
                "SELECT max(id) AS id FROM alert"
            ).fetchone()  # ours: nobody else writes meanwhile
            self._tell(connection, int(made["id"]), "firing", text)
            connection.execute(
                "DELETE FROM alert WHERE ended IS NOT NULL AND id <= (SELECT max(id) FROM alert) - ?", (KEPT,)
            )

    def _note(self, number: int, event: str, text: str) -> None:
        """Note that an alert goes on, or is over, and that this is to be told."""
        ended = now() if event == "recovered" else None
        with self._store.writing() as connection:
            connection.execute(
                "UPDATE alert SET text = CASE WHEN ? = 'recovered' THEN text ELSE ? END, told = ?, ended = ? WHERE id = ?",
                (event, text, now(), ended, number),
            )
            self._tell(connection, number, event, text)

    def _tell(self, connection: Writing, number: int, event: str, text: str) -> None:
        row = connection.execute("SELECT rule, job, began, ended FROM alert WHERE id = ?", (number,)).fetchone()
        body = {"alert": number, "event": event, **dict(row), "text": text}
        for way in self._ways():
            connection.execute(
                "INSERT INTO alert_message (alert, event, way, body, at) VALUES (?, ?, ?, ?, ?)",
                (number, event, way, json.dumps(body), now()),
            )


def verdict(rule: Rule, measure: Measure) -> Verdict:
    """Return whether a rule holds for what was measured of a job that is to run."""
    if rule.kind is Kind.LAG:
        if measure.lag is None:
            return None, "nobody knows how far it is behind"
        return measure.lag > rule.threshold, f"{measure.lag:.1f} seconds behind"
    if rule.kind is Kind.PARKED:
        if measure.parked is None:
            return None, "nobody knows how many tables are parked"
        return measure.parked > rule.threshold, f"{measure.parked} tables are parked"
    told = f"{measure.state}: {measure.detail}" if measure.detail else measure.state
    return measure.state in ("failed", "died"), told


def seen(alerts: Sequence[Alert], sees: Callable[[str], bool], *, is_everything: bool) -> list[Alert]:
    """Return the alerts about jobs that somebody sees; those about the machine where that is `is_everything`."""
    return [one for one in alerts if (sees(one.job) if one.job else is_everything)]


def _is_due(told: str, hours: float) -> bool:
    passed = datetime.fromisoformat(now()) - datetime.fromisoformat(told)
    return hours > 0 and passed.total_seconds() >= hours * 3600
