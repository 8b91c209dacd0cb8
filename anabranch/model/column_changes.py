"""Kinds of changes of a table's columns, and what such a change says beyond the definitions before and behind it.

What does not live here: which statement does what (each connector), what becomes of a change (`[ddl]` of the job file).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from anabranch.model.check_changes import check_changes, leaving_checks_out
from anabranch.model.comment_changes import comment_changes
from anabranch.model.foreign_key_changes import foreign_key_changes
from anabranch.model.index_changes import index_changes
from anabranch.model.table_facts import KEEP_ROWS

if TYPE_CHECKING:
    from anabranch.model.datatype import LogicalType
    from anabranch.model.ids import TableId
    from anabranch.model.schema import Column, TableSchema

APPLY, KEEP, IGNORE, PARK = "apply", "keep", "ignore", "park"
EXACT, STOP, ASK = "apply_if_exact", "stop", "ask"
THERE = "there"  # no word of a job file: the change has come at the target first, and is looked for there
RENAME = "rename"  # of a table that is dropped: keep it under another name
IGNORED = "left out at the target"  # what is said of columns that come and are ignored
DDL = "[ddl]"  # the section of the job file that decides where no other does


class ColumnChange(StrEnum):
    """Each is named as its key in `[ddl]` of the job file."""

    ADD = "add_column"
    DROP = "drop_column"
    RENAME = "rename_column"
    NULLABILITY = "nullability"
    DEFAULT = "column_default"
    TYPE = "change_type"
    CREATE = "create_table"  # a table that was not there before
    SWAP = "online_swap"  # whatever else a copy of the table has, it came in for it
    DROP_TABLE = "drop_table"  # the table is gone
    RENAME_TABLE = "rename_table"  # the table has another name
    PARTITIONS = "partitions"  # rows went with a part of the table, which no log has
    INDEXES = "indexes"  # those that are not unique
    UNIQUE_KEYS = "unique_keys"  # beside the primary one
    COMMENTS = "comments"  # of a table and its columns
    CHECKS = "checks"  # those that are not part of a column's definition
    FOREIGN_KEYS = "foreign_keys"  # those that only refuse


TOLD_BY_ROWS = frozenset((ColumnChange.ADD, ColumnChange.DROP, ColumnChange.RENAME, ColumnChange.TYPE))
"""The kinds that show in the names and types of a row's columns, where a log has those."""
OF_TABLES = frozenset(
    (
        ColumnChange.CREATE,
        ColumnChange.SWAP,
        ColumnChange.DROP_TABLE,
        ColumnChange.RENAME_TABLE,
        ColumnChange.PARTITIONS,
    )
)
"""The kinds that are no changes of columns, but of whole tables, or of many of their rows."""
BESIDE_COLUMNS = frozenset(
    (
        ColumnChange.INDEXES,
        ColumnChange.UNIQUE_KEYS,
        ColumnChange.COMMENTS,
        ColumnChange.CHECKS,
        ColumnChange.FOREIGN_KEYS,
    )
)
"""The kinds of which the source alone sees to what they ask of rows: a target may do without them."""
PARTITIONS, OTHER_INDEXES = NEVER_FOLLOWED = (
    "partitions",
    "full-text and spatial indexes",
)
"""Notes a change beside columns that is never followed: the target's table stays as it is."""
CONSTRAINTS = "constraints"  # of which a statement does not say what they are
OWN_KEY_ALONE = OF_TABLES | BESIDE_COLUMNS
"""The kinds of which only their own keys say something, and not the one for all."""
OF_INDEXES = {ColumnChange.INDEXES: False, ColumnChange.UNIQUE_KEYS: True}  # -> whether they are unique
Actions = Mapping[ColumnChange, str]
"""Maps kinds to the action of the job file."""
UNSAID: Actions = {**dict.fromkeys(ColumnChange, PARK), **dict.fromkeys(BESIDE_COLUMNS, IGNORE)}
"""Maps each kind to its action where the job file says nothing. An index that the source gets or loses changes no row."""


