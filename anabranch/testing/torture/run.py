"""One history, from its empty tables to the verdict; and the file that keeps one that failed.

What does not live here: the job that carries it (contract.py says what it has to be), drawing histories and faults.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.change_fold import first_told, grounded
from anabranch.testing.torture.check import MODEL, PIPELINE, WRONG, Checker, Failure
from anabranch.testing.torture.contract import SECOND, Fault, Pipeline, PipelineFailed, is_apart, shows_enough
from anabranch.testing.torture.exempt import INTRUDER
from anabranch.testing.torture.history import History
from anabranch.testing.torture.passing import wrong_outcomes
from anabranch.testing.torture.sessions import Sessions
from anabranch.testing.torture.sources import source_family
from anabranch.testing.torture.speaker import COMMITTED
from anabranch.testing.torture.targets import family_at
from anabranch.testing.torture.verdict import Seen, verdict
from anabranch.testing.torture.watcher import Observation, Watcher

PATIENCE = 300.0  # seconds for a job to become consistent, and to catch up


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a history. `prefixes`: how many different states of the source were seen at the target.

    With several targets `prefixes` and `observations` are those of the one with the most."""

    seed: int
    failure: Failure | None
    committed: int
    observations: int
    prefixes: int
    seconds: float
    fired: tuple[Fault, ...]
    hits: frozenset[str]
    targets: int = 1


def run_history(
    history: History,
    source: Server,
    target: Database,
    pipeline: Pipeline,
    *,
    patience: float = PATIENCE,
    on_begin: Callable[[Any, Sessions], None] = lambda *_: None,
) -> Result:
    """Run a history with the job that `pipeline` is: from the database `history.database` at the source to the schema of
    the same name at the target, and at any other of the pipeline's; none of them is there before or afterwards. Ends the
    pipeline. `on_begin` is told the place in the source's log behind which the history lies, and its sessions.

    Raises what is wrong with a server or with the kit; what is wrong with the job is in the result."""
    began = time.monotonic()
    targets = (target, *pipeline.others)
    family, begin = source_family(source.name), _prepared(history, source, targets)
    sessions = Sessions(history, source, pipeline.committed)
    on_begin(begin, sessions)
    more = pipeline.beside()
    watchers = [
        Watcher(t, history.database, history.schema, more, waits=t is not target, drops=history.drops) for t in targets
    ]
    try:
        failed, fired = _drive(history, sessions, watchers, pipeline, patience)
        commits = family.commits(source, begin, history)
        facts, lost = (history, source.name, sessions.outcomes, commits), losses(fired, targets)
        seen = [
            _seen(name, Checker(*facts, losses=number, truncates=truncates), watcher, at, pipeline.meets)
            for name, watcher, number, truncates, at in zip(
                ("", SECOND), watchers, lost, pipeline.truncates, targets, strict=False
            )
        ]
        lines = family.lines(source, history.database, history.schema)
        failure = verdict(seen, lines, is_whole=failed is None)
        if failed is not None:  # what was seen says more than what the job failed of; together they say most
            failure = Failure(failure.kind, f"{failure.message}\n{failed.message}") if failure else failed
        if failure is None and INTRUDER in more:
            failure = seen[0].checker.noted(pipeline.noted(), seen[0].observations)
        failure = failure or _wrong_beside(seen, pipeline)
        if failure is None and history.passes:
            failure = _wrong_notes(history, commits.order, seen, pipeline)
        says_nothing = _says_nothing(history, failure, seen[0].checker.emptied_without_log(lines))
        failure = None if says_nothing else failure
        hits = pipeline.hits()
    finally:
        sessions.close()
        for watcher in watchers:
            watcher.close()
        pipeline.stop()
        remove(history, source, *targets)
    observations = max(one.made for one in watchers)
    prefixes = 0 if says_nothing else max(len(one.checker.prefixes) for one in seen)
    missed = next((one.missed for one in watchers if one.missed), "")
    if failure is None and not shows_enough(observations, prefixes) and missed:
        print(f"history {history.seed}: a look at the target came to nothing: {missed}", file=sys.stderr)
    committed = sum(outcome.end == COMMITTED for outcome in sessions.outcomes.values())
    took = time.monotonic() - began
    return Result(history.seed, failure, committed, observations, prefixes, took, fired, hits, len(targets))


def _prepared(history: History, source: Server, targets: Sequence[Database]) -> Any:
    """Make the source's database, where nothing is left of it at the targets; return the place in the log behind that."""
    for each in targets:
        family_at(each).prepare(each, history.database)
    family = source_family(source.name)
    begin = family.prepare(history, source)
    if family_at(targets[0]).keeps_changes:
        family.tell_whole_rows(source, history.database)
    return begin


