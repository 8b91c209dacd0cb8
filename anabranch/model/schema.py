"""Definitions of tables: columns, keys, foreign keys; with a JSON form for trail and state."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache, lru_cache
from sys import intern
from typing import Any

from anabranch.model.datatype import Kind, LogicalType, Special
from anabranch.model.ids import TableId
from anabranch.model.term import Term


class Action(StrEnum):
    """The effect of a foreign key on children. NO ACTION and RESTRICT are one member: they never change rows."""

    RESTRICT = "restrict"
    CASCADE = "cascade"
    SET_NULL = "set null"
    SET_DEFAULT = "set default"


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `type` is None where the type map refuses the native type (`refusal` says why). `default` is the
    constant default in the column's text form (rows/lines.py); `has_default` tells a NULL default from none;
    `default_is_expression` marks one that only the source can evaluate (K20: unknown -> park), `default_term` says what
    it means where that is known: for the target's definition only."""

    name: str
    type: LogicalType | None
    native: str  # the type as the source spells it, e.g. "int(10) unsigned"
    nullable: bool = True
    has_default: bool = False
    default: str | None = None
    default_is_expression: bool = False
    generated: bool = False
    expression: str = ""  # of a generated column, as the source prints it
    auto_increment: bool = False
    charset: str = ""  # of the source, for decoding; "" = not text
    collation: str = ""
    refusal: str = field(default="", compare=False)
    default_term: Term | None = field(default=None, compare=False)
    comment: str = field(default="", compare=False)
    number: int = field(default=0, compare=False)  # as `oid` of a table: no column after it has the same
    character_bytes: int = field(default=4, compare=False)  # the most that a character of its set takes in UTF-8
    serial: bool = field(default=False, compare=False)  # its numbers come from a default, not from an identity
    sequence: str = field(default="", compare=False)  # of a column that counts, in the words of TableSchema.dialect
    # Columns that the expression of a generated column names; None where that is not known (a trail of before)
    computed_from: tuple[str, ...] | None = field(default=None, compare=False)
    set_by_server: bool = field(default=False, compare=False)  # whenever its row changes: a period of a versioned table
    stored: bool = field(default=False, compare=False)  # of a generated column: its values are kept, not made when read
    invisible: bool = field(default=False, compare=False)  # `*` does not stand for it
    left_out: bool = field(default=False, compare=False)  # of a target's state: it is without this one

    def same_definition(self, other: Column) -> bool:
        """Return whether both define the same column.

        A type that one of the two did not know equals any that the source spells alike; so does the default, which
        follows from the type.
        """
        if self.type is not None and other.type is not None:
            return self == other and not _is_made_anew(self.type, other.type)
        return replace(self, **_TOLD_BY_TYPE) == replace(other, **_TOLD_BY_TYPE)


def _is_made_anew(then: LogicalType, now: LogicalType) -> bool:
    """Return whether a type of the same name is made of something else: it was dropped and made again."""
    return bool(then.base and now.base and then.base != now.base and _made_of(then) != _made_of(now))


def _made_of(type: LogicalType) -> tuple[object, ...]:
    """Return what a domain is made of: an enum whatever it is called by now, an extension's type wherever it stands."""
    schema, _, name = type.base.rpartition(".")
    if schema and type.kind is Kind.ENUM:
        name = ""
    return (type.kind, type.length, type.precision, type.scale, type.fraction, type.values, name)


_TOLD_BY_TYPE: dict[str, Any] = {"type": None, "default": None, "default_is_expression": False}