@dataclass(frozen=True, slots=True)
class TableActions:
    """The job file's words about one table. `actions`: what becomes of each kind of change; of one that is not in it, UNSAID.
    `said`: the section of the job file that says so; `[ddl]` for a kind that is not in it."""

    actions: Actions
    said: Mapping[ColumnChange, str] = field(default_factory=dict)

    def of(self, kind: ColumnChange) -> str:
        """Return what becomes of a kind of change."""
        return self.actions.get(kind, UNSAID[kind])

    @property
    def followed(self) -> frozenset[ColumnChange]:
        """The kinds behind which a table goes on by another definition."""
        return frozenset(kind for kind in ColumnChange if self.of(kind) not in (PARK, UNSAID[kind]))

    def made_first(self, said: str) -> TableActions:
        """Return the words of a job whose target gets such changes before its source does; `said`: what in its file says so."""
        there = [kind for kind in self.followed if self.of(kind) == APPLY]
        return TableActions(
            {**self.actions, **dict.fromkeys(there, THERE)}, {**self.said, **dict.fromkeys(there, said)}
        )

    def answered(self, decision: str) -> TableActions:
        """Return what becomes of each kind once a person has decided about those that are asked for; the others stay as the
        job file has them. KEEP_ROWS is about each change of columns that would keep the table from going on."""
        if decision == KEEP_ROWS:
            about = [kind for kind in ColumnChange if kind not in OWN_KEY_ALONE or kind is ColumnChange.PARTITIONS]
            kinds = [kind for kind in about if self.of(kind) in (PARK, STOP, ASK)]
            return TableActions({**self.actions, **{kind: KEEPS_ROWS[kind] for kind in kinds}}, self.said)
        told = DECISIONS[decision]
        asked = {kind: told.get(kind, PARK) for kind in ColumnChange if self.of(kind) == ASK}
        return TableActions({**self.actions, **asked}, self.said)

    def line(self, kind: ColumnChange) -> str:
        """Return the line of the job file that decides, as people write it."""
        return f'{self.said.get(kind, DDL)} {kind} = "{self.of(kind)}"'


Follows = Callable[["TableId"], frozenset[ColumnChange]]
"""Returns the kinds of changes behind which a table of the source goes on."""
SKIP = "skip"  # a decision about a change that the job file asks for, as APPLY is
REPLACE = "replace"  # another one: the target's table was altered by a person, and takes the rows behind the change
IGNORES = {
    ColumnChange.ADD: IGNORE,
    ColumnChange.DROP: KEEP,
    ColumnChange.DEFAULT: IGNORE,
    ColumnChange.DROP_TABLE: KEEP,
    ColumnChange.PARTITIONS: KEEP,
    ColumnChange.INDEXES: IGNORE,
    ColumnChange.UNIQUE_KEYS: IGNORE,
    ColumnChange.COMMENTS: IGNORE,
    ColumnChange.CHECKS: IGNORE,
    ColumnChange.FOREIGN_KEYS: IGNORE,
}  # kinds of changes that a target may leave out
DECISIONS: Mapping[str, Actions] = {
    APPLY: dict.fromkeys(ColumnChange, APPLY),
    SKIP: IGNORES,
    REPLACE: dict.fromkeys(ColumnChange, APPLY),
}

KEEPS_ROWS: Actions = {**DECISIONS[APPLY], ColumnChange.DROP: KEEP, ColumnChange.PARTITIONS: KEEP}
"""Maps kinds of changes of columns, and of rows, to what becomes of them where a table keeps its rows."""

ActionsOf = Callable[["TableId"], TableActions]
"""Returns the job file's words about a table of the source."""

WhyNotBack = Callable[["Column", "LogicalType"], str]
"""Says why a column of this type does not come back from the other site of a pair as it is; "": nothing speaks against it."""


def nothing_known(column: Column, type: LogicalType) -> str:
    """Know nothing against a column."""
    return ""


def FOLLOWS_NOTHING(table: TableId) -> frozenset[ColumnChange]:
    return frozenset()


APPLY_ALL = TableActions(dict.fromkeys(ColumnChange, APPLY))


