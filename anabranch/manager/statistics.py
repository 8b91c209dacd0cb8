"""Statistics of the jobs: measures kept second by second for an hour, by the minute for a week, by the hour for two years.

A row has the average and the greatest of its time; a second, or a minute, in which nobody measured has no row. What does not
live here: measuring (`measures.py`), drawing (`console/sparkline.py`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from anabranch.errors import ConfigError
from anabranch.manager.measures import STATES, Measure, rank
from anabranch.manager.store import ManagerStore

MINUTE, HOUR, DAY = 60, 3600, 86_400
KEPT = {1: HOUR, MINUTE: 7 * DAY, HOUR: 731 * DAY}  # seconds that a row stands for, and for how long it is kept
FOLDED = ((1, MINUTE), (MINUTE, HOUR))
WHOLE = {1: MINUTE, MINUTE: HOUR, HOUR: DAY}
POINTS = 1000  # of one answer
EVEN = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21_600, 43_200, DAY)  # steps that are chosen
MOST = 50_000  # measures that wait to be written, where the disk is full: then the oldest are given up
PIECE = 10_000  # rows of one transaction, some hundredths of a second
PAUSE_S = 0.01  # between two of them, in which others come in


class Measured(StrEnum):
    """The measures that are kept, as the API names them."""

    LAG = "lag"
    CHANGES = "changes"
    ROWS = "rows"
    STATE = "state"


UNITS = {
    Measured.LAG: "seconds",
    Measured.CHANGES: "changes/s",
    Measured.ROWS: "rows/s",
    Measured.STATE: "rank, 0 is best",
}


@dataclass(frozen=True, slots=True)
class Point:
    """`at`: where its time begins, in seconds since 1970; `average` and `maximum` in it. `state`: of the measure `state` the
    one that needed a person most."""

    at: int
    average: float
    maximum: float
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one measure of one job, in order; where nobody measured there is none. Times in seconds since 1970."""

    job: str
    measure: Measured
    unit: str
    begin: int
    end: int
    step: int
    points: list[Point]


_INSTEAD = """
ON CONFLICT (step, job, at) DO UPDATE SET samples = excluded.samples, state = excluded.state,
    lag = excluded.lag, lag_most = excluded.lag_most, changes = excluded.changes, changes_most = excluded.changes_most,
    rows = excluded.rows, rows_most = excluded.rows_most
"""
_FOLD = f"""
INSERT INTO statistic
SELECT :to, job, at / :to * :to, sum(samples), max(state),
    sum(lag * samples) / sum(CASE WHEN lag IS NOT NULL THEN samples END), max(lag_most),
    sum(changes * samples) / sum(CASE WHEN changes IS NOT NULL THEN samples END), max(changes_most),
    sum(rows * samples) / sum(CASE WHEN rows IS NOT NULL THEN samples END), max(rows_most)
FROM statistic
WHERE step = :of AND job IN (SELECT id FROM statistic_job) AND at >= :begin AND at < :end
GROUP BY job, at / :to
{_INSTEAD}"""
_ADD = f"""
INSERT INTO statistic VALUES (1, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?)
{_INSTEAD}"""
_DROP = "DELETE FROM statistic WHERE step = :step AND job IN (SELECT id FROM statistic_job) AND at < :before"
_FIRST = "SELECT min((SELECT min(at) FROM statistic WHERE step = :step AND job = id AND at >= :begin)) AS at FROM statistic_job"
_COLUMNS = {Measured.LAG: "lag", Measured.CHANGES: "changes", Measured.ROWS: "rows"}


