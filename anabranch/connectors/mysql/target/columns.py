"""Columns as they are made at the target: type, character set, collation, NULL, default, numbers of their own, and how many
bytes they take in an index.

A source of this family gives its columns in its own words. Texts and bytes without a length get one where a key needs it:
an index has no room for more (3,072 bytes), and a longer value is then refused by name, never cut.
https://dev.mysql.com/doc/refman/8.0/en/innodb-limits.html
What does not live here: the type for a logical type (`typemap.py`), statements (`ddl.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from anabranch.connectors.mysql.target import defaults, own_words
from anabranch.connectors.mysql.target.clauses import is_of_family
from anabranch.connectors.mysql.target.collations import collating
from anabranch.connectors.mysql.target.names import target_columns
from anabranch.connectors.mysql.target.release import INDEX_BYTES, Release
from anabranch.connectors.mysql.target.typemap import MysqlTypes
from anabranch.connectors.mysql.target.words import bare, sizes
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.model.datatype import Fidelity, LogicalType
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.rows.zero_dates import KINDS, NULL, choice

TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
LONG = {"tinytext": 255, "text": 65_535, "mediumtext": 16_777_215, "longtext": 4_294_967_295}
LONG |= {"tinyblob": 255, "blob": 65_535, "mediumblob": 16_777_215, "longblob": 4_294_967_295}
GEOMETRIES = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
              "geometrycollection", "geomcollection")  # fmt: skip
# Most bytes of a value in an index; of types with a length see `index_bytes`.
# https://dev.mysql.com/doc/refman/8.0/en/storage-requirements.html
BYTES = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8, "float": 4, "double": 8, "decimal": 30}
BYTES |= {"date": 3, "time": 6, "datetime": 8, "timestamp": 7, "year": 1, "bit": 8, "enum": 2, "set": 8}
BYTES |= {"uuid": 16, "inet4": 4, "inet6": 16}
WIDEST = 4  # bytes of a character of the sets that are not listed here: utf8mb4, utf16, utf32, gb18030
CHARACTER_BYTES = {"utf8": 3, "utf8mb3": 3, "ujis": 3, "eucjpms": 3}
CHARACTER_BYTES |= dict.fromkeys(("ucs2", "gbk", "big5", "sjis", "cp932", "euckr", "gb2312"), 2)
CHARACTER_BYTES |= dict.fromkeys(("", "utf8mb4", "utf16", "utf16le", "utf32", "gb18030"), WIDEST)


@dataclass(frozen=True, slots=True)
class MadeColumn:
    """`charset` and `collation`: "" for the table's own. `default` as `defaults.default_of`. `counts`: AUTO_INCREMENT.
    `needed_by`: what gave a value a length that it has not at the source, "" for nothing. `invisible`: `*` leaves
    it out."""

    source: str
    name: str
    native: str
    nullable: bool
    charset: str = ""
    collation: str = ""
    default: str | None = None
    counts: bool = False
    comment: str = ""
    needed_by: str = ""
    invisible: bool = False

    @property
    def is_long(self) -> bool:
        """True if an index takes only the beginning of a value."""
        return bare(self.native) in (*LONG, "json", "vector", *GEOMETRIES)

    @property
    def is_text(self) -> bool:
        return bare(self.native) in TEXTS

    @property
    def character_bytes(self) -> int:
        """The most bytes of a character, 1 of what is no text."""
        return CHARACTER_BYTES.get(self.charset, 1) if self.is_text else 1

    @property
    def index_bytes(self) -> int | None:
        """The most bytes that a value takes in an index, None where it has no room for all of it."""
        if self.is_long:
            return None
        if bare(self.native) in ("char", "varchar", "binary", "varbinary"):
            return (sizes(self.native) or (1,))[0] * self.character_bytes
        return BYTES.get(bare(self.native), 8)


def made_columns(schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release) -> list[MadeColumn]:
    """Return the columns that the job writes, in its order. Raises TargetError for a type that is refused."""
    plain = plain_columns(schema, table, rules, release)
    lengths = _lengths(schema, table, plain, release)
    counting = _counting(schema, table, plain)
    made = [_made(schema, table, column, lengths, column.name == counting, release) for column in plain]
    return [replace(column, invisible=False) for column in made] if all(column.invisible for column in made) else made


def plain_columns(schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release) -> list[MadeColumn]:
    """Return the columns with what their values need: without lengths that keys need, defaults or numbers of their own."""
    return [_plain(schema, table, names, rules, release) for names in target_columns(table).items()]


def _plain(
    schema: TableSchema, table: TargetTable, names: tuple[str, str], rules: ValueRules, release: Release
) -> MadeColumn:
    source, target = names
    column, logical = schema.column(source), table.type_of(target)
    native = native_type(column, logical, rules, release)
    charset = collation = ""
    if is_of_family(schema) and bare(native) in TEXTS and column.collation and not logical.target:
        found = collating(column.charset, column.collation, release.collations)
        charset, collation = found.charset, found.collation
    is_needed = target in table.key or not may_be_null(schema, column, logical, rules)
    return MadeColumn(source, target, native, not is_needed, charset, collation, comment=column.comment)


def native_type(column: Column, logical: LogicalType, rules: ValueRules, release: Release) -> str:
    """Return the type of a column. Raises TargetError for one that is refused."""
    fit = MysqlTypes(release.family).column_fit(column, logical, rules)
    if fit.fidelity is Fidelity.REFUSED:
        raise TargetError(f"column {column.name}: {fit.reason}", hint="correct [types.map] or [[tables]] columns.type")
    return fit.native


def may_be_null(schema: TableSchema, column: Column, logical: LogicalType, rules: ValueRules) -> bool:
    """Return whether the column is nullable here, which it also is where the job turns zero dates into NULL."""
    return column.nullable or (logical.carried in KINDS and choice(rules, schema, column.name) == NULL)


def _made(
    schema: TableSchema,
    table: TargetTable,
    column: MadeColumn,
    lengths: Mapping[str, tuple[int, str]],
    counts: bool,
    release: Release,
) -> MadeColumn:
    native, needed_by = column.native, ""
    if column.name in lengths:
        characters, needed_by = lengths[column.name]
        native = f"{'varchar' if column.is_text else 'varbinary'}({characters})"
    own, logical = schema.column(column.source), table.type_of(column.name)
    default = defaults.default_of(schema, own, logical, native, release)
    return MadeColumn(
        column.source,
        column.name,
        native,
        column.nullable,
        column.charset,
        column.collation,
        default,
        counts,
        column.comment,
        needed_by,
        own.invisible and not why_visible(column.nullable or default is not None or counts, release),
    )


def why_visible(may_be_left_out: bool, release: Release) -> str:
    """Say why a column cannot be invisible; "" where it can."""
    if not release.has("invisible columns"):
        return "this release has no invisible columns"
    is_refused = release.family == "mariadb" and not may_be_left_out
    return "MariaDB has no invisible column that is NOT NULL and has no default" if is_refused else ""


def computed_here(schema: TableSchema, table: TargetTable, release: Release) -> Iterator[tuple[MadeColumn, Column]]:
    """Yield the columns of a source of this family that are computed here (own_computed.py), as they are made, with the
    source's."""
    for source, name in table.computed if is_of_family(schema) else ():
        column = schema.column(source)
        fit = own_words.fit(column, column.type, release.family) if column.type else None
        if fit is not None:
            charset = collation = ""
            if bare(fit.native) in TEXTS and column.collation:
                found = collating(column.charset, column.collation, release.collations)
                charset, collation = found.charset, found.collation
            made = MadeColumn(source, name, fit.native, column.nullable, charset, collation, comment=column.comment)
            yield replace(made, invisible=column.invisible and not why_visible(True, release)), column


