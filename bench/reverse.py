"""The latency of a way back, as W4: a job is cut over, with its way back made by `anabranch reverse`; then that one follows the
application at the new side, through the fence that the cut-over has left at the old one.

`--source` is the new side, to which the application was led, `--target` the old one. That is a server of its own here: it
writes a log, which targets of other workloads do not. What does not live here: how a delay is measured (latency.py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import psycopg
import pymysql

from anabranch.demo.words import READ_ONLY
from anabranch.model.markers import origin_of
from anabranch.testing.databases import Database, connect, drop_database
from anabranch.testing.servers import Server, server_from_dsn
from bench.at_target import Looking, PostgresTarget, Target
from bench.capture import begin_trail
from bench.cutover import PATIENCE, application, asked
from bench.figures import Figure
from bench.latency import FEWEST_SECONDS, RUNNERS, followed
from bench.mysql_target import MysqlTarget
from bench.postgresql import WAITS, PostgresStand
from bench.processes import ProgramFailed, until
from bench.stand import Job, Stand

SECONDS = 120.0  # of each runner
POSTGRESQL = "postgresql"
CONTINUOUS = 'runner = "continuous"'
SWITCH = f"""\
[apply]
{CONTINUOUS}

[reverse]
enabled = true

[cutover]
flip = ["true"]
grace = 0
"""
DURABLE = ("SET GLOBAL innodb_flush_log_at_trx_commit = 1", "SET GLOBAL sync_binlog = 1")


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    del repeat  # one long run has thousands of repetitions in it
    seconds = max(FEWEST_SECONDS, SECONDS * scale)
    with _returning(stand) as (way, back):
        text = back.file.read_text()
        assert text.count(CONTINUOUS) == 1, "the way back has its job's runner"
        figures: list[Figure] = []
        for goals in RUNNERS[way.at.kind]:
            back.file.write_text(text.replace(CONTINUOUS, f'runner = "{goals[0]}"'))
            figures += followed(way, back, seconds, "reverse latency", goals)
    return figures


@contextmanager
def _returning(stand: Stand) -> Iterator[tuple[Stand, Job]]:
    """Cut a job over to the stand's source, from an old side that is up until the context ends. Yields a stand whose target is
    that old side, and the job of the way back."""
    kind = PostgresStand if stand.at.kind == POSTGRESQL else Stand
    with kind(stand.at.kind, stand.directory / "forth", _target(stand.source)) as forth:
        old, new = forth.databases("reverse")
        old.execute(forth.ledger(), "INSERT INTO ledger (written) VALUES (0)")
        if old.server.name != POSTGRESQL:
            old.execute(*DURABLE)
        job = _job(forth, old, new)
        back = replace(job, file=job.file.with_stem(f"{job.name}-reverse"), name=f"{job.name}-reverse")
        back = replace(back, source=new, target=old, at=_target(forth.source))
        _cut_over(forth, job, back)
        if new.server.name == POSTGRESQL:
            new.execute(WAITS)  # a walsender gives nothing that is not on the disk
        way = type(stand)(stand.name, stand.directory, back.at)
        way.source = stand.source
        yield way, back
        asked(back, "drop", "--execute")
        asked(job, "drop", "--execute", "--keep-fence")
        drop_database(old)
        forth.at.drop(new)


def _target(server: Server) -> Target:
    return PostgresTarget(server) if server.name == POSTGRESQL else MysqlTarget(server)


def _job(forth: Stand, old: Database, new: Database) -> Job:
    """Write the job that leads to the new side, and leaves out what its way back will write."""
    job = forth.job("bench_forth", old, new, table="ledger", more=SWITCH)
    leaves_out = f'leave_out = ["{origin_of(f"{job.name}-reverse")}"]\n\n[target]'
    job.file.write_text(job.file.read_text().replace("[target]", leaves_out, 1))
    return job


def _cut_over(forth: Stand, job: Job, back: Job) -> None:
    """Load, follow, and cut over. Raises ProgramFailed where the old side takes writes of its application behind it."""
    url = application(job.source)
    begin_trail(job)
    job.load()
    newest = f"SELECT coalesce(max(id), 0) FROM {forth.at.table('ledger')}"
    with job.start("capture") as capture, job.start("apply") as apply, Looking(job.target) as looking:
        first = looking.one(newest)
        job.source.execute("INSERT INTO ledger (written) VALUES (0)")

        def is_well() -> None:
            capture.check()
            apply.check()

        until(lambda: looking.one(newest) > first, PATIENCE, "a row at the new side", check=is_well)
        until(lambda: _is_written(job, back), PATIENCE, "the table with its keys", pause=0.5, check=is_well)
        asked(job, "cutover")
    _require_fenced(url)


def _is_written(job: Job, back: Job) -> bool:
    """Have the way back written; return False while the table's keys are still to be built, which is refused."""
    try:
        asked(job, "reverse", "-o", str(back.file))
    except ProgramFailed as failed:
        if "or builds indexes and keys" not in str(failed):
            raise
        return False
    return True


def _require_fenced(url: str) -> None:
    server, database = server_from_dsn(url), url.rpartition("/")[2]
    with closing(connect(server, database)) as connection, closing(connection.cursor()) as cursor:
        try:
            cursor.execute("INSERT INTO ledger (written) VALUES (0)")
        except (psycopg.errors.ReadOnlySqlTransaction, pymysql.err.OperationalError) as error:
            if isinstance(error, pymysql.err.OperationalError) and error.args[0] not in READ_ONLY:
                raise
            return
    raise ProgramFailed("the old side takes writes behind the cut-over")
