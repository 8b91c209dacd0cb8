"""Report a campaign while it runs and at its end, and keep what a run showed in a file.

What does not live here: the page made of the file (docs/generate.py).
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.errors import ConfigError
from anabranch.failpoints import POINTS
from anabranch.testing.torture.campaign import Told


@dataclass
class Tally:
    """Counts of the histories so far."""

    passed: int = 0
    counted: int = 0
    failed: list[int] = field(default_factory=list)
    transactions: int = 0
    observations: int = 0
    prefixes: int = 0
    with_two: int = 0  # targets
    seconds: float = 0.0
    seeds: list[int] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)

    def add(self, told: Told) -> None:
        self.seeds.append(told.seed)
        if told.failure:
            self.failed.append(told.seed)
            return
        self.passed += 1
        self.counted += told.counts
        self.transactions += told.committed
        self.observations += told.observations
        self.prefixes += told.prefixes
        self.with_two += told.targets > 1
        self.seconds += told.seconds
        self.sources[told.source] += 1
        self.kinds.update(fault.kind for fault in told.fired)
        self.struck.update(fault.where for fault in told.fired if fault.where in POINTS)
        self.hits.update(told.hits)

    @property
    def not_hit(self) -> list[str]:
        return [name for name in POINTS if name not in self.hits]


def line(told: Told) -> str:
    """A history, in a line."""
    fired = ", ".join(f"{fault.kind} {fault.place}" for fault in told.fired) or "no fault came about"
    if not told.counts and not told.failure:
        fired += ": does not count" if not told.fired else f": {told.observations} looks: does not count"
    facts = f"{told.committed} transactions, {told.prefixes} states seen" + (", two targets" * (told.targets > 1))
    return f"{told.seed:>6}  {told.source:<8}{told.seconds:5.1f} s  {facts:<34}  {fired}"


def summary(tally: Tally, seconds: float) -> list[str]:
    """Return lines for people."""
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(tally.kinds.items()))
    lines = [
        f"{tally.passed} histories passed in {seconds:.0f} s, {tally.counted} of them count: with a fault and enough looks",
        f"{tally.with_two} of them with two targets",
        f"{tally.transactions} transactions, {tally.observations} looks at the target, {tally.prefixes} states seen",
        f"faults: {kinds or 'none'}",
        f"failpoints reached: {len(tally.hits)} of {len(POINTS)}",
    ]
    if 0 < len(tally.not_hit) <= 12:
        lines.append(f"  not reached: {', '.join(tally.not_hit)}")
    return lines


def results(tally: Tally, seconds: float, servers: Sequence[str], bugs: Any = ()) -> dict[str, Any]:
    """Return what the file keeps."""
    return {
        "commit": commit(),
        "seeds": [min(tally.seeds, default=0), max(tally.seeds, default=0)],
        "servers": list(servers),
        "passed": tally.passed,
        "counted": tally.counted,
        "failed": tally.failed,
        "with_two_targets": tally.with_two,
        "transactions": tally.transactions,
        "observations": tally.observations,
        "states": tally.prefixes,
        "seconds": round(seconds),
        "by_source": dict(sorted(tally.sources.items())),
        "faults": dict(sorted(tally.kinds.items())),
        "failpoints": {name: [tally.hits[name], tally.struck[name]] for name in POINTS},
        "bugs": list(bugs),
    }


def keep(path: Path, tally: Tally, seconds: float, servers: Sequence[str]) -> None:
    """Write the file. The bugs in it are people's to write; they stay. A file of the same commit and servers whose last seed is
    the one before the first of these is added to: a long campaign may be run in parts."""
    before = json.loads(path.read_text()) if path.exists() else {}
    now = results(tally, seconds, servers, before.get("bugs", []))
    path.write_text(json.dumps(_added(before, now) if _goes_on(before, now) else now, indent=1) + "\n")


def _goes_on(before: Any, now: Any) -> bool:
    is_same = all(before.get(name) == now[name] for name in ("commit", "servers"))
    return is_same and bool(now["commit"]) and before["seeds"][1] + 1 == now["seeds"][0]


def _added(before: Any, now: Any) -> dict[str, Any]:
    """Return the counts of two runs as those of one."""
    numbers = {name: before[name] + value for name, value in now.items() if isinstance(value, int)}
    kinds = {
        name: dict(sorted((Counter(before[name]) + Counter(now[name])).items())) for name in ("by_source", "faults")
    }
    points = {
        name: [one + other for one, other in zip(before["failpoints"][name], counts, strict=True)]
        for name, counts in now["failpoints"].items()
    }
    whole = {"seeds": [before["seeds"][0], now["seeds"][1]], "failed": before["failed"] + now["failed"]}
    return {**now, **numbers, **kinds, **whole, "failpoints": points}


def require_writable(path: Path) -> None:
    """Refuse a file that cannot be written, before the first history. Raises ConfigError."""
    try:
        if path.exists():
            json.loads(path.read_text()).get("bugs")
        with path.open("a"):  # which changes nothing
            pass
        if not path.stat().st_size:
            path.unlink()
    except OSError as error:
        raise ConfigError(f"--results {path}: {error.strerror}", hint="name a file that can be written") from None
    except (ValueError, AttributeError):
        raise ConfigError(f"--results {path} holds something else", hint="name a file that torture wrote") from None


def commit() -> str:
    """Return the commit that is checked out, with a + where something was changed since; "" outside of a checkout."""
    here = Path(__file__).parent
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return said.stdout.strip()
