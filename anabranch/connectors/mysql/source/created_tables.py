"""CREATE TABLE as people write it, against the table that the catalogue has: is that what the statement made?

A later statement may have changed the table by now: what the statement says of columns, of keys that tell rows apart, and of
the engine has to be what the catalogue says. What it leaves to the server has to be as in other tables, or as servers have it.
https://dev.mysql.com/doc/refman/8.0/en/create-table.html · https://mariadb.com/kb/en/create-table/

What does not live here: a column's definition (`created_columns.py`), copies that a tool makes (`copied_tables.py`), telling
statements apart (`statements.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from anabranch.connectors.mysql.source.column_clauses import Unknown, parts
from anabranch.connectors.mysql.source.copied_tables import KEYS, WITH_ROWS
from anabranch.connectors.mysql.source.created_columns import Charsets, Made, agrees, made, word_behind
from anabranch.connectors.mysql.source.statement_tokens import Token
from anabranch.connectors.mysql.source.statement_words import ACTING, ENGINES
from anabranch.model.schema import TableSchema

# Engines whose new table has no rows, and logs those that it gets. Others show what is elsewhere, or keep nothing.
# https://dev.mysql.com/doc/refman/8.0/en/storage-engines.html · https://mariadb.com/kb/en/storage-engines/
START_EMPTY = frozenset(("ARIA", "CSV", "INNODB", "MEMORY", "MYISAM", "ROCKSDB", "TOKUDB"))
_BEFORE_KEYS = frozenset(("CONSTRAINT", "PRIMARY", "UNIQUE"))
_ORDERS = frozenset(("ASC", "DESC"))

Unique = tuple[tuple[str, ...], tuple[int | None, ...]]  # columns in lower case, and how much of each


@dataclass
class _Keys:
    primary: tuple[str, ...]
    unique: Counter[Unique]


def makes(inside: Sequence[Token], now: TableSchema, known: Iterable[TableSchema]) -> bool:
    """Return whether a CREATE TABLE makes just `now`, without rows; `inside`: the tokens behind the parenthesis; `known`: other
    tables. Raises Unknown and IndexError for what is not read, which may be anything else."""
    held = list(takewhile(lambda token: token.depth > 0, inside))
    behind = inside[len(held) :]
    if any(token.word in WITH_ROWS for token in behind) or has_acting_key(inside):
        return False
    options = [token for token in takewhile(lambda token: token.word != "PARTITION", behind) if not token.depth]
    engine = word_behind(options, ("ENGINE",)).upper()
    if not starts_empty(now) or (engine and ENGINES.get(engine, engine) != now.engine.upper()):
        return False
    found = [part for part in parts(held, 1) if part]
    columns = [made(part) for part in found if part[0].word not in KEYS]
    keys = _keys(columns, (part for part in found if part[0].word in KEYS))
    if keys.primary != _lower(now.primary_key) or keys.unique != _unique(now):
        return False
    charsets = Charsets.of(options, now, known)
    return len(columns) == len(now.columns) and all(
        agrees(one, column, charsets, one.said.name.lower() in keys.primary)
        for one, column in zip(columns, now.columns, strict=True)
    )


def is_like(like: TableSchema, now: TableSchema) -> bool:
    """Return whether CREATE TABLE … LIKE makes `now` of the table `like`."""
    is_same = like.columns == now.columns and like.engine == now.engine and starts_empty(now)
    return is_same and like.primary_key == now.primary_key and _unique(like) == _unique(now)


def starts_empty(table: TableSchema) -> bool:
    return table.engine.upper() in START_EMPTY


def has_acting_key(statement: Sequence[Token]) -> bool:
    """Return whether a foreign key is written that changes rows itself. It may be gone by the time that the catalogue is
    read."""
    return any(token.word == "ON" and statement[place + 2].word in ACTING for place, token in enumerate(statement[:-2]))


def _keys(columns: Sequence[Made], written: Iterable[Sequence[Token]]) -> _Keys:
    """Return the keys that tell rows apart: those of columns, and those beside them."""
    names = [one.said.name.lower() for one in columns]
    primary: list[tuple[str, ...]] = [(name,) for name, one in zip(names, columns, strict=True) if one.primary]
    unique: list[Unique] = [((name,), (None,)) for name, one in zip(names, columns, strict=True) if one.unique]
    for part in written:
        words = list(takewhile(lambda token: not (token.kind == "mark" and token.text == "("), part))
        kind = next((token.word for token in words if token.word in ("PRIMARY", "UNIQUE", "CHECK", "FOREIGN")), "")
        if part[0].word not in _BEFORE_KEYS or kind not in ("PRIMARY", "UNIQUE"):
            continue
        named, prefixes = _parts_of_key(part[len(words) + 1 :])
        if kind == "PRIMARY":
            primary.append(named)
        else:
            unique.append((named, prefixes))
    if len(primary) > 1:
        raise Unknown
    return _Keys(primary[0] if primary else (), Counter(unique))


def _parts_of_key(behind: Sequence[Token]) -> Unique:
    """Read `column [(length)] [ASC | DESC], …` in the parentheses of a key."""
    names, prefixes = [], []
    for part in parts(list(takewhile(lambda token: token.depth > 1, behind)), 2):
        first, *rest = part
        sizes = [int(token.text) for token in rest if token.depth == 3 and token.kind == "word"]
        others = [token for token in rest if token.depth == 2 and token.text not in "()" and token.word not in _ORDERS]
        if first.kind not in ("name", "word") or others or len(sizes) > 1:
            raise Unknown  # an expression
        names.append(first.text.lower())
        prefixes.append(sizes[0] if sizes else None)
    return tuple(names), tuple(prefixes)


def _unique(table: TableSchema) -> Counter[Unique]:
    """Return the unique keys of a table; one over expressions is like none that is written."""
    return Counter(
        (() if index.parts else _lower(index.columns), index.prefixes or (None,) * len(index.columns))
        for index in table.indexes
        if index.unique
    )


def _lower(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)
