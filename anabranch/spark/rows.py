"""Values of named columns as Spark SQL sees them, the same in load, stream and verification (K27).

Only columns that an expression names come here; all others pass Spark SQL by. What does not live here: which columns an
expression names (rules/rule_set.py), running it over a table's pieces (pieces.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from anabranch.errors import ConfigError, ValueRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.arrow import array
from anabranch.rows.lines import unescape
from anabranch.rows.raw import parse_text

DIGITS = 100  # of decimal arithmetic: more than any value has, so that nothing is rounded
WIDEST_DECIMAL = 38  # https://spark.apache.org/docs/latest/sql-ref-datatypes.html
NUMBER = "__row"

_UNSIGNED_64 = pa.decimal128(20, 0)
_SAME: Mapping[Kind, pa.DataType] = {
    Kind.INT8: pa.int8(),
    Kind.INT16: pa.int16(),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.UINT8: pa.int16(),
    Kind.UINT16: pa.int32(),
    Kind.UINT32: pa.int64(),
    Kind.UINT64: _UNSIGNED_64,
    Kind.FLOAT32: pa.float32(),
    Kind.FLOAT64: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.BIT: _UNSIGNED_64,
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.INSTANT: pa.timestamp("us", "UTC"),
    Kind.DURATION: pa.duration("us"),
    Kind.YEAR: pa.int16(),
    Kind.ENUM: pa.string(),
    Kind.SET: pa.string(),
    Kind.JSON: pa.string(),
    Kind.UUID: pa.string(),
    Kind.INET: pa.string(),
    Kind.GEOMETRY: pa.binary(),
    Kind.VECTOR: pa.binary(),
    **dict.fromkeys((Kind.BOOLEAN, Kind.TIME, Kind.INTERVAL, Kind.NATIVE), pa.string()),
}


def arrow_type(type: LogicalType) -> pa.DataType:
    """Return the Arrow type that Spark reads a logical type as. Raises ConfigError for one Spark has no exact type for."""
    if type.carried is not Kind.DECIMAL:
        return _SAME[type.carried]
    if type.precision > WIDEST_DECIMAL:
        raise ConfigError(
            f"a filter cannot use a column of type {type}: Spark's decimals end at {WIDEST_DECIMAL} digits",
            hint="filter by another column",
        )
    return pa.decimal128(type.precision, type.scale)


def spark_type(type: LogicalType) -> Any:
    """Return the pyspark DataType of a logical type. An instant is TIMESTAMP, a wall clock TIMESTAMP_NTZ."""
    return from_arrow_type(arrow_type(type), prefer_timestamp_ntz=True)


def spark_schema(types: Mapping[str, LogicalType]) -> StructType:
    return StructType([StructField(name, spark_type(type)) for name, type in types.items()])


def to_spark(type: LogicalType, values: Any) -> Any:
    """Convert an array in the trail's Arrow type (rows/arrow.py) to an array that Spark reads. Nothing is rounded or cut."""
    wanted = arrow_type(type)
    if values.type == wanted:
        return values
    if wanted == _UNSIGNED_64:
        return _unsigned(values)
    return pc.cast(values, wanted)


def _unsigned(values: Any) -> Any:
    """Convert uint64 to decimal(20,0): Arrow has no cast that takes the upper half."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    words = np.zeros((len(whole), 2), np.uint64)
    words[:, 0] = pc.fill_null(whole, 0).to_numpy(zero_copy_only=False)
    valid = pc.is_valid(whole).buffers()[1] if whole.null_count else None
    return pa.Array.from_buffers(_UNSIGNED_64, len(whole), [valid, pa.py_buffer(words)], whole.null_count)


# --- values out of lines ----------------------------------------------------------------------------------------------


def apart(name: str, columns: Iterable[str]) -> str:
    """Return a name for a column of ours beside these of a table, which may have any name; Spark does not mind case."""
    taken = {one.casefold() for one in columns}
    while name.casefold() in taken:
        name = f"_{name}"
    return name


def columns_of(rows: Sequence[bytes], places: Sequence[int], types: Mapping[str, LogicalType]) -> list[Any]:
    """Return columns of lines (without their newlines) as arrays for Spark; `places` are the cells' in the line.

    Raises ValueRefused for a value that the logical type cannot hold; the message has the column, never the value.
    """
    cells = [row.split(b"\t") for row in rows]
    return [
        _column(name, type, [cell[place] for cell in cells])
        for place, (name, type) in zip(places, types.items(), strict=True)
    ]


def _column(name: str, type: LogicalType, cells: Iterable[bytes]) -> Any:
    try:
        with localcontext(prec=DIGITS):
            return to_spark(type, array(type, [_raw(type, cell) for cell in cells]))
    except (ValueError, pa.ArrowInvalid):
        raise ValueRefused(
            f"a value of column {name} is no {type} and cannot be filtered by", hint="filter by another column"
        ) from None


def _raw(type: LogicalType, cell: bytes) -> Any:
    return None if cell == b"\\N" else parse_text(type, unescape(cell).decode())


# --- evaluation -------------------------------------------------------------------------------------------------------


def evaluate(
    spark: SparkSession, expression: str, types: Mapping[str, LogicalType], table: pa.Table
) -> pa.BooleanArray:
    """Return for every row of `table` whether it passes the filter; NULL is no.

    Columns are named like `types`, in the trail's Arrow types. Raises ConfigError for an expression that Spark refuses,
    for these types or for one of these values.
    """
    columns = {name: to_spark(type, table.column(name)) for name, type in types.items()}
    number = apart(NUMBER, types)
    rows = pa.table(columns | {number: pa.array(range(table.num_rows), pa.int64())})
    if not rows.num_rows:
        return pa.array([], pa.bool_())

    def passing() -> list[int]:
        """Spark evaluates rows that the driver has itself as it plans: no task, so no executor (`toArrow` would take some)."""
        found = spark.createDataFrame(rows).where(expression).select(number).collect()
        return [row[0] for row in found]

    passes = np.zeros(table.num_rows, bool)
    passes[explained(expression, passing)] = True
    return pa.array(passes)


def explained(expression: str, work: Callable[[], Any]) -> Any:
    """Run `work`; what Spark refuses about the expression becomes a ConfigError."""
    try:
        return work()
    except PySparkException as refusal:
        raise refused(expression, refusal) from None


def refused(expression: str, refusal: PySparkException) -> ConfigError:
    reason = (refusal.getMessage() or str(refusal)).strip().splitlines()[0]
    return ConfigError(f"Spark refuses the filter {expression!r}: {reason}", hint="correct `where` in the job file")
