"""Keep the counts of a run of histories of two active sites: a file that `make torture-sites` writes, of one commit and one
range of seeds, with the counts of each pair of servers.

What does not live here: the page that shows it (docs/torture_pages.py).
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rigs.two_sites_judged import Written


@dataclass
class Ran:
    """Counts of the histories that passed between one pair of servers. `crossed`: of changes that both jobs had to note."""

    servers: list[str]
    histories: int = 0
    transactions: int = 0
    rows: int = 0
    crossed: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    seconds: int = 0

    def add(self, written: Written) -> None:
        self.histories += 1
        self.transactions += written.commits
        self.rows += len(written.keys)
        self.crossed += written.crossed
        for kind, times in written.faults.items():
            self.faults[kind] = self.faults.get(kind, 0) + times


def keep(file: Path, seeds: tuple[int, int], pair: str, ran: Ran) -> None:
    """Write the counts beside those of other pairs, unless those are of another commit or other seeds."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    run: dict[str, Any] = {"commit": commit, "seeds": list(seeds), "pairs": {}}
    if file.exists() and (last := json.loads(file.read_text()))["commit"] == commit and last["seeds"] == run["seeds"]:
        run = last
    run["pairs"][pair] = asdict(ran)
    file.write_text(json.dumps(run, indent=1, sort_keys=True) + "\n")
