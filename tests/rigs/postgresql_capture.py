"""Capture of a real PostgreSQL in this process, once with large transactions as they are made and once as they commit; and
sessions there that write at the same time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from anabranch import failpoints
from anabranch.capture.run import Capture
from anabranch.capture.uncommitted import MemoryLimits
from anabranch.connectors.postgresql.source import PostgresSource
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.contracts import LogOptions
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, Op, Part
from anabranch.rows.uncommitted import LogChanges, LogEnded, LogTakenBack
from anabranch.testing.databases import Database
from anabranch.testing.in_time import PATIENCE
from anabranch.trail.open_staging import kept
from anabranch.trail.published import TrailEnd
from anabranch.trail.reader import TrailReader, chunks
from anabranch.trail.writer import TrailWriter
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES

ALL_TO_DISK = MemoryLimits(bytes=1, seconds=1e9)
IN_MEMORY = MemoryLimits(bytes=1 << 30, seconds=1e9)
OTHER = "other"
FLUSH = "SELECT pg_logical_emit_message(true, '', '')"  # a server decodes what is on its disk; a commit puts it there


class Nobody:
    def read(self, *_: Any) -> None: ...

    follows = log_end = at_end = written = waiting = read


@dataclass
class Rig:
    """One trail with its slot. `given`: what the reader gave beside chunks, by kind and transaction."""

    database: Database
    endpoint: Endpoint
    directory: Path
    streaming: bool = True
    binary: bool = False
    leave_out: frozenset[str] = frozenset()
    limits: MemoryLimits = ALL_TO_DISK
    wanted: Callable[[Any], bool] = lambda table: table.name != OTHER
    given: list[tuple[type, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connector: PostgresSource = source(  # type: ignore[assignment]  # it is this one
            self.endpoint, PostgresSourceOptions(streaming=self.streaming, binary=self.binary)
        )
        parts = "on" if self.streaming else "off", *["rest"] * bool(self.leave_out)
        name = f"anabranch_{self.database.name[-12:]}_{'_'.join(parts)}"
        self.options = LogOptions(1, 0.05, RULES, name, leave_out=self.leave_out)
        with closing(self.connector.catalog()) as catalog:
            tables = catalog.tables(self.wanted)
        self.connector.run(self.connector.steps(self.options, tables, begins=True), PATIENCE)
        self.follow()

    def drop(self) -> None:
        source(endpoint_of(self.database)).remains(self.options.name, remove=True)

    def follow(self, fault: str = "", until: Callable[[], bool] | None = None) -> None:
        """Up to what the source has now, or `until`. With a fault it dies there."""
        reader = self.connector.log(self.options)
        goal, taken = reader.end().native, reader.read
        self.database.execute(FLUSH)  # behind it: looking for the end may write hints, which nobody brings to the disk

        def read(timeout: float) -> Any:
            item = taken(timeout)
            if isinstance(item, (LogChanges, LogTakenBack, LogEnded)):
                self.given.append((type(item), item.xid))
            return item

        reader.read = read  # type: ignore[method-assign]  # it tells what comes by
        trail = TrailWriter.open(
            self.directory, job="j", job_uuid="u", source_identity=reader.identity(), pack=False, lock_timeout=120
        )

        def stop() -> bool:
            return until() if until else self._is_behind(trail.end, goal)

        capture = Capture(
            self.connector, reader, trail, lambda table: self.wanted(table), stop, Nobody(), reader.identity(), lambda *_: None,
            limits=self.limits, prepare=self._prepare,
        )  # fmt: skip
        failpoints.arm({failpoints.VARIABLE: fault})
        try:
            capture.run()
            trail.close()
        except BaseException:  # whatever it was, a kill too: let go, and passed on
            trail._failed = True  # a process that dies flushes nothing
            with suppress(Exception):  # closing what has failed says so again
                trail.close()
            raise
        finally:
            failpoints.arm({})
            reader.close()

    def is_at(self, goal: str) -> bool:
        """Is all up to there in the trail?"""
        with TrailReader(self.directory) as trail:
            return self._is_behind(trail.end(), goal)

    def _is_behind(self, end: TrailEnd, goal: str) -> bool:
        """By the place to resume from: that of the last transaction is before its own end, where the log may end, too."""
        order = self.connector.order
        return bool(end.resume) and order.includes(order.mark(end.resume), goal, None)

    def dies(self, fault: str) -> None:
        try:
            self.follow(f"{fault}")
        except failpoints.FailpointReached:
            return
        raise AssertionError(f"{fault} was not reached")

    def _prepare(self, tables: Mapping[TableId, TableSchema]) -> None:
        self.connector.run(self.connector.steps(self.options, tables, begins=False), PATIENCE)

    def kept(self) -> list[str]:
        return [one.xid for one in kept(self.directory)]

    def found(self) -> list[tuple[Any, ...]]:
        """The trail's transactions: their place and id, and all that happens in each, in its order."""
        result: list[tuple[Any, ...]] = []
        inside: list[tuple[int, Any]] = []
        with TrailReader(self.directory) as trail:
            check = trail.check()
            assert check.is_good, check.problems
            for chunk in chunks(trail, 0):
                rows: list[list[Any]] = [[] for _ in range(chunk.transactions.num_rows)]
                for one in chunk.tables:
                    for row in one.batch.to_pylist():
                        what = (
                            one.table.name,
                            Op(row["_op"]).name,
                            one.shapes[row["_shape"]],
                            tuple(row.values())[META:],
                        )
                        rows[row["_tx"]].append((row["_ordinal"], what))
                for barrier in chunk.barriers:
                    rows[barrier.tx].append((barrier.ordinal - 0.5, (barrier.kind.value, barrier.table.name)))
                if chunk.part is not Part.WHOLE:
                    inside += rows[0]
                if chunk.part is Part.FRAGMENT:
                    continue
                if chunk.part is Part.LAST:
                    rows, inside = [inside], []
                for place, some in zip(chunk.transactions.to_pylist(), rows, strict=True):
                    ordinals = [ordinal for ordinal, what in some if len(what) == 4]
                    assert len(set(ordinals)) == len(ordinals)
                    sorted_ = [what for _, what in sorted(some, key=lambda one: one[0])]
                    result.append((place["native"], place["gtid"], place["commit_time"], sorted_))
        return result


