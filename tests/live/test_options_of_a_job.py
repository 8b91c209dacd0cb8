"""Options of a job file, at their place of now and at that of before: what the server sees of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from anabranch.connectors.postgresql.source.capture import WalReader
from anabranch.contracts import LogReader, PreflightContext
from anabranch.contracts.source import steps_of
from anabranch.job import Job
from anabranch.model.checks import CheckResult
from anabranch.testing.databases import Database
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import Server
from anabranch.view.opened import source_of
from anabranch.view.options import log_options
from rigs.postgresql_sessions import drop_slots

Make = Callable[[Server], Database]
PATIENCE = 240.0
ONE_OF_BOTH = pytest.mark.parametrize("section", ["source.options", "capture"])


def job_of(tmp_path: Path, source: Database, text: str) -> Job:
    file = tmp_path / "job.toml"
    file.write_text(
        f'name = "options"\n[source]\nurl = "{source.url}"\n[target]\nurl = "postgresql://u@203.0.113.1/d"\n'
        f'[[rules]]\ninclude = ["*.*"]\n{text}'
    )
    return Job.from_file(file)


def reader_of(job: Job) -> LogReader:
    """Follows from the log's end on, set up as capture does it."""
    source, options = source_of(job), log_options(job, str(uuid4()))
    if steps := steps_of(source, options, {}, begins=True):
        source.run(steps, PATIENCE)
    reader = source.log(options)
    reader.start(reader.end(), lambda table: None)
    return reader


@ONE_OF_BOTH
def test_a_server_knows_its_reader_by_the_number_of_the_job_file(
    mysql_family: Server, source_database: Make, tmp_path: Path, section: str
) -> None:
    database, number = source_database(mysql_family), 77_801 + (section == "capture")
    listed = "SHOW SLAVE HOSTS" if mysql_family.name == "mariadb" else "SHOW REPLICAS"
    with closing(reader_of(job_of(tmp_path, database, f"[{section}]\nserver_id = {number}\n"))):
        give_up = time.monotonic() + PATIENCE
        while str(number) not in [str(row[0]) for row in database.query(listed)]:
            in_time(give_up, database.query(listed))


@ONE_OF_BOTH
def test_a_source_is_read_as_the_job_file_says(
    logical_postgresql: Server, source_database: Make, tmp_path: Path, section: str
) -> None:
    database = source_database(logical_postgresql)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    job = job_of(tmp_path, database, f"[{section}]\nbinary = true\nstreaming = true\n")
    reader = reader_of(job)
    try:
        assert isinstance(reader, WalReader) and reader.is_binary and reader.decoder == "pgoutput"
        (told,) = [one.message for one in checked(job) if one.check == "source.decoder"]
        assert told == "decoder pgoutput: large transactions come while they are open"
    finally:
        reader.close()
        drop_slots(database)


@ONE_OF_BOTH
def test_a_slot_is_made_with_the_decoder_of_the_job_file(
    logical_postgresql: Server, source_database: Make, tmp_path: Path, section: str
) -> None:
    database = source_database(logical_postgresql)
    job = job_of(tmp_path, database, f'[{section}]\ndecoder = "wal2json"\n')
    source = source_of(job)
    steps = [step.sql for step in steps_of(source, log_options(job, str(uuid4())), {}, begins=True)]
    assert [step for step in steps if "slot" in step and "wal2json" in step], steps


def checked(job: Job) -> list[CheckResult]:
    with closing(source_of(job).checks()) as checks:
        return checks.run(PreflightContext(job.config.name, {}, {}, {}))
