"""Secondary indexes that the target gets, under the names that they have at the source: their parts, and how long their rows
may become. Load, `schema print` and preflight ask here.

https://dev.mysql.com/doc/refman/8.0/en/innodb-limits.html · https://mariadb.com/kb/en/innodb-limitations/
What does not live here: other definitions (`ddl.py`), building them, what a table has already (`building.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from anabranch.connectors.mysql.target.clauses import own_words
from anabranch.connectors.mysql.target.columns import GEOMETRIES, MadeColumn, computed_here
from anabranch.connectors.mysql.target.names import NotMade, mapped, shortened, with_digest
from anabranch.connectors.mysql.target.release import INDEX_BYTES, Release
from anabranch.connectors.mysql.target.session import quoted, table_name
from anabranch.connectors.mysql.target.words import bare
from anabranch.model.ids import TableId
from anabranch.model.schema import Index, TableSchema
from anabranch.rows.net import TargetTable

MOST_PARTS = 16  # columns of an index
PLAIN_KINDS = ("btree", "hash")  # a hash index of the source serves equality, as a btree does
HIDDEN = {"mysql": " INVISIBLE", "mariadb": " IGNORED"}
# What another database's definition has that no index here can have, by a part of its text, and what to call it
UNKNOWN_PARTS: Mapping[str, str] = {
    " WHERE ": "it has a condition (WHERE), and would forbid more without it",
    " INCLUDE (": "it includes columns that are not indexed",
    " NULLS NOT DISTINCT": "it takes NULLs for equal",
}
# What a strict session may refuse to compute of a row that the source took with a warning
MAY_REFUSE = re.compile(r"\b(?:cast|convert|json_\w+|str_to_date|regexp\w*)\s*\(|->", re.IGNORECASE)
_NAME = re.compile(r"`(?:[^`]|``)+`")


@dataclass(frozen=True, slots=True)
class PlannedIndex:
    """`fallback`: the name to take where another index of the table has `name`. `prefixes`: how much of each column, in
    characters of a text and bytes of anything else. `kind`: "", FULLTEXT or SPATIAL. `expressions`: all parts of one that is
    over expressions, of which `columns` has what they are over. `hidden`: the word for an index that no query uses."""

    name: str
    fallback: str
    columns: tuple[str, ...]
    unique: bool = False
    prefixes: tuple[int | None, ...] = ()
    descending: tuple[bool, ...] = ()
    kind: str = ""
    expressions: tuple[str, ...] = ()
    hidden: str = ""

    @property
    def parts(self) -> str:
        if self.expressions:
            return ", ".join(self.expressions)
        prefixes = self.prefixes or (None,) * len(self.columns)
        descending = self.descending or (False,) * len(self.columns)
        return ", ".join(
            quoted(column) + (f"({prefix})" if prefix else "") + " DESC" * down
            for column, prefix, down in zip(self.columns, prefixes, descending, strict=True)
        )

    def line(self, name: str = "") -> str:
        """Return what stands in CREATE TABLE, and behind ADD in ALTER TABLE."""
        kind = self.kind or ("UNIQUE" if self.unique else "")
        return f"{kind} KEY ".lstrip() + f"{quoted(name or self.name)} ({self.parts}){self.hidden}"

    def add(self, table: TableId, name: str = "") -> str:
        return f"ALTER TABLE {table_name(table)} ADD {self.line(name)}"


def plan_indexes(
    schema: TableSchema, table: TargetTable, columns: Sequence[MadeColumn], release: Release
) -> Iterator[tuple[Index, PlannedIndex | NotMade]]:
    """Yield all of the source's indexes in their order, each planned, or why it is not made. `columns`: as they are made."""
    columns = [*columns, *(made for made, _ in computed_here(schema, table, release))]
    for index in schema.indexes:
        try:
            over = partial(_over_expressions, schema=schema) if index.parts else partial(plan_index, columns=columns)
            planned = over(index, table=table, release=release)
            hidden = HIDDEN[release.family] if index.invisible and release.has("invisible indexes") else ""
            yield index, replace(planned, hidden=hidden)
        except NotMade as why:
            yield index, why


def plan_index(index: Index, table: TargetTable, columns: Sequence[MadeColumn], release: Release) -> PlannedIndex:
    """Plan an index. Raises NotMade for a kind that has no counterpart, and where rows may be too long for it."""
    kind = index.kind.lower()
    if index.constraint.startswith("EXCLUDE"):
        raise NotMade("exclusion constraints have no counterpart")
    if kind in ("fulltext", "spatial"):
        return _special(index, table, columns, release)
    if kind not in PLAIN_KINDS:
        raise NotMade(
            "it is over expressions" if kind == "functional" else f"indexes of kind {kind} have no counterpart"
        )
    if index.definition:
        raise NotMade(_why(index.definition))
    names = mapped(index.columns, table)
    by_name = {column.name: column for column in columns}
    if any(name not in by_name for name in names):
        raise NotMade("it is over a column that is computed")
    if len(names) > MOST_PARTS:
        raise NotMade(f"it has more than {MOST_PARTS} columns")
    prefixes = index.prefixes or (None,) * len(names)
    cut = _cut([by_name[name] for name in names], prefixes, index.unique, release)
    descending = index.descending if release.has("descending indexes") and any(index.descending) else ()
    is_whole = not any(cut)
    return _named(index, table, names, () if is_whole else cut, descending)


