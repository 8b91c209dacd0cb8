"""Columns that the source has altered are altered in the target's table, between two epochs: ALTER TABLE commits by itself.

So what is there tells how far an attempt came: the steps of one statement come all at once, and the table is as it has to be
before them at the first attempt (`refuse_standing`). https://dev.mysql.com/doc/refman/8.0/en/implicit-commit.html
What does not live here: how a column is rendered (`ddl.py`), who notes that an attempt has begun (apply engine).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.target import (
    altered_checks,
    altered_comments,
    altered_indexes,
    altered_keys,
    ddl,
    defaults,
    ownership,
    restated,
)
from anabranch.connectors.mysql.target.attempts import ALONE, IS_GONE, IS_THERE, LOG_FULL
from anabranch.connectors.mysql.target.columns import MadeColumn, made_columns
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, ask, quoted, run, table_name
from anabranch.connectors.mysql.target.settings import WRITING
from anabranch.connectors.mysql.target.structures import PRIMARY, ExistingTable, read_table
from anabranch.connectors.mysql.target.words import bare, without_hints
from anabranch.contracts import Conflict, ValueRules
from anabranch.failpoints import reach
from anabranch.model.state import Checkpoint
from anabranch.rows.altered import (
    AlteredTable,
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    Step,
    filled_schema,
)

# Others that use the table are waited for so long, and let go on then: whoever comes behind us waits as well. A NULL that a
# column does not take any more is refused, and not made something else:
# https://dev.mysql.com/doc/refman/8.0/en/sql-mode.html#sql-mode-strict
SESSION = "SET SESSION lock_wait_timeout = 3, sql_mode = 'STRICT_ALL_TABLES'"
USUAL = "SET SESSION " + ", ".join(f"{name} = {WRITING[name].value}" for name in ("lock_wait_timeout", "sql_mode"))
# What NOT NULL columns without a default are filled with, of types that take no constant in all releases, in a column's text
# form: https://dev.mysql.com/doc/refman/8.0/en/data-type-defaults.html
EMPTY = dict.fromkeys(("tinytext", "text", "mediumtext", "longtext"), "")
EMPTY |= dict.fromkeys(("tinyblob", "blob", "mediumblob", "longblob"), "\\x")


def refuse_standing(connection: Connection, altered: AlteredTable, rules: ValueRules) -> None:
    """Raise Conflict where the table is not as it has to be before the steps: nobody knows what its rows have."""
    release = Release.of(connection)
    altered_checks.refuse_unmade(altered, rules, release)
    existing = altered_indexes.without_dropped(_existing(connection, altered), altered, rules, release)
    existing = altered_checks.without_dropped(existing, altered, rules, release)
    altered_checks.refuse_taken(existing, altered, rules, release)
    _refuse_unlike(connection, existing, altered, rules, release)


def alter(
    connection: Connection, job: str, now: Checkpoint, altered: AlteredTable, rules: ValueRules
) -> tuple[Checkpoint, list[str]]:
    """Carry out what is left of the steps, if the checkpoint stands at `now`; return where it stands, and what was not done of
    indexes, which come first (a column may only go behind its index), and of comments, which come last. No transaction may be
    open. Raises Conflict where rows that are there cannot have the source's values. Driver errors pass. Where it raises, the
    session may have settings of its own, and has to be closed."""
    found = ownership.checkpoint(connection, job)
    existing, release = _existing(connection, altered), Release.of(connection)
    connection.commit()
    if (found.owner, found.epoch, found.position.sequence) != (now.owner, now.epoch, now.position.sequence):
        return found, []
    run(connection, SESSION)
    if altered.keys.dropped:
        altered_keys.alter(connection, altered, existing)
        existing = _existing(connection, altered)
        connection.commit()
    left = altered_indexes.alter(connection, altered, existing, rules, release)
    altered_checks.alter(connection, altered, existing, rules, release)
    connection.commit()
    if altered.steps:
        _alter_columns(connection, altered, _existing(connection, altered), rules, release)
    left += altered_comments.alter(connection, altered, release)
    run(connection, USUAL)
    return found, left


def _alter_columns(
    connection: Connection, altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release
) -> None:
    if not _is_behind(existing, altered, rules, release):
        _refuse_unlike(connection, existing, altered, rules, release)
        connection.commit()
        _carry_out(connection, altered, alter_statement(altered, existing, rules, release), rules)
    if lines := ", ".join(completed(altered)):
        reach("apply.altering.filled")
        run(connection, f"ALTER TABLE {table_name(altered.table.target)} {lines}")


def _carry_out(connection: Connection, altered: AlteredTable, statement: str, rules: ValueRules) -> None:
    try:
        if statement:
            run(connection, statement)
    except pymysql.err.Error as error:
        if error.args[0] == LOG_FULL:
            run(connection, statement + ALONE)
            return
        # An attempt whose line was lost had not ended yet, and has by now.
        is_known = error.args[0] in IS_THERE | IS_GONE
        if not is_known or not _is_behind(_existing(connection, altered), altered, rules, Release.of(connection)):
            raise


def alter_statement(altered: AlteredTable, existing: ExistingTable, rules: ValueRules, release: Release) -> str:
    """Return the statement that carries out the steps at a table that is as before them, "" where nothing has to be done.
    Raises Conflict, as `alter`, and TargetError for a type that is refused."""
    ddl.refuse_names(altered.table)
    found = [line for step in altered.steps for line in _lines(altered, step, existing, rules, release)]
    lines = ", ".join([*found, *restated.lines(altered, existing, rules, release)])
    return f"ALTER TABLE {table_name(altered.table.target)} {lines}" if lines else ""


# --- what stands ------------------------------------------------------------------------------------------------------


def _existing(connection: Connection, altered: AlteredTable) -> ExistingTable:
    existing = read_table(connection, altered.table.target)
    if existing is None:
        raise Conflict(altered.table.source, "the target has no such table")
    return existing


def _is_behind(existing: ExistingTable, altered: AlteredTable, rules: ValueRules, release: Release) -> bool:
    """Return whether the table has the columns that came and none of those that went. False where none does either: the other
    steps may be carried out again. A column that stands otherwise than it would be made is somebody else's."""
    told = list[bool]()
    for step in altered.steps:
        match step:
            case ColumnAdded():
                told.append(_is_as_made(existing, made_column(altered, step, rules, release)))
            case ColumnRenamed():
                is_gone = existing.column(altered.former_target(step.former)) is None
                told.append(is_gone and existing.column(altered.target(step.name)) is not None)
            case ColumnDropped(keeps=False):
                told.append(existing.column(altered.former_target(step.name)) is None)
    return bool(told) and all(told)


