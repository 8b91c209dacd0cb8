"""Clauses about indexes and unique keys, of ALTER TABLE, CREATE INDEX and DROP INDEX, as values; and a table behind them.

The statement says all of such an index but what the server takes for granted, which the catalogue adds where it still has it. A
clause that is about any other key is none of these: https://dev.mysql.com/doc/refman/8.0/en/create-index.html ·
https://mariadb.com/kb/en/create-index/ What does not live here: columns (`column_clauses.py`, `altered_columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

from anabranch.connectors.mysql.source.column_clauses import Unknown, parts
from anabranch.connectors.mysql.source.statement_tokens import Token
from anabranch.model.index_changes import is_followed
from anabranch.model.schema import Index, TableSchema

WORDS = ("INDEX", "KEY")
UNIQUE = frozenset(("UNIQUE", "PRIMARY", "CONSTRAINT"))
KINDS_OF_CONSTRAINTS = (["UNIQUE"], ["PRIMARY"], ["FOREIGN"], ["CHECK"])
HIDING = {"INVISIBLE": True, "IGNORED": True}  # MySQL's word and MariaDB's


@dataclass(frozen=True)
class AddsIndex:
    """`name`: "" where the server gives one. `if_missing`: it says IF NOT EXISTS."""

    name: str
    columns: tuple[str, ...]
    prefixes: tuple[int | None, ...]
    descending: tuple[bool, ...]
    invisible: bool = False
    unique: bool = False
    if_missing: bool = False


@dataclass(frozen=True)
class DropsIndex:
    """`is_constraint`: DROP CONSTRAINT, which drops whatever has the name; of indexes none but a unique key."""

    name: str
    is_constraint: bool = False


@dataclass(frozen=True)
class RenamesIndex:
    former: str
    name: str


IndexClause = AddsIndex | DropsIndex | RenamesIndex


def is_about_index(clause: Sequence[Token]) -> bool:
    """Return whether a clause of ALTER TABLE makes, drops or renames an index or a unique key, or may do so."""
    first, second = clause[0].word, clause[1].word if len(clause) > 1 else ""
    if first == "ADD" and (second == "UNIQUE" or _constraint(clause) == "UNIQUE"):
        return True
    if first == "DROP" and second == "CONSTRAINT":
        return True
    return first in ("ADD", "DROP", "RENAME") and second in WORDS and not _is_primary(clause)


def _constraint(clause: Sequence[Token]) -> str:
    """Return what stands behind CONSTRAINT and its name, which need not be there; "" of any other clause."""
    if len(clause) < 3 or clause[1].word != "CONSTRAINT":
        return ""
    words = [token.word for token in _without_if(clause[2:8])]
    return next(iter(words if words[:1] in KINDS_OF_CONSTRAINTS else words[1:]), "")


def _is_primary(clause: Sequence[Token]) -> bool:
    return any(token.text.upper() == "PRIMARY" and not token.depth for token in clause[2:])


def read(clause: Sequence[Token]) -> IndexClause:
    """Read a clause that `is_about_index`. Raises Unknown for one over anything but columns, IndexError for one that ends
    early."""
    verb, rest = clause[0].word, list(_without_if(clause[2:]))
    if verb == "ADD":
        made = _added_unique(clause) if clause[1].word in ("UNIQUE", "CONSTRAINT") else _added(rest)
        return replace(made, if_missing=any(token.word == "IF" and not token.depth for token in clause))
    name = _name(rest[0])
    if verb == "DROP":
        return DropsIndex(name, clause[1].word == "CONSTRAINT")
    return RenamesIndex(name, _name(rest[2]))


def gone_names(clauses: Iterable[Sequence[Token]]) -> tuple[str, ...]:
    """Return the names of indexes and unique keys that clauses of ALTER TABLE drop or rename, or may do so."""
    about = (clause for clause in clauses if clause[0].word in ("DROP", "RENAME") and is_about_index(clause))
    return tuple(name.text for clause in about for name in islice(_without_if(clause[2:]), 1))


def of_create(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return CREATE INDEX, without its verb and what stands before INDEX, as a clause of ALTER TABLE, behind one that drops the
    index where it may replace it; [] for any other. Its table is no part of it."""
    words = [token.word for token in tokens]
    at = words.index("INDEX") if "INDEX" in words[:5] else 0
    if words[:1] != ["CREATE"] or not at or not set(words[1:at]) <= {"OR", "REPLACE", "ONLINE", "OFFLINE", "UNIQUE"}:
        return []
    on = words.index("ON", at)
    opens = next(place for place in range(on, len(tokens)) if _is_mark(tokens[place], "("))
    kind = tokens[words.index("UNIQUE")] if "UNIQUE" in words[1:at] else tokens[at]
    made = [Token("word", "ADD"), kind, *tokens[at + 1 : on], *_without_end(tokens[opens:])]
    return [[Token("word", "DROP"), tokens[at], tokens[at + 1]], made] if "REPLACE" in words[1:at] else [made]


