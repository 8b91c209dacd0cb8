"""The downtime of a cut-over, from the fence to the end of the flip: a job that is caught up, 500 transactions a second.

All are of one job: the flip command of each but the last one fails, by which everything is taken back, and the application
writes on. What is timed stands in the notes: from before the fence to the end of the flip command. Nothing is verified at the
fence. An account without special rights writes for as long as it is let; whatever it was told is committed has to be at both
ends, and nothing else. What does not live here: cut-overs that verify (cutover_verified.py)."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anabranch.testing.databases import Database, connect, drop_database
from bench.at_target import Looking
from bench.capture import begin_trail
from bench.figures import Figure, percentile
from bench.processes import Program, ProgramFailed, measured, python, until
from bench.stand import Job, Stand

TIMES, FEWEST, RATE = 50, 3, 500
GOAL = 3.0  # seconds
SECONDS_BEFORE = 2  # of writes that have to be at the target before each
PATIENCE = 180.0
USER = "bench_app"
SWITCH = """\
[apply]
runner = "continuous"

[cutover]
flip = ["test", "-e", "{flips}"]
grace = 0
"""
NOTES = "SELECT step, phase, noted_at FROM anabranch.cutover WHERE job = %s ORDER BY number"
BEGIN, FENCED, FLIPPED, REFUSED = ("begin", "begins"), ("fence", "begins"), ("flip", "done"), ("flip", "failed")


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    del repeat  # each run has several of them
    with switching(stand, "cutover") as one:
        times = max(FEWEST, round(TIMES * scale))
        downtimes = sorted(one.cut_over(is_last=number == times - 1)[0] for number in range(times))
    return figures("cutover downtime", stand.pair, downtimes, GOAL, {})


def figures(name: str, pair: str, downtimes: list[float], goal: float, facts: Mapping[str, object]) -> list[Figure]:
    """`downtimes`: in ascending order."""
    facts = {"cutovers": len(downtimes), "transactions_per_s": RATE, "min_s": downtimes[0], **facts}
    return [
        Figure(name, pair, "p50_s", percentile(downtimes, 0.5), goal, is_most=True, facts=facts),
        Figure(name, pair, "max_s", downtimes[-1], goal, is_most=True),
    ]


@dataclass(frozen=True)
class Switching:
    """A job that follows, with an application at its source."""

    job: Job
    flips: Path  # the flip ends well where it is
    looking: Looking
    newest: str
    writer: Program
    is_well: Callable[[], None]

    def follow(self) -> None:
        """Wait until what is written from now on is at the target."""
        first = self.looking.one(self.newest)
        rows = RATE * SECONDS_BEFORE // 2  # the least that is inserted in that time
        until(lambda: self.looking.one(self.newest) > first + rows, PATIENCE, "rows at the target", check=self.is_well)

    def cut_over(self, *options: str, is_last: bool) -> tuple[float, Mapping[str, Any]]:
        """Follow and cut over; take it back by a flip that fails, unless it is the last one. Returns the seconds from the fence
        to the flip's end, and the report."""
        begun = time.monotonic()
        self.follow()
        followed = time.monotonic()
        if is_last:
            self.flips.touch()
        made = subprocess.run(
            [str(part) for part in python("anabranch", "cutover", self.job.file, *options)],
            env=environment(self.job),
            capture_output=True,
            text=True,
            check=False,
        )
        self.is_well()
        report: Mapping[str, Any] = json.loads(asked(self.job, "cutover", "--status", "--json"))
        notes = self.notes()
        if report["state"] != ("finished" if is_last else "aborted") or (FLIPPED if is_last else REFUSED) not in notes:
            raise ProgramFailed(f"the cut-over ended with {made.returncode}, {report['state']}\n{made.stderr[-2000:]}")
        downtime = (notes[FLIPPED if is_last else REFUSED] - notes[FENCED]) / 1e6
        took = f"{followed - begun:.1f} s of writes, {time.monotonic() - followed:.1f} s the command"
        print(f"cut-over: downtime {downtime:.2f} s, {took}", file=sys.stderr, flush=True)
        return downtime, report

    def notes(self) -> dict[tuple[str, str], int]:
        """The notes of the latest cut-over: when each was made, in microseconds."""
        found: dict[tuple[str, str], int] = {}
        for step, phase, moment in self.looking.ask(NOTES, self.job.name):
            found = {} if (step, phase) == BEGIN else found
            found[step, phase] = int(moment)
        return found

    def end(self) -> None:
        """Let the application end; everything that it was told is committed is at both ends, and nothing else."""
        assert self.writer.process.stdin is not None and self.writer.process.stdout is not None
        self.writer.process.stdin.close()
        lines = self.writer.process.stdout.read().splitlines()
        wanted = {int(key): int(written) for key, _, written in (line.partition(" ") for line in lines)}
        table = self.job.at.table("ledger")
        here = dict(self.job.source.query("SELECT id, written FROM ledger WHERE written > 0"))
        there = dict(self.job.target.query(f"SELECT id, written FROM {table} WHERE written > 0"))
        if not here == there == wanted:
            differ = [len(one.items() ^ wanted.items()) for one in (here, there)]
            raise ProgramFailed(
                f"of what was acknowledged {differ[0]} rows differ at the source, {differ[1]} at the target"
            )