def _is_as_made(existing: ExistingTable, made: MadeColumn) -> bool:
    column = existing.column(made.name)
    is_alike = column is not None and column.nullable is made.nullable
    return is_alike and restated.is_spelled_alike(column.type if column else "", made.native)


def _refuse_unlike(
    connection: Connection, existing: ExistingTable, altered: AlteredTable, rules: ValueRules, release: Release
) -> None:
    found = [*_unlike_before(existing, altered), *restated.unlike(altered, existing, rules, release)]
    for name in [] if found else restated.never_null(altered, rules, release):
        if ask(connection, f"SELECT 1 FROM {table_name(altered.table.target)} WHERE {quoted(name)} IS NULL LIMIT 1"):
            found.append(f"rows of the target have NULL in {name}")
    if found:
        raise Conflict(altered.table.source, "; ".join(found))


def _unlike_before(existing: ExistingTable, altered: AlteredTable) -> Iterator[str]:
    for step in altered.steps:
        match step:
            case ColumnAdded() | ColumnRenamed() if existing.column(altered.target(step.name)):
                yield f"the target's table has {altered.target(step.name)} already"
            case ColumnRenamed():
                yield from _without_dependents(existing, altered.former_target(step.former), _named_by)
            case ColumnDropped():
                depends = _kept_by if step.keeps else _dependents
                yield from _without_dependents(existing, altered.former_target(step.name), depends)


def _without_dependents(
    existing: ExistingTable, name: str, depends: Callable[[ExistingTable, str], Iterator[str]]
) -> Iterator[str]:
    column = existing.column(name)
    if column is None:
        yield f"the target's table has no column {name}"
    else:
        yield from (f"{what} depends on {column.name} at the target" for what in depends(existing, column.name))