@dataclass(frozen=True, slots=True)
class Index:
    """A secondary index. `columns` are names; `prefixes` gives the indexed prefix length per column (None = all), in
    characters of a text and bytes of anything else; `descending` says it per column, () = none is.

    `definition` and `constraint` are in the words of TableSchema.dialect, for a target that speaks it: what follows the
    table's name where the columns do not say all, and the constraint that the index stands for. Then `columns` are all that
    it depends on. `exact`: it takes two rows for equal exactly if the texts of their columns are. `parts`: all of one over
    expressions, in the source's words, () of any other. `invisible`: the source's queries do not use it."""

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    prefixes: tuple[int | None, ...] = ()
    kind: str = "btree"  # what the source calls it; only btree is carried over
    descending: tuple[bool, ...] = ()
    definition: str = field(default="", compare=False)
    constraint: str = field(default="", compare=False)
    exact: bool = field(default=True, compare=False)
    parts: tuple[str, ...] = field(default=(), compare=False)
    invisible: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK of the source. `term` says what it means, None where a target could take it otherwise: `refusal` says why."""

    name: str
    text: str  # as the source prints it
    term: Term | None = None
    refusal: str = ""
    left_out: bool = False  # of a target's state: it is without this one, which came later


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """`options`: all that follows its columns, in the words of TableSchema.dialect; None where that is not all of it."""

    name: str
    columns: tuple[str, ...]
    parent: TableId
    parent_columns: tuple[str, ...]
    on_delete: Action = Action.RESTRICT
    on_update: Action = Action.RESTRICT
    options: str | None = field(default=None, compare=False)

    @property
    def changes_rows(self) -> bool:
        """True if the key writes to children when their parents change (K1: not every log shows that)."""
        return not {Action.CASCADE, Action.SET_NULL}.isdisjoint((self.on_delete, self.on_update))


@dataclass(frozen=True, slots=True)
class Need:
    """An object that must exist before a table can be created: a type, a collation, an extension. Written in the
    language of TableSchema.dialect.
    """

    kind: str
    name: str
    schema: str  # the one that it is in, not quoted
    definition: str  # what makes it; "" for what cannot be made


@dataclass(frozen=True, slots=True)
class Lacking:
    """Something of a table that uses what the source cannot give to a target: an index, a check, a default, a computed column,
    what divides it. It is left out unless the target has that by itself."""

    what: str  # "indexes", "checks", "defaults", "computed", "partitions"
    name: str
    kind: str  # of what it uses: "function", "operator", "operator class", "sequence"
    uses: str
    why: str


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a partitioned table that holds rows, or is divided itself: then `key` says how. `parent` is the `name` of the
    part that it is of, "" of the table. `bound` and `key` in the words of TableSchema.dialect, "" in a trail of before.

    `oid` is its own, whatever it is called; `joined` changes when it is taken into the table anew; 0: not known. `told_by`: the
    transaction with rows of it, as far as only the log has told of it, 0 once the catalogue has shown it."""

    name: str  # as the source shows it: of no other part
    table: TableId | None = None
    parent: str = ""
    bound: str = ""
    key: str = ""
    is_logged: bool = True
    oid: int = 0
    joined: int = 0
    told_by: int = 0

    def is_same(self, other: Partition) -> bool:
        """Return whether both are one partition, by their numbers where both have one, else by their names."""
        if self.oid and other.oid:
            return self.oid == other.oid
        return self.name == other.name or (self.table is not None and self.table == other.table)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = _plain(self)
        _without(data, _RARE_OF_PARTITION)
        return data

    @classmethod
    def from_json(cls, data: Any) -> Partition:
        if isinstance(data, str):  # a trail of before has the name
            return cls(data)
        return cls(**{**data, "table": TableId(**data["table"]) if data["table"] else None})


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A version of a table's definition, valid from a position of the trail on.

    `version` counts from 1 per table; `primary_key` is () for a keyless table. `row_end` names the column (which need
    not be among `columns`) that tells the source's current rows from their history, "" for a table that keeps none.
    `checks` and comments are for the target's definition only: rows are read without them, and changing them does not
    change the version. `partitions`, parents first, are set where rows come and go with them, which the log does not
    show; `partition_key` says how rows are divided among them.

    `dialect` names the database whose language expressions and definitions are in, "" where no target takes them as
    they are; where it is set, the target computes what the source computes. `needs` are in the order in which they can
    be created.
    """

    id: TableId
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    version: int = 1
    engine: str = ""
    row_end: str = ""
    comment: str = field(default="", compare=False)
    checks: tuple[Check, ...] = field(default=(), compare=False)
    partitions: tuple[Partition, ...] = field(default=(), compare=False)
    oid: int = field(default=0, compare=False)  # of the table itself where its database has such: not of its name
    # Of a source whose log has no statements, to tell what was done between two looks: the highest number that a column has
    # had, and the file with the rows, which is another one once they were written anew. 0: not known.
    numbers: int = field(default=0, compare=False)
    file: int = field(default=0, compare=False)
    dialect: str = field(default="", compare=False)
    key_name: str = field(default="", compare=False)  # of the primary key, where the source names it
    needs: tuple[Need, ...] = field(default=(), compare=False)
    partition_key: str = field(default="", compare=False)  # in the words of `dialect`
    lacking: tuple[Lacking, ...] = field(default=(), compare=False)
    type_states: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # of types that its columns are made of

    def column(self, name: str) -> Column:
        return next(c for c in self.columns if c.name == name)

    def index_of(self, name: str) -> int:
        return next(i for i, c in enumerate(self.columns) if c.name == name)

    @property
    def key_indexes(self) -> tuple[int, ...]:
        """Places of the primary key's columns, in key order."""
        return tuple(self.index_of(name) for name in self.primary_key)

    @property
    def computed(self) -> tuple[Column, ...]:
        """Columns of no replicated type that whoever speaks the dialect computes from others."""
        return tuple(c for c in self.columns if self.dialect and c.generated and c.type is None)

    def inputs_of(self, name: str) -> frozenset[str]:
        """Return the plain columns that a generated column is computed from, over generated ones between."""
        plain = frozenset(c.name for c in self.columns if not c.generated)
        found: set[str] = set()
        open_names, seen = [name], {name}
        while open_names:
            names = self.named_by(self.column(open_names.pop()))
            found |= plain.intersection(names)
            open_names += set(names) - plain - seen
            seen |= set(names)
        return frozenset(found)

    def named_by(self, column: Column) -> tuple[str, ...]:
        """Return the columns that a generated column's expression names. Of a definition of before, which does not
        tell: all whose names stand in its text, which may be one too many.
        """
        if column.computed_from is not None:
            return column.computed_from
        return tuple(c.name for c in self.columns if c.name in column.expression or not column.expression)

    def computed_over(self, names: Iterable[str]) -> tuple[Column, ...]:
        """Return the generated columns that get another value when plain columns of these names do."""
        changed = frozenset(names)
        return tuple(c for c in self.columns if c.generated and not changed.isdisjoint(self.inputs_of(c.name)))

    @property
    def divided_as(self) -> tuple[Partition, ...]:
        """The partitions as they are made, whichever they are."""
        return tuple(replace(part, oid=0, joined=0, told_by=0) for part in self.partitions)

    @property
    def keyed(self) -> frozenset[str]:
        """The columns of the table's keys, unique indexes and foreign keys."""
        some = [index.columns for index in self.indexes if index.unique] + [key.columns for key in self.foreign_keys]
        return frozenset(self.primary_key).union(*some)

    def same_definition(self, other: TableSchema) -> bool:
        """Return whether columns, their order, types, keys and foreign keys are equal. Secondary, non-unique indexes
        may differ.
        """

        def essence(s: TableSchema) -> Any:
            unique = sorted((i.columns, i.prefixes) for i in s.indexes if i.unique)
            return s.id, s.primary_key, s.row_end, unique, sorted(s.foreign_keys, key=lambda f: f.name)

        pairs = zip(self.columns, other.columns, strict=False)
        is_alike = len(self.columns) == len(other.columns) and all(a.same_definition(b) for a, b in pairs)
        return is_alike and bool(essence(self) == essence(other))

    def reads_like(self, other: TableSchema) -> bool:
        """Return whether rows of this definition can be read as rows of the later one, `other`.

        They can where both have the same columns in the same order with the same types. A type that was not known
        equals any.
        """
        pairs = list(zip(self.columns, other.columns, strict=False))
        return len(self.columns) == len(other.columns) and all(
            a.name == b.name and (a.type == b.type or a.type is None) for a, b in pairs
        )

    @property
    def left_out(self) -> tuple[str, ...]:
        """The columns that the target of this definition is without, because they came later."""
        return tuple(column.name for column in self.columns if column.left_out)

    def leaving_out(self, names: Collection[str]) -> TableSchema:
        """Return the definition as a target has it that is without these columns; without any, as the source has it."""
        if not names and not self.left_out:
            return self
        columns = (replace(column, left_out=column.name in names) for column in self.columns)
        return replace(self, columns=tuple(columns))

    def with_version(self, version: int) -> TableSchema:
        return replace(self, version=version)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = _plain(self)
        for column in data["columns"]:
            _without(column, _RARE)
            if logical := column["type"]:
                del logical["at_target"]  # of one target; a definition is of the source
                if not logical["printed"]:
                    del logical["printed"], logical["specials"]
                _without(logical, _RARE_OF_TYPE)
        for index in data["indexes"]:
            _without(index, _RARE_OF_INDEX)
        for check in data["checks"]:
            _without(check, _RARE_OF_CHECK)
        for part in data["partitions"]:
            _without(part, _RARE_OF_PARTITION)
        _without(data, _RARE_OF_TABLE)
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TableSchema:
        return cls(
            id=TableId(**data["id"]),
            columns=tuple(_column(c) for c in data["columns"]),
            primary_key=tuple(data["primary_key"]),
            indexes=tuple(_index(i) for i in data["indexes"]),
            foreign_keys=tuple(_foreign_key(f) for f in data["foreign_keys"]),
            version=data["version"],
            engine=data["engine"],
            row_end=data.get("row_end", ""),
            comment=data["comment"],
            checks=tuple(_check(c) for c in data.get("checks", ())),
            partitions=tuple(Partition.from_json(part) for part in data.get("partitions", ())),
            oid=data.get("oid", 0),
            numbers=data.get("numbers", 0),
            file=data.get("file", 0),
            dialect=data.get("dialect", ""),  # a trail of before has none
            key_name=data.get("key_name", ""),
            needs=tuple(Need(**need) for need in data.get("needs", ())),
            partition_key=data.get("partition_key", ""),
            lacking=tuple(Lacking(**one) for one in data.get("lacking", ())),
            type_states=tuple((name, state) for name, state in data.get("type_states", ())),
        )


