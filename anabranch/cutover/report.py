"""The report of a cut-over, made of its notes: for people as Markdown, for programs as JSON.

Keys of rows are in it, values are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.cutover import acting
from anabranch.model.cutover import STEPS, Cutover, Phase, Step, moment

VERSION = 1
STATES = ("not begun", "under way", "flip unknown", "flipped", "finished", "aborted")


@dataclass(frozen=True)
class CutoverReport:
    """`job`: with its target, if it has several. `cutover`: the notes. `gaps`: what is open in the fence now, where that was
    asked. `looked`: what does not act at the target as at the source now, where that was asked."""

    job: str
    cutover: Cutover
    gaps: tuple[str, ...] = ()
    looked: tuple[acting.Told, ...] | None = None

    @property
    def state(self) -> str:
        """Return one of STATES."""
        found = self.cutover
        if not found.notes:
            return "not begun"
        if found.is_aborted:
            return "aborted"
        if found.is_finished:
            return "finished"
        return "flipped" if found.is_flipped else "flip unknown" if found.is_flip_unknown else "under way"

    @property
    def acting(self) -> list[acting.Told] | None:
        """Return what does not act at the target as at the source: as it was found at the fence, else as it is now; None
        where nobody has looked."""
        if self.cutover.is_done(Step.CONSTRAINTS) and not self.cutover.is_aborted:
            return list(acting.told(self.cutover.facts(Step.CONSTRAINTS)))
        return None if self.looked is None else list(self.looked)

    @property
    def alarms(self) -> list[dict[str, Any]]:
        return [dict(note.facts) for note in self.cutover.notes if note.phase == Phase.ALARM]

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "job": self.job,
            "state": self.state,
            "who_writes": self.cutover.who_writes(),
            "next": self.cutover.next,
            "downtime_seconds": self.cutover.downtime,
            "asked_by": dict(self.cutover.facts(Step.BEGIN, Phase.BEGINS)),
            "steps": [self._step(step) for step in (*STEPS, Step.ABORT) if self._times(step)],
            **({"acting": [one._asdict() for one in found]} if (found := self.acting) is not None else {}),
            "alarms": self.alarms,
            "gaps": list(self.gaps),
        }

    def to_markdown(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        who = self.cutover.facts(Step.BEGIN, Phase.BEGINS)
        yield f"# Cut-over of {self.job}: {self.state}"
        yield ""
        yield f"{self.cutover.who_writes()}."
        for gap in self.gaps:
            yield ""
            yield f"**The fence is not known to hold**: {gap}."
        if who:
            yield ""
            yield f"Asked for by {who['user']} on {who['host']}, anabranch {who['release']}."
        if (downtime := self.cutover.downtime) is not None:
            yield ""
            yield f"Downtime, from the fence to the end of the flip: **{downtime:.3f} s**."
        steps = [step for step in (*STEPS, Step.ABORT) if self._times(step)]
        if steps:
            yield from ("", "| step | began | ended | |", "|---|---|---|---|")
            yield from (self._row(step) for step in steps)
        yield from self._verified()
        found = list(acting.told(self.cutover.facts(Step.CONSTRAINTS)))
        if found:
            yield from ("", "What does not act at the target as at the source:", "")
            yield from (f"- {one.said}: {one.hint}" for one in found)
        for row in self.alarms:
            yield ""
            what = f"{row['operation']} {row['table']} {row['key']} at {row['position']}"
            yield f"- **written to the source behind the flip**: {what}"

    def _verified(self) -> Iterator[str]:
        """Say of each table how it was compared at the fence."""
        tables = self.cutover.facts(Step.VERIFY).get("tables", ())
        if tables:
            yield from (
                "",
                "| table | compared at the fence | sum of the source | sum of the target |",
                "|---|---|---|---|",
            )
        for one in tables:
            if "since" in one:
                before = one.get("before_fence", {})
                until = f", {before['keys']} of them up to {before['until']} before the fence" if before else ""
                keys = one["keys"] + before.get("keys", 0)
                yield f"| {one['source']} | {keys} rows that changed since {one['since']}{until} | | |"
            else:
                why = f": {one['why']}" if one.get("why") else ""
                sums = " | ".join(one.get(name, "") for name in ("digest_source", "digest_target"))
                yield f"| {one['source']} | whole, {one['rows_source']} rows{why} | {sums} |"

    def _row(self, step: Step) -> str:
        began, ended = (moment(note.at) if note else "" for note in self._pair(step))
        facts = self.cutover.facts(step)
        apart = {Step.VERIFY: ("tables",), Step.CONSTRAINTS: acting.NAMES}.get(step, ())
        left = ("resume", "pid", "release", "host", "user", *apart)
        told = {name: value for name, value in facts.items() if name not in left}
        text = facts.get("skipped") or ", ".join(
            f"{name}: {json.dumps(value, default=str)}" for name, value in told.items()
        )
        return f"| {step} | {began} | {ended} | {text} |"

    def _step(self, step: Step) -> dict[str, Any]:
        began, ended = (moment(note.at) if note else None for note in self._pair(step))
        failed = self.cutover.facts(step, Phase.FAILED)
        return {"step": step, "began": began, "ended": ended, **dict(self.cutover.facts(step)), **failed}

    def _times(self, step: Step) -> bool:
        return any(note is not None for note in self._pair(step))

    def _pair(self, step: Step) -> tuple[Any, Any]:
        return self.cutover.note(step, Phase.BEGINS), self.cutover.note(step, Phase.DONE)


def report_of(
    job: str, cutover: Cutover, gaps: Sequence[str] = (), looked: Sequence[acting.Told] | None = None
) -> CutoverReport:
    return CutoverReport(job, cutover, tuple(gaps), None if looked is None else tuple(looked))


def write_files(home: Path, report: CutoverReport) -> None:
    """Write both forms beside the trail, as `cutover-<number of its first note>`."""
    name = f"cutover-{report.cutover.notes[0].number}"
    home.mkdir(parents=True, exist_ok=True)
    (home / f"{name}.md").write_text(report.to_markdown())
    (home / f"{name}.json").write_text(json.dumps(report.to_json(), indent=2, default=str, ensure_ascii=False) + "\n")