def follow_all(rigs: list[Rig], work: Callable[[], None]) -> None:
    """All follow while this is done, and up to what the source has then."""
    goals: list[str] = []

    def is_there(rig: Rig) -> bool:
        return bool(goals) and rig.is_at(goals[0])

    with ThreadPoolExecutor() as pool:
        following = [pool.submit(rig.follow, until=partial(is_there, rig)) for rig in rigs]
        try:
            work()
            rigs[0].database.execute(FLUSH)
            with closing(rigs[0].connector.log(rigs[0].options)) as reader:
                goals.append(reader.end().native)
        finally:
            goals.append("0/0")  # nobody waits for what failed
        for one in following:
            one.result(PATIENCE)


class Sessions:
    """Statements of several sessions, drawn by a seed. Each has a table of its own beside the one that all have."""

    def __init__(self, database: Database, seed: int, count: int = 4) -> None:
        self.database, self.dice = database, random.Random(seed)
        self.connections = [database.connect(autocommit=False) for _ in range(count)]
        self.depth = [0] * count
        self.rows = 0
        self.locking: set[int] = set()  # those that let nobody look at a table: a capture that starts waits for them

    def close(self) -> None:
        for connection in self.connections:
            connection.close()

    def step(self) -> None:
        number = self.dice.randrange(len(self.connections))
        acts = [self._insert] * 6 + [self._change] * 4 + [self._savepoint, self._back] * 3 + [self._end] * 2
        self.dice.choice([*acts, self._truncate, self._release])(number)

    def end_all(self) -> None:
        for number in range(len(self.connections)):
            self._end(number)

    def _run(self, number: int, statement: str) -> None:
        self.connections[number].execute(statement)

    def _insert(self, number: int) -> None:
        count = self.dice.choice([1, 5, 300, 1500])
        table = self.dice.choice(["shared", f"own{number}", f"own{number}", OTHER])
        first, self.rows = self.rows + 1, self.rows + count
        self._run(number, f"INSERT INTO {table} SELECT n, {number}, repeat('x', n % 97), repeat(md5(n::text), 300 * (n % 50"
                  f" / 49)) FROM generate_series({first}, {first + count - 1}) n")  # fmt: skip

    def _change(self, number: int) -> None:
        table, part = self.dice.choice(["shared", f"own{number}"]), self.dice.randrange(5)
        statements = [f"UPDATE {table} SET v = v || 'y'", f"DELETE FROM {table}", f"UPDATE {table} SET id = -id"]
        self._run(number, f"{self.dice.choice(statements)} WHERE owner = {number} AND id % 7 = {part}")

    def _truncate(self, number: int) -> None:
        self.locking.add(number)
        self._run(number, f"TRUNCATE own{number}")

    def _savepoint(self, number: int) -> None:
        self.depth[number] += 1
        self._run(number, f"SAVEPOINT s{self.depth[number]}")

    def _back(self, number: int) -> None:
        if self.depth[number]:
            self.depth[number] = self.dice.randint(1, self.depth[number])
            self._run(number, f"ROLLBACK TO s{self.depth[number]}")

    def _release(self, number: int) -> None:
        if self.depth[number]:
            at = self.dice.randint(1, self.depth[number])
            self.depth[number] = at - 1
            self._run(number, f"RELEASE s{at}")

    def _end(self, number: int) -> None:
        connection, name = self.connections[number], f"{self.database.name}_{number}"
        how = self.dice.choice(["COMMIT", "COMMIT", "ROLLBACK", "PREPARED"])
        self.depth[number] = 0
        self.locking.discard(number)
        if how != "PREPARED":
            connection.execute(how)
            return
        connection.execute("SELECT 1")
        connection.execute(f"PREPARE TRANSACTION '{name}'")
        connection.commit()
        connection.autocommit = True
        connection.execute(f"{self.dice.choice(['COMMIT', 'ROLLBACK'])} PREPARED '{name}'")
        connection.autocommit = False


COLUMNS = "(id bigint PRIMARY KEY, owner int, v text, large text)"


def tables(count: int = 4) -> list[str]:
    names = ["shared", OTHER, *(f"own{number}" for number in range(count))]
    return [f"CREATE TABLE {name} {COLUMNS}" for name in names] + [
        f"ALTER TABLE {name} ALTER large SET STORAGE EXTERNAL" for name in names
    ]


def small_memory(database: Database) -> None:
    """Of sessions that decode for it."""
    database.execute(f"ALTER DATABASE {database.name} SET logical_decoding_work_mem = '64kB'")