def _kept_by(existing: ExistingTable, name: str) -> Iterator[str]:
    """Yield what keeps a column from having NULL."""
    yield from (f"index {index.name}" for index in existing.indexes if index.name == PRIMARY and name in index.columns)


def _dependents(existing: ExistingTable, name: str) -> Iterator[str]:
    """Yield what depends on a column that goes: an index would lose it without a word."""
    yield from (f"index {index.name}" for index in existing.indexes if name in existing.depends_on(index))
    yield from (f"foreign key {key.name}" for key in existing.foreign_keys if name in key.columns)
    yield from (f"foreign key {key.name}" for key in existing.referenced_by if name in key.parent_columns)
    yield from _named_by(existing, name)


def _named_by(existing: ExistingTable, name: str) -> Iterator[str]:
    """Yield what has a column's name in a text; a trigger, whose text is not read, would fail at the next row."""
    yield from (f"column {column.name}" for column in existing.columns if name in existing.named_in(column.expression))
    for check, clause in existing.checks.items():
        named = set(existing.named_in(clause))
        if name in named and len(named) > 1:  # one of the column alone goes with it
            yield f"check {check}"
    yield from (f"perhaps trigger {trigger.name}" for trigger in existing.triggers)


# --- the statement ----------------------------------------------------------------------------------------------------


def _lines(
    altered: AlteredTable, step: Step, existing: ExistingTable, rules: ValueRules, release: Release
) -> Iterator[str]:
    match step:
        case ColumnAdded():
            yield f"ADD COLUMN {ddl.column_line(made_column(altered, step, rules, release), release)}"
        case ColumnRenamed() if step.name not in restated.restated(altered):
            if not release.has("RENAME COLUMN"):
                raise Conflict(altered.table.source, "this release renames no columns")
            former, name = altered.former_target(step.former), altered.target(step.name)
            yield f"RENAME COLUMN {quoted(former)} TO {quoted(name)}"
        case ColumnDropped(keeps=False):
            yield f"DROP COLUMN {quoted(altered.former_target(step.name))}"
        case ColumnDropped():
            yield from _kept(altered, step, existing, release)


def made_column(altered: AlteredTable, step: ColumnAdded, rules: ValueRules, release: Release) -> MadeColumn:
    """Return the column as it is made. Raises Conflict where rows cannot have its default."""
    schema, table = filled_schema(altered.schema, step), altered.table
    column = schema.column(step.name)
    made = next(one for one in made_columns(schema, table, rules, release) if one.source == step.name)
    if step.fill is not None and column.default == EMPTY.get(bare(made.native)):
        return replace(made, default=None)  # it takes no constant, and the server fills it so
    is_lost = defaults.is_lost(schema, column, table.type_of(made.name), made.native, release)
    if ddl.is_unsaid(made, release) or is_lost:
        raise Conflict(table.source, f"rows cannot have the default of {step.name} here")
    return made


def completed(altered: AlteredTable) -> Iterator[str]:
    """Yield what follows: a default that was for rows that were there alone is taken off, which may be done again."""
    for step in altered.steps:
        if isinstance(step, ColumnAdded) and step.fill is not None:
            yield f"ALTER COLUMN {quoted(altered.target(step.name))} DROP DEFAULT"


def _kept(altered: AlteredTable, step: ColumnDropped, existing: ExistingTable, release: Release) -> Iterator[str]:
    """Yield what lets rows have NULL in a column that stands, as it stands."""
    column = existing.column(altered.former_target(step.name))
    if column is None or column.generated or column.auto_increment:
        raise Conflict(altered.table.source, f"{step.name} cannot be kept: the target computes it")
    if not column.nullable or column.default is not None or column.changes_itself:
        native, comment = without_hints(column.type), altered.former.column(step.name).comment
        made = MadeColumn(step.name, column.name, native, True, column.charset, column.collation, comment=comment)
        yield f"MODIFY COLUMN {ddl.column_line(replace(made, invisible=column.invisible), release)}"
