"""What the workloads run on: one source server, one target server, a directory; databases and jobs of their own."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from anabranch.rows.installed import FOUND, SWITCH
from anabranch.testing.databases import Database, connect, create_database
from anabranch.testing.packages import find_java
from anabranch.testing.servers import Server
from anabranch.trail.reader import TrailReader, exists
from bench import mysql_family
from bench.at_target import Command, Looking, Target
from bench.orders import Orders
from bench.processes import Cost, Program, measured, python

# Sources write their log without waiting for the disk: it is the reading that is measured. The target is durable.
# What the reduced sizes have fits into their buffers (1 GB): a row is to cost among many what it costs among few (W8).
SOURCE_OPTIONS = (
    *mysql_family.OPTIONS,
    "--sync-binlog=0",
    "--innodb-flush-log-at-trx-commit=2",
    "--loose-innodb-log-file-size=256M",
    "--max-binlog-size=1G",
)

JOB_FILE = """\
name = "{name}"

[source]
url = "{source}?ssl_mode=disabled"

[target]
url = "{target}"

[[rules]]
include = ["{schema}.{table}"]
target = "{place}.{{table}}"

{more}
"""
HIDDEN = ", compiled code hidden"  # behind what a side does


@dataclass
class Job:
    """A job of the product, driven through its command line, each part as a process of its own."""

    file: Path
    name: str
    source: Database
    target: Database
    at: Target
    environment: dict[str, str] = field(repr=False)

    @property
    def home(self) -> Path:
        return self.file.parent / self.name

    def decoders(self) -> dict[str, Job]:
        """What is put behind a figure's name -> this job; beside it the job of processes that do not see the compiled code."""
        hidden = {"/python": replace(self, environment={**self.environment, SWITCH: "off"})}
        return {"": self, **(hidden if FOUND is not None else {})}

    def start(self, verb: str, *options: str) -> Program:
        return Program(python("anabranch", verb, self.file, *options), self.environment)

    def load(self) -> None:
        """Load all tables. Raises ProgramFailed, with what the command said."""
        with self.start("load") as load:
            if load.process.wait():
                load.check()

    def written(self) -> int:
        """The sequence at which the trail ends; -1 before it has begun."""
        if not exists(self.home / "trail"):
            return -1
        with TrailReader(self.home / "trail") as trail:
            end = trail.end()
            return end.position.sequence if end.resume else -1

    def applied(self, looking: Looking) -> int:
        """The sequence at which the target is, once its load has begun."""
        return self.at.applied(looking, self.name)


class Stand:
    """Servers for one kind of source, up while the context is. MySQL and MariaDB; postgresql.py has the other kind."""

    schema = ""  # of the source's tables, "" for the database's name

    def __init__(self, source: str, directory: Path, at: Target) -> None:
        self.name, self.directory, self.at, self.target = source, directory, at, at.server
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o755)
        self.source: Server = self._stack.enter_context(self.start(self.directory / self.name))
        return self

    def start(self, directory: Path) -> Server:
        return mysql_family.STARTERS[self.name](directory, options=SOURCE_OPTIONS)

    def orders(self, database: Database) -> Orders:
        return Orders(database)

    def url(self, source: Database) -> str:
        return self.source.url()

    def ledger(self) -> str:
        return "CREATE TABLE ledger (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, written bigint NOT NULL)"

    @property
    def pair(self) -> str:
        """The source and the target, as figures name them."""
        return f"{'pg' if self.name == 'postgresql' else self.name}-{self.at.short}"

    @property
    def of(self) -> str:
        """What figures are of that are the source's above all: the pair where the target is no PostgreSQL."""
        return self.name if self.at.kind == "postgresql" else self.pair

    @property
    def is_alike(self) -> bool:
        """Are both ends of one kind?"""
        return self.name == self.at.kind

    @property
    def forms(self) -> tuple[str, ...]:
        """In which the two clients can pass rows on: options of COPY."""
        return ("",)

    @property
    def servers(self) -> dict[str, Server]:
        """Whose processors are counted as well."""
        return {"source server": self.source, "target server": self.target}

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stack.close()

    def second(self, directory: Path, *options: str) -> Server:
        """Another server of this kind on the data in `directory`, until the context ends."""
        server = mysql_family.STARTERS[self.name](directory, options=[*SOURCE_OPTIONS, *options])
        return self._stack.enter_context(server)

    def databases(self, label: str) -> tuple[Database, Database]:
        """Fresh ones at source and target."""
        return create_database(self.source, label), create_database(self.target, label)

    def job(self, name: str, source: Database, target: Database, table: str = "orders", more: str = "") -> Job:
        home = self.directory / "homes"
        home.mkdir(exist_ok=True)
        file = home / f"{name}.toml"
        text = JOB_FILE.format(
            name=name,
            source=self.url(source),
            target=self.at.url(target),
            place=self.at.place(target),
            schema=self.schema or source.name,
            table=table,
            more=more,
        )
        file.touch(mode=0o600)
        file.write_text(text)
        environment = {"ANABRANCH_HOME": str(home), "JAVA_HOME": str(find_java().parent.parent)}
        return Job(file, name, source, target, self.at, environment)

    def log_end(self) -> tuple[str, int]:
        """File and offset at which the source's log ends."""
        connection = connect(self.source)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SHOW MASTER STATUS")
                file, offset = cursor.fetchone()[:2]
        finally:
            connection.close()
        return str(file), int(offset)

    # --- ceilings ----------------------------------------------------------------------------------------------------

    def rows(self, source: Database, form: str = "") -> Command:
        """The program that prints all rows, in one of `forms`."""
        return mysql_family.rows(source, "orders")

    def log_begins(self, job: Job) -> Any:
        """Where the log is that `copy_log` copies from."""
        return self.log_end()

    def copy_log(self, job: Job, begin: tuple[str, int]) -> Cost:
        """The vendor's program that copies it."""
        file, offset = begin
        client, environment = mysql_family.program(self.source, mysql_family.LOG_CLIENTS[self.name])
        copied = self.copied()
        shutil.rmtree(copied.parent, ignore_errors=True)
        copied.parent.mkdir()
        options = ["--read-from-remote-server", "--raw", f"--start-position={offset}", "--to-last-log"]
        return measured([*client, *options, f"--result-file={copied.parent}/", file], environment)

    def copied(self) -> Path:
        place = self.directory / "raw"
        return next(iter(sorted(place.iterdir())), place / "log") if place.exists() else place / "log"

    def log_again(self, job: Job) -> None:
        """The trail is put back to where it began: the log may be read from there again."""
