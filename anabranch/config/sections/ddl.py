"""`[ddl]` of the job file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from anabranch.config.patterns import Pattern
from anabranch.config.section import Section, refuse
from anabranch.config.values import PatternText
from anabranch.errors import Problem
from anabranch.model.column_changes import (
    APPLY,
    DDL,
    EXACT,
    IGNORE,
    KEEP,
    OWN_KEY_ALONE,
    PARK,
    STOP,
    UNSAID,
    Actions,
    ColumnChange,
    TableActions,
)
from anabranch.model.ghost_names import TABLE, USUAL, GhostNames
from anabranch.model.ids import TableId

AddColumn = Literal["apply", "apply_if_exact", "ignore", "ask", "park", "stop"]
DropColumn = Literal["apply", "keep", "ask", "park", "stop"]
RenameColumn = Literal["apply", "ask", "park", "stop"]
Nullability = Literal["apply", "ask", "park", "stop"]
ColumnDefault = Literal["apply", "ignore", "ask", "park", "stop"]
ChangeType = Literal["apply", "apply_if_exact", "ask", "park", "stop"]
Indexes = Literal["apply", "ignore", "ask", "stop"]
UniqueKeys = Literal["apply", "ignore", "ask", "stop"]
Comments = Literal["apply", "ignore"]
Checks = Literal["apply", "ignore", "ask", "stop"]
ForeignKeys = Literal["apply", "ignore", "ask", "stop"]
Any = Literal["apply", "ask", "park", "stop"]
RenameTable = Literal["apply", "ask", "park", "stop"]
Partitions = Literal["keep", "ask", "park", "stop"]
DropTable = Literal["apply", "keep", "rename", "ask", "park", "stop"]

ADDITIVE: Actions = {ColumnChange.ADD: APPLY, ColumnChange.TYPE: APPLY}  # nothing of what is there is lost by them
OF_COLUMNS = tuple(kind for kind in ColumnChange if kind not in OWN_KEY_ALONE)
IN_MESSAGES: Actions = dict.fromkeys(OF_COLUMNS, APPLY)  # a message has the columns of its time, whatever came before
TOLD_BY_MESSAGES = frozenset({APPLY, EXACT, IGNORE, PARK, STOP})
# What may become of a change where change tables keep the columns that they were made with: nothing is done at the target.
BESIDE_CHANGE_TABLES = {
    ColumnChange.ADD: (APPLY, STOP),
    ColumnChange.DROP: (KEEP, STOP),
    ColumnChange.NULLABILITY: (APPLY, STOP),
    ColumnChange.DEFAULT: (APPLY, IGNORE, STOP),
}
RULES = "[[ddl.rules]]"


class DdlOfTables(Section):
    """Some tables for which it is decided otherwise."""

    tables: list[PatternText] = Field(min_length=1)
    """Globs of source tables, as `[[rules]] include` has them. Of several rules that match a table the first one decides; what
    it does not say is as for all other tables."""
    action: Any | None = None
    """As above, of these tables: before what stands above for a kind of change."""
    add_column: AddColumn | None = None
    """As above, of these tables."""
    drop_column: DropColumn | None = None
    """As above, of these tables."""
    rename_column: RenameColumn | None = None
    """As above, of these tables."""
    nullability: Nullability | None = None
    """As above, of these tables."""
    column_default: ColumnDefault | None = None
    """As above, of these tables."""
    change_type: ChangeType | None = None
    """As above, of these tables."""
    drop_table: DropTable | None = None
    """As above, of these tables."""
    rename_table: RenameTable | None = None
    """As above, of these tables, by their former names."""
    partitions: Partitions | None = None
    """As above, of these tables."""
    indexes: Indexes | None = None
    """As above, of these tables."""
    unique_keys: UniqueKeys | None = None
    """As above, of these tables."""
    comments: Comments | None = None
    """As above, of these tables."""
    checks: Checks | None = None
    """As above, of these tables."""
    foreign_keys: ForeignKeys | None = None
    """As above, of these tables, by the one that has the key."""


def _ghost(text: str) -> str:
    if text.count(TABLE) != 1 or text == TABLE:
        expected = 'some text and {table} once, like "_{table}_gho"'
        problem = Problem(f"{text!r} is no pattern of a name", expected=expected)
        raise refuse(problem) from None
    return text


class Ddl(Section):
    """Decide what becomes of changes of definitions at the source ([how](../howto/schema-changes.md)). What adds to a table
    and takes nothing from it comes to the target; what else has a key here parks its table unless the key says otherwise,
    and what has none parks it. `stop`, of any kind: apply ends with an error in front of the change (code
    `stopped_by_change`), and does so again until the setting is another one. `ask`, of any kind: the table waits in front of
    the change for `anabranch ddl approve` or `skip`, and the trail is kept for it; others go on."""

    action: Any | None = None
    """Decide the same of every kind of change that has no key of its own here (`apply`, `ask`, `park`, `stop`), but for
    `create_table`, `drop_table`, `rename_table`, `partitions`, `online_swap`, `indexes`, `unique_keys`, `comments`,
    `checks` and `foreign_keys`."""

    add_column: AddColumn | None = None
    """Add columns to the target's tables where the source adds them to its own, and go on (`apply`), only where the target
    stores the type exactly (`apply_if_exact`), go on without them (`ignore`: the target's table stays as it is, and `status`
    names the columns that it is without), or park the table. Where it is not certain what rows that are there then have, the
    table is parked in any case."""

    drop_column: DropColumn | None = None
    """Drop columns of the target's tables where the source drops them (`apply`), keep them there for the rows that have values
    in them (`keep`: rows that come have NULL), or park the table, as when absent. Where anything else depends on the column, at
    either end, the table is parked in any case."""

    rename_column: RenameColumn | None = None
    """Rename columns of the target's tables where the source renames them, by the job's rules, or park the table, as when
    absent. Where a key, or a rule, a filter or a column setting of the job file names the column, the table is parked in any
    case."""

    nullability: Nullability | None = None
    """Let the target's columns have NULL where the source's may by now, and refuse it where those do, or park the table, as
    when absent. From a PostgreSQL it takes an event trigger there
    ([which](../howto/prepare-a-postgresql-source.md#notes-of-alter-table)). Where the target has a NULL in such a column, the
    table is parked in any case."""

    column_default: ColumnDefault | None = None
    """Give the target's columns the defaults that the source's have got (`apply`), leave theirs as they are (`ignore`: what is
    replicated has every value with it, a default is for those who write there after a cut-over), or park the table, as when
    absent. From a MySQL or MariaDB."""

    change_type: ChangeType | None = None
    """Widen the target's columns where the source widens its own: greater integers, longer texts and bytes, more digits, an
    ENUM or SET with labels appended (`apply`, as when absent), only where the target stores the type exactly
    (`apply_if_exact`), or park the table. Any other change of a type parks the table in any case. A job with `[pair]` parks it
    when absent."""

    create_table: Literal["apply", "park"] | None = None
    """Make tables at the target that the source makes, and that the job's rules take, and replicate them from their first row
    on (`apply`), or park them until a load brings them in, as when absent. From a MySQL or MariaDB
    ([more](../howto/schema-changes.md#tables-that-are-created))."""

    drop_table: DropTable | None = None
    """Drop the target's table where the source drops its own (`apply`), leave it there under its name (`keep`) or under another
    one (`rename`: `orders__dropped_20261128_031207`, by the time of the statement in UTC), and replicate it no longer; or park
    it, as when absent. With `ask` it waits until `anabranch ddl approve` drops it, or `skip` keeps it. Where rows may be in the
    target's table that the job has not written, and where anything else there depends on it, the table is parked instead. From
    a MySQL or MariaDB ([more](../howto/schema-changes.md#tables-that-are-dropped))."""

    rename_table: RenameTable | None = None
    """Go on with a table under its next name where the source renames it (`apply`): the target's table gets the name that the
    job's rules give to it. Or park it, as when absent. With `ask` it waits until `anabranch ddl approve` renames it. Where the
    rules do not take the next name, the table is dropped, as `drop_table` has it. From a MySQL or MariaDB
    ([more](../howto/schema-changes.md#tables-that-are-renamed))."""

    partitions: Partitions | None = None
    """Go on where the source takes a partition away with its rows, which no log has, and keep these rows at the target
    (`keep`), or park the table, as when absent. With `ask` it waits until `anabranch ddl skip` keeps them, or `replace` says
    that you have deleted them there. Where rows may have come with a partition, as by EXCHANGE or ATTACH, the table is parked
    in any case. How a table is divided changes nothing at the target
    ([more](../howto/schema-changes.md#partitions))."""

    indexes: Indexes | None = None
    """Make, drop and rename indexes of the target's tables that are not unique where the source does so with its own (`apply`),
    or leave the target's as they are (`ignore`, as when absent). A new index is built as a load builds it, while rows go on;
    what the target refuses of it is told by `status`, and parks nothing. Full-text and spatial indexes, and those over
    expressions, are left as they are. From a MySQL or MariaDB ([more](../howto/schema-changes.md#indexes))."""

    unique_keys: UniqueKeys | None = None
    """Make, drop and rename unique keys of the target's tables beside the primary one where the source does so with its own
    (`apply`), or leave the target's as they are (`ignore`, as when absent). As indexes, a new one is built while rows go
    on, and what the target refuses of it (its collation may take two values for one) is told by `status`. Of a table without a
    primary key any change of its unique keys parks it. From a MySQL or MariaDB
    ([more](../howto/schema-changes.md#unique-keys))."""

    comments: Comments | None = None
    """Give the target's tables and columns the comments that the source's have got (`apply`), or leave theirs as they are
    (`ignore`, as when absent). What the target refuses of a comment is in the note of the change, and parks nothing. From a
    MySQL or MariaDB ([more](../howto/schema-changes.md#comments))."""

    checks: Checks | None = None
    """Make and drop checks of the target's tables where the source does so with its own (`apply`), or leave the target's as
    they are (`ignore`, as when absent: rows that one of them refuses by then park the table or stop the job). A new one is
    built while rows go on; one that does not mean just the same at the target parks the table. From a MySQL or MariaDB
    ([more](../howto/schema-changes.md#checks))."""

    foreign_keys: ForeignKeys | None = None
    """Make and drop foreign keys of the target's tables that only refuse where the source does so with its own, between
    tables of the job (`apply`), or leave the target's as they are (`ignore`, as when absent). A new one is built while rows
    go on, as behind a load; rows without a parent, and keys that are not validated, are told by `status`. One that changes
    rows itself (CASCADE, SET NULL) parks its table, but not that of a PostgreSQL, which then keeps its keys
    ([more](../howto/schema-changes.md#foreign-keys))."""

    online_swap: Literal["apply", "park"] | None = None
    """Follow a table that gh-ost or pt-online-schema-change swaps with a changed copy of it (`apply`), by the keys above, or
    park it, as when absent. By `apply` you say that such a copy has all rows of the table, with their values, when it is
    swapped in, which no log tells: that only these tools use the names in `ghost_tables`. Tables of these names are then left
    out of the job ([more](../howto/schema-changes.md#tables-that-a-tool-swaps-with-a-copy)). From a MySQL or MariaDB; preflight
    of a PostgreSQL refuses it."""

    ghost_tables: list[Annotated[str, AfterValidator(_ghost)]] = list(USUAL)
    """With `online_swap = "apply"`: how the tools call the tables that they work with, with `{table}` for the name of the table
    that they change. A table of such a name is left out, unless the job file names it in full."""

    rules: list[DdlOfTables] = []
    """Tables for which it is decided otherwise: `[[ddl.rules]]`."""

    @property
    def names_of_tools(self) -> GhostNames:
        """Return how tables are called that tools work with."""
        return GhostNames(tuple(self.ghost_tables))

    @property
    def ghosts(self) -> GhostNames:
        """Return the names of tables that are left out for it, none where swaps are not followed."""
        return self.names_of_tools if self.online_swap == APPLY else GhostNames()

    def of(self, table: TableId, usual: Actions = ADDITIVE) -> TableActions:
        """Return what becomes of each kind of change of a table. `usual`: of what the file says nothing of; all else parks."""
        actions, said = {**UNSAID, **usual}, dict[ColumnChange, str]()
        for where, told in ((DDL, given(self)), *self._rules(table)):
            actions |= told
            said |= dict.fromkeys(told, where)
        return TableActions(actions, said)

    def every(self, usual: Actions = ADDITIVE) -> Iterator[TableActions]:
        """Yield what is decided of tables that no rule names, and what each rule says by itself."""
        yield TableActions({**UNSAID, **usual, **given(self)})
        yield from (TableActions(given(rule), dict.fromkeys(ColumnChange, RULES)) for rule in self.rules)

    def beyond_messages(self) -> Iterator[tuple[str, str]]:
        """Yield the lines that a target of messages cannot follow, each with what it can."""
        for said in self.every(usual={}):
            for kind in sorted(said.followed):
                if kind not in OF_COLUMNS:
                    yield said.line(kind), f'"{UNSAID[kind]}": messages tell of rows and of their columns'
                elif said.of(kind) not in TOLD_BY_MESSAGES:
                    yield said.line(kind), '"apply", "park" or "stop": what is written to a topic stays as it is'

    def beyond_change_tables(self) -> Iterator[tuple[str, str]]:
        """Yield the lines that change tables cannot follow, each with what they can."""
        for said in self.every(usual={}):
            for kind in sorted(said.followed):
                able = BESIDE_CHANGE_TABLES.get(kind, ())
                if said.of(kind) not in able:
                    others = "".join(f'"{action}", ' for action in able)
                    yield (
                        said.line(kind),
                        f'{others}"{UNSAID[kind]}": a change table keeps the columns that it began with',
                    )

    def _rules(self, table: TableId) -> Iterator[tuple[str, dict[ColumnChange, str]]]:
        """Yield the name and the words of the rule that decides about a table, if there is one."""
        for number, rule in enumerate(self.rules, 1):
            if any(Pattern.parse(text).matches(table) for text in rule.tables):
                yield f"{RULES} {number}", given(rule)
                return


def given(section: Ddl | DdlOfTables) -> dict[ColumnChange, str]:
    """Return what a section says of each kind: by the kind's key, else by `action`. What is about whole tables or indexes is
    said by the key of that alone."""
    said = {kind: getattr(section, kind, None) for kind in ColumnChange}
    said = {kind: own or (section.action if kind not in OWN_KEY_ALONE else None) for kind, own in said.items()}
    return {kind: str(action) for kind, action in said.items() if action is not None}