@contextmanager
def switching(stand: Stand, label: str, rows: int = 0) -> Iterator[Switching]:
    """Load a table that has so many rows, and follow it under its application until the context ends; look then whether
    anything was lost, and forget the job."""
    source, target = stand.databases(label)
    source.execute(stand.ledger())
    fill(source, rows)
    url = application(source)
    flips = stand.directory / f"{label}.flips"
    job = stand.job(label, source, target, table="ledger", more=SWITCH.format(flips=flips))
    begin_trail(job)
    job.load()
    try:
        with _at_work(stand, job, url, rows, flips) as one:
            yield one
            one.end()
    finally:
        lift(source)
    measured(python("anabranch", "drop", job.file, "--execute", "--lift-fence"), environment(job))
    stand.at.drop(target)
    drop_database(source)


@contextmanager
def _at_work(stand: Stand, job: Job, url: str, rows: int, flips: Path) -> Iterator[Switching]:
    newest = f"SELECT coalesce(max(id), 0) FROM {stand.at.table('ledger')}"
    with (
        job.start("capture") as capture,
        job.start("apply") as apply,
        Looking(job.target) as looking,
        Program(python("bench.fenced_writer", url, RATE, rows), {}) as writer,
    ):

        def is_well() -> None:
            for part in (capture, apply, writer):
                part.check()

        yield Switching(job, flips, looking, newest, writer, is_well)


def fill(source: Database, rows: int) -> None:
    """Let the ledger have so many rows, with the ids from 1 on: it is doubled, which a server does by itself."""
    there = min(rows, 1)
    if rows:
        source.execute("INSERT INTO ledger (id, written) VALUES (1, 0)")
    while there < rows:
        more = min(there, rows - there)
        source.execute(f"INSERT INTO ledger (id, written) SELECT id + {there}, written FROM ledger WHERE id <= {more}")
        there += more
    if rows and source.server.name == "postgresql":  # which counts only what it has given itself
        source.execute(f"SELECT setval(pg_get_serial_sequence('ledger', 'id'), {rows})")


def application(source: Database) -> str:
    """Make an account that passes no fence, and return its URL."""
    password = secrets.token_hex(12)
    server = source.server
    with closing(connect(server, source.name)) as connection, closing(connection.cursor()) as cursor:
        if server.name == "postgresql":
            cursor.execute(f"DROP ROLE IF EXISTS {USER}")
            cursor.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{password}'")
            cursor.execute(f"GRANT SELECT, INSERT, UPDATE ON ledger TO {USER}")
        else:
            cursor.execute(f"DROP USER IF EXISTS {USER}@'127.0.0.1'")
            cursor.execute(f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{password}'")
            cursor.execute(f"GRANT SELECT, INSERT, UPDATE ON `{source.name}`.* TO {USER}@'127.0.0.1'")
    return f"{server.name}://{USER}:{password}@{server.host}:{server.port}/{quote(source.name, safe='')}"


def asked(job: Job, *words: str) -> str:
    """Run a command about a job; return what it prints. Raises ProgramFailed."""
    command = [str(part) for part in python("anabranch", words[0], job.file, *words[1:])]
    made = subprocess.run(command, env=environment(job), capture_output=True, text=True, check=False)
    if made.returncode:
        raise ProgramFailed(f"{words[0]} ended with {made.returncode}\n{made.stderr[-2000:]}")
    return made.stdout


def lift(source: Database) -> None:
    """Let the whole server take writes again; a PostgreSQL's fence goes with its database."""
    if source.server.name == "postgresql":
        return
    if source.server.name == "mysql":
        source.execute("SET GLOBAL super_read_only = OFF")
    source.execute("SET GLOBAL read_only = OFF")


def environment(job: Job) -> dict[str, str]:
    return {**os.environ, **job.environment}
