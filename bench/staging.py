"""Where executors take over from the driver: epochs of several sizes, all of them scattered updates, carried out in turns by
the applier alone and by Spark tasks that stage them (`[apply] stage_rows`). No source takes part: the trail is written here.
What the smallest size is from which executors are quicker stands in the last line."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch import connectors
from anabranch.apply.abilities import merging
from anabranch.apply.altering import Altering
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.epoch import Applier
from anabranch.apply.merge_carrier import MergeCarrier
from anabranch.apply.progress import Progress
from anabranch.apply.staging import Executors
from anabranch.config.url import parse_url
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import Life, TableState
from anabranch.rows.chunk import Chunk, Op, Shape, TableRows
from anabranch.rows.chunk_schema import META_FIELDS, TRANSACTION_SCHEMA
from anabranch.rows.conflict import STRICT, ConflictPolicy
from anabranch.rows.net import TargetTable
from anabranch.spark.engine import SparkEngine
from anabranch.spark.session import session
from anabranch.testing.databases import Database, connect, create_database
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from bench.figures import Figure, middle
from bench.stand import Stand

JOB, BASE = "staging", 3_000_000
SIZES = (50_000, 100_000, 200_000, 400_000, 800_000)  # row images; an update has two
CHUNK = 20_000
WORDS = "paid and delivered to the customer, with 40"
BIG, TEXT = LogicalType(Kind.INT64), LogicalType(Kind.TEXT)
COLUMNS = {"id": BIG, "customer": BIG, "amount": BIG, "at": BIG, "status": TEXT, "payload": TEXT, "other": TEXT}
SCHEMA = TableSchema(TableId("bench", "orders"), tuple(Column(n, t, str(t)) for n, t in COLUMNS.items()), ("id",))
TABLE = TargetTable(
    SCHEMA.id, TableId("public", "orders"), tuple(COLUMNS), tuple(COLUMNS.values()), ("id",), tuple(COLUMNS)
)
CREATE = (
    "CREATE TABLE public.orders (id bigint PRIMARY KEY, customer bigint, amount bigint, at bigint, status text, payload text,"
    " other text)"
)
FILL = f"INSERT INTO public.orders SELECT i, i %% 997, i, i, 'new', '{WORDS}', '{WORDS}' FROM generate_series(1, %s) i"


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    database, base = create_database(stand.target, "staging"), int(BASE * scale)
    with closing(connect(stand.target, database.name)) as connection:
        connection.execute(CREATE)
        connection.execute(FILL, [base])
        connection.execute("ANALYZE public.orders")
    figures, crossing = [], None
    with _applying(stand.directory / "staging", database, base) as applying:
        applying(CHUNK, by_executors=True)  # the first tasks start their workers
        for size in SIZES:
            pairs = [(applying(size, by_executors=False), applying(size, by_executors=True)) for _ in range(repeat)]
            driver, executors = (middle([pair[place] for pair in pairs]) for place in (0, 1))
            facts = {"images": size, "driver_s": driver, "executors_s": executors}
            figures.append(
                Figure(f"stage {size}", "postgresql", "driver_to_executors", driver / executors, facts=facts)
            )
            if crossing is None and driver >= executors:
                crossing = size
    return [
        *figures,
        Figure("stage crossing", "postgresql", "images", float(crossing or -1), facts={"base_rows": base}),
    ]


@contextmanager
def _applying(directory: Path, database: Database, base: int) -> Iterator[Any]:
    """A function that writes an epoch of so many images and tells how long it took to be at the target."""
    shutil.rmtree(directory, ignore_errors=True)
    endpoint, _ = parse_url(database.url, {}, needs_database=True)
    assert endpoint is not None
    target, rules = connectors.row_target(endpoint), ValueRules()
    spark = session("anabranch bench")
    engine = SparkEngine(lambda: spark)
    engine.warm_up()
    context = ApplyContext({SCHEMA.id: Followed(SCHEMA, TABLE)})
    with (
        TrailWriter.open(directory, job=JOB, job_uuid="u", source_identity="s", pack=False) as trail,
        closing(target.store()) as store,
        closing(merging(target.writer(rules, False))) as writer,
        TrailReader(directory) as reader,
    ):
        trail.schema(SCHEMA)
        store.prepare()
        store.jobs.create_checkpoint(JOB, Position(0, ""), 0)
        store.states.save_table(JOB, TableState(SCHEMA.id, TABLE.target, Life.STREAMING, schema=SCHEMA), None)
        writer.claim(JOB, "bench")
        progress = Progress(JOB, reader, writer, store, "bench", lambda _: context, lambda _: None)
        carrier = MergeCarrier(progress, writer)
        applier = Applier(progress, carrier, Altering(progress, writer, _Whole()))
        rows = _Rows(base)

        def apply(images: int, by_executors: bool) -> float:
            for _ in range(images // CHUNK):
                trail.append(rows.chunk())
            trail.flush()
            carrier.executors = Executors(JOB, directory, target, rules, engine, 1 if by_executors else 1 << 60)
            begin = time.monotonic()
            applier.apply(trail.end.position.sequence)
            return time.monotonic() - begin

        yield apply
    spark.stop()


class _Whole:
    """The rules of a job that replicates TABLE whole, and whose definition stays as it is."""

    def target_of(self, table: TableId) -> TableId | None:
        return TABLE.target

    def target_table(self, schema: TableSchema) -> TargetTable:
        return TABLE

    def where(self, schema: TableSchema) -> None: ...

    def on_conflict(self, schema: TableSchema) -> ConflictPolicy:
        return STRICT


class _Rows:
    """Chunks of one transaction each: scattered updates."""

    def __init__(self, base: int) -> None:
        self._scattered, self._at = np.random.default_rng(1).permutation(base) + 1, 0

    def chunk(self) -> Chunk:
        updates = CHUNK // 2
        ids = np.repeat(np.take(self._scattered, np.arange(self._at, self._at + updates), mode="wrap"), 2)
        self._at += updates
        op = np.tile([Op.BEFORE, Op.AFTER], updates)
        amounts = np.where(op == Op.AFTER, ids + 1, ids)
        meta = [op, np.zeros(CHUNK), np.arange(CHUNK), np.zeros(CHUNK)]
        arrays = [pa.array(values).cast(field.type) for values, field in zip(meta, META_FIELDS, strict=True)]
        numbers = [pa.array(values) for values in (ids, ids % 997, amounts, ids)]
        words = [pa.array([text] * CHUNK, pa.string()) for text in ("new", WORDS, WORDS)]
        fields = [
            pa.field(name, kind) for name, kind in zip(COLUMNS, [pa.int64()] * 4 + [pa.string()] * 3, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays([*arrays, *numbers, *words], schema=pa.schema([*META_FIELDS, *fields]))
        directory = [{"native": f"log.1:{self._at}", "gtid": None, "commit_time": 0, "rows": CHUNK}]
        rows = TableRows(SCHEMA.id, SCHEMA.version, batch, (Shape((True,) * len(COLUMNS)),))
        return Chunk(pa.RecordBatch.from_pylist(directory, schema=TRANSACTION_SCHEMA), (rows,))
