"""The downtime of a cut-over, from the fence to the end of the flip: a job that is caught up, 500 transactions a second.

Each is of a job of its own with a small table: a cut-over is final for its job, and targets here keep no log by which one could
return. Nothing is verified at the fence. An account without special rights writes until it is refused; whatever it was told
is committed has to be at both ends."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Mapping
from contextlib import closing
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
STEADY_ROWS = 5 * RATE  # that the target has before it is cut over
PATIENCE = 180.0
USER = "bench_app"
SWITCH = """\
[apply]
runner = "continuous"

[cutover]
flip = ["true"]
grace = 0
"""


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    del repeat  # each run has several of them
    reports = [_one(stand, number) for number in range(max(FEWEST, round(TIMES * scale)))]
    downtimes = sorted(float(report["downtime_seconds"]) for report in reports)
    facts = {"cutovers": len(downtimes), "transactions_per_s": RATE, "min_s": downtimes[0]}
    p50, most = percentile(downtimes, 0.5), downtimes[-1]
    return [
        Figure("cutover downtime", stand.pair, "p50_s", p50, GOAL, is_most=True, facts=facts),
        Figure("cutover downtime", stand.pair, "max_s", most, GOAL, is_most=True),
    ]


def _one(stand: Stand, number: int) -> Mapping[str, Any]:
    """Load, follow, and cut over a new table under its writer. Returns the report."""
    source, target = stand.databases("cutover")
    source.execute(stand.ledger())
    url = application(source)
    job = stand.job(f"cutover_{number}", source, target, table="ledger", more=SWITCH)
    begin_trail(job)
    with job.start("load") as load:
        load.process.wait()
    try:
        with (
            job.start("capture") as capture,
            job.start("apply") as apply,
            Looking(target) as looking,
            Program(python("bench.until_refused", url, RATE), {}) as writer,
        ):
            newest = f"SELECT coalesce(max(id), 0) FROM {stand.at.table('ledger')}"

            def is_well() -> None:
                for part in (capture, apply, writer):
                    part.check()

            until(lambda: looking.one(newest) > STEADY_ROWS, PATIENCE, "rows at the target", check=is_well)
            report = cut_over(job)
            assert writer.process.stdout is not None
            acknowledged = {int(line) for line in writer.process.stdout.read().split()}
            require_all(acknowledged, source, target, stand)
    finally:
        lift(source)
    measured(python("anabranch", "drop", job.file, "--execute", "--lift-fence"), environment(job))
    stand.at.drop(target)
    drop_database(source)
    return report


def application(source: Database) -> str:
    """Make an account that passes no fence, and return its URL."""
    password = secrets.token_hex(12)
    server = source.server
    with closing(connect(server, source.name)) as connection, closing(connection.cursor()) as cursor:
        if server.name == "postgresql":
            cursor.execute(f"DROP ROLE IF EXISTS {USER}")
            cursor.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{password}'")
            cursor.execute(f"GRANT SELECT, INSERT ON ledger TO {USER}")
        else:
            cursor.execute(f"DROP USER IF EXISTS {USER}@'127.0.0.1'")
            cursor.execute(f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{password}'")
            cursor.execute(f"GRANT SELECT, INSERT ON `{source.name}`.* TO {USER}@'127.0.0.1'")
    return f"{server.name}://{USER}:{password}@{server.host}:{server.port}/{quote(source.name, safe='')}"


def cut_over(job: Job, *options: str) -> Mapping[str, Any]:
    """Cut over; return the report."""
    command = [str(part) for part in python("anabranch", "cutover", job.file, "--json", *options)]
    made = subprocess.run(command, env=environment(job), capture_output=True, text=True, check=False)
    if made.returncode:
        raise ProgramFailed(f"cutover ended with {made.returncode}\n{made.stderr[-2000:]}")
    report: Mapping[str, Any] = json.loads(made.stdout)
    return report


def require_all(acknowledged: set[int], source: Database, target: Database, stand: Stand, after: int = 0) -> None:
    """Both ends have the same rows, and every one that was acknowledged; only rows with an id behind `after` are read."""
    here = dict(source.query(f"SELECT id, written FROM ledger WHERE id > {after}"))
    there = dict(target.query(f"SELECT id, written FROM {stand.at.table('ledger')} WHERE id > {after}"))
    if here != there or not acknowledged <= there.keys():
        lost, differ = len(acknowledged - there.keys()), len(here.items() ^ there.items())
        raise ProgramFailed(f"behind the cut-over {lost} acknowledged rows are not at the target, {differ} differ")


def lift(source: Database) -> None:
    """Let the whole server take writes again; a PostgreSQL's fence goes with its database."""
    if source.server.name == "postgresql":
        return
    if source.server.name == "mysql":
        source.execute("SET GLOBAL super_read_only = OFF")
    source.execute("SET GLOBAL read_only = OFF")


def environment(job: Job) -> dict[str, str]:
    return {**os.environ, **job.environment}