# Not written where they say nothing
_RARE: dict[str, Any] = {
    "computed_from": None,
    "set_by_server": False,
    "stored": False,
    "invisible": False,
    "left_out": False,
}
_RARE_OF_TABLE: dict[str, Any] = {"numbers": 0, "file": 0}
_RARE_OF_TYPE: dict[str, Any] = {"base": "", "delimiter": "", "fields": ()}
_RARE_OF_CHECK: dict[str, Any] = {"left_out": False}
_RARE_OF_PARTITION: dict[str, Any] = {"oid": 0, "joined": 0, "told_by": 0}
_RARE_OF_INDEX: dict[str, Any] = {"parts": (), "invisible": False}


@cache
def _names(kind: Any) -> tuple[str, ...] | None:
    return tuple(one.name for one in fields(kind)) if is_dataclass(kind) else None


def _plain(value: Any) -> Any:
    """Return what dataclasses.asdict does, without copying values that nobody can change: each definition of a wide table is
    written several times."""
    if type(value) is tuple:
        return tuple(map(_plain, value))
    kind: Any = type(value)
    names = _names(kind)
    return value if names is None else {name: _plain(getattr(value, name)) for name in names}


def _without(data: dict[str, Any], rare: Mapping[str, Any]) -> None:
    for name in [name for name, usual in rare.items() if data[name] == usual]:
        del data[name]