def _over_expressions(index: Index, schema: TableSchema, table: TargetTable, release: Release) -> PlannedIndex:
    """Plan an index over expressions, in the words of a source of this family: the server judges them."""
    if not release.has("functional indexes"):
        raise NotMade("it is over expressions")
    parts = tuple(own_words(part, schema, table, release.family) for part in index.parts)
    if any(MAY_REFUSE.search(_NAME.sub("", part)) for part in parts):
        raise NotMade("its expression may refuse rows that the source took in another sql_mode")
    return replace(_named(index, table, mapped(index.columns, table)), expressions=parts)


def serves_cascade(schema: TableSchema, index: Index) -> bool:
    """Return whether the index begins with the columns of a foreign key that changes rows: it is built before the stream. Not
    unique ones, which chunks of different moments may break."""
    keys = [key.columns for key in schema.foreign_keys if key.changes_rows]
    return not index.unique and not index.definition and any(index.columns[: len(key)] == key for key in keys)


def _named(
    index: Index,
    table: TargetTable,
    names: tuple[str, ...],
    prefixes: tuple[int | None, ...] = (),
    descending: tuple[bool, ...] = (),
    kind: str = "",
) -> PlannedIndex:
    fallback = with_digest(index.name, f"{table.target}.{index.name}")
    return PlannedIndex(shortened(index.name), fallback, names, index.unique, prefixes, descending, kind)


def _why(definition: str) -> str:
    """Say what of another database's definition has no counterpart."""
    found = [why for part, why in UNKNOWN_PARTS.items() if part in definition]
    return found[0] if found else "it is over expressions, or compares in a way of its own"


def _special(index: Index, table: TargetTable, columns: Sequence[MadeColumn], release: Release) -> PlannedIndex:
    """Plan a full-text or spatial index; the latter needs a column that is NOT NULL.

    https://dev.mysql.com/doc/refman/8.0/en/innodb-fulltext-index.html · …/creating-spatial-indexes.html
    """
    names, kind = mapped(index.columns, table), index.kind.upper()
    own = [column for column in columns if column.name in names]
    if kind == "FULLTEXT":
        is_made = len(own) == len(names) and all(column.is_text for column in own)
    else:
        is_made = len(own) == 1 and bare(own[0].native) in GEOMETRIES and not own[0].nullable
        is_made = is_made and release.has("spatial indexes")
    if not is_made:
        raise NotMade(f"a {kind} index needs columns of another type")
    return _named(index, table, names, kind=kind)


def _cut(
    parts: Sequence[MadeColumn], prefixes: Sequence[int | None], is_unique: bool, release: Release
) -> tuple[int | None, ...]:
    """Return how much of each column is indexed. A unique index takes what the source has, whole values or their beginnings;
    any other takes beginnings where whole values do not fit. Raises NotMade where a row may still be too long."""
    room, most = INDEX_BYTES, release.index_bytes
    cut = [prefix if _takes(part, prefix) else None for part, prefix in zip(parts, prefixes, strict=True)]
    sizes = [_bytes(part, prefix) for part, prefix in zip(parts, cut, strict=True)]
    open_places = [n for n, size in enumerate(sizes) if size is None or size > most]
    if not is_unique and sum(size or 0 for size in sizes) > room:
        open_places = [n for n, part in enumerate(parts) if _is_cuttable(part) and not cut[n]]
    if open_places and is_unique:
        raise NotMade(f"{parts[open_places[0]].name} may be longer than the {most:,} bytes that an index has room for")
    fixed = sum(size or 0 for n, size in enumerate(sizes) if n not in open_places)
    for place in open_places:
        if not _is_cuttable(parts[place]):
            raise NotMade(f"{parts[place].native} cannot be indexed")
        share = min(most, (room - fixed) // len(open_places)) // parts[place].character_bytes
        if share < 1:
            break
        cut[place], sizes[place] = share, share * parts[place].character_bytes
    if any(size is None for size in sizes) or sum(size or 0 for size in sizes) > room:
        raise NotMade(f"its rows may be longer than the {room:,} bytes that an index has room for")
    return tuple(cut)


def _takes(part: MadeColumn, prefix: int | None) -> bool:
    """Return whether the beginning of a value can be indexed, and is less than all of it."""
    if prefix is None or not _is_cuttable(part):
        return False
    whole = part.index_bytes
    return whole is None or prefix * part.character_bytes < whole


def _is_cuttable(part: MadeColumn) -> bool:
    """Return whether an index may take the beginnings of the values: of texts and bytes."""
    name = bare(part.native)
    return name.endswith(("char", "binary", "text", "blob"))


def _bytes(part: MadeColumn, prefix: int | None) -> int | None:
    return prefix * part.character_bytes if prefix else part.index_bytes