class Statistics:
    """The statistics of one manager."""

    def __init__(self, store: ManagerStore) -> None:
        self._store = store
        self._waiting: deque[tuple[int, Mapping[str, Measure]]] = deque()
        self._held = 0  # measures in it
        self._due: dict[int, int] = {}  # up to where all is folded

    def note(self, at: int, measures: Mapping[str, Measure]) -> None:
        """Keep measures of the second `at`, by job, until the next `write`."""
        self._waiting.append((at, measures))
        self._held += len(measures)
        while self._held > MOST and len(self._waiting) > 1:
            self._held -= len(self._waiting.popleft()[1])

    def write(self, at: int) -> None:
        """Write what was noted, fold what is over by the second `at`, and drop what is too old: in transactions of about PIECE
        rows, since nobody else is answered during one."""
        taken = list(self._waiting)
        with self._store.writing() as connection:
            names = {name for _, measures in taken for name in measures}
            numbers = {row["name"]: row["id"] for row in connection.execute("SELECT * FROM statistic_job")}
            if new := names - numbers.keys():
                each = [(name,) for name in new]
                connection.executemany("INSERT INTO statistic_job (name) VALUES (?) ON CONFLICT DO NOTHING", each)
                numbers = {row["name"]: row["id"] for row in connection.execute("SELECT * FROM statistic_job")}
            rows = (_row(second, numbers[name], one) for second, measures in taken for name, one in measures.items())
            connection.executemany(_ADD, rows)
        self._waiting.clear()
        self._held = 0
        due = {to: at // to * to for _, to in FOLDED}
        if due != self._due:
            for of, to in FOLDED:
                self._fold(of, to, due[to], len(numbers))
            for step, seconds in KEPT.items():  # whole minutes, and whole hours: they may be folded once more
                self._drop(step, (at - seconds) // WHOLE[step] * WHOLE[step], len(numbers))
            self._due = due

    def _fold(self, of: int, to: int, end: int, jobs: int) -> None:
        """Fold rows of `of` seconds to those of `to`, from where that was left, by whichever manager. A clock that was set back
        has some of them folded once more."""
        kept = self._store.row("SELECT up_to FROM statistic_folded WHERE step = ?", (to,))
        begin, length = min(kept["up_to"] if kept else 0, end), _length(of, to, jobs)
        while begin < end or kept is None or kept["up_to"] > end:
            first = self._first(of, begin)
            begin = (
                end if first is None else min(first // to * to, end)
            )  # a time in which nobody measured costs nothing
            until = min(begin + length, end)
            with self._store.writing() as connection:
                connection.execute(_FOLD, {"of": of, "to": to, "begin": begin, "end": until})
                connection.execute(
                    "INSERT INTO statistic_folded VALUES (?, ?)"
                    " ON CONFLICT (step) DO UPDATE SET up_to = excluded.up_to",
                    (to, until),
                )
            begin, kept = until, {"up_to": until}
            time.sleep(PAUSE_S)

    def _drop(self, step: int, before: int, jobs: int) -> None:
        length = _length(step, WHOLE[step], jobs)
        while (first := self._first(step, 0)) is not None and first < before:
            until = min(first // WHOLE[step] * WHOLE[step] + length, before)
            with self._store.writing() as connection:
                connection.execute(_DROP, {"step": step, "before": until})
            time.sleep(PAUSE_S)

    def _first(self, step: int, begin: int) -> int | None:
        """Return the time of the first row of `step` seconds from `begin` on, of any job."""
        found = self._store.row(_FIRST, {"step": step, "begin": begin})
        return found["at"] if found else None

    def series(
        self, job: str, measure: Measured, begin: int, end: int, step: int | None = None, now: int | None = None
    ) -> Series:
        """Return a measure from `begin` up to `end`, of POINTS points at most. `step`: seconds between two of them, else
        chosen; `now`: the present second, `end` by default. Raises ConfigError for more points, and an end before its begin."""
        if begin >= end:
            raise ConfigError("the time ends before it begins", hint="give from and to in order")
        least = -(-(end - begin) // (POINTS - 1))
        of = next((kept for kept, seconds in KEPT.items() if (now or end) - begin <= seconds), HOUR)
        chosen = step or next((one for one in EVEN if one >= max(least, of)), -(-least // DAY) * DAY)
        if chosen < least:
            raise ConfigError(
                f"that would be more than {POINTS} points", hint=f"a step of {least} seconds or more, or less time"
            )
        chosen = -(-chosen // of) * of  # whole rows
        points = self._points(job, measure, begin // chosen * chosen, end, chosen, of)
        return Series(job, measure, UNITS[measure], begin, end, chosen, points)

    def _points(self, job: str, measure: Measured, begin: int, end: int, step: int, of: int) -> list[Point]:
        if measure is Measured.STATE:
            values = "sum(state * samples) * 1.0 / sum(samples) AS average, max(state) AS maximum"
            column = "state"
        else:
            column = _COLUMNS[measure]  # ours, not the caller's
            values = f"sum({column} * samples) / sum(samples) AS average, max({column}_most) AS maximum"
        query = (
            f"SELECT at / :step * :step AS at, {values} FROM statistic JOIN statistic_job ON id = job "
            f"WHERE step = :of AND name = :job AND at >= :begin AND at < :end AND {column} IS NOT NULL GROUP BY 1 ORDER BY 1"
        )
        rows = self._store.rows(query, {"step": step, "of": of, "job": job, "begin": begin, "end": end})
        is_state = measure is Measured.STATE
        return [
            Point(
                row["at"],
                round(row["average"], 3),
                round(row["maximum"], 3),
                STATES[row["maximum"]] if is_state else None,
            )
            for row in rows
        ]


def _length(step: int, whole: int, jobs: int) -> int:
    """Return the seconds, a multiple of `whole`, for which these jobs have PIECE rows of `step`, one `whole` at least."""
    return max(1, PIECE * step // (max(jobs, 1) * whole)) * whole


def _row(at: int, number: int, measure: Measure) -> Sequence[object]:
    lag, changes, rows = measure.lag, measure.changes, measure.rows
    return number, at, rank(measure.state), lag, lag, changes, changes, rows, rows
