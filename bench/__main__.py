"""`python -m bench [W1 …] [--scale 0.1] [--repeat 3] [--source mariadb]`: one line per figure; 1 when a floor is missed."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from bench import capture, catchup, conflicts, latency, load, size, staging
from bench.postgresql import PostgresStand
from bench.stand import STARTERS, Stand, start_target

WORKLOADS = {"W1": load.run, "W2": capture.run, "W3": catchup.run, "W4": latency.run, "W6": conflicts.run}
# Only where they are asked for: what a constant is made of, what takes an hour.
BY_NAME = {"stage": staging.run, "W5": size.run}
SCALE = 0.1
POSTGRESQL = "postgresql"
MYSQL_ALONE = frozenset(("W6", "stage"))  # their statements are for MySQL and MariaDB


def main() -> int:
    chosen = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and directories go then, too
    kept = True
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-", dir=chosen.directory) as place:
        directory = Path(place)
        directory.chmod(0o755)
        with start_target(directory) as target:
            for name in chosen.source or [*STARTERS, POSTGRESQL]:
                kind = PostgresStand if name == POSTGRESQL else Stand
                with kind(name, directory / name, target) as stand:
                    for workload in _of(name, chosen.workloads or list(WORKLOADS)):
                        kept &= _run(workload, stand, chosen)
    return 0 if kept else 1


def _of(source: str, workloads: list[str]) -> list[str]:
    return [one for one in workloads if source != POSTGRESQL or one not in MYSQL_ALONE]


def _run(workload: str, stand: Stand, chosen: argparse.Namespace) -> bool:
    begin = time.monotonic()
    figures = (WORKLOADS | BY_NAME)[workload](stand, chosen.scale, chosen.repeat)
    for figure in figures:
        print(figure, flush=True)
    print(f"{workload} {stand.name}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return all(figure.is_kept for figure in figures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "workloads", nargs="*", choices=[[], *WORKLOADS, *BY_NAME], metavar="W1..W6 stage", help="default: all"
    )
    parser.add_argument("--source", action="append", choices=[*STARTERS, POSTGRESQL], help="default: each")
    parser.add_argument(
        "--scale", type=float, default=SCALE, help=f"1 = the sizes in bench/README.md (default {SCALE})"
    )
    parser.add_argument("--repeat", type=int, default=3, help="the median of so many runs (default 3)")
    parser.add_argument("--directory", help="where servers and trails are kept meanwhile (default: the temporary one)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
