"""A job between a source database and a target database, driven through the command line in processes of its own.

Both ends are compared by SQL of this file, never by `anabranch verify`. What does not live here: servers (conftest),
what is written at the source (anabranch/testing/workload.py), faults (anabranch/testing/faults.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pymysql

from anabranch.model.ids import TableId
from anabranch.testing import class_archive, faults
from anabranch.testing.databases import Database
from anabranch.testing.in_time import NotInTime, in_time, pause
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import ShownRow, show
from rigs import forked_commands
from rigs.forked_commands import ForkedProcess
from rigs.told_errors import as_read

PATIENCE = 240.0  # seconds: nobody waits for less, whatever is asked for; a busy machine takes its time
SOURCE_SECRET, TARGET_SECRET = "SCENARIO_SOURCE_PASSWORD", "SCENARIO_TARGET_PASSWORD"
WITH_SPARK = ("run", "load", "apply", "verify")
Query = Callable[..., list[tuple[Any, ...]]]
HAS_STATES = (
    "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'anabranch' AND table_name = 'table_state'"
)
UTC_AT_MYSQL = "SET time_zone = '+00:00'"
BEFORE_THE_STREAM = ("preflight", "waiting", "loading")
MARKS = "CREATE TABLE IF NOT EXISTS scenario_mark (id INT PRIMARY KEY)"

PARKS_ADDED = '[ddl]\nadd_column = "park"\n'


@dataclass(frozen=True)
class Result:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


class Running:
    """A command that runs; its output goes to files. `fork` starts it in place of Python, from its environment and these."""

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        log: Path,
        fork: Callable[..., ForkedProcess] | None = None,
    ) -> None:
        self.command, self.out, self.err = command, log.with_suffix(".out"), log.with_suffix(".err")
        self.process: subprocess.Popen[bytes] | ForkedProcess
        if fork is not None:
            self.out.touch()
            self.err.touch()
            self.process = fork(environment, self.out, self.err)
            return
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    @property
    def stderr(self) -> str:
        return as_read(self.err.read_text(errors="replace"))

    def wait(self, seconds: float = 90.0) -> Result:
        try:
            code = self.process.wait(max(seconds, PATIENCE))
        except subprocess.TimeoutExpired:
            tail = f"{self.tail()}\n{self._stacks()}"
            self.kill()
            raise NotInTime(
                f"{' '.join(self.command)} did not end within {max(seconds, PATIENCE)} s:\n{tail}"
            ) from None
        return Result(code if code >= 0 else 128 - code, self.out.read_text(errors="replace"), self.stderr)

    def _stacks(self) -> str:
        """Abort it and its parts. Returns where their threads were."""
        told = len(self.stderr)
        faults.abort_tree(self.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10.0)
        return self.stderr[told:]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, seconds: float = 60.0, code: int | None = 0) -> Result:
        """SIGTERM, and its end."""
        if self.is_alive:
            self.signal(signal.SIGTERM)
        result = self.wait(seconds)
        assert code is None or result.code == code, f"ended with {result.code}, not {code}:\n{self.tail()}"
        return result

    def kill(self) -> None:
        """SIGKILL for it and everything below it."""
        faults.kill_tree(self.pid)
        self.process.wait()

    def part(self, name: str, seconds: float = 20.0) -> int:
        """The process id of a part that `run` has started."""
        return wait_until(
            lambda: next(iter(faults.find(self.pid, f"-m anabranch {name} ")), None),
            seconds,
            f"a process of the part {name}",
            self.tail,
        )

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.stderr.splitlines()[-lines:])


@dataclass
class Scenario:
    """One job. `source_at`, `target_at`: (host, port) to use instead of the servers' own, for a proxy between. `user`,
    `target_user`: name and password of the job's users, if not the administrators."""

    source: Database
    target: Database
    directory: Path
    name: str = "shop"
    source_at: tuple[str, int] | None = None
    target_at: tuple[str, int] | None = None
    source_addresses: str = ""  # several, as the URL has them
    target_addresses: str = ""
    user: tuple[str, str] | None = None
    target_user: tuple[str, str] | None = None
    prefix: tuple[str, ...] = ()  # what every command is started with
    is_forked: bool = True  # commands are forks of a process that has everything imported (forked_commands.py)
    is_quick: bool = False  # without Spark but for filters (quick/sitecustomize.py), as tests marked `quick` have it
    is_loaded_by_table: bool = False  # its tables are made one by one, as their rows come (rigs/hops.py)
    _marks: int = 0
    _logs: int = 0
    _running: list[Running] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.source.execute(MARKS)
        self.write_job()

    @property
    def schema(self) -> str:
        """Of the source's tables."""
        return self.source.name

    @property
    def there(self) -> str:
        """The schema of the target's tables."""
        return "public"

    @property
    def target_path(self) -> str:
        """What of the target's URL comes after its port."""
        return self.target.name

    @property
    def source_path(self) -> str:
        """What of the source's URL comes after its port."""
        return ""

    # --- the job file ----------------------------------------------------------------------------------------------

    @property
    def job_file(self) -> Path:
        return self.directory / f"{self.name}.toml"

    @property
    def home(self) -> Path:
        return self.directory / "home" / self.name

    @property
    def environment(self) -> dict[str, str]:
        source_secret = self.user[1] if self.user else self.source.server.password
        target_secret = self.target_user[1] if self.target_user else self.target.server.password
        return {
            **os.environ,
            "ANABRANCH_HOME": str(self.directory / "home"),
            "PYTHONFAULTHANDLER": "1",
            SOURCE_SECRET: source_secret,
            TARGET_SECRET: target_secret,
        }

    def write_job(self, text: str = "", *, rules: str = "", spark: str = "local[2]") -> None:
        """A job over the whole source database; `text` is added to the file."""
        source, target = self.source.server, self.target.server
        at, to = self.source_at or (source.host, source.port), self.target_at or (target.host, target.port)
        source_place = self.source_addresses or f"{at[0]}:{at[1]}"
        target_place = self.target_addresses or f"{to[0]}:{to[1]}"
        user = self.user[0] if self.user else source.user
        target_user = self.target_user[0] if self.target_user else target.user
        rules = rules or f'[[rules]]\ninclude = ["{self.schema}.*"]\ntarget = "{self.there}.{{table}}"\n'
        self.job_file.write_text(
            f'name = "{self.name}"\n'
            f'[source]\nurl = "{source.name}://{user}:${{{SOURCE_SECRET}}}@{source_place}{self.source_path}"\n'
            f'[target]\nurl = "{target.name}://{target_user}:${{{TARGET_SECRET}}}@{target_place}/{self.target_path}"\n'
            f"{rules}{text}\n" + ("" if "[spark]" in text else f'[spark]\nmaster = "{spark}"\n')
        )

    # --- commands --------------------------------------------------------------------------------------------------

    def start(self, *arguments: str) -> Running:
        """`anabranch VERB JOB …` in the background; ended with the scenario."""
        self._logs += 1
        logs = self.directory / "output"
        logs.mkdir(exist_ok=True)
        words = [arguments[0], *arguments[1:]]
        groups = ("trail", "schema", "conflicts", "parked", "skip", "ddl", "rules")
        behind = {("rules", "import"): 3}.get(arguments[:2], 2 if arguments[0] in groups else 1)
        words.insert(behind, str(self.job_file))
        command = [*self.prefix, sys.executable, "-m", "anabranch", *words]
        faster = class_archive.environment() if arguments[0] in WITH_SPARK and self._starts_spark() else {}
        quick = os.pathsep.join(filter(None, [str(Path(__file__).parent / "quick"), os.environ.get("PYTHONPATH")]))
        faster = faster | {"PYTHONPATH": quick} if self.is_quick else faster
        fork = (
            None if self.prefix or not self.is_forked else partial(forked_commands.start, words, is_quick=self.is_quick)
        )
        running = Running(command, self.environment | faster, logs / f"{self._logs:02}-{arguments[0]}", fork)
        self._running.append(running)
        return running

    def _starts_spark(self) -> bool:
        """A quick scenario does it for a filter alone."""
        return not self.is_quick or "\nwhere = " in self.job_file.read_text()

    def cli(self, *arguments: str, code: int | None = 0, seconds: float = 120.0) -> Result:
        """The same to its end; `code` is what it has to end with."""
        running = self.start(*arguments)
        result = running.wait(seconds)
        assert code is None or result.code == code, (
            f"{' '.join(arguments)} ended with {result.code}, not {code}:\n{result.stdout[-3000:]}\n{running.tail()}"
        )
        assert "Traceback (most recent call last)" not in result.stderr, result.stderr[-5000:]
        return result

    def run_until_caught_up(self, seconds: float = 240.0, code: int = 0) -> Result:
        return self.cli("run", "--until-caught-up", code=code, seconds=seconds)

    def close(self) -> None:
        for running in self._running:
            if running.is_alive:
                running.kill()

    # --- where it is -----------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.cli("status", "--json").json
        return found

    def states(self) -> dict[str, str]:
        """Source table -> state, as the target has it; empty before the job has any."""
        return self._states(self.target.query)

    def _states(self, query: Query) -> dict[str, str]:
        if not query(HAS_STATES)[0][0]:
            return {}
        rows = query("SELECT source_table, state FROM anabranch.table_state WHERE job = %s", [self.name])
        return {table.split(".", 1)[1]: state for table, state in rows}

    def facts(self, table: str) -> dict[str, Any]:
        query = "SELECT facts FROM anabranch.table_state WHERE source_table = %s"
        return dict(self.target.query(query, [f"{self.schema}.{table}"])[0][0])

    def reason(self, table: str) -> str:
        query = "SELECT reason FROM anabranch.table_state WHERE source_table = %s"
        return str(self.target.query(query, [f"{self.schema}.{table}"])[0][0])

    def checkpoint(self) -> tuple[str, int, int]:
        """Owner, epoch, sequence."""
        query = "SELECT owner, epoch, sequence FROM anabranch.checkpoint WHERE job = %s"
        owner, epoch, sequence = self.target.query(query, [self.name])[0]
        return owner, epoch, sequence

    def wait_streaming(self, running: Running | None = None, seconds: float = 120.0) -> None:
        """Every table is past its load and its window, or parked."""
        with asking(self.target) as query:
            wait_until(
                lambda: (
                    (states := self._states(query))
                    and set(states.values()) <= {"streaming", "parked"}
                    and not (self.is_loaded_by_table and self.status()["phase"] in BEFORE_THE_STREAM)
                ),
                seconds,
                "all tables stream",
                lambda: f"{self.states()}\n{running.tail() if running else ''}",
                running,
            )

    def sync(self, running: Running | None = None, seconds: float = 60.0) -> None:
        """Everything committed up to now is at the target: a mark of ours has come through."""
        self._marks += 1
        self.source.execute(f"INSERT INTO scenario_mark VALUES ({self._marks})")
        mark = f"SELECT count(*) FROM {self.there}.scenario_mark WHERE id = %s"
        with asking(self.target) as query:
            wait_until(
                lambda: query(mark, [self._marks])[0][0] == 1,
                seconds,
                f"mark {self._marks} at the target",
                running.tail if running else str,
                running,
            )

    # --- capture alone -----------------------------------------------------------------------------------------------

    @property
    def trail(self) -> Path:
        return self.home / "trail"

    def capture(self) -> Running:
        """Capture alone, once it follows the log."""
        capture = self.start("capture")
        wait_until(lambda: "capture_follows" in capture.stderr, 60, "capture follows", capture.tail, capture)
        return capture

    def trail_rows(self, table: str = "", after: int | None = None) -> list[ShownRow]:
        """Row images and barriers of the trail behind a sequence, of all tables or of one."""
        with TrailReader(self.trail) as reader:
            first = reader.first() - 1 if after is None else after
            return list(show(reader, after=first, table=TableId(self.schema, table) if table else None))

    def parked(self) -> dict[TableId, str]:
        """Tables that the trail has parked, and why."""
        with TrailReader(self.trail) as reader:
            return reader.history.parked()

    def captured(self, capture: Running, seconds: float = 60.0) -> None:
        """Everything committed up to now is in the trail: a mark of ours is."""
        with TrailReader(self.trail) as reader:
            before = reader.end().position.sequence
        self._marks += 1
        self.source.execute(f"INSERT INTO scenario_mark VALUES ({self._marks})")
        wait_until(
            lambda: any(row.values.get("id") == str(self._marks) for row in self.trail_rows("scenario_mark", before)),
            seconds,
            f"mark {self._marks} in the trail",
            capture.tail,
            capture,
        )

    # --- comparison ------------------------------------------------------------------------------------------------

    def assert_identical(self, *tables: str, without: Sequence[str] = ()) -> None:
        """Both ends hold the same rows, equal ones as often. All source tables, or these."""
        for table in tables or self.source_tables():
            if table in without:
                continue
            there, here = self.source_rows(table), self.target_rows(table)
            missing, surplus = Counter(there), Counter(here)
            missing, surplus = missing - surplus, surplus - missing
            assert not missing and not surplus, (
                f"{table}: {len(there)} rows at the source, {len(here)} at the target; "
                f"missing {list(missing.items())[:5]}, too much {list(surplus.items())[:5]}"
            )

    def source_tables(self) -> list[str]:
        query = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'"
        return sorted(str(name) for (name,) in self.source.query(query, [self.source.name]))

    def source_columns(self, table: str) -> list[tuple[str, str]]:
        """Names and types, in order."""
        query = (
            "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
            " ORDER BY ORDINAL_POSITION"
        )
        return [(str(name), str(type_)) for name, type_ in self.source.query(query, [self.source.name, table])]

    def source_rows(
        self, table: str, columns: Sequence[str] | None = None, where: str = "TRUE"
    ) -> list[tuple[Any, ...]]:
        types = dict(self.source_columns(table))
        names = list(columns or types)
        shown = ", ".join(ticked(n) + "+0e0" * types[n].startswith("float") for n in names)
        rows = self.source.query(f"SELECT {shown} FROM {ticked(table)} WHERE {where}", init_command=UTC_AT_MYSQL)
        return sorted((tuple(map(source_value, row, (types[n] for n in names))) for row in rows), key=repr)

    def target_rows(
        self, table: str, columns: Sequence[str] | None = None, where: str = "TRUE", relation: str = ""
    ) -> list[tuple[Any, ...]]:
        """`relation`: where the rows went, if not to a table of the same name in `public`."""
        types = dict(self.source_columns(table))
        names = list(columns or types)
        shown = ", ".join(map(quote, names))
        query = f"SELECT {shown} FROM {relation or f'public.{quote(table)}'} WHERE {where}"
        rows = self.target.query(query, options="-c timezone=UTC")
        kinds = [types.get(name, "") for name in names]
        return sorted((tuple(map(_target_value, row, kinds)) for row in rows), key=repr)


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def ticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def source_value(value: Any, type_: str) -> Any:
    if value is None:
        return None
    if type_.startswith("json") or (type_ == "longtext" and value[:1] in "{["):
        return json.dumps(json.loads(value), sort_keys=True)
    if type_.startswith("bit"):
        width = int(re.findall(r"\d+", type_)[0])
        return f"{int.from_bytes(value, 'big'):0{width}b}"
    if type_.startswith("float"):
        return _float4(value)
    return value


