"""Progress on the terminal while `run` works: bars while tables load, then one live line. Without a terminal, a log
line now and then."""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from anabranch import log
from anabranch.job.lag import Lag
from anabranch.job.status import Picture, rows_loaded
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.job import caughtup
    from anabranch.job.lanes import Lane

LOG_SECONDS = 5.0
RATE_SECONDS = 5.0


class Display:
    """The display of a run, refreshed by the supervisor's loop. It shows and decides nothing."""

    def __init__(self, lanes: Sequence[Lane], show: IO[str] | None) -> None:
        """Prepare the display. `show`: where people look. If that is no terminal, log lines tell of the progress."""
        self.console = Console(file=show or io.StringIO())
        self._panes = [Pane(lane, self.console) for lane in lanes]
        self._live = Live(console=self.console, refresh_per_second=4, transient=True)
        self._next = 0.0

    def __enter__(self) -> Display:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        for pane in self._panes:
            pane.close()
        if self.console.is_terminal:
            self._live.stop()

    def refresh(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + 0.25
        shown = [pane.refresh(now) for pane in self._panes]
        if self.console.is_terminal:
            self._live.update(Group(*shown))


class Rate:
    """The rate at which something is counted, of the last seconds."""

    def __init__(self) -> None:
        self._counts: deque[tuple[float, int]] = deque()

    def told(self, now: float, count: int) -> int:
        """Note a count, and return the rate up to it."""
        self._counts.append((now, count))
        while now - self._counts[0][0] > RATE_SECONDS:
            self._counts.popleft()
        then, before = self._counts[0]
        return max(0, round((count - before) / max(now - then, 0.25)))  # less: a load has begun again


class RowsPerSecond(ProgressColumn):
    """The rate of a table's rows behind its bar."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} rows/s" if speed else "")


def bars_of_tables(console: Console) -> Progress:
    """Return bars that show the names of tables as they are: `[/b]` in one is no markup."""
    name, left = TextColumn("{task.description}", markup=False), TimeRemainingColumn(compact=True)
    return Progress(name, BarColumn(), MofNCompleteColumn(), RowsPerSecond(), left, console=console)


class Pane:
    """The part of the display that shows one target."""

    def __init__(self, lane: Lane, console: Console) -> None:
        self.lane, self.job, self.console = lane, lane.job, console
        self.bars = bars_of_tables(self.console)
        self._named = {"target": self.job.target} if self.job.is_one_of_several else {}
        self._lag, self._picture = Lag(self.job.trail), Picture(self.job)
        self._bars: dict[str, TaskID] = {}
        self._changes, self._rows = Rate(), Rate()
        self._next_log = 0.0
        self._phase = ""

    def close(self) -> None:
        self._lag.close()
        self._picture.close()

    def refresh(self, now: float) -> RenderableType:
        """Return what a terminal shows of the target now. Without a terminal, write a log line now and then."""
        progress = self.lane.progress
        snapshot = self._picture.now()
        facts = self._facts(progress, snapshot, now)
        if progress.is_streaming != (self._phase == "streaming"):
            self._phase = "streaming" if progress.is_streaming else "loading"
            log.get(job=self.job.config.name, **self._named).info(self._phase, **facts)
        elif not self.console.is_terminal and now >= self._next_log:
            self._next_log = now + LOG_SECONDS
            log.get(job=self.job.config.name, **self._named).info("progress", **facts)
        return self._line(facts) if progress.is_streaming else self._loading(snapshot)

    def _facts(self, progress: caughtup.Progress, snapshot: dict[str, Any], now: float) -> dict[str, Any]:
        changes = sum(state.changes_applied for state in progress.states.values())
        rows = sum(rows_loaded(state, snapshot) for state in progress.states.values())
        parked, aside = progress.parked(), sum(progress.set_aside().values())
        return {
            "phase": snapshot["phase"],
            "lag_seconds": self._lag.seconds(snapshot, progress.checkpoint),
            "changes_per_second": self._changes.told(now, changes),
            "changes": changes,
            "rows_loaded": rows,
            **({"rows_per_second": self._rows.told(now, rows)} if snapshot["phase"] == "loading" else {}),
            "position": str(progress.checkpoint.position) if progress.checkpoint else "",
            **({"waiting_for": snapshot["detail"]} if snapshot["detail"] else {}),
            **({"parked": len(parked)} if parked else {}),
            **({"set_aside": aside} if aside else {}),
        }

    def _line(self, facts: dict[str, Any]) -> Text:
        lag = facts["lag_seconds"]
        parked = "".join(
            f"  [{facts[what]} {what.replace('_', ' ')}]" for what in ("parked", "set_aside") if what in facts
        )
        return Text(
            f"{self._name()}{facts['phase']}  lag {'?' if lag is None else f'{lag:.1f} s'}  "
            f"{facts['changes_per_second']:,} changes/s  {facts['changes']:,} applied  at {facts['position']}{parked}"
        )

    def _loading(self, snapshot: dict[str, Any]) -> Any:
        for table, done in snapshot["progress"].items():
            if table not in self._bars:
                self._bars[table] = self.bars.add_task(_short(table), total=done["total"] or None)
            self.bars.update(self._bars[table], completed=done["done"], total=done["total"] or None)
        detail = snapshot["detail"]
        if not self._bars:
            return Text(f"{self._name()}{snapshot['phase']} {detail}".strip())
        return Group(self.bars, Text(detail, style="dim")) if detail else self.bars

    def _name(self) -> str:
        return "".join(f"{name:<12}" for name in self._named.values())


def _short(table: str) -> str:
    try:
        return TableId.parse(table).name
    except ValueError:
        return table
