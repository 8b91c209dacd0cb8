"""`python -m bench [W1 …] [--size reduced|full] [--source mariadb] [--target mysql]`: each figure beside its ceiling and its
peers, then one line per figure on stdout; 1 when one is short of its goal or could not be measured."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import (
    altering,
    beside,
    capture,
    catchup,
    conflicts,
    cutover,
    cutover_verified,
    growth,
    hops,
    latency,
    load,
    managed,
    plan_at_scale,
    presence,
    results,
    reverse,
    size,
    staging,
    tables,
    thousand_jobs,
    through,
    transactions,
    verify,
)
from bench.at_target import PostgresTarget, Target
from bench.figures import Figure, table
from bench.meter import until_quiet
from bench.mysql_family import STARTERS
from bench.mysql_target import MysqlTarget
from bench.postgresql import PostgresStand
from bench.stand import Stand

Workload = Callable[[Stand, float, int], list[Figure]]
WORKLOADS: dict[str, Workload] = {
    "W1": load.run,
    "W2": capture.run,
    "W3": catchup.run,
    "W4": latency.run,
    "W5": size.run,
    "W6": conflicts.run,
    "W7": verify.run,
    "W8": growth.run,
    "W9": transactions.run,
    "W10": tables.run,
    "presence": presence.run,
    "cutover": cutover.run,
    "beside": beside.run,
}
BY_NAME: dict[str, Workload] = {  # only where they are asked for
    "stage": staging.run,
    "altering": altering.run,
    "hop": hops.run,
    "reverse": reverse.run,
    "through": through.run,
    "cutover-verified": cutover_verified.run,
    "managed": managed.run,
}
# The part of the full sizes that `reduced` takes.
REDUCED = {
    "W1": 1.0,
    "W2": 1.0,
    "W3": 0.3,
    "W4": 0.2,
    "W5": 0.3,
    "W6": 0.2,
    "W7": 0.2,
    "W8": 0.1,
    "W9": 1.0,
    "W10": 1.0,
    "presence": 1.0,
    "cutover": 0.1,
    "beside": 0.1,
    "stage": 0.1,
    "reverse": 0.3,
    "altering": 0.5,
    "hop": 0.3,
    "through": 0.3,
    "cutover-verified": 0.05,
    "managed": 1.0,
}
POSTGRESQL = "postgresql"
# What runs where nothing is asked for: the pairs that the goals name, in 75 minutes on two cores.
GOALS: dict[str, dict[str, tuple[str, ...]]] = {
    POSTGRESQL: {
        "mariadb": ("W1", "W3", "W5", "W6", "W7", "W8", "W10", "presence"),
        "mysql": ("W2", "W4"),
        POSTGRESQL: ("W1", "W2", "W3", "W7", "W9"),
    },
    "mysql": {"mysql": ("W1", "W3", "W4", "W5", "W6", "W7"), POSTGRESQL: ("W1", "W3")},
    "mariadb": {"mariadb": ("W1", "W3")},
}
MYSQL_ALONE = frozenset(("W6", "stage", "altering"))  # their statements are for MySQL and MariaDB
POSTGRESQL_ALONE = frozenset(("W9",))  # beside a subscription
# At another target: of W2 no target is a part, W9 is beside a subscription, `stage` writes statements of PostgreSQL.
AT_POSTGRESQL_ALONE = frozenset(("W2", "W9", "stage"))


def main() -> int:
    if sys.argv[1:2] == ["plan-at-scale"]:  # of no source, and with sizes of its own
        return plan_at_scale.main(sys.argv[2:])
    if sys.argv[1:2] == ["thousand-jobs"]:  # of no source either
        return thousand_jobs.main(sys.argv[2:])
    chosen = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and directories go then, too
    lines: list[str] = []
    is_kept = True
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-", dir=chosen.directory) as place:
        directory = Path(place)
        directory.chmod(0o755)
        at: Target = (
            PostgresTarget.start(directory)
            if chosen.target == POSTGRESQL
            else MysqlTarget.start(chosen.target, directory)
        )
        with at.server:
            for name in chosen.source or [*STARTERS, POSTGRESQL]:
                workloads, kind = list(_of(name, chosen)), PostgresStand if name == POSTGRESQL else Stand
                if not workloads:
                    continue
                with kind(name, directory / name, at) as stand:
                    for workload in workloads:
                        figures, failed = _run(workload, stand, chosen)
                        lines += [str(figure) for figure in figures] + failed
                        is_kept &= not failed and all(figure.is_kept for figure in figures)
    print("\n".join(lines))
    return 0 if is_kept else 1


def _of(source: str, chosen: argparse.Namespace) -> Iterator[str]:
    if not chosen.workloads and not chosen.source:
        return iter(GOALS[chosen.target].get(source, ()))
    others = MYSQL_ALONE if source == POSTGRESQL else POSTGRESQL_ALONE
    others |= frozenset() if chosen.target == POSTGRESQL else AT_POSTGRESQL_ALONE
    return (one for one in chosen.workloads or WORKLOADS if one not in others)


def _run(workload: str, stand: Stand, chosen: argparse.Namespace) -> tuple[list[Figure], list[str]]:
    """Its figures; or, where it broke off, a line that says so: the others are measured all the same."""
    waited = until_quiet(stand.servers)
    begin = time.monotonic()
    scale = chosen.scale or (REDUCED[workload] if chosen.size == "reduced" else 1.0)
    try:
        figures = (WORKLOADS | BY_NAME)[workload](stand, scale, chosen.repeat)
    except Exception as error:  # noqa: BLE001  # whatever it is belongs to this workload alone
        traceback.print_exc()
        return [], [f"{workload} {stand.of} failed: {' '.join(str(error).split())[:300] or type(error).__name__}"]
    finally:
        stand.at.clear()
    for figure in figures:
        print("\n".join(table(figure)), file=sys.stderr, flush=True)
    print(
        f"{workload} {stand.of}: {time.monotonic() - begin:.0f} s, servers quiet after {waited:.0f} s",
        file=sys.stderr,
        flush=True,
    )
    if chosen.keep and workload in WORKLOADS:
        named = chosen.size if not chosen.scale else f"{chosen.scale:g} of full"
        results.keep(chosen.keep, workload, stand, named, chosen.repeat, figures)
    return figures, []


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    known = [*WORKLOADS, *BY_NAME]
    parser.add_argument("workloads", nargs="*", metavar=" ".join(known), help="default: those with goals")
    parser.add_argument(
        "--source", action="append", choices=[*STARTERS, POSTGRESQL], help="default: each, where workloads are named"
    )
    parser.add_argument("--target", choices=[*STARTERS, POSTGRESQL], default=POSTGRESQL, help="default: postgresql")
    parser.add_argument("--size", choices=("reduced", "full"), default="reduced", help="of bench/README.md")
    parser.add_argument("--scale", type=float, help="any part of the full size instead, for a look")
    parser.add_argument("--repeat", type=int, default=3, help="the median of so many runs (default 3)")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="write the results there as JSON, a file each")
    parser.add_argument("--directory", help="where servers and trails are kept meanwhile (default: the temporary one)")
    chosen = parser.parse_args()
    chosen.workloads = [f"W{one}" if one.isdigit() else one for one in chosen.workloads]
    if unknown := [one for one in chosen.workloads if one not in known]:
        parser.error(f"{unknown[0]} is none of {', '.join(known)}")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
