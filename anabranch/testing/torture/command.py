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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.errors import AnabranchError, ConfigError, DifferencesFound
from anabranch.testing.torture import report
from anabranch.testing.torture.campaign import Campaign, KitFailed, NothingCounted, Told
from anabranch.testing.torture.check import MODEL
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.ground import Ground, private
from anabranch.testing.torture.history import History
from anabranch.testing.torture.one import One, concerns_servers
from anabranch.testing.torture.pair import ALIASES, users_own
from anabranch.testing.torture.postgresql_source import DECODERS
from anabranch.testing.torture.run import Result, load, save
from anabranch.testing.torture.second import made_beside
from anabranch.testing.torture.shrink import shrink
from anabranch.testing.torture.sources import NAMES
from anabranch.testing.torture.targets import NAMES as TARGETS
from anabranch.testing.torture.targets import target_family
from anabranch.testing.torture.uninterrupted import uninterrupted

HISTORIES = 20
DRAWN = "drawn"


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line (cli/torture.py). `source`: a URL, with a `target` that is one, or the name of a private one. `target`:
    also the name of a private one, then with private sources."""

    source: str | None = None
    target: str | None = None
    seed: int = 1
    histories: int | None = None
    minutes: float | None = None
    workers: int = 2
    with_spark: bool = False
    replay: Path | None = None
    results: Path | None = None
    keeps_going: bool = False
    decoder: str = ""  # of a private PostgreSQL source, or DRAWN

    @property
    def decoders(self) -> tuple[str, ...]:
        """The decoders of which each history draws one; "" for the usual one, on the newest release that is here."""
        return DECODERS if self.decoder == DRAWN else (self.decoder,)

    @property
    def is_users_own(self) -> bool:
        """Return whether both ends are named by URLs."""
        return bool(self.source and self.target) and self.target not in TARGETS

    @property
    def families(self) -> tuple[str, ...]:
        """The families of private sources. To a PostgreSQL as the target its own is asked for by name."""
        if self.source in NAMES:
            return (self.source,)
        return NAMES if self.target in TARGETS and self.target != "postgresql" else ("mariadb", "mysql")

    @property
    def seeds(self) -> Iterator[int]:
        number = self.histories or (None if self.minutes else HISTORIES)
        return iter(range(self.seed, self.seed + number)) if number else itertools.count(self.seed)


def run_torture(asked: Asked) -> int:
    """The exit code. Raises DifferencesFound for a history that failed, KitFailed where there is no
    verdict, NothingCounted."""
    replayed = _read(asked.replay) if asked.replay else None
    if replayed:
        _require_fit(asked, replayed)
    if asked.results:
        report.require_writable(asked.results)
    if asked.with_spark and asked.target in TARGETS and target_family(str(asked.target)).keeps_changes:
        raise ConfigError(f"--spark: a job to a {asked.target} does nothing in Spark", hint="leave --spark out")
    with _directory() as directory, _ground(asked, directory, replayed) as ground:
        ground.require_free()
        _say(*(f"  source  {s.name} {s.version} on {s.host}:{s.port}" for s in ground.sources))
        _say(*(f"  target  {s.name} {s.version} on {s.host}:{s.port}" for s in ground.targets))
        with_spark = replayed.with_spark if replayed and replayed.with_spark is not None else asked.with_spark
        one = One(ground, directory, with_spark)
        seeds = [replayed.history.seed] if replayed else []
        try:
            if replayed:
                return _replay(one, replayed)
            failed = _campaign(asked, one)
            seeds += [told.seed for told in failed]
            if failed:
                _make_small(one, failed[0])
                raise _error(failed[0].seed, failed[0].failure, [told.seed for told in failed[1:]])
        except KitFailed as broken:
            if not broken.seed or replayed:
                raise
            seeds.append(broken.seed)
            file = _kept(one, broken.seed, *one.drawn(broken.seed), str(broken))
            raise KitFailed(broken.message, hint=f"{broken.hint}; the history is in {file}") from broken
        finally:
            with uninterrupted():
                ground.clear(seeds)
    return 0


# --- many -------------------------------------------------------------------------------------------------------------


def _campaign(asked: Asked, one: One) -> list[Told]:
    """Run it and say what came of it. The histories that failed, written down."""
    begun, tally, failed, ground = time.monotonic(), report.Tally(), list[Told](), one.ground
    until = begun + asked.minutes * 60 if asked.minutes else None
    campaign = Campaign(ground, one.directory, asked.workers, asked.with_spark, asked.keeps_going)
    with contextlib.closing(campaign.run(asked.seeds, until)) as results:
        for told in results:
            tally.add(told)
            if told.failure:
                _say(f"{told.seed:>6}  {told.source:<8}FAILED  {told.failure.splitlines()[0]}")
                failed.append(_written_down(one, told))
            else:
                _say(report.line(told))
    seconds = time.monotonic() - begun
    print("\n".join(["", *report.summary(tally, seconds)]), flush=True)
    if not failed and not tally.counted:
        raise NothingCounted(
            f"no history counts: none of {tally.passed} had both a fault that came about and enough states seen"
        )
    if asked.results:
        servers = [*ground.sources, *ground.targets]
        report.keep(asked.results, tally, seconds, [f"{s.name} {s.version}" for s in servers])
    return failed


def _written_down(one: One, told: Told) -> Told:
    """At once: whatever comes after it may end the campaign. The failure names what is kept, not what is removed."""
    history, faults = one.drawn(told.seed)
    left = _left(one, history)
    failure = told.failure.replace(str(one.directory / history.database), str(left))
    file = _kept(one, told.seed, history, faults, failure)
    _say("", failure, "", f"it is in {file}, its logs and its trail are in {left}", "")
    return replace(told, failure=failure)


def _make_small(one: One, told: Told) -> None:
    _say(f"making history {told.seed} smaller …")
    history, faults = one.drawn(told.seed)
    smaller, result = _shrunk(one, history, faults)
    file = _kept(one, told.seed, smaller, faults, told.failure, result)
    _say(
        f"{len(smaller.transactions)} of {len(history.transactions)} transactions are left",
        "run it again:",
        f"  anabranch torture --replay {file.name}",
    )


def _kept(
    one: One,
    seed: int,
    history: History,
    faults: Sequence[Fault],
    first: str,
    result: Result | None = None,
) -> Path:
    """The file in the working directory that runs a history again."""
    file = Path(f"torture-{seed}.json").absolute()
    source, target = one.ground.source_of(seed), one.ground.target.server
    family = one.ground.family.name
    versions = {"source": f"{source.name} {source.version}", "target": f"{family} {target.version}"}
    more = {"servers": versions, "commit": report.commit(), "spark": one.with_spark, "first": first}
    save(file, history, faults, result, **more)
    return file


def _left(one: One, history: History) -> Path:
    """Copy what the job left from a directory that is removed to a place beside the file; return the place."""
    kept = Path(f"torture-{history.seed}.left").absolute()
    shutil.rmtree(kept, ignore_errors=True)
    with contextlib.suppress(OSError):  # there may be nothing
        shutil.copytree(one.directory / history.database, kept, ignore_dangling_symlinks=True)
    return kept


def _shrunk(one: One, history: History, faults: tuple[Fault, ...]) -> tuple[History, Result | None]:
    try:
        return shrink(history, lambda smaller: one.run(smaller, faults))
    except AnabranchError as error:
        _say(f"it could not be made smaller: {error}")
        return history, None


def _error(seed: int, said: str, more: Sequence[int] = ()) -> AnabranchError:
    """`more`: other seeds that failed."""
    others = f"; so did {', '.join(map(str, more))}" if more else ""
    if said.startswith(f"{MODEL}:"):
        return KitFailed(
            f"history {seed}: {said}{others}", hint="the kit's model and the source disagree: report it with the file"
        )
    return DifferencesFound(f"history {seed} failed: {said}{others}", hint="the file that was written runs it again")


# --- one --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Replayed:
    """A file. `family`, `target`: the ends that it failed on; "" and None where the file does not say, as older ones do not
    of the target, which was a PostgreSQL."""

    file: Path
    history: History
    faults: tuple[Fault, ...]
    family: str
    target: str
    with_spark: bool | None


def _read(file: Path) -> _Replayed:
    try:
        data = json.loads(file.read_text())
        family, target = (data.get("servers", {}).get(end, "").split(" ")[0] for end in ("source", "target"))
        return _Replayed(file, *load(file), family, target if target in TARGETS else "", data.get("spark"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{file} is no history: {error}", hint="name a file that torture wrote") from None


def _require_fit(asked: Asked, replayed: _Replayed) -> None:
    """The history can be what it was with what was asked for. Raises ConfigError."""
    file, given = replayed.file, (asked.source or "").partition(":")[0]
    if given and replayed.family and given != replayed.family:
        raise ConfigError(
            f"{file} is of a {replayed.family}, --source is a {given}", hint=f"name a {replayed.family}, or no pair"
        )
    given = (asked.target or "").partition(":")[0]
    if given and replayed.target and ALIASES.get(given, given) != replayed.target:
        raise ConfigError(
            f"{file} is of a target {replayed.target}, --target is a {given}",
            hint=f"name a {replayed.target}, or no pair",
        )
    if asked.is_users_own and concerns_servers(replayed.faults):
        raise ConfigError(
            f"{file} has faults that restart servers, which is not done to yours",
            hint="leave --source and --target out",
        )
    if asked.with_spark and replayed.with_spark is False:
        raise ConfigError(f"{file} was written without --spark; its faults are not those of Spark", hint="leave it out")


def _replay(one: One, replayed: _Replayed) -> int:
    history, faults = replayed.history, replayed.faults
    family = one.ground.source_of(history.seed).name
    targets = "two targets" if one.second_of(history.seed) else "one target"
    _say(
        f"history {history.seed} on {family}, {targets}, {len(history.transactions)} transactions, {len(faults)} faults"
    )
    result = one.run(history, faults)
    fired = ", ".join(f"{fault.kind} {fault.place}" for fault in result.fired) or "none"
    print(f"{result.seconds:.1f} s, {result.committed} transactions committed, faults that came about: {fired}")
    if result.failure:
        left = _left(one, history)
        _say(f"its logs and its trail are in {left}")
        said = str(result.failure).replace(str(one.directory / history.database), str(left))
        raise _error(history.seed, said)
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
def _ground(asked: Asked, directory: Path, replayed: _Replayed | None) -> Iterator[Ground]:
    if asked.is_users_own:
        ground = users_own(str(asked.source), str(asked.target))
        with nullcontext() if asked.with_spark else made_beside(ground.target, _say) as ground.second:
            yield ground
        return
    families = (replayed.family or "mariadb",) if replayed else asked.families
    target = (replayed.target if replayed else "") or asked.target or "postgresql"
    _say(f"starting {', '.join(families)}, and {target} as the target, privately")
    decoders = (replayed.history.decoder,) if replayed else asked.decoders
    with private(directory, families, decoders, target) as ground:
        yield ground


def _say(*lines: str) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)
