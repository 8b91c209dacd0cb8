"""Differences between two definitions of a table, for people and as data.

What does not live here: whether rows of one can be read as rows of the other (`schema.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from anabranch.model.schema import Column, ForeignKey, Index, TableSchema

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A difference. `what`: column, index, … `before` and `after` are in the source's words, "" for what is not there."""

    what: str
    name: str
    before: str
    after: str

    @property
    def sign(self) -> str:
        """`+` for what has come, `-` for what has gone, `~` for what is another now."""
        return "~" if self.before and self.after else "+" if self.after else "-"

    def __str__(self) -> str:
        told = " -> ".join(text for text in (self.before, self.after) if text)
        return f"{self.sign} {self.what}{f' {self.name}' if self.name else ''}: {told}"


def changes(then: TableSchema, now: TableSchema, renamed: Mapping[str, str] | None = None) -> list[SchemaChange]:
    """Return what differs: columns in the order of `now`, then gone ones, keys, indexes, foreign keys, the rest. `renamed`:
    former and next names of columns."""
    renamed = renamed or {}
    return [
        *_named("column", _columns(then, renamed), _columns(now, {name: name for name in renamed.values()})),
        *_order(then, now, renamed),
        *_one("primary key", ", ".join(then.primary_key), ", ".join(now.primary_key)),
        *_named("index", _indexes(then), _indexes(now)),
        *_named("foreign key", _keys(then), _keys(now)),
        *_named("check", {c.name: c.text for c in then.checks}, {c.name: c.text for c in now.checks}),
        *_one("engine", then.engine, now.engine),
        *_one("partitioned by", then.partition_key, now.partition_key),
        *_one("comment", then.comment, now.comment),
    ]


def column_text(column: Column) -> str:
    """Return a column as `schema show` prints it, without its name."""
    parts = [column.native, "NULL" if column.nullable else "NOT NULL"]
    if column.collation:
        parts.insert(1, f"COLLATE {column.collation}")
    if column.auto_increment:
        parts.append("counts")
    if column.generated:
        parts.append(f"computed by {column.expression}")
    elif column.has_default and column.default is not None:
        is_constant = not column.default_is_expression
        parts.append(f"DEFAULT '{column.default}'" if is_constant else f"DEFAULT {column.default}")
    elif column.default_is_expression:
        parts.append("DEFAULT computed")
    return " ".join(parts) + (f" COMMENT '{column.comment}'" if column.comment else "")


def index_text(index: Index) -> str:
    """Return an index as `schema show` prints it, without its name."""
    prefixes = index.prefixes or (None,) * len(index.columns)
    columns = ", ".join(f"{name}({n})" if n else name for name, n in zip(index.columns, prefixes, strict=False))
    return f"{'unique ' if index.unique else ''}{index.kind} ({', '.join(index.parts) or columns})"


def key_text(key: ForeignKey) -> str:
    """Return a foreign key as `schema show` prints it, without its name."""
    there = f"{key.parent} ({', '.join(key.parent_columns)})"
    return f"({', '.join(key.columns)}) to {there} on delete {key.on_delete} on update {key.on_update}"


def _columns(table: TableSchema, renamed: Mapping[str, str]) -> dict[str, str]:
    """Return columns by their names of now; the text of one that is renamed begins with the name that it has here."""
    texts = {column.name: column_text(column) for column in table.columns}
    return {renamed.get(name, name): f"{name} {text}" if name in renamed else text for name, text in texts.items()}


def _indexes(table: TableSchema) -> dict[str, str]:
    return {index.name: index_text(index) for index in table.indexes}


def _keys(table: TableSchema) -> dict[str, str]:
    return {key.name: key_text(key) for key in table.foreign_keys}


def _named(what: str, then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[SchemaChange]:
    for name, text in now.items():
        if then.get(name) != text:
            yield SchemaChange(what, name, then.get(name, ""), text)
    yield from (SchemaChange(what, name, text, "") for name, text in then.items() if name not in now)


def _order(then: TableSchema, now: TableSchema, renamed: Mapping[str, str]) -> Iterator[SchemaChange]:
    """Yield a change of the order of the columns that both have."""
    former, names = [renamed.get(c.name, c.name) for c in then.columns], [c.name for c in now.columns]
    before, after = [name for name in former if name in names], [name for name in names if name in former]
    if before != after:
        yield SchemaChange("order of columns", "", ", ".join(before), ", ".join(after))


def _one(what: str, then: str, now: str) -> Iterator[SchemaChange]:
    if then != now:
        yield SchemaChange(what, "", then, now)
