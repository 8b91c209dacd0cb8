"""Are the target tables that are there already such that the job may write to them?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from anabranch.connectors.mysql.collations import compares_exactly
from anabranch.connectors.mysql.registered import STATE
from anabranch.connectors.mysql.target import own_source
from anabranch.connectors.mysql.target.clauses import as_written, is_of_family
from anabranch.connectors.mysql.target.collations import by_bytes, is_deterministic, pads
from anabranch.connectors.mysql.target.columns import MadeColumn, made_columns
from anabranch.connectors.mysql.target.enums import declared, is_enum, merged
from anabranch.connectors.mysql.target.fits import takes
from anabranch.connectors.mysql.target.known_columns import INVISIBLE_KEY
from anabranch.connectors.mysql.target.names import target_columns
from anabranch.connectors.mysql.target.preflight_facts import WRITABLE, Live
from anabranch.connectors.mysql.target.session import quoted, table_name
from anabranch.connectors.mysql.target.shared_tables import others
from anabranch.connectors.mysql.target.standing import ENUM, takes_labels
from anabranch.connectors.mysql.target.structures import ExistingColumn, ExistingTable, holds_rows
from anabranch.connectors.sql.findings import failed, some, value_rules, warning
from anabranch.connectors.sql.loops import loop
from anabranch.connectors.sql.shared_tables import check_shared
from anabranch.errors import TargetError
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column
from anabranch.model.writers import led_back
from anabranch.rows.net import TargetTable

INNODB = "INNODB"
_MARKS = re.compile(r"_utf8mb[34](?=')|[\s`()]")  # which the servers set otherwise
UTF8MB3 = frozenset(("utf8", "utf8mb3"))  # two names of one character set
KEY = 8  # so many digits of a job's uuid are at the end of the name that it has at its source


def check_own_source(live: Live) -> Iterator[CheckResult]:
    """Check for target tables that are the source's own, or hold the state of jobs: emptying or writing one would
    change those.
    """
    for table in live.context.targets.values():
        if table.target.schema == STATE:
            yield failed("own_source", own_source.is_state(table.target), own_source.STATE_REMEDY, table)
        elif table.source in live.own:
            why = own_source.why(table.target, live.own[table.source])
            yield failed("own_source", why, own_source.REMEDY, table)


def check_loops(live: Live) -> Iterator[CheckResult]:
    """Check for loops: changes that the job brings here, and another writer brings back to the tables that they were
    read from.
    """
    ours = {table.source: table.target for table in live.context.targets.values()}
    for writer in live.context.writers:
        # what this job wrote comes round to its source
        is_own = live.context.source_name.endswith(f"_{writer.key[:KEY]}")
        tables = sorted(led_back({source: source for source in ours} if is_own else ours, writer.pairs))
        is_read = tables and (is_own or own_source.reads_here(live.connection, writer))
        if is_read and (found := loop(live.context, writer, tables)):
            yield failed("loop", *found, names=map(str, tables))


def check_standing(live: Live) -> Iterator[CheckResult]:
    """Check that the tables of a job that never loads are there, before it begins: the job that it goes back from has made
    them, or has read them there."""
    for table in live.context.targets.values():
        if table.source in live.context.stand and table.target not in live.existing:
            hint = (
                f"set up the job first whose way back this is; or make the table there, with the rows of {table.source}"
            )
            yield failed("standing", f"{table.target} is not there, and this job loads nothing", hint, table)


def check_existing(live: Live) -> Iterator[CheckResult]:
    """Check that tables are absent or empty, unless the job says otherwise or loaded them itself (K29)."""
    choice = live.context.user_choices.get("load.existing")
    for table in live.context.targets.values():
        existing = live.existing.get(table.target)
        if existing is None or table.source in live.own or table.target.schema == STATE:
            continue  # to empty the job's own source would empty the source; said already
        if existing.type not in WRITABLE:
            yield failed("existing", f"{existing.id} is a {existing.type.lower()}", "choose another target name", table)
        elif existing.engine.upper() != INNODB:
            text = f"{existing.id} is of engine {existing.engine}: rows and checkpoint would not commit together"
            yield failed("engine", text, f"ALTER TABLE {table_name(existing.id)} ENGINE = InnoDB", table)
        elif table.source not in live.context.loaded and live.rights.has("SELECT", existing.id):
            yield from _rows(live, table, existing, choice)


def _rows(live: Live, table: TargetTable, existing: ExistingTable, choice: str | None) -> Iterator[CheckResult]:
    if sharing := others(live.connection, live.context.job, existing.id):
        yield from check_shared(table, sharing, choice)
    elif not holds_rows(live.connection, existing.id):
        return
    elif choice == "keep":
        yield warning("existing", f"{existing.id} holds rows, which stay", "", table)
    elif choice != "empty":
        hint = f'TRUNCATE TABLE {table_name(existing.id)}, or [load] existing = "empty"; "keep" leaves them there'
        yield failed("existing", f"{existing.id} holds rows", hint, table)


def check_columns(live: Live) -> Iterator[CheckResult]:
    """Check existing tables: every column is there, of a type that takes all values, and none would stay empty."""
    for table, existing in live.tables():
        schema = live.context.tables[table.source]
        alter = f"ALTER TABLE {table_name(existing.id)}"
        try:
            made = made_columns(schema, table, value_rules(live.context), live.release)
        except TargetError:
            continue  # a type that is refused: check_types says so
        for wanted in made:
            column = existing.column(wanted.name)
            if column and not column.generated and is_enum(table.type_of(wanted.name)):
                yield from _labels(live, column, wanted, table)
            else:
                yield from _column(column, wanted, table, alter)
        for source, name in table.computed:
            column = existing.column(name)
            if column and not column.generated:
                hint = f"{alter} DROP {quoted(name)}: it is made when the rest is built"
                text = f"column {name} is not generated at the target: nobody would fill it"
                yield failed("columns", text, hint, table)
            elif column and _is_other(live, table, column, origin := schema.column(source)):
                text = f"column {name} is computed by {column.expression}, at the source by {origin.expression}"
                hint = f"unless both give the same: {alter} DROP {quoted(name)}; it is made when the rest is built"
                yield warning("columns", text, hint, table)
        known = {name.lower() for name in (*table.columns, *(name for _, name in table.computed))}
        for column in existing.columns:
            if column.name.lower() not in known and not column.has_default:
                hint = f"{alter} MODIFY {quoted(column.name)} {column.type} NULL"
                yield failed("columns", f"extra column {column.name} is NOT NULL without default", hint, table)


def _column(column: ExistingColumn | None, wanted: MadeColumn, table: TargetTable, alter: str) -> Iterator[CheckResult]:
    name, native = wanted.name, wanted.native
    if column is None:
        yield failed("columns", f"column {name} is missing", f"{alter} ADD {quoted(name)} {native}", table)
    elif column.generated:
        hint = f"{alter} MODIFY {quoted(name)} {column.type}"
        yield failed("columns", f"column {name} is generated at the target", hint, table)
    elif not takes(column.type, native):
        hint = f"{alter} MODIFY {quoted(name)} {native}" + (" NOT NULL" if not column.nullable else "")
        yield failed("columns", f"column {name} is {column.type}, needed is {native}", hint, table)


def _labels(live: Live, column: ExistingColumn, wanted: MadeColumn, table: TargetTable) -> Iterator[CheckResult]:
    """Check that a column has a source's labels, or will have them. Those of other jobs that write to the table stay, and those
    of rows that stay."""
    type = table.type_of(wanted.name)
    if takes_labels(column, type):
        return
    needed, keeps = wanted.native, live.context.user_choices.get("load.existing") == "keep"
    if column.kind == ENUM and (keeps or others(live.connection, live.context.job, table.target)):
        both = merged(declared(column.type), declared(needed))
        needed = f"enum({','.join(both)})" if both else "varchar(63)"
    best = by_bytes(live.release.collations)
    hint = f"ALTER TABLE {table_name(table.target)} MODIFY {quoted(wanted.name)} {needed}"
    hint += f" CHARACTER SET utf8mb4 COLLATE {best}" + (" NOT NULL" if not column.nullable else "")
    if not needed.startswith(ENUM):
        hint += f', and [types.map] "{type.native}" = "{needed}" in each job that writes to it'
    compared = f" (compared by {column.collation})" if column.kind == ENUM else ""
    text = f"column {wanted.name} is {column.type}{compared}, needed is {wanted.native}"
    yield failed("columns", text, hint, table)


def _is_other(live: Live, table: TargetTable, column: ExistingColumn, origin: Column) -> bool:
    """Return whether somebody else has made a generated column, by other words than the source, but for how servers print
    them."""
    if table.source in live.context.loaded or not is_of_family(live.context.tables[table.source]):
        return False
    here, there = (_MARKS.sub("", as_written(text)).lower() for text in (column.expression, origin.expression))
    return here != there


def check_not_null(live: Live) -> Iterator[CheckResult]:
    """Check for columns that may be NULL at the source and may not at the target."""
    nulls = live.context.user_choices.get("types.zero_date") == "null"
    for table, existing in live.tables():
        schema = live.context.tables[table.source]
        for source, target in target_columns(table).items():
            column, origin = existing.column(target), schema.column(source)
            is_zero = nulls and table.type_of(target).kind in (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT)
            if column is None or column.nullable or target in table.key or not (origin.nullable or is_zero):
                continue
            message = f"column {target} is NOT NULL at the target, not at the source"
            if not origin.nullable:
                message = f'column {target} is NOT NULL at the target, where zero_date = "null" writes NULL'
            hint = f"ALTER TABLE {table_name(existing.id)} MODIFY {quoted(target)} {column.type} NULL"
            yield failed("columns", message, hint, table)


def check_keys(live: Live) -> Iterator[CheckResult]:
    for table, existing in live.tables():
        here, there = {name.lower() for name in existing.primary_key}, {name.lower() for name in table.key}
        if here != there and not (_is_made_up(existing) and not there):
            text = f"the primary key is ({', '.join(existing.primary_key)}), the source's is ({', '.join(table.key)})"
            yield failed("key", text, _alter(existing, _other_key(existing, table.key)), table)


def _is_made_up(existing: ExistingTable) -> bool:
    """Return whether the server has given the table a key that nobody defined (sql_generate_invisible_primary_key)."""
    column = existing.column(INVISIBLE_KEY)
    return existing.primary_key == (INVISIBLE_KEY,) and column is not None and column.invisible


def _other_key(existing: ExistingTable, columns: tuple[str, ...]) -> Iterator[str]:
    """Yield what gives an existing table this primary key, or none."""
    if existing.primary_key:
        yield "DROP PRIMARY KEY"
    if columns:
        yield f"ADD PRIMARY KEY ({', '.join(map(quoted, columns))})"


def _alter(existing: ExistingTable, actions: Iterable[str]) -> str:
    return f"ALTER TABLE {table_name(existing.id)} {', '.join(actions)}"


def check_collations(live: Live) -> Iterator[CheckResult]:
    """Check for keys of existing tables that take for equal what the source tells apart, and for texts that do not fit."""
    best = by_bytes(live.release.collations)
    for table, existing in live.tables():
        schema = live.context.tables[table.source]
        unique = {name for index in existing.indexes if index.unique for name in index.columns}
        for source, target in target_columns(table).items():
            column, origin = existing.column(target), schema.column(source)
            if column is None or not column.charset or origin.type is None:
                continue
            modify = f"ALTER TABLE {table_name(existing.id)} MODIFY {quoted(target)} {column.type}"
            null = "" if column.nullable else " NOT NULL"
            is_loose = not is_deterministic(column.collation) or pads(column.collation)
            is_exact = (
                compares_exactly(origin) if is_of_family(schema) else True
            )  # PostgreSQL's texts are, in any order
            if column.name in unique and is_loose and is_exact:
                hint = f"{modify} CHARACTER SET utf8mb4 COLLATE {best}{null}"
                text = f"{target} of a key is compared by {column.collation}: rows that the source tells apart may be one here"
                yield warning("collations", text, hint, table, [target])
            own = origin.charset.lower()
            alike = UTF8MB3 if own in UTF8MB3 else {own}
            if column.charset != "utf8mb4" and column.charset not in alike:
                hint = f"{modify} CHARACTER SET utf8mb4{null}"
                text = f"{target} stores text as {column.charset}: a character that it does not have is refused"
                yield warning("collations", text, hint, table, [target])


def check_constraints(live: Live) -> Iterator[CheckResult]:
    """Check secondary keys, which chunks of different moments may break: they are taken off only if the job file says
    so (K29). Foreign keys are not asked in our sessions.
    """
    for table, existing in live.first_loads():
        things = [f"unique index {index.name}" for index in existing.secondary_unique]
        if things and live.defer_constraints:
            yield warning("constraints", f"{some(things)} are off during the load", "", table, things)
        elif things:
            hint = "[load] defer_constraints = true takes them off for the load and puts them back, or drop them"
            yield failed("constraints", f"the target table has {some(things)}", hint, table, things)