def _column(data: dict[str, Any]) -> Column:
    """Return a column. Words and types are shared among all of them: a job of 50,000 tables has a million columns."""
    logical = data["type"]
    named = data.get("computed_from")
    shared = {name: intern(value) if type(value) is str else value for name, value in data.items()}
    more: dict[str, Any] = {"default_term": Term.from_json(data.get("default_term"))}
    more |= {"computed_from": None if named is None else tuple(named)}
    return Column(**{**shared, "type": None if logical is None else _logical(json.dumps(logical)), **more})


@lru_cache(maxsize=4096)
def _logical(text: str) -> LogicalType:
    data = json.loads(text)
    return LogicalType(
        **{
            **data,
            "kind": Kind(data["kind"]),
            "values": tuple(data["values"]),
            "specials": tuple(map(Special, data.get("specials", ()))),
            "fields": tuple((name, native) for name, native in data.get("fields", ())),
        },
    )


def _index(data: dict[str, Any]) -> Index:
    descending = tuple(data.get("descending", ()))  # a trail of before has none
    lists = {"columns": tuple(data["columns"]), "prefixes": tuple(data["prefixes"]), "descending": descending}
    lists["parts"] = tuple(data.get("parts", ()))
    return Index(**{**data, **lists})


def _check(data: dict[str, Any]) -> Check:
    left_out = bool(data.get("left_out"))  # a trail of before has none
    return Check(data["name"], data["text"], Term.from_json(data["term"]), data["refusal"], left_out)


def _foreign_key(data: dict[str, Any]) -> ForeignKey:
    return ForeignKey(
        data["name"],
        tuple(data["columns"]),
        TableId(**data["parent"]),
        tuple(data["parent_columns"]),
        Action(data["on_delete"]),
        Action(data["on_update"]),
        data.get("options"),
    )


def component(tables: Iterable[TableId], in_force: Mapping[TableId, TableSchema]) -> set[TableId]:
    """Return the tables and everything that foreign keys connect them with, in either direction."""
    neighbours: dict[TableId, set[TableId]] = {table: set() for table in in_force}
    for table, schema in in_force.items():
        for key in schema.foreign_keys:
            if key.parent in neighbours:
                neighbours[table].add(key.parent)
                neighbours[key.parent].add(table)
    found: set[TableId] = set()
    open_tables = list(tables)
    while open_tables:
        table = open_tables.pop()
        if table not in found:
            found.add(table)
            open_tables.extend(neighbours.get(table, ()))
    return found
