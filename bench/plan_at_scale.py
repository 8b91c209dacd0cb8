"""`python -m bench plan-at-scale [--tables N] [--terabytes N]`: what the plan of a very large source costs, and which limit
comes first.

The catalogue is synthetic, since nobody has 10 TB for it: definitions, statistics and bounds of chunks as a source would give
them, at once. Everything else is the product's own: selection and preflight, the planning of the load, its ledger and tables at
a real PostgreSQL, and the tasks that it gives to Spark. No row is copied. Prints seconds and memory of each step.
"""

from __future__ import annotations

import argparse
import gc
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from anabranch import connectors
from anabranch.config import JobConfig, parse_job
from anabranch.connectors.memory.database import database
from anabranch.connectors.memory.source import MemorySource
from anabranch.connectors.memory.source.catalog import MemoryCatalog
from anabranch.connectors.memory.source.snapshot import MemorySnapshot
from anabranch.contracts import Bounds, RowTarget, SnapshotReader, SourceCatalog
from anabranch.load.copy import ChunkWork
from anabranch.load.plan import LoadTable, PlannedLoad, plan
from anabranch.load.run import _Load, forms_of
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema
from anabranch.model.value_rules import ValueRules
from anabranch.preflight.run import preflight
from anabranch.rules.rule_set import RuleSet
from anabranch.spark import pieces
from anabranch.spark.engine import SparkEngine
from anabranch.spark.session import session
from anabranch.spark.work import Work
from anabranch.testing.databases import create_database
from anabranch.testing.servers import start_postgresql

ROW_BYTES = 400
COLUMNS = 20
LARGEST = 1.1  # of a table's rank, to this power, its rows are the part: a few tables have most of them
SAMPLE = 2_000  # tasks that are run, to tell what one costs
JOB = "scale"
"""Name of the job."""


def sizes(tables: int, terabytes: float) -> list[int]:
    """Rows of each table, the largest first: by Zipf's law, as the sizes of tables are."""
    weights = [1 / rank**LARGEST for rank in range(1, tables + 1)]
    rows = terabytes * 1e12 / ROW_BYTES / sum(weights)
    return [int(weight * rows) for weight in weights]


class Catalogue(MemoryCatalog):
    """Definitions of so many tables."""

    def __init__(self, schemas: dict[TableId, TableSchema]) -> None:
        super().__init__(database(JOB))
        self._schemas = schemas

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        return {table: schema for table, schema in self._schemas.items() if wanted(table)}


class Statistics(MemorySnapshot):
    """Estimates, and bounds of chunks that are those of evenly spread keys."""

    def __init__(self, rows: dict[TableId, int]) -> None:
        super().__init__(JOB, "")
        self._rows = rows

    def estimate(self, table: TableSchema) -> int:
        return self._rows[table.id]

    def bounds(self, table: TableSchema, rows_per_chunk: int) -> list[Bounds]:
        rows = self._rows[table.id]
        ends = [(str(end),) for end in range(rows_per_chunk, rows, rows_per_chunk)]
        edges: list[tuple[str, ...] | None] = [None, *ends, None]
        return [Bounds(lower, upper) for lower, upper in pairwise(edges)]


@dataclass
class Synthetic(MemorySource):
    """A source of these sizes."""

    rows: Sequence[int]
    schemas: dict[TableId, TableSchema] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(_memory())
        for number in range(len(self.rows)):
            schema = _schema(number)
            self.schemas[schema.id] = schema

    def catalog(self) -> SourceCatalog:
        return Catalogue(self.schemas)

    def snapshot(self, expected: str = "") -> SnapshotReader:
        return Statistics(dict(zip(self.schemas, self.rows, strict=True)))

    def __reduce__(self) -> tuple[Any, ...]:
        return MemorySource, (self.endpoint,)  # tasks have an endpoint, as those of a real one


def _memory() -> Endpoint:
    return Endpoint("memory", "", 0, "", "", JOB)


def _schema(number: int) -> TableSchema:
    whole, text = LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=80)
    columns = [Column("id", whole, "bigint", nullable=False)]
    columns += [
        Column(f"column_{place}", text if place % 2 else whole, "varchar(80)" if place % 2 else "bigint")
        for place in range(1, COLUMNS)
    ]
    indexes = (Index("by_2", ("column_2",)), Index("by_4_6", ("column_4", "column_6")))
    return TableSchema(TableId("scale", f"table_{number:06}"), tuple(columns), ("id",), indexes)


# --- steps ------------------------------------------------------------------------------------------------------------


@dataclass
class Steps:
    """Keep what each step took, and print a line for it."""

    lines: list[tuple[str, float, float, str]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str) -> Iterator[list[str]]:
        gc.collect()
        told: list[str] = []
        before, began = resident_mb(), time.monotonic()
        yield told
        seconds, grown = time.monotonic() - began, resident_mb() - before
        self.lines.append((name, seconds, grown, "; ".join(told)))
        print(f"{name:<28} {seconds:8.1f} s {grown:+8.0f} MB  {'; '.join(told)}", flush=True)