@dataclass(frozen=True, slots=True)
class Untold:
    """The part of a change that two definitions do not tell. `renamed`: former and next name of columns; `filled`: columns
    that were added, and what rows that were there have got, in the column's text form, where it is not the column's
    constant default, or NULL. `swapped`: a copy of the table came in for it, which a tool has made; `created`: the table
    was not there before, and has no rows; `dropped`: it is gone, with its rows, or to the name `moved`, a table's as text.
    `rows_went`: the definition is as it was, and rows went with a partition, of which the log has none. `built`: another
    job, which writes there, has built what came or taken it off: a target's own table stays as it is."""

    renamed: tuple[tuple[str, str], ...] = ()
    filled: tuple[tuple[str, str], ...] = ()
    swapped: bool = False
    created: bool = False
    dropped: bool = False
    moved: str = ""
    built: bool = False
    rows_went: bool = False

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in _UNTOLD)

    def to_json(self) -> dict[str, Any]:
        return {name: said for name in _UNTOLD if (said := getattr(self, name))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Untold:
        renamed, filled = (tuple((one, other) for one, other in data.get(name, ())) for name in ("renamed", "filled"))
        swapped, created, dropped, built, went = (bool(data.get(name)) for name in _FLAGS)
        return cls(renamed, filled, swapped, created, dropped, str(data.get("moved", "")), built, went)


NOTHING_UNTOLD = Untold()
_FLAGS = ("swapped", "created", "dropped", "built", "rows_went")
_UNTOLD = ("renamed", "filled", "swapped", "created", "dropped", "moved", "built", "rows_went")


@dataclass(frozen=True, slots=True)
class Altered:
    """A table behind a statement that altered it: its definition, the kinds of changes that led there, and what those do not
    tell."""

    schema: TableSchema
    kinds: frozenset[ColumnChange]
    untold: Untold = NOTHING_UNTOLD


def differences(former: Column, column: Column) -> frozenset[ColumnChange]:
    """Return the kinds of changes of a column that stays, whatever it is called. A default of NULL comes and goes with NULL."""
    found = set()
    if (former.type, former.native) != (column.type, column.native):
        found.add(ColumnChange.TYPE)
    if former.nullable is not column.nullable:
        found.add(ColumnChange.NULLABILITY)
    elif former.has_default is not column.has_default:
        found.add(ColumnChange.DEFAULT)
    if (former.default, former.default_is_expression) != (column.default, column.default_is_expression):
        found.add(ColumnChange.DEFAULT)
    return frozenset(found)


def kinds_between(then: TableSchema, now: TableSchema, renamed: Mapping[str, str]) -> list[ColumnChange]:
    """Return the kinds of changes that led from one definition to the next one; `renamed`: former and next names."""
    before, behind = ({column.name: column for column in table.columns} for table in (then, now))
    found = {ColumnChange.ADD} if behind.keys() - before.keys() - set(renamed.values()) else set()
    found |= {ColumnChange.DROP} if before.keys() - behind.keys() - renamed.keys() else set()
    found |= {ColumnChange.RENAME} if renamed else set()
    for name, column in before.items():
        if (to := renamed.get(name, name)) in behind:
            found |= differences(column, behind[to])
    return sorted(found | kinds_beside(then, now, renamed))


def kinds_beside(then: TableSchema, now: TableSchema, renamed: Mapping[str, str]) -> frozenset[ColumnChange]:
    """Return the kinds of changes between two definitions that are of BESIDE_COLUMNS."""
    found = {kind for kind, unique in OF_INDEXES.items() if index_changes(then, now, renamed, unique)}
    found |= {ColumnChange.COMMENTS} if comment_changes(then, now, renamed) else set()
    found |= {ColumnChange.FOREIGN_KEYS} if foreign_key_changes(then, now) else set()
    return frozenset(found | ({ColumnChange.CHECKS} if check_changes(then, now) else set()))


def with_those(column: Column, former: Column, kinds: frozenset[ColumnChange]) -> Column:
    """Return a column as it was before changes of these kinds."""
    before: dict[str, Any] = {}
    for kind, names in _FIELDS.items():
        if kind in kinds:
            before |= {name: getattr(former, name) for name in names}
    return replace(column, **before)


_DEFAULT = ("has_default", "default", "default_is_expression", "default_term")
_FIELDS = {
    ColumnChange.NULLABILITY: ("nullable", "has_default"),
    ColumnChange.DEFAULT: _DEFAULT,
    ColumnChange.TYPE: ("type", "native", *_DEFAULT),  # a default is told in the form of its type
}


def as_rows_tell(then: TableSchema, now: TableSchema, kinds: frozenset[ColumnChange]) -> TableSchema:
    """Return the definition `now` without changes of these kinds that rows will tell of (TOLD_BY_ROWS), where columns are known
    by numbers. A log has no rows of computed columns."""
    by_number = all(column.number for column in then.columns)
    known_by: Callable[[Column], object] = attrgetter("number" if by_number else "name")
    there, kept = {known_by(column): column for column in now.columns}, []
    for former in then.columns:
        column = there.get(known_by(former))
        if column is not None:
            is_plain = by_number and not former.generated and not column.generated
            kept.append(_without_told(column, former, kinds) if is_plain else column)
        elif by_number and not former.generated and ColumnChange.DROP in kinds:
            kept.append(former)
    before = set(map(known_by, then.columns))
    come = [column for column in now.columns if known_by(column) not in before]
    return replace(now, columns=(*kept, *(one for one in come if one.generated or ColumnChange.ADD not in kinds)))


def _without_told(column: Column, former: Column, kinds: frozenset[ColumnChange]) -> Column:
    named = replace(column, name=former.name) if ColumnChange.RENAME in kinds else column
    return with_those(named, former, kinds & {ColumnChange.TYPE})


def leaving_out(then: TableSchema, now: TableSchema, untold: Untold, actions: TableActions) -> TableSchema:
    """Return the next definition as a target has it: without the columns and checks of `then` that it is without, whatever they
    are called now, and without those that come, where the job file ignores them."""
    renamed = dict(untold.renamed)
    names = {renamed.get(name, name) for name in then.left_out if name in renamed or name not in renamed.values()}
    if actions.of(ColumnChange.ADD) == IGNORE:
        before = {renamed.get(column.name, column.name) for column in then.columns}
        names |= {column.name for column in now.columns} - before
    return leaving_checks_out(then, now.leaving_out(names), actions.of(ColumnChange.CHECKS) == IGNORE)


def left_out_now(then: TableSchema, now: TableSchema) -> TableSchema | None:
    """Return the source's definition of now without the columns that the target of `then` is without; None where it is not
    certain which these are: the target has not come by what altered them, and columns have no numbers."""
    if not then.left_out:
        return now.leaving_out(())
    if all(column.number for column in (*then.columns, *now.columns)):
        numbers = {column.number for column in then.columns if column.left_out}
        return now.leaving_out([column.name for column in now.columns if column.number in numbers])
    names = [[column.name for column in table.columns] for table in (then, now)]
    return now.leaving_out(then.left_out) if names[0] == names[1] else None


def ignored(then: TableSchema, now: TableSchema, untold: Untold) -> tuple[str, ...]:
    """Return the columns that came, and that a target of these definitions is without."""
    renamed = dict(untold.renamed)
    before = {renamed.get(column.name, column.name) for column in then.columns}
    return tuple(name for name in now.left_out if name not in before)


def changed_names(then: TableSchema, altered: Altered) -> dict[str, list[str]]:
    """Return what has come, gone and got another name, for people."""
    before, behind = ([column.name for column in table.columns] for table in (then, altered.schema))
    renamed = dict(altered.untold.renamed)
    told = {
        "added": [name for name in behind if name not in before and name not in renamed.values()],
        "dropped": [name for name in before if name not in behind and name not in renamed],
        "renamed": [f"{former} to {name}" for former, name in renamed.items()],
    }
    return {what: names for what, names in told.items() if names}
