"""Secondary indexes that the target gets: their parts, how long their rows may become, which of them serve the same.
Load, `schema print` and preflight ask here.

What does not live here: statements (planned.py), building them, what an existing table has already (constraints.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from anabranch.connectors.postgresql.quoting import quote
from anabranch.connectors.postgresql.target import ddl
from anabranch.connectors.postgresql.target.planned import Planned, mapped
from anabranch.connectors.postgresql.verbatim import NotCarried, is_ours, taken
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Index, TableSchema
from anabranch.rows.net import TargetTable

INDEX_ROW_BYTES = 2704  # a third of a page: https://www.postgresql.org/docs/current/btree.html
ALIGNED = 8
HEAD_BYTES, HEAD_WITH_NULLS = 8, 16  # of an index row: https://www.postgresql.org/docs/current/btree.html
VARLENA_BYTES = 4  # before a value of any length
CARRIED_KINDS = ("btree", "hash")  # a hash index of the source serves equality, as a btree does
# The most that a value takes of types without a length of their own; 8 for all others.
VALUE_BYTES = {Kind.UINT64: 24, Kind.DECIMAL: 48, Kind.BIT: 16, Kind.DURATION: 16, Kind.UUID: 16, Kind.INET: 24}
CHOSEN_BYTES = 72  # the longest text form of those: a DECIMAL of 65 digits
UNBOUNDED_KINDS = (Kind.JSON, Kind.GEOMETRY, Kind.VECTOR)
TEXTS = ("", "text", "varchar", "citext")  # target types whose beginning is `left(…)`
UNBOUNDED = INDEX_ROW_BYTES + 1
MAY_BE_TOO_LONG = f"may be longer than the {INDEX_ROW_BYTES} bytes that an index row has here"
TOO_LONG = f"its values {MAY_BE_TOO_LONG}"
PRIMARY_KEY = "the primary key"


def plan_indexes(schema: TableSchema, table: TargetTable) -> Iterator[tuple[Index, Planned | NotCarried]]:
    """Yield all of the source's indexes in their order. `served_by` is set in those that are not built because another
    one is enough.
    """
    built: list[tuple[Index, Planned]] = []
    for index in schema.indexes:
        try:
            planned = plan_index(index, schema, table)
        except NotCarried as why:
            yield index, why
            continue
        if not planned.exact:
            planned = replace(planned, served_by=_server(schema, table, index, planned, built))
        if not planned.served_by:
            built.append((index, planned))
        yield index, planned


def _server(
    schema: TableSchema, table: TargetTable, index: Index, planned: Planned, built: list[tuple[Index, Planned]]
) -> str:
    """Return an index that has the same parts and forbids as much.

    A unique index does not serve one that cascades need, because that one is needed before unique ones are built.
    """
    if planned.columns == table.key and not planned.parts:
        return PRIMARY_KEY
    is_early = serves_cascade(schema, index)
    return next(
        (
            other.name
            for other, there in built
            if (there.columns, there.parts) == (planned.columns, planned.parts)
            and (not is_early if there.unique else not planned.unique)
        ),
        "",
    )


def serves_cascade(schema: TableSchema, index: Index) -> bool:
    """Return whether the index begins with the columns of a foreign key that changes rows.

    Those are built before the stream, except unique ones, which chunks of different moments may break.
    """
    keys = [key.columns for key in schema.foreign_keys if key.changes_rows]
    return not index.unique and not index.definition and any(index.columns[: len(key)] == key for key in keys)


def plan_index(index: Index, schema: TableSchema, table: TargetTable) -> Planned:
    """Plan an index. Its name has the table's before it, because index names are unique per schema here. Raises
    NotCarried.

    Where the source indexes the beginning of a value, all of it is indexed if every row then fits and need not be
    unique: then it also serves conditions on the column itself.
    """
    if is_ours(schema):
        return _verbatim(index, schema, table)
    if index.kind.lower() not in CARRIED_KINDS:
        raise NotCarried(f"it is of kind {index.kind}")
    columns = mapped(index.columns, table)
    descending = index.descending or (False,) * len(columns)
    terms = _cut(_parts(index, schema, table, columns), index.unique)
    parts = tuple(term + " DESC" * down for term, down in zip(terms, descending, strict=True))
    is_plain = parts == tuple(map(quote, columns))
    wanted = f"{table.target.name}_{index.name}"
    fallback = ddl.with_digest(wanted, f"{table.target}.{index.name}")
    return Planned(ddl.shortened(wanted), fallback, columns, index.unique, () if is_plain else parts)


def _verbatim(index: Index, schema: TableSchema, table: TargetTable) -> Planned:
    """Plan an index as the source has it, under its name. Raises NotCarried."""
    wanted = Planned(ddl.shortened(index.name), ddl.with_digest(index.name, f"{table.target}.{index.name}"), ())
    constraint = taken(index.constraint, schema, table)
    wanted = replace(wanted, unique=index.unique, constraint=constraint, exact=True)
    if index.definition:
        return replace(wanted, definition=taken(index.definition, schema, table))
    columns = mapped(index.columns, table)
    descending = index.descending or (False,) * len(columns)
    parts = tuple(quote(column) + " DESC" * down for column, down in zip(columns, descending, strict=True))
    return replace(wanted, columns=columns, parts=parts if any(descending) else ())


def key_fits(schema: TableSchema, table: TargetTable) -> bool:
    """Return whether every value that the primary key can have fits into its index."""
    if not table.key:
        return True
    try:
        plan_index(Index(PRIMARY_KEY, schema.primary_key, unique=True), schema, table)
    except NotCarried:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Part:
    """A column of an index. `prefix`: the source indexes as many characters (bytes) of it, None = all."""

    column: str
    type: LogicalType
    character_bytes: int
    prefix: int | None

    def whole_bytes(self) -> int:
        kind, length = self.type.carried, self.type.length
        if kind in UNBOUNDED_KINDS or (kind in (Kind.TEXT, Kind.BINARY) and length is None):
            return UNBOUNDED
        if kind in (Kind.ENUM, Kind.SET):
            sizes = [len(label.encode()) + 1 for label in self.type.values]
            return _padded(VARLENA_BYTES + (sum(sizes) if kind is Kind.SET else max(sizes, default=0)))
        if kind not in (Kind.TEXT, Kind.BINARY):
            return CHOSEN_BYTES if self.type.target else VALUE_BYTES.get(kind, ALIGNED)
        return self._bytes(length or 0)

    def beginning(self) -> tuple[str, int]:
        """Return the expression, and the bytes that it may take. Raises NotCarried."""
        if self.type.kind is Kind.BINARY and self.prefix:
            return f"substring({quote(self.column)} FROM 1 FOR {self.prefix})", self._bytes(self.prefix)
        if self.type.kind is Kind.TEXT and self.type.target in TEXTS and self.prefix:
            return f'"left"({quote(self.column)}, {self.prefix})', self._bytes(self.prefix)
        why = f"the job chooses {self.type.target}" if self.type.target else "there is no expression here"
        raise NotCarried(f"it takes the first {self.prefix} of {self.column}, for which {why}")

    def _bytes(self, length: int) -> int:
        return _padded(VARLENA_BYTES + length * (self.character_bytes if self.type.kind is Kind.TEXT else 1))


def _padded(size: int) -> int:
    return -(-size // ALIGNED) * ALIGNED


def _parts(index: Index, schema: TableSchema, table: TargetTable, columns: tuple[str, ...]) -> list[_Part]:
    prefixes = index.prefixes or (None,) * len(columns)
    return [
        _Part(column, table.type_of(column), schema.column(source).character_bytes, prefix)
        for source, column, prefix in zip(index.columns, columns, prefixes, strict=True)
    ]


def _cut(parts: list[_Part], is_unique: bool) -> list[str]:
    """Return the terms as SQL, with beginnings instead of whole values where needed.

    A unique index takes the beginnings that the source has, any other cuts the longest as far as need be. Raises
    NotCarried where a row may still be too long.
    """
    terms = [quote(part.column) for part in parts]
    sizes = [part.whole_bytes() for part in parts]
    room = INDEX_ROW_BYTES - (HEAD_BYTES if len(parts) == 1 else HEAD_WITH_NULLS)
    for place in sorted(range(len(parts)), key=lambda place: -sizes[place]):
        if parts[place].prefix and (is_unique or sum(sizes) > room):
            terms[place], sizes[place] = parts[place].beginning()
    if sum(sizes) > room:
        raise NotCarried(TOO_LONG)
    return terms
