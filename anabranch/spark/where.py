"""A table's filter as pieces need it: which columns to read, and where in the lines the named ones stand (K27)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from anabranch.errors import ConfigError
from anabranch.model.datatype import LogicalType
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable


class Named(Protocol):
    """A filter as rules/rule_set.py gives it: Spark SQL and the source columns it names."""

    @property
    def text(self) -> str: ...

    @property
    def columns(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class SparkFilter:
    """`places` are the named columns' cells in a line, `types` theirs by name; the last `extra` cells of a line are
    there for the filter only and are cut off."""

    expression: str
    places: tuple[int, ...]
    types: Mapping[str, LogicalType]
    extra: int = 0


def read_columns(table: TargetTable, filter: Named | None) -> tuple[str, ...]:
    """Return the source columns to read: the replicated ones, then those that only the filter names."""
    named = filter.columns if filter else ()
    return table.source_columns + tuple(name for name in named if name not in table.source_columns)


def where(schema: TableSchema, table: TargetTable, filter: Named) -> SparkFilter:
    """Build the filter. Raises ConfigError for a named column whose type is not in the type map."""
    columns = read_columns(table, filter)
    return SparkFilter(
        expression=filter.text,
        places=tuple(columns.index(name) for name in filter.columns),
        types={name: _type(schema, name) for name in filter.columns},
        extra=len(columns) - len(table.source_columns),
    )


def _type(schema: TableSchema, name: str) -> LogicalType:
    column = schema.column(name)
    if column.type is None:
        raise ConfigError(
            f"the filter of {schema.id} names column {name}, whose type {column.native} cannot be replicated",
            hint="filter by another column",
        )
    return column.type


def cut(rows: Sequence[bytes], extra: int) -> list[bytes]:
    """Return the rows without their last `extra` cells."""
    return [row.rsplit(b"\t", extra)[0] for row in rows] if extra else list(rows)