def of_drop(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return DROP INDEX as the clause of ALTER TABLE, [] for any other statement."""
    words = [token.word for token in tokens]
    at = words.index("INDEX") if "INDEX" in words[:3] else 0
    if words[:1] != ["DROP"] or not at or not set(words[1:at]) <= {"ONLINE", "OFFLINE"}:
        return []
    return [[tokens[0], tokens[at], *tokens[at + 1 : words.index("ON", at)]]]


def _without_end(tokens: Sequence[Token]) -> Sequence[Token]:
    return tokens[:-1] if _is_mark(tokens[-1], ";") else tokens


def _without_if(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield what follows IF [NOT] EXISTS: an index that is there already, or not, is told by the definition."""
    at = 0
    if tokens and tokens[0].word == "IF":
        at = 3 if tokens[1].word == "NOT" else 2
    yield from tokens[at:]


def _added_unique(clause: Sequence[Token]) -> AddsIndex:
    """Read ADD [CONSTRAINT [name]] UNIQUE [INDEX | KEY] [name] (…). Of two names the index has the second one."""
    at = next(place for place, token in enumerate(clause) if token.word == "UNIQUE")
    named = [token for token in _without_if(clause[2:at]) if token.kind != "mark"]
    rest = clause[at + 1 :]
    rest = list(_without_if(rest[1:] if rest[0].word in WORDS else rest))
    found = replace(_added(rest), unique=True)
    return replace(found, name=named[0].text) if named and not found.name else found


def _added(rest: Sequence[Token]) -> AddsIndex:
    opens = next(place for place, token in enumerate([*rest, None]) if token is None or _is_mark(token, "("))
    before = [token for token in rest[:opens] if token.kind != "mark"]
    inside = [token for token in rest[opens + 1 :] if token.depth > rest[opens].depth]
    behind = [token for token in rest[opens + 1 + len(inside) :] if not token.depth]
    name = "" if not before or (before[0].word == "USING") else _name(before[0])
    found = [_part(part) for part in parts(inside, rest[opens].depth + 1)]
    columns, prefixes, descending = zip(*found, strict=True)
    hidden = any(HIDING.get(token.word, False) for token in behind) and not any(t.word == "NOT" for t in behind)
    return AddsIndex(name, columns, prefixes if any(prefixes) else (), descending if any(descending) else (), hidden)


def _part(part: Sequence[Token]) -> tuple[str, int | None, bool]:
    """Read `name [(length)] [ASC | DESC]`."""
    name, rest, prefix = _name(part[0]), list(part[1:]), None
    if rest and _is_mark(rest[0], "("):
        prefix, rest = int(rest[1].text), rest[3:]
    if len(rest) > 1 or (rest and rest[0].word not in ("ASC", "DESC")):
        raise Unknown
    return name, prefix, bool(rest) and rest[0].word == "DESC"


def _is_mark(token: Token, text: str) -> bool:
    return token.kind == "mark" and token.text == text


def _name(token: Token) -> str:
    """Return a name. With the sql_mode ANSI_QUOTES it may look like a text."""
    if token.kind == "mark":
        raise Unknown
    return token.text


# --- the table behind them ----------------------------------------------------------------------------------------------


def refuse_others(clauses: Iterable[IndexClause], then: TableSchema) -> None:
    """Raise Unknown where an index goes, or gets another name, that is over more than columns, and for DROP CONSTRAINT of
    anything but a unique key."""
    others = {index.name.lower() for index in then.indexes if not is_followed(index)}
    for clause in clauses:
        if isinstance(clause, DropsIndex | RenamesIndex) and _former(clause).lower() in others:
            raise Unknown
        if isinstance(clause, DropsIndex) and clause.is_constraint and _dropped(clause, then) is None:
            raise Unknown


def may_change_unique(clauses: Iterable[Sequence[Token]], then: TableSchema) -> bool:
    """Return whether a clause makes, drops or renames a unique key, or may do so."""
    names = {index.name.lower() for index in then.indexes if index.unique}
    for clause in clauses:
        names_one = clause[0].word != "ADD" and any(token.text.lower() in names for token in clause[2:])
        is_one = names_one or any(token.word in UNIQUE for token in clause)
        if is_one:
            return True
    return False


def _former(clause: DropsIndex | RenamesIndex) -> str:
    return clause.name if isinstance(clause, DropsIndex) else clause.former


def without_gone(table: TableSchema, clauses: Iterable[IndexClause]) -> TableSchema:
    """Return a table without indexes that go, and those that are renamed by their next names. All clauses mean the names of
    before the statement, in any order. What the definition does not have is passed over: the job knows nothing of it."""
    said = list(clauses)
    gone = [_dropped(clause, table) for clause in said if isinstance(clause, DropsIndex)]
    names = {clause.former.lower(): clause.name for clause in said if isinstance(clause, RenamesIndex)}
    kept = []
    for index in table.indexes:
        if not any(index is one for one in gone):
            name = names.get(index.name.lower(), "") if is_followed(index) else ""
            kept.append(replace(index, name=name) if name else index)
    return replace(table, indexes=tuple(kept))


def _dropped(clause: DropsIndex, table: TableSchema) -> Index | None:
    """Return the index that goes. The index of a foreign key may have the key's name, and stays without it."""
    name = clause.name.lower()
    others = {key.name.lower() for key in table.foreign_keys} | {check.name.lower() for check in table.checks}
    if clause.is_constraint and name in others:
        return None
    named = (index for index in table.indexes if index.name.lower() == name and is_followed(index))
    return next((index for index in named if index.unique or not clause.is_constraint), None)


def with_added(table: TableSchema, clauses: Iterable[IndexClause], then: TableSchema, now: TableSchema) -> TableSchema:
    """Return a table with the indexes that come. `then`: as it was before the statement, by which a server decides about IF NOT
    EXISTS; `now`: as the catalogue has it. Raises Unknown for a column that the table does not have."""
    for clause in clauses:
        if not isinstance(clause, AddsIndex):
            continue
        index, known = _made(clause, table, now), _named(table, clause.name)
        if index is None or (clause.if_missing and _named(then, clause.name)) or (known and _agrees(index, known)):
            continue
        kept = tuple(one for one in table.indexes if one is not known)  # which is of before: the server took the name
        table = replace(table, indexes=(*kept, index))
    return table


def is_late(clauses: Iterable[IndexClause], then: TableSchema, now: TableSchema) -> bool:
    """Return whether a unique key comes that only the catalogue tells, and that it may not show yet."""
    added = (one for one in clauses if isinstance(one, AddsIndex) and not _named(then, one.name))
    return any(map(_needs_catalogue, added)) and all(index in then.indexes for index in now.indexes)


def _needs_catalogue(clause: AddsIndex) -> bool:
    """Return whether the statement alone does not say that a unique key came, or by which name."""
    return clause.unique and (clause.if_missing or not clause.name)


def _named(table: TableSchema, name: str) -> Index | None:
    return next((index for index in table.indexes if name and index.name.lower() == name.lower()), None)


def _made(clause: AddsIndex, table: TableSchema, now: TableSchema) -> Index | None:
    """Return the index that a clause makes. None for a unique key that is without a name, or may have been there, where the
    catalogue does not show it by the usual name: the job would not know it when it goes."""
    names = {column.name.lower(): column.name for column in table.columns}
    if not {name.lower() for name in clause.columns} <= names.keys():
        raise Unknown
    columns = tuple(names[name.lower()] for name in clause.columns)
    prefixes = clause.prefixes or (None,) * len(columns)
    made = Index(
        clause.name, columns, clause.unique, prefixes, descending=clause.descending, invisible=clause.invisible
    )
    known = {index.name.lower() for index in table.indexes}
    usual = clause.name or _usual_name(columns[0], known)
    for shown in now.indexes:
        is_named = shown.name.lower() == usual.lower()
        is_it = is_named or (not clause.name and not clause.unique and shown.name.lower() not in known)
        if is_it and is_followed(shown) and _agrees(made, shown):
            return shown
    return None if _needs_catalogue(clause) else replace(made, name=usual)


def _agrees(made: Index, shown: Index) -> bool:
    """Return whether this is the index. A server may index the beginning of a column where the statement has all, but not for a
    unique key."""
    prefixes = zip(made.prefixes, shown.prefixes or (None,) * len(shown.columns), strict=False)
    if made.columns != shown.columns or made.unique is not shown.unique:
        return False
    return all(said == there or (said is None and not made.unique) for said, there in prefixes)


def _usual_name(column: str, known: set[str]) -> str:
    """Return the name that the server gives: of the first column, numbered where another index has it."""
    names = (column if number == 1 else f"{column}_{number}" for number in count(1))
    return next(name for name in names if name.lower() not in known and name.upper() != "PRIMARY")
