"""The tables of a history at a PostgreSQL source. What the schema does not say is drawn by the table itself, the same for the
same: what is checked late, what its log tells of a row that was there, and partitions.

What does not live here: the schema (schemas.py), what is said to the tables (postgresql_sql.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator

from anabranch.testing.torture.labels import types
from anabranch.testing.torture.tables import LEDGER, RESTRICT, Column, ForeignKey, Schema, Table

LATE = 3  # one of so many foreign keys, and of other unique keys, is checked at the end of a transaction
PARTED = 2  # one of so many tables is partitioned, of those that may be
SHAPES = ("list", "hash", "hash in hash", "range")
NAMES_PARTITIONS = ("wal2json", "decoderbufs")  # decoders that tell a row by its partition: jobs refuse such tables


def create_statements(schema: Schema, decoder: str = "") -> Iterator[str]:
    """Every table, in the schema that the search path begins with; for a job with this decoder of the log."""
    yield f"CREATE TABLE {LEDGER} (n integer PRIMARY KEY)"
    yield from types(schema)
    for table in schema.tables:
        shape = shape_of(table, decoder)
        above = {column.name for column in schema[table.inherits].columns} if table.inherits else set()
        inherits = f" INHERITS ({table.inherits})" if above else ""
        yield f"CREATE TABLE {table.name} ({', '.join(_lines(table, above))}){inherits}{_parted_by(table, shape)}"
        for column in (c for c in table.at_first.columns if c.of.is_wide):
            yield f"ALTER TABLE {table.name} ALTER {column.name} SET STORAGE EXTERNAL"
        parts = [name for name, _ in _PARTS[shape]] if shape else []
        yield from (statement.format(t=table.name, k=_parting(table)) for _, statement in _PARTS.get(shape, ()))
        yield from _identity(table, [f"{table.name}_{part}" for part in parts])
    for table in schema.tables:
        yield from (_foreign_key(table, key) for key in table.foreign_keys)


def _lines(table: Table, above: Collection[str]) -> Iterator[str]:
    """Without the columns that come from `above`, and those that come later."""
    yield from (column_sql(column) for column in table.at_first.columns if column.name not in above)
    if table.key:
        yield f"PRIMARY KEY ({', '.join(table.key)})"
    for number, unique in enumerate(table.uniques):
        late = " DEFERRABLE INITIALLY DEFERRED" if is_late_unique(table, unique) else ""
        yield f"CONSTRAINT {table.name}_u{number} UNIQUE ({', '.join(unique)}){late}"


def column_sql(column: Column) -> str:
    """Return a column's line."""
    null = "" if column.nullable else " NOT NULL"
    default = f" DEFAULT {column.default}" if column.default is not None else ""
    return f"{column.name} {column.of.native}{null}{default}"


def _drawn(what: object, of: int) -> int:
    """One of so many; the same for the same."""
    return zlib.crc32(repr(what).encode()) % of


# --- what is checked late -----------------------------------------------------------------------------------------------


def is_late_unique(table: Table, unique: tuple[str, ...]) -> bool:
    """Return whether it is checked at the end of a transaction."""
    return not _drawn((table, unique), LATE)


def is_late_key(table: Table, key: ForeignKey) -> bool:
    return not _drawn((table.name, key), LATE)


def _foreign_key(table: Table, key: ForeignKey) -> str:
    late = " DEFERRABLE INITIALLY DEFERRED" if is_late_key(table, key) else ""
    on_delete, on_update = (
        "NO ACTION" if late and action == RESTRICT else action for action in (key.on_delete, key.on_update)
    )
    return (
        f"ALTER TABLE {table.name} ADD CONSTRAINT {key.name} FOREIGN KEY ({', '.join(key.columns)})"
        f" REFERENCES {key.parent} ({', '.join(key.parent_columns)}) ON DELETE {on_delete} ON UPDATE {on_update}{late}"
    )


# --- what the log tells of a row that was there -------------------------------------------------------------------------


def _identity(table: Table, partitions: list[str]) -> Iterator[str]:
    """Draw a replica identity, and one for each partition: the whole row, an index on the key and a column more, or the key.

    Without a key it is the whole row or nothing: then the source refuses to change rows until the job asks for more."""
    drawn = _drawn((table, "identity"), 8)
    if drawn < (2 if table.key else 4):
        yield from (f"ALTER TABLE {name} REPLICA IDENTITY FULL" for name in (table.name, *partitions))
    elif drawn < 4 and not partitions:
        more = [c.name for c in table.at_first.columns if not c.nullable and c.of.nth and c.name not in table.key][:1]
        yield f"CREATE UNIQUE INDEX {table.name}_identity ON {table.name} ({', '.join((*more, *reversed(table.key)))})"
        yield f"ALTER TABLE {table.name} REPLICA IDENTITY USING INDEX {table.name}_identity"


# --- partitions ---------------------------------------------------------------------------------------------------------


def shape_of(table: Table, decoder: str = "") -> str:
    """One of SHAPES, "" for a table in one piece, as heirs are, and those with other unique keys: each would have to have the
    column."""
    if table.inherits or table.uniques or decoder in NAMES_PARTITIONS or _drawn((table, "partitions"), PARTED):
        return ""
    if not table.key:
        return "list"
    is_number = table.column(table.key[0]).of.form == "number"
    return SHAPES[1 + _drawn((table, "shape"), 3 if is_number else 2)]


def _parting(table: Table) -> str:
    """The column by which rows are told apart."""
    return table.key[0] if table.key else "g"


def _parted_by(table: Table, shape: str) -> str:
    return f" PARTITION BY {shape.partition(' ')[0].upper()} ({_parting(table)})" if shape else ""


_PART = "CREATE TABLE {{t}}_{name} PARTITION OF {{t}}{of} {values}"


def _part(name: str, values: str, of: str = "") -> tuple[str, str]:
    return name, _PART.format(name=name, of=of, values=values)


_PARTS = {
    "list": (
        _part("p0", "FOR VALUES IN (0, 1, NULL)"),
        _part("p1", "FOR VALUES IN (2, 3)"),
        _part("rest", "DEFAULT"),
    ),
    "hash": tuple(_part(f"p{n}", f"FOR VALUES WITH (MODULUS 3, REMAINDER {n})") for n in range(3)),
    "hash in hash": (
        _part("p0", "FOR VALUES WITH (MODULUS 2, REMAINDER 0)"),
        _part("p1", "FOR VALUES WITH (MODULUS 2, REMAINDER 1) PARTITION BY HASH ({k})"),
        *(_part(f"p1{n}", f"FOR VALUES WITH (MODULUS 4, REMAINDER {n})", "_p1") for n in (1, 3)),
    ),
    "range": (
        _part("p0", "FOR VALUES FROM (MINVALUE) TO (10)"),
        _part("p1", "FOR VALUES FROM (10) TO (30)"),
        _part("rest", "DEFAULT"),
    ),
}