def _target_value(value: Any, type_: str) -> Any:
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, dict | list):
        return json.dumps(value, sort_keys=True)
    if type_ == "longtext" and isinstance(value, str) and value[:1] in "{[":
        return json.dumps(json.loads(value), sort_keys=True)
    if isinstance(value, memoryview):
        return bytes(value)
    return _float4(value) if type_.startswith("float") and value is not None else value


def _float4(value: float) -> float:
    import struct

    return float(struct.unpack("f", struct.pack("f", value))[0])


def wait_until(
    condition: Callable[[], Any],
    seconds: float,
    what: str,
    explain: Callable[[], str] = str,
    running: Running | None = None,
) -> Any:
    """Poll until it is true, and return what it gave. Fails early when `running` has ended. `seconds` is usual; longer is
    waited on a busy machine."""
    seconds = max(seconds, PATIENCE)
    begun = time.monotonic()
    while not (found := condition()):
        if running is not None and not running.is_alive:
            if found := condition():  # it came behind the question, and before the end
                return found
            raise AssertionError(f"waiting until {what}: it ended with {running.process.returncode}\n{running.tail()}")
        in_time(begun + seconds, f"not within {seconds} s: {what}\n{explain()}")
        pause(begun)
    return found


@contextmanager
def asking(database: Database) -> Iterator[Query]:
    """A `query` for polls, over one connection while it lasts: a connection for each costs forty times the question, on
    processors that those need who are waited for."""
    connection = database.connect()

    def ask(sql: str, parameters: Sequence[object] | None) -> list[tuple[Any, ...]]:
        with closing(connection.cursor()) as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    def query(sql: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        nonlocal connection
        try:
            return ask(sql, parameters)
        except (psycopg.OperationalError, pymysql.err.OperationalError, pymysql.err.InterfaceError):
            if not _is_gone(connection):
                raise
            connection = database.connect()
            return ask(sql, parameters)

    try:
        yield query
    finally:
        connection.close()


def _is_gone(connection: Any) -> bool:
    return bool(connection.broken) if isinstance(connection, psycopg.Connection) else not connection.open


@contextmanager
def repeating(work: Callable[[], object], pause: float) -> Iterator[None]:
    """`work` again and again in a thread meanwhile. Raises what it died of."""
    stop, failures = threading.Event(), list[BaseException]()

    def repeat() -> None:
        try:
            while not stop.wait(pause):
                work()
        except BaseException as failure:  # noqa: BLE001 - carried over to whoever waits for it
            failures.append(failure)

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE)
    if failures:
        raise failures[0]


