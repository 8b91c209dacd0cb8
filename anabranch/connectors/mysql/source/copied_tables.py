"""Copies of a table that a tool makes, alters and fills while the table is in use: is it the table's definition, and does every
row fit into it as it is?

gh-ost and pt-online-schema-change fill a copy by INSERT IGNORE and REPLACE, which leave rows out that a unique key, a check or
a partition does not take, and change values that do not fit.
https://github.com/github/gh-ost/blob/master/doc/shared-key.md ·
https://docs.percona.com/percona-toolkit/pt-online-schema-change.html

What does not live here: following the copy through the log (capture), the clauses of ALTER TABLE (`altered_columns.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from anabranch.connectors.mysql.source.altered_columns import behind as altered
from anabranch.connectors.mysql.source.column_clauses import Unknown, parts
from anabranch.connectors.mysql.source.index_clauses import (
    DropsIndex,
    gone_names,
    is_about_index,
    may_change_unique,
    with_added,
    without_gone,
)
from anabranch.connectors.mysql.source.index_clauses import read as read_index
from anabranch.connectors.mysql.source.statement_tokens import Token, tokens
from anabranch.connectors.mysql.source.statement_words import ENGINES
from anabranch.model.column_changes import Altered, ColumnChange, kinds_beside
from anabranch.model.datatype import Kind
from anabranch.model.index_changes import is_followed
from anabranch.model.schema import Index, TableSchema

# What stands between the parentheses of CREATE TABLE beside columns.
KEYS = frozenset(
    ("CHECK", "CONSTRAINT", "FOREIGN", "FULLTEXT", "INDEX", "KEY", "PERIOD", "PRIMARY", "SPATIAL", "UNIQUE")
)
# Words that may keep a row out of the copy, or change it, whatever clause they stand in.
_LOSING = frozenset(
    """CHECK CONSTRAINT CONVERT DISCARD EXCHANGE FOREIGN IGNORE IMPORT PARTITION PARTITIONING PARTITIONS PERIOD PRIMARY RENAME
    REFERENCES SYSTEM UNIQUE VERSIONING""".split()  # noqa: SIM905 - a table of words
)
WITH_ROWS = frozenset(("REPLACE", "SELECT", "START", "TABLE", "VALUES", "WITH"))
_INDEXES = frozenset(("FULLTEXT", "INDEX", "KEY", "SPATIAL"))
# Clauses (first words) that say how rows are kept, and not which.
_STORED = frozenset(
    """ALGORITHM AUTO_INCREMENT AVG_ROW_LENGTH CHECKSUM COMMENT DELAY_KEY_WRITE ENGINE FORCE KEY_BLOCK_SIZE LOCK MAX_ROWS
    MIN_ROWS PACK_KEYS ROW_FORMAT STATS_AUTO_RECALC STATS_PERSISTENT STATS_SAMPLE_PAGES""".split()  # noqa: SIM905 - a table of words
)


def has_columns_of(inside: Sequence[Token], then: TableSchema) -> bool:
    """Return whether a CREATE TABLE has just the columns of `then`: names, types and NULL, in their order, its engine, and no
    key or check that `then` lacks and that may keep rows out; `inside`: the tokens behind the parenthesis. False where it has
    rows as well."""
    held = list(takewhile(lambda token: token.depth > 0, inside))
    behind = inside[len(held) :]
    words = {token.word for token in behind}
    if words & WITH_ROWS or ("PARTITION" in words and not then.partition_key):
        return False
    if _engine(behind) != then.engine.upper() or not _takes_all_rows([part for part in parts(held, 1) if part], then):
        return False
    columns = [part for part in parts(held, 1) if part and part[0].word not in KEYS]
    return len(columns) == len(then.columns) and all(
        _is_column(part, column.name, column.native, column.nullable)
        for part, column in zip(columns, then.columns, strict=True)
    )


def _takes_all_rows(inside: Sequence[Sequence[Token]], then: TableSchema) -> bool:
    """Return whether no unique key, and no more checks, stand there than `then` has. A server prints keys behind columns."""
    words = [[token.word for token in part if token.depth == 1] for part in inside]
    unique = [part for part, said in zip(inside, words, strict=True) if not {"PRIMARY", "UNIQUE"}.isdisjoint(said)]
    has = {(index.columns, _prefixes(index)) for index in then.indexes if index.unique and not index.parts}
    has.add((then.primary_key, (None,) * len(then.primary_key)))
    checks = sum(said.count("CHECK") for said in words)
    json = sum(
        c.native == "longtext" and c.type is not None and c.type.kind is Kind.JSON for c in then.columns
    )  # MariaDB's
    return checks <= len(then.checks) + json and all(part[0].word in KEYS and _key(part) in has for part in unique)


def _prefixes(index: Index) -> tuple[int | None, ...]:
    return index.prefixes or (None,) * len(index.columns)


def _key(part: Sequence[Token]) -> tuple[tuple[str, ...], tuple[int | None, ...]] | None:
    """Return the columns of a key, and how much of each is in it; None where it is over anything else."""
    inside = [token for token in part if token.depth >= 2]
    found: list[tuple[str, int | None]] = []
    for one in parts(inside, 2):
        sizes = [token.text for token in one if token.depth > 2]
        if not one or one[0].kind not in ("name", "word") or len(sizes) > 1 or not "".join(sizes or "0").isdigit():
            return None
        found.append((one[0].text, int(sizes[0]) if sizes else None))
    return tuple(name for name, _ in found), tuple(size for _, size in found)


def _is_column(part: Sequence[Token], name: str, native: str, nullable: bool) -> bool:
    type = [_plain(token) for token in tokens(native)]
    is_not_null = ("NOT", "NULL") in pairwise(token.word for token in part if token.depth == 1)
    is_typed = [_plain(token) for token in part[1 : 1 + len(type)]] == type
    return part[0].text == name and is_typed and is_not_null is not nullable


def _plain(token: Token) -> tuple[str, str]:
    return token.kind, token.text.lower() if token.kind == "word" else token.text


def may_lose_rows(statement: Sequence[Token]) -> bool:
    """Return whether a copy behind this ALTER TABLE, or CREATE INDEX, may not take all rows."""
    return any(token.word in _LOSING and not token.depth for token in statement)


def behind(clauses: Sequence[Sequence[Token]], then: TableSchema, now: TableSchema) -> Altered | None:
    """Return the table behind a copy that these clauses have altered, None where that is not certain. A column that gets
    another name is none: a tool may take it for one that goes and one that comes."""
    if then.row_end or not clauses:
        return None
    indexes = [clause for clause in clauses if _is_followed_index(clause, then)]
    if not then.primary_key and may_change_unique(clauses, then):
        return None  # rows may be told apart by it
    unseen = {index.name.lower() for index in then.indexes if index.unique and not is_followed(index)}
    if not unseen.isdisjoint(name.lower() for name in gone_names(clauses)):
        return None  # whether the target's refuses rows is not known
    columns = [clause for clause in clauses if clause not in indexes and not _is_stored(clause, then)]
    if not columns:
        return _indexed(indexes, then, now)
    found = altered([*columns, *indexes], then, now)
    return None if found is None or ColumnChange.RENAME in found.kinds else found


def _indexed(clauses: Sequence[Sequence[Token]], then: TableSchema, now: TableSchema) -> Altered | None:
    """Return the table behind clauses about indexes alone; None for one over a column that is not known."""
    said = [read_index(clause) for clause in clauses]
    try:
        table = with_added(without_gone(then, said), said, then, now)
    except Unknown:
        return None
    return Altered(table, kinds_beside(then, table, {}))


def _is_followed_index(clause: Sequence[Token], then: TableSchema) -> bool:
    """Return whether the clause adds or drops an index over columns, or drops such a unique key. What adds a unique key, or
    renames, comes in no copy; others say how rows are found, and the target's table stays without."""
    if not is_about_index(clause):
        return False
    try:
        said = read_index(clause)
    except (Unknown, IndexError, ValueError):
        return False
    others = {index.name.lower() for index in then.indexes if not is_followed(index)}
    return not isinstance(said, DropsIndex) or said.name.lower() not in others


def _is_stored(clause: Sequence[Token], then: TableSchema) -> bool:
    """Return whether the clause says how rows are stored and found, and nothing of columns."""
    first, second = clause[0].word, clause[1].word if len(clause) > 1 else ""
    if first in ("ADD", "DROP"):
        named = [token.text.upper() for token in clause[2:] if token.word not in ("IF", "EXISTS")]
        return second in _INDEXES and (first == "ADD" or (bool(named) and named[0] != "PRIMARY"))
    return first in _STORED and _engine(clause) in ("", then.engine.upper())


def _engine(words: Sequence[Token]) -> str:
    """Return what ENGINE [=] says, "" where it is not there."""
    for place, token in enumerate(words):
        if token.word == "ENGINE" and not token.depth:
            name = next((one.text.upper() for one in words[place + 1 :] if one.text != "="), "")
            return ENGINES.get(name, name)
    return ""