def _seen(name: str, checker: Checker, watcher: Watcher, target: Database, meets: str) -> Seen:
    """Return what was seen at a target; where it shows changes alone, with the rows that they make of those before: before the
    first change that was told, and before the first that had to be, since the job had begun (`meets`: Pipeline)."""
    observations: Sequence[Observation] = watcher.observations
    if family_at(target).form:
        history, told = checker.history, first_told(observations)
        owed = (*history.during, *history.after) if meets else history.after
        numbers = [one.number for one in owed] + ([] if told is None else [told])
        observations = grounded(observations, checker.rows_before(numbers))
    return Seen(name, checker, observations)


def _says_nothing(history: History, failure: Failure | None, unlogged: str) -> bool:
    """Return whether model and source differ because the source emptied a table (`unlogged`) without a line in its log."""
    if not unlogged or failure is None or failure.kind != MODEL:
        return False
    print(f"history {history.seed} says nothing: the source emptied {unlogged} without logging it", file=sys.stderr)
    return True


def remove(history: History, source: Server, *targets: Database) -> None:
    """Remove what a history leaves at its ends; the pipeline removes the job's own rows."""
    source_family(source.name).drop(source, history.database)
    for target in targets:
        family_at(target).drop(target, history.database)


def _drive(
    history: History, sessions: Sessions, watchers: Sequence[Watcher], pipeline: Pipeline, patience: float
) -> tuple[Failure | None, tuple[Fault, ...]]:
    """Let everything happen. Returns what the job failed of by itself, and the faults before the last observation: what
    comes later shows nothing."""
    try:
        sessions.run(history.before, counts=False)
        pipeline.start()
        pipeline.wait_loading(patience)
        sessions.run(history.during)
        pipeline.wait_consistent(patience)
        for watcher in watchers:
            watcher.start()
        sessions.run(history.after)
        pipeline.wait_caught_up(patience)
        is_settled = pipeline.settle(patience)
    except PipelineFailed as failed:
        return Failure(PIPELINE, str(failed)), pipeline.fired()
    finally:
        for watcher in watchers:
            watcher.stop()
    fired = pipeline.fired() if is_settled else ()
    for watcher in watchers:
        watcher.observe_last(patience)
    try:
        pipeline.look()
    except PipelineFailed as failed:
        return Failure(PIPELINE, str(failed)), fired
    return None, fired


def losses(fired: Sequence[Fault], targets: Sequence[Database]) -> list[int]:
    """Return how often each target was made to forget its last commits. One that keeps changes never does: who reads them has
    them for good."""
    if any(family_at(target).keeps_changes for target in targets):
        return [0] * len(targets)
    lost = [fault.at for fault in fired if fault.kind == "lose" and fault.where == "target"]
    return [lost.count(at) if is_apart(targets) else len(lost) for at, _ in zip(("", SECOND), targets, strict=False)]


def _wrong_beside(seen: Sequence[Seen], pipeline: Pipeline) -> Failure | None:
    for one in seen:
        tables = {table: [some.more[table] for some in one.observations] for table in pipeline.beside()}
        if wrong := pipeline.wrong_beside(tables, one.checker.losses):
            return one.said(Failure(WRONG, wrong))
    return None


def _wrong_notes(history: History, order: Sequence[int], seen: Sequence[Seen], pipeline: Pipeline) -> Failure | None:
    """Compare what `ddl ls` says of tables that were made, renamed and dropped with the source's log."""
    for one, noted in zip(seen, pipeline.definitions(), strict=True):
        if wrong := wrong_outcomes(history, order, noted):
            return one.said(Failure(WRONG, wrong))
    return None


# --- files ---------------------------------------------------------------------------------------------------------------


def save(path: Path, history: History, faults: Sequence[Fault], result: Result | None, **more: Any) -> None:
    """A history as a file that people read and `load` does. `more`: versions, the commit, whatever helps."""
    said = {"failure": str(result.failure), "seconds": round(result.seconds, 3)} if result and result.failure else {}
    data = {**said, **more, "faults": [asdict(fault) for fault in faults], "history": history.to_json()}
    path.write_text(_readable(data) + "\n")


def load(path: Path) -> tuple[History, tuple[Fault, ...]]:
    data = json.loads(path.read_text())
    return History.from_json(data["history"]), tuple(Fault(**fault) for fault in data["faults"])


def _readable(value: Any, indent: int = 0) -> str:
    """JSON with one line for whatever fits into one."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= 118 or not isinstance(value, (dict, list, tuple)):
        return flat
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        lines = (f"{inner}{json.dumps(k)}: {_readable(v, indent + 1)}" for k, v in value.items())
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(inner + _readable(v, indent + 1) for v in value) + "\n" + " " * indent + "]"