HALVES = ("CREATE TABLE half (n INT PRIMARY KEY)", "CREATE TABLE other_half (n INT PRIMARY KEY)")


@contextmanager
def pitfall_14_no_half_transaction_is_seen(made: Scenario) -> Iterator[None]:
    """Transactions put the numbers from 1 on into two tables (HALVES). Whoever reads the target at one moment finds as
    many in both, without gaps, and never fewer than before."""
    query = (
        "SELECT (SELECT count(*) FROM public.half), (SELECT count(*) FROM public.other_half), max(n) FROM public.half"
    )
    seen = [0]

    def write() -> None:
        with closing(made.source.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute("SELECT COALESCE(MAX(n), 0) + 1 FROM half")
            (number,) = cursor.fetchone()
            for table in ("half", "other_half"):
                cursor.execute(f"INSERT INTO {table} VALUES ({number})")
            connection.commit()

    def look() -> None:
        one, other, highest = made.target.query(query)[0]
        assert one == other == (highest or 0) >= seen[-1], (one, other, highest, seen[-1])
        seen.append(one)

    with repeating(write, 0.02), repeating(look, 0.01):
        yield
        wait_until(lambda: len(set(seen)) > 3, 60, "the target was looked at while it changed")


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long it took (pytest shows it where a test fails, and with -s)."""
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.1f} s")
