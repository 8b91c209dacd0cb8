"""`anabranch torture`, told in order: servers, histories, and what to do with one that fails.

Results go to stdout, progress to stderr. What does not live here: any of the actors.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import AnabranchError, ConfigError, DifferencesFound
from anabranch.testing.torture import report
from anabranch.testing.torture.campaign import Campaign, KitFailed, Told
from anabranch.testing.torture.check import MODEL
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.ground import Ground, private, users_own
from anabranch.testing.torture.history import History
from anabranch.testing.torture.one import One
from anabranch.testing.torture.run import Result, load, save
from anabranch.testing.torture.shrink import shrink

HISTORIES = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line (cli/torture.py)."""

    source: str | None = None
    target: str | None = None
    seed: int = 1
    histories: int | None = None
    minutes: float | None = None
    workers: int = 2
    with_spark: bool = False
    replay: Path | None = None
    results: Path | None = None

    @property
    def seeds(self) -> Iterator[int]:
        number = self.histories or (None if self.minutes else HISTORIES)
        return iter(range(self.seed, self.seed + number)) if number else itertools.count(self.seed)


def run_torture(asked: Asked) -> int:
    """The exit code. Raises DifferencesFound for a history that failed, KitFailed for what is not the product's."""
    replayed = _read(asked.replay) if asked.replay else None
    with _directory() as directory, _ground(asked, directory, replayed) as ground:
        ground.require_free()
        _say(*(f"  source  {s.name} {s.version} on {s.host}:{s.port}" for s in ground.sources))
        server = ground.target.server
        _say(f"  target  {server.name} {server.version} on {server.host}:{server.port}")
        one = One(ground, directory, asked.with_spark)
        try:
            if replayed:
                return _replay(one, *replayed)
            failed = _campaign(asked, ground, directory)
            if failed:
                _keep_failed(one, failed)
        finally:
            ground.clear([replayed[0].seed] if replayed else [])
    return 0


# --- many -------------------------------------------------------------------------------------------------------------


def _campaign(asked: Asked, ground: Ground, directory: Path) -> Told | None:
    """Run it and say what came of it. The history that failed, if one did."""
    begun, tally, failed = time.monotonic(), report.Tally(), None
    until = begun + asked.minutes * 60 if asked.minutes else None
    campaign = Campaign(ground, directory, asked.workers, asked.with_spark)
    with contextlib.closing(campaign.run(asked.seeds, until)) as results:
        for told in results:
            tally.add(told)
            if told.failure:
                failed = failed or told
                _say(f"{told.seed:>6}  {told.source:<8}FAILED  {told.failure.splitlines()[0]}")
            else:
                _say(report.line(told))
    seconds = time.monotonic() - begun
    print("\n".join(["", *report.summary(tally, seconds)]), flush=True)
    if asked.results:
        servers = [*ground.sources, ground.target.server]
        report.keep(asked.results, tally, seconds, [f"{s.name} {s.version}" for s in servers])
    return failed


def _keep_failed(one: One, told: Told) -> None:
    """Make it small, write it down, and say so. Raises."""
    history, faults = one.drawn(told.seed)
    _say("", told.failure, "", "making it smaller …")
    smaller, result = _shrunk(one, history, faults)
    file = Path(f"torture-{told.seed}.json").absolute()
    source = one.ground.source_of(told.seed)
    versions = {"source": f"{source.name} {source.version}", "target": one.ground.target.server.version}
    spark = ["--spark"] if one.with_spark else []
    said = str(result.failure) if result and result.failure else told.failure
    save(file, smaller, faults, result, servers=versions, commit=report.commit(), first=told.failure)
    size = f"{len(smaller.transactions)} of {len(history.transactions)} transactions are left"
    _say(
        f"{size}; it is in {file}",
        "run it again:",
        f"  anabranch torture --replay {file.name} {' '.join(spark)}".rstrip(),
    )
    raise _error(told.seed, said)


def _shrunk(one: One, history: History, faults: tuple[Fault, ...]) -> tuple[History, Result | None]:
    try:
        return shrink(history, lambda smaller: one.run(smaller, faults))
    except AnabranchError as error:
        _say(f"it could not be made smaller: {error}")
        return history, None


def _error(seed: int, said: str) -> AnabranchError:
    if said.startswith(f"{MODEL}:"):
        return KitFailed(
            f"history {seed}: {said}", hint="the kit's model and the source disagree: report it with the file"
        )
    return DifferencesFound(f"history {seed} failed: {said}", hint="the file that was written runs it again")


# --- one --------------------------------------------------------------------------------------------------------------


def _read(file: Path) -> tuple[History, tuple[Fault, ...], str]:
    """History, faults, and the source it failed on."""
    try:
        family = json.loads(file.read_text()).get("servers", {}).get("source", "mariadb").split(" ")[0]
        return (*load(file), family)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} is no history: {error}", hint="name a file that torture wrote") from None


def _replay(one: One, history: History, faults: tuple[Fault, ...], family: str) -> int:
    _say(f"history {history.seed} on {family}, {len(history.transactions)} transactions, {len(faults)} faults")
    result = one.run(history, faults)
    fired = ", ".join(f"{fault.kind} {fault.where}" for fault in result.fired) or "none"
    print(f"{result.seconds:.1f} s, {result.committed} transactions committed, faults that came about: {fired}")
    if result.failure:
        raise _error(history.seed, str(result.failure))
    print("it passed")
    return 0


# --- where ------------------------------------------------------------------------------------------------------------


@contextmanager
def _directory() -> Iterator[Path]:
    """Short, for the sockets of servers; readable by the account they run as."""
    directory = Path(tempfile.mkdtemp(prefix="anabranch-torture-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _ground(asked: Asked, directory: Path, replayed: tuple[History, tuple[Fault, ...], str] | None) -> Iterator[Ground]:
    if asked.source and asked.target:
        yield users_own(asked.source, asked.target)
        return
    families = (replayed[2],) if replayed else ("mariadb", "mysql")
    _say(f"starting {', '.join(families)} and postgresql, privately")
    with private(directory, families) as ground:
        yield ground


def _say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)