def run(tables: int, terabytes: float, directory: Path, heap: str) -> None:
    steps, rows = Steps(), sizes(tables, terabytes)
    print(f"{tables:,} tables, {terabytes:g} TB in {sum(rows):,} rows; the largest has {rows[0]:,}")
    with start_postgresql(
        directory / "postgresql", options=("--fsync=off", "--max-locks-per-transaction=1024")
    ) as server:
        there = create_database(server, JOB)
        config = _config(there.url)
        target = connectors.row_target(config.ends[next(iter(config.ends))])
        with steps.step("catalogue"):
            source = Synthetic(rows)
        rules = RuleSet(config, target.types)
        with steps.step("preflight") as told:
            told.append(str(preflight(config, rules, source, target).verdict))
        planned = _planned(steps, source, target, rules)
        with steps.step("plan again (ledger read)") as told:
            again = plan(JOB, source, target, _loads(source, rules), rules=ValueRules(), expected_identity="")
            told.append(f"{sum(len(one.chunks) for one in again):,} chunks")
        del again
        _spark(steps, source, target, planned, heap)
        size = there.query("SELECT pg_total_relation_size('anabranch.load_chunk') >> 20")[0][0]
        print(f"the ledger takes {size} MB at the target")
    first = max(steps.lines, key=lambda line: line[1])
    print(f"the limit that comes first: {first[0]} ({first[1]:.0f} s)")


def _config(url: str) -> JobConfig:
    text = f'name = "{JOB}"\n[source]\nurl = "memory:///{JOB}"\n[target]\nurl = "{url}"\n'
    text += '[[rules]]\ninclude = ["scale.*"]\ntarget = "public.{table}"\n'
    return parse_job(text, Path("scale.toml"))


def _loads(source: Synthetic, rules: RuleSet) -> list[LoadTable]:
    return [LoadTable(schema, rules.target_table(schema)) for schema in source.schemas.values()]


def _planned(steps: Steps, source: Synthetic, target: RowTarget, rules: RuleSet) -> list[PlannedLoad]:
    with closing(target.store()) as store:
        store.prepare()
    with steps.step("what to load"):
        loads = _loads(source, rules)
    with steps.step("plan (tables and ledger)") as told:
        found = plan(JOB, source, target, loads, rules=ValueRules(), expected_identity="")
        told.append(f"{sum(len(one.chunks) for one in found):,} chunks")
    return found


def _spark(steps: Steps, source: Synthetic, target: RowTarget, planned: list[PlannedLoad], heap: str) -> None:
    with steps.step("forms of target tables"):
        forms = forms_of(target, ValueRules(), planned)
    work = ChunkWork(JOB, source, target, ValueRules(), forms=forms)
    with steps.step("what tasks carry") as told:
        told.append(f"work {len(pickle.dumps(work)) / 1e6:.1f} MB for each")
        left = [piece for one in planned for piece in one.pieces]
        told.append(
            f"a piece {sum(len(pickle.dumps(one)) for one in left[:: max(1, len(left) // 1000)]) / 1000:.0f} bytes"
        )
    with steps.step("a round's bundles") as told:
        load = _Load(
            work, planned, SparkEngine(_no_session), lambda *_: None, lambda *_: None, lambda: False, lambda table: ""
        )
        (bundle,) = load.bundles()
        load.close()
        told.append(f"{len(bundle.pieces):,} pieces")
    with steps.step("Spark's start"):
        spark = session("scale", "local[2]", {"spark.driver.memory": heap})
    with steps.step("tasks to Spark") as told:
        given = pieces.plain(spark, work, bundle.pieces, bundle.sizes)
        tasks = given.getNumPartitions()
        told += [f"{tasks:,} tasks", f"Java's heap {_heap_mb(spark):.0f} of {heap}"]
    with steps.step("a task that does nothing") as told:
        some = pieces.plain(spark, _Nothing(work), bundle.pieces[:SAMPLE], bundle.sizes[:SAMPLE])
        began = time.monotonic()
        pieces.run(spark, [some], lambda outcome: None, lambda: False)
        each = (time.monotonic() - began) / some.getNumPartitions()
        told += [f"{1000 * each:.1f} ms", f"{each * tasks:,.0f} s for all"]
    spark.stop()


def _no_session() -> Any:
    raise AssertionError("nothing is run here")


class _Nothing:
    """Work that carries what a load's carries, and copies nothing."""

    def __init__(self, work: Work) -> None:
        self.work = work

    @contextmanager
    def lasting(self) -> Iterator[_Nothing]:
        yield self

    @contextmanager
    def read(self, piece: Any) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        yield b"", iter(())

    def finish(self, piece: Any, header: bytes, blocks: Iterator[bytes]) -> Any:
        return (0,)


def resident_mb() -> float:
    """Return the figure of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in lines if line.startswith("VmRSS:")).split()[1]) / 1024


def _heap_mb(spark: Any) -> float:
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    spark._jvm.System.gc()
    return float(runtime.totalMemory() - runtime.freeMemory()) / (1 << 20)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench plan-at-scale", description=__doc__)
    parser.add_argument("--tables", type=int, default=50_000)
    parser.add_argument("--terabytes", type=float, default=10.0)
    parser.add_argument("--heap", default="1g", help="spark.driver.memory (default: the product's)")
    parser.add_argument("--directory", help="where the server keeps its files (default: the temporary directory)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-", dir=chosen.directory) as place:
        Path(place).chmod(0o755)
        run(chosen.tables, chosen.terabytes, Path(place), chosen.heap)
    return 0


if __name__ == "__main__":
    sys.exit(main())