# --- lengths that keys need -------------------------------------------------------------------------------------------


def _lengths(
    schema: TableSchema, table: TargetTable, columns: Sequence[MadeColumn], release: Release
) -> dict[str, tuple[int, str]]:
    """Return, for columns whose values may be longer than a key of theirs has room for, their length and that key. A source of
    this family has keys that fit, or the beginnings of values in them."""
    found: dict[str, tuple[int, str]] = {}
    if is_of_family(schema):
        return found
    by_source = {column.source: column for column in columns}
    for key, names in keys_of(schema, table):
        parts = [by_source[name] for name in names if name in by_source]
        for column, characters in _shares(parts, release, is_unique=key.startswith("unique")):
            if column.name not in found or characters < found[column.name][0]:
                found[column.name] = (characters, key)
    return found


def keys_of(schema: TableSchema, table: TargetTable) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the keys that are made with their columns' lengths: what to call each, and its columns at the source."""
    if table.key:
        yield "the primary key", schema.primary_key
    for index in schema.indexes:
        if index.unique and not index.definition:
            yield f"unique index {index.name}", index.columns
    for key in schema.foreign_keys:
        yield f"foreign key {key.name}", key.columns


def _shares(parts: Sequence[MadeColumn], release: Release, is_unique: bool) -> Iterator[tuple[MadeColumn, int]]:
    """Divide the room of an index row among the columns that have no length, or one that is too long for it. Of unique
    indexes only the former: one that does not fit is not made, and said so."""
    room, sizes = INDEX_BYTES, {part.name: part.index_bytes for part in parts}
    open_parts = [part for part in parts if sizes[part.name] is None and bare(part.native) in LONG]
    fixed = sum(size or 0 for size in sizes.values())
    is_wide = fixed > room or any((size or 0) > release.index_bytes for size in sizes.values())
    if not is_unique and is_wide:
        wide = [part for part in parts if bare(part.native) in ("char", "varchar", "binary", "varbinary")]
        open_parts += wide
        fixed -= sum(sizes[part.name] or 0 for part in wide)
    for part in open_parts:
        share = min(release.index_bytes, (room - fixed) // len(open_parts))
        yield part, max(1, share // part.character_bytes)


# --- columns that count -----------------------------------------------------------------------------------------------


def _counting(schema: TableSchema, table: TargetTable, columns: Sequence[MadeColumn]) -> str:
    """Return the column that gets AUTO_INCREMENT, "" for none: one per table, and the first of an index that is made with the
    table. https://dev.mysql.com/doc/refman/8.0/en/example-auto-increment.html"""
    return next((column.name for column in columns if not why_not_counting(schema, table, column)), "")


def why_not_counting(schema: TableSchema, table: TargetTable, column: MadeColumn) -> str:
    """Say why a column cannot have AUTO_INCREMENT; "" where it can."""
    own = schema.column(column.source)
    if not own.auto_increment:
        return "the source does not count"
    if bare(column.native) not in defaults.INTEGERS:
        return f"{column.native} has no AUTO_INCREMENT"
    if column.nullable:
        return "NULL in it would become a number"
    if table.key[:1] != (column.name,) and not counting_index(schema, column.source):
        return "AUTO_INCREMENT needs an index that begins with it"
    return ""


def counting_index(schema: TableSchema, source: str) -> str:
    """Return an index of the source that begins with the column, "" for none: it is made with the table."""
    plain = (i for i in schema.indexes if not i.definition and i.kind.lower() in ("btree", "hash"))
    return next((index.name for index in plain if index.columns[:1] == (source,)), "")
