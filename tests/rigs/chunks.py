"""Chunks made of plain tuples, for tests of the apply engine: ("i", row), ("d", row), ("u", before, after), with rows as
dicts that leave out what the image does not carry; a table's name may stand first."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from anabranch.apply.cascades.cascade import rules_of
from anabranch.apply.context import ApplyContext, Followed
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, TableSchema
from anabranch.rows.arrow import arrow_type
from anabranch.rows.chunk import Barrier, Chunk, Op, Shape, TableRows
from anabranch.rows.chunk_schema import META_FIELDS, TRANSACTION_SCHEMA
from anabranch.rows.net import TargetTable

INT, TEXT = LogicalType(Kind.INT64), LogicalType(Kind.TEXT)


def table_id(name: str) -> TableId:
    return TableId("shop", name)


def schema(name: str, columns: dict[str, LogicalType], key: Sequence[str], foreign: Sequence[ForeignKey] = ()):
    parts = tuple(Column(n, t, str(t)) for n, t in columns.items())
    return TableSchema(table_id(name), parts, tuple(key), foreign_keys=tuple(foreign))


def reference(columns: Sequence[str], parent: str, on_delete: Action, on_update=Action.RESTRICT, to=("id",)):
    return ForeignKey("fk_" + parent, tuple(columns), table_id(parent), tuple(to), on_delete, on_update)


ITEMS = schema("items", {"id": INT, "a": INT, "b": TEXT}, ["id"])
KEYLESS = schema("heap", {"a": INT, "b": TEXT}, [])


def followed(schema: TableSchema, **window) -> Followed:
    names = tuple(c.name for c in schema.columns)
    types = tuple(c.type for c in schema.columns if c.type)
    return Followed(schema, TargetTable(schema.id, schema.id, names, types, schema.primary_key, names), **window)


def context(schemas: Sequence[TableSchema], windows: dict[str, tuple[int, int]] | None = None) -> ApplyContext:
    tables = {}
    for one in schemas:
        low, high = (windows or {}).get(one.id.name, (0, 0))
        tables[one.id] = followed(one, low=low, high=high)
    return ApplyContext(tables, rules_of(tables))


def chunk_of(
    transactions: Sequence[Sequence[tuple]],
    schemas: Sequence[TableSchema] = (ITEMS, KEYLESS),
    first: int = 1,
    barriers: Sequence[Barrier] = (),
) -> Chunk:
    """Changes without a table's name belong to the schema whose columns fit."""
    images: dict[TableId, list] = {}
    for tx, changes in enumerate(transactions):
        ordinal = 0
        for change in changes:
            name, (kind, *parts) = (change[0], change[1:]) if len(change[0]) > 1 else (None, change)
            table = next(s for s in schemas if (s.id.name == name if name else _fits(s, parts)))
            ops = {"i": [Op.INSERT], "d": [Op.DELETE], "u": [Op.BEFORE, Op.AFTER]}[kind]
            for op, values in zip(ops, parts, strict=True):
                images.setdefault(table.id, []).append((op, tx, ordinal, values))
                ordinal += 1
    directory = [
        {"native": f"log.1:{first + i}", "gtid": None, "commit_time": 0, "rows": 1} for i in range(len(transactions))
    ]
    return Chunk(
        pa.RecordBatch.from_pylist(directory, schema=TRANSACTION_SCHEMA),
        tuple(_rows(next(s for s in schemas if s.id == t), found) for t, found in images.items()),
        tuple(barriers),
        first_sequence=first,
    )


def _fits(schema: TableSchema, parts: Sequence[dict]) -> bool:
    names = {c.name for c in schema.columns}
    return all(part.keys() <= names for part in parts) and all(any(k in p for p in parts) for k in schema.primary_key)


def _rows(schema: TableSchema, images: list) -> TableRows:
    shapes: dict[tuple[bool, ...], int] = {}
    names = [c.name for c in schema.columns]
    shape = [shapes.setdefault(tuple(n in values for n in names), len(shapes)) for *_, values in images]
    meta = [[int(i[0]) for i in images], [i[1] for i in images], [i[2] for i in images], shape]
    arrays = [pa.array(v, f.type) for v, f in zip(meta, META_FIELDS, strict=True)]
    fields = list(META_FIELDS)
    for column in schema.columns:
        assert column.type
        arrays.append(pa.array([i[3].get(column.name) for i in images], arrow_type(column.type)))
        fields.append(pa.field(column.name, arrow_type(column.type)))
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
    return TableRows(schema.id, schema.version, batch, tuple(Shape(s) for s in shapes))
