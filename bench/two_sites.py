"""`python -m bench.two_sites [--rows N] [--few N] [--repeat N]`: how many rows a second apply writes for a table of a pair of
active sites, beside the same job without [pair], on the same servers, in turns.

Jobs run in this process and without Spark (tests/rigs): it is the way rows take at the target that differs, not how it begins.
Nobody writes at the other site, so there is no conflict; capture is through before apply is timed, and what an apply takes that
has nothing to do is taken off. What goes row by row is measured with few rows. Prints medians, and ratios to the plain job.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from anabranch.testing.databases import create_database, unique_name
from anabranch.testing.servers import Server, start_mariadb, start_postgresql

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from rigs.both_ways import End, Way  # type: ignore[import-not-found]  # of the tests, which are no package
from rigs.postgresql_source import SOURCE_OPTIONS  # type: ignore[import-not-found]  # as above

BATCH = 200  # rows of a transaction
ENDS = (("postgresql", "postgresql"), ("postgresql", "mariadb"), ("mariadb", "postgresql"))
PAIR = '[pair]\nsite = "one"\nother = "two"\nwinner = "one"\ntwin = "{twin}"\nnewest_by = "changed"\n'
KINDS = {
    "without [pair]": "",
    "[pair]": PAIR,
    "[pair], wins": PAIR + '[[tables]]\nname = "{schema}.items"\nwins = "two"\n',
    "[pair], delta": PAIR + '[[tables]]\nname = "{schema}.items"\ndelta = ["stock"]\n',
}


class Measured:
    """A job between two new databases. `seconds`: of each kind of change, every time."""

    def __init__(self, servers: tuple[Server, Server], settings: str, directory: Path, rows: int, few: int) -> None:
        one, two = (End(create_database(server, "speed")) for server in servers)
        for end in (one, two):
            kind = "timestamp(6)" if end.is_postgresql else "datetime(6)"
            columns = f"id int PRIMARY KEY, v varchar(80), changed {kind} NOT NULL, stock int NOT NULL"
            end.database.execute(f"CREATE TABLE items ({columns})")
            if end.is_postgresql:
                end.database.execute("ALTER TABLE items REPLICA IDENTITY FULL")
        twin = unique_name("twin")
        self.way = Way(one, two, directory, leave_out=(twin,) if settings else (), tables="items")
        self.way.write(text=settings.format(twin=f"{twin}", schema=one.schema))
        self.rows, self.few, self.version = few if "delta" in settings else rows, few if settings else rows, 0
        self.rates: dict[str, list[float]] = {"inserts": [], "updates": [], "deletes": []}
        self.way.here.load()
        self.way.here.stream(is_built=True)

    def _timed(self, what: str, rows: int, statement: Callable[[int, int], str]) -> None:
        self.way.here.capture()
        nothing = self._applied()
        begin = self.version * self.rows  # each turn has keys of its own
        firsts = range(begin, begin + rows, BATCH)
        self.way.source.database.execute(*(statement(first, min(first + BATCH, begin + rows)) for first in firsts))
        self.way.here.capture()
        self.rates[what].append(rows / max(self._applied() - nothing, 0.001))

    def _applied(self) -> float:
        began = time.monotonic()
        self.way.here.apply()
        return time.monotonic() - began

    def turn(self) -> None:
        """Insert rows, change them, delete some; each is captured, and then applied with a clock."""
        self.version += 1
        instant = f"2026-01-01 00:00:{self.version:02}"
        self._timed("inserts", self.rows, lambda first, last: f"INSERT INTO items VALUES {_rows(first, last, instant)}")
        later = f"{instant}.5"
        self._timed(
            "updates",
            self.rows,
            lambda first, last: (
                f"UPDATE items SET v = 'later', changed = '{later}', stock = stock - 1 WHERE {_range(first, last)}"
            ),
        )
        self._timed("deletes", self.few, lambda first, last: f"DELETE FROM items WHERE {_range(first, last)}")


def _range(first: int, last: int) -> str:
    return f"id >= {first} AND id < {last}"


def _rows(first: int, last: int, instant: str) -> str:
    return ", ".join(f"({key}, 'item {key}', '{instant}', {key % 100})" for key in range(first, last))


def _servers(directory: Path, stack: ExitStack) -> dict[str, Server]:
    places = {name: directory / name for name in ("postgresql", "mariadb")}
    for place in places.values():
        place.mkdir()
    found = {
        "postgresql": start_postgresql(places["postgresql"], options=SOURCE_OPTIONS),
        "mariadb": start_mariadb(places["mariadb"]),
    }
    for server in found.values():
        stack.callback(server.stop)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.two_sites")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--few", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        servers = _servers(directory, stack)
        for ends in ENDS:
            both = (servers[ends[0]], servers[ends[1]])
            jobs = {
                kind: Measured(both, settings, directory, asked.rows, asked.few) for kind, settings in KINDS.items()
            }
            for job in jobs.values():
                stack.callback(job.way.drop)
            for _ in range(asked.repeat):
                for kind, job in jobs.items():
                    if not (kind.endswith("delta") and job.version):  # row by row: one turn takes long enough
                        job.turn()
            for line in _lines(" to ".join(ends), jobs):
                print(line, flush=True)


def _lines(ends: str, jobs: dict[str, Measured]) -> Iterator[str]:
    for what, base in jobs["without [pair]"].rates.items():
        for kind, job in jobs.items():
            if rates := job.rates[what]:
                rate, alone = statistics.median(rates), statistics.median(base)
                yield f"{ends:26} {what:8} {kind:16} {rate:9,.0f} rows/s  {rate / alone:5.2f} of the plain job"


if __name__ == "__main__":
    main()
