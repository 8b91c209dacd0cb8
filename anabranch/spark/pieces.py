"""Work over pieces of tables as Spark tasks: read lines here, finish them there, report an outcome, not a traceback.

A piece is read and finished inside one task; a filtered one goes through Spark SQL between the two, in the same task,
so that its rows never rest anywhere. What does not live here: what a piece is, what is done with it (work.py, load/,
verify/).
"""

from __future__ import annotations

import gc
import pickle
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark import AccumulatorParam, InheritableThread, accumulators
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import vectorized_udf  # type: ignore[attr-defined]  # not in its stubs
from pyspark.util import PythonEvalType

from anabranch.errors import AnabranchError, SparkUnavailable
from anabranch.spark.cluster import EXECUTOR_SECONDS, Watch
from anabranch.spark.fit import Fit, unfit, wanted
from anabranch.spark.rows import apart, arrow_type, columns_of, refused, spark_schema
from anabranch.spark.where import SparkFilter, cut
from anabranch.spark.work import Failure, Outcome, Work, do_all

MOST_TOGETHER = 32  # pieces in one task: outcomes are told when it ends
POLL = 0.1  # seconds between looks at stop() and at finished pieces
LONGEST_CANCEL = 30.0
# In Spark's messages: executors that were lost as often as a task is tried, and the application's end.
LOST = ("ExecutorLostFailure", "SparkContext was shut down", "stopped SparkContext")
HEADER, LINE = "__header", "__line"


# --- in the tasks -----------------------------------------------------------------------------------------------------


