"""Rows of single keys, or of the trail, that a table's filter lets pass: Spark evaluates it, as over whole tables (K27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch.spark.rows import columns_of, evaluate
from anabranch.spark.where import cut, where
from anabranch.verify.plan import VerifyTable


@dataclass(frozen=True)
class Filtering:
    """Asks Spark, which starts when a table with a filter is first asked about."""

    spark: Callable[[], SparkSession]

    def __call__(self, one: VerifyTable, rows: Sequence[bytes]) -> list[bytes | None]:
        """Return lines of `read_columns` without the columns that only the filter names; None for one that does not
        pass. Raises ConfigError, ValueRefused."""
        if one.filter is None or not rows:
            return list(rows)
        by = where(one.schema, one.table, one.filter)
        table = pa.table(columns_of(rows, by.places, by.types), names=list(by.types))
        passes = evaluate(self.spark(), by.expression, by.types, table).to_pylist()
        return [row if passed else None for row, passed in zip(cut(rows, by.extra), passes, strict=True)]