def _read_for_filter(fit: Fit | None, work: Work, where: SparkFilter, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield a row that always passes, with piece and header; then the lines with the columns that the filter names."""
    if fit is not None:
        fit.require()
    ours = ((name, pa.binary()) for name in _ours(where))
    schema = pa.schema([*ours, *((name, arrow_type(type)) for name, type in where.types.items())])
    for batch in batches:
        for packed in batch.column(0).to_pylist():
            piece = pickle.loads(packed)
            try:
                with work.read(piece) as (header, blocks):
                    yield _control(schema, (piece, header))
                    for block in blocks:
                        yield _lines(schema, block, where)
            except AnabranchError as error:
                yield _control(schema, (piece, Failure.of(error)))


def _ours(where: SparkFilter) -> tuple[str, str]:
    """Return what header and line are called beside the columns that the filter names."""
    return apart(HEADER, where.types), apart(LINE, where.types)


def _control(schema: pa.Schema, facts: tuple[Any, Any]) -> pa.RecordBatch:
    header = pa.array([pickle.dumps(facts)], pa.binary())
    return pa.record_batch([header, *(pa.nulls(1, field.type) for field in list(schema)[1:])], schema=schema)


def _lines(schema: pa.Schema, block: bytes, where: SparkFilter) -> pa.RecordBatch:
    rows = block.split(b"\n")[:-1]
    columns = columns_of(rows, where.places, where.types)
    lines = pa.array(cut(rows, where.extra), pa.binary())
    return pa.record_batch([pa.nulls(len(rows), pa.binary()), lines, *columns], schema=schema)


def _finish_filtered(work: Work, batches: Iterator[Any]) -> Iterator[Any]:
    """Finish a filtered piece: the control row says which one it is; a failure of the reader comes up inside `finish`."""
    stream = _Filtered(batches)
    if (piece := stream.piece()) is not None:
        began = time.time_ns()
        try:
            value = work.finish(piece, stream.header(), stream.blocks())
            outcome = Outcome(piece, value, None, began, time.time_ns())
        except AnabranchError as error:
            outcome = Outcome(piece, failure=Failure.of(error))
        yield pa.record_batch([pa.array([pickle.dumps(outcome)], pa.binary())], names=["outcome"])
    _settle(type(work))


class _Filtered:
    """The rows that passed, one piece's: control rows taken out, lines joined to blocks again."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = ((b.column(0).to_pylist(), b.column(1).to_pylist()) for b in batches)
        self._first = next(((h, lines) for h, lines in self._batches if h), None)

    def piece(self) -> Any:
        return pickle.loads(self._first[0][0])[0] if self._first else None

    def header(self) -> bytes:
        assert self._first is not None
        return bytes(self._facts(self._first[0][0]))

    def blocks(self) -> Iterator[bytes]:
        assert self._first is not None
        headers, lines = self._first
        yield from self._block(headers[1:], lines[1:])
        for headers, lines in self._batches:
            yield from self._block(headers, lines)

    def _block(self, headers: list[bytes | None], lines: list[bytes | None]) -> Iterator[bytes]:
        for header in headers:
            if header is not None:
                self._facts(header)
        if lines:
            yield b"".join([line + b"\n" for line in lines if line is not None])

    def _facts(self, packed: bytes) -> bytes:
        _, header = pickle.loads(packed)
        if isinstance(header, Failure):
            raise header.error()
        return bytes(header)


def _tell(found: Any, outcomes: Iterator[Outcome]) -> None:
    for outcome in outcomes:
        found.add([outcome])
    _settle(Outcome)


# --- on the driver ----------------------------------------------------------------------------------------------------


class _Gathered(AccumulatorParam):
    """A list that tasks add to as they end."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        value1.extend(value2)
        return value1


def plain(
    spark: SparkSession, work: Work, pieces: Sequence[Any], sizes: Sequence[float] = (), needs_home: bool = False
) -> Any:
    """Return outcomes of unfiltered pieces, as an RDD: a task each. `needs_home`: a worker has to see the job's home.

    With `sizes`, small pieces share tasks as long as they are less than 1 together: a task costs more than a small
    table.
    """
    tasks = _shared(pieces, sizes) if sizes else [[piece] for piece in pieces]
    fit = wanted(spark.sparkContext.master, needs_home)
    packed = [zlib.compress(pickle.dumps(task), 1) for task in tasks]  # the JVM keeps them all: definitions are long
    return spark.sparkContext.parallelize(packed, max(1, len(packed))).flatMap(partial(_do_all, fit, work))


def _do_all(fit: Fit | None, work: Work, packed: bytes) -> Iterator[Outcome]:
    if fit is not None:
        fit.require()
    yield from do_all(work, pickle.loads(zlib.decompress(packed)))
    _settle(type(work))


@cache
def _settle(kind: type) -> None:
    """Freeze what is loaded, once in a worker for each kind of work that it does.

    PySpark collects garbage behind every task, which goes through all that modules have: 30 ms, as much as the start of
    a chunk. What is frozen is left out.
    """
    gc.freeze()


def _shared(pieces: Sequence[Any], sizes: Sequence[float]) -> list[list[Any]]:
    tasks: list[list[Any]] = []
    room = 0.0
    for piece, size in zip(pieces, sizes, strict=True):
        if not tasks or size > room or len(tasks[-1]) >= MOST_TOGETHER:
            tasks.append([])
            room = 1.0
        tasks[-1].append(piece)
        room -= size
    return tasks


def filtered(
    spark: SparkSession, work: Work, pieces: Sequence[Any], where: SparkFilter, needs_home: bool = False
) -> Any:
    """Return outcomes of one table's pieces whose rows pass `where`, as an RDD. Raises ConfigError for a bad expression."""
    packed = spark.sparkContext.parallelize(pieces, max(1, len(pieces))).map(lambda piece: (pickle.dumps(piece),))
    header, line = _ours(where)
    schema = spark.createDataFrame([], f"{header} binary, {line} binary").schema
    for field in spark_schema(where.types):
        schema = schema.add(field)
    reading = partial(_read_for_filter, wanted(spark.sparkContext.master, needs_home), work, where)
    read = _mapped(spark.createDataFrame(packed, "piece binary"), reading, schema)
    try:
        kept = read.where(F.col(header).isNotNull() | F.expr(where.expression))
    except PySparkException as refusal:
        raise refused(where.expression, refusal) from None
    done = _mapped(kept, partial(_finish_filtered, work), "outcome binary")
    return done.rdd.map(lambda row: pickle.loads(row[0]))


def _mapped(frame: Any, function: Callable[[Iterator[Any]], Iterator[Any]], schema: Any) -> Any:
    """Call `frame.mapInArrow(function, schema)`, which in pyspark 4.3 insists on pandas though no pandas takes part in it."""
    udf = vectorized_udf(function, schema, PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    columns = udf(*[frame[_quoted(name)] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(columns._jc, False, None), frame.sparkSession)


def _quoted(name: str) -> str:
    """Return the name of a column as Spark takes it: `a.b` without quotes is the field b of a."""
    return f"`{name.replace('`', '``')}`"


def run(
    spark: SparkSession,
    outcomes: Sequence[Any],
    take: Callable[[Outcome], None],
    stop: Callable[[], bool],
    patience: float = EXECUTOR_SECONDS,
) -> bool:
    """Run RDDs of outcomes as one Spark job. `take` gets each outcome as its task ends, in this thread; what it raises
    cancels the rest. False when `stop()` said so. Raises SparkUnavailable where a cluster gives no executor for
    `patience` seconds, ConfigError for workers that are not fit."""
    context = spark.sparkContext
    together = context.union(list(outcomes)) if len(outcomes) > 1 else outcomes[0]  # a union takes a second worker
    job, watch = _Job(context, together), Watch(context, patience)
    try:
        while job.wait(POLL):
            job.give(take)
            if stop():
                return False
            watch.look()
        job.give(take)
    finally:
        job.cancel()
        job.forget()
    job.check()
    return True


class _Job:
    """A Spark job in a thread of its own."""

    def __init__(self, context: Any, outcomes: Any) -> None:
        self._context, self._taken = context, 0
        self._found = context.accumulator([], _Gathered())
        self._group = f"anabranch-{id(self):x}"
        self._problem: PySparkException | Py4JError | None = None
        self._ended = threading.Event()
        self._thread = InheritableThread(target=self._run, args=(outcomes,), daemon=True)
        self._thread.start()

    def _run(self, outcomes: Any) -> None:
        found = self._found
        try:
            self._context.setJobGroup(self._group, "anabranch", interruptOnCancel=True)
            outcomes.foreachPartition(partial(_tell, found))
        except (PySparkException, Py4JError) as problem:
            self._problem = problem
        finally:
            self._ended.set()

    def wait(self, seconds: float) -> bool:
        """Wait `seconds`. Returns whether it is still running then."""
        return not self._ended.wait(seconds)

    def give(self, take: Callable[[Outcome], None]) -> None:
        found = self._found.value
        while self._taken < len(found):
            outcome, found[self._taken] = found[self._taken], None  # what was taken needs no memory any more
            self._taken += 1
            take(outcome)

    def cancel(self) -> None:
        """End it if it runs, again and again: a job that Spark has not begun yet does not hear the first time."""
        until = time.monotonic() + LONGEST_CANCEL
        while not self._ended.is_set() and time.monotonic() < until:
            self._context.cancelJobGroup(self._group)
            self._ended.wait(POLL)

    def forget(self) -> None:
        """Take the list of outcomes out of what PySpark keeps for ever; one that tasks may still add to stays there."""
        if self._ended.is_set():
            accumulators._accumulatorRegistry.pop(self._found.aid, None)

    def check(self) -> None:
        if self._problem is not None:
            raise failed(self._problem) from self._problem


def each(spark: SparkSession, tasks: Sequence[Callable[[], Any]], patience: float = EXECUTOR_SECONDS) -> list[Any]:
    """Carry out functions that need the job's home, a task each; their results in order. Raises as `run` does."""
    context = spark.sparkContext
    fit, found = wanted(context.master, needs_home=True), dict[int, Any]()

    def take(outcome: Outcome) -> None:
        found[outcome.piece] = outcome.value

    numbered = context.parallelize(list(enumerate(tasks)), len(tasks))
    run(spark, [numbered.map(partial(_called, fit))], take, lambda: False, patience)
    return [found[number] for number in range(len(tasks))]


def _called(fit: Fit | None, numbered: tuple[int, Callable[[], Any]]) -> Outcome:
    if fit is not None:
        fit.require()
    number, task = numbered
    return Outcome(number, task())


def failed(problem: Exception) -> AnabranchError:
    """Return the error for what has ended a Spark job: a worker that is not fit, workers that were lost, or what a task
    raised."""
    why = _last_line(problem)
    if (error := unfit(why)) is not None:
        return error
    if any(words in str(problem) for words in LOST):
        return SparkUnavailable(f"Spark has lost its workers: {why}")
    return AnabranchError(f"a Spark task failed: {why}", hint="Spark tried it several times; its log above says more")


def _last_line(problem: Exception) -> str:
    """Return the Python error inside Spark's long message, if there is one."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    named = [line for line in lines if ": " in line and not line.startswith(("at ", "File ", "org.apache."))]
    python = [line for line in named if line.split(":")[0].rpartition(".")[2].endswith(("Error", "Exception"))]
    return next(iter(python or lines), type(problem).__name__)
