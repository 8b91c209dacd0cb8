"""Definitions rendered for PostgreSQL: schemas, tables with their columns, defaults, sequences, comments. Text, nothing is
executed.

What does not live here: indexes, checks, foreign keys (planned.py), when tables are made (load.py), what the target has already
(catalog.py), types (typemap.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256

from anabranch.connectors.postgresql import verbatim
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.connectors.postgresql.target import choices, terms
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.connectors.postgresql.verbatim import NotCarried, is_ours
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.model.datatype import Fidelity, Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.rows.raw import parse_text
from anabranch.rows.zero_dates import KINDS, NULL, choice

NAME_BYTES = 63  # https://www.postgresql.org/docs/current/limits.html
IDENTITY_TYPES = ("smallint", "integer", "bigint")
NUMBER_TYPES = (*IDENTITY_TYPES, "numeric", "real", "double precision")
NO_DEFAULT_KINDS = (Kind.JSON, Kind.GEOMETRY, Kind.VECTOR)
LATEST = 180000  # a server version, where none is at hand


def fits(name: str) -> bool:
    return len(name.encode()) <= NAME_BYTES


def shortened(name: str) -> str:
    """Return a name that fits, told apart from its neighbours by a digest when it had to be cut."""
    return name if fits(name) else with_digest(name, name)


def with_digest(name: str, of: str) -> str:
    digest = sha256(of.encode()).hexdigest()[:8]
    return name.encode()[: NAME_BYTES - 9].decode(errors="ignore") + "_" + digest


def target_columns(table: TargetTable) -> dict[str, str]:
    """Return source column -> target column, for those that the job replicates."""
    return dict(zip(table.source_columns or table.columns, table.columns, strict=True))


# --- tables -----------------------------------------------------------------------------------------------------------


def create_schema(schema: str) -> str:
    return f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}"


def create_table(
    schema: TableSchema,
    table: TargetTable,
    rules: ValueRules,
    version: int = LATEST,
    beside: Collection[TableId] = (),
    computed: Collection[str] | None = None,
) -> str:
    """Return the statement that creates the table with its primary key and nothing else, without its partitions.

    `beside`: the target's other tables, whose names are taken; `computed`: the columns that the target computes, None =
    all. Raises TargetError for names that PostgreSQL would cut.
    """
    too_long = long_names(table)
    if too_long:
        raise TargetError(
            f"names longer than {NAME_BYTES} bytes: {', '.join(too_long)}",
            table=str(table.source),
            hint="rename them in the job file ([[rules]] target, [[tables]] columns.rename)",
        )
    made = {
        source: column_line(schema, table, source, target, rules, version, beside)
        for source, target in target_columns(table).items()
    }
    if table.computed:
        found = computed_columns(schema, table)
        made |= {source: line for source, line in found if computed is None or source in computed}
        made = {column.name: made[column.name] for column in schema.columns if column.name in made}
    lines = list(made.values())
    if table.key:
        name = key_name(schema, table, beside)
        named = f"CONSTRAINT {quote(name)} " if name != usual_name(table, "pkey") else ""
        lines.append(f"{named}PRIMARY KEY ({quoted_list(table.key)})")
    divided = f" PARTITION BY {schema.partition_key}" if verbatim.is_partitioned(schema, table) else ""
    return f"CREATE TABLE {qualified(table.target)} (\n  " + ",\n  ".join(lines) + f"\n){divided}"


def computed_columns(schema: TableSchema, table: TargetTable) -> Iterator[tuple[str, str]]:
    """Yield source column, and its line in the definition."""
    for column, target, expression in verbatim.computed(schema, table):
        if not isinstance(expression, NotCarried):
            type_ = f"{column.native}{collation(column)}"
            needed = "" if column.nullable else " NOT NULL"
            yield column.name, f"{quote(target)} {type_} GENERATED ALWAYS AS {expression}{needed}"


def collation(column: Column) -> str:
    return f" COLLATE {column.collation}" if column.collation else ""


def complete_table(
    schema: TableSchema, table: TargetTable, rules: ValueRules, beside: Collection[TableId] = ()
) -> list[str]:
    """Return what follows CREATE TABLE in its transaction: sequences of numbers that identities cannot be, comments."""
    statements = []
    place = qualified(table.target)
    columns = [(schema.column(source), target) for source, target in target_columns(table).items()]
    for column, target in columns:
        logical = table.type_of(target)
        if draws_numbers(column, logical) and not is_identity(column, logical, rules):
            name = f"{quote(table.target.schema)}.{quote(_sequence(column, table, target, beside))}"
            options = f" {column.sequence}" if column.sequence else ""
            statements.append(f"CREATE SEQUENCE {name}{options} OWNED BY {place}.{quote(target)}")
            statements.append(f"ALTER TABLE {place} ALTER {quote(target)} SET DEFAULT nextval({literal(name)})")
    commented = [(f"TABLE {place}", schema.comment)]
    commented += [(f"COLUMN {place}.{quote(target)}", column.comment) for column, target in columns]
    texts = ((what, comment.replace("\x00", "")) for what, comment in commented)  # no text here has a NUL character
    return statements + [f"COMMENT ON {what} IS {literal(text)}" for what, text in texts if text]


def own_relations(schema: TableSchema, table: TargetTable, rules: ValueRules, beside: Collection[TableId]) -> list[str]:
    """Return the names of relations that come with a table: the primary key's index, sequences."""
    columns = [(schema.column(source), target) for source, target in target_columns(table).items()]
    return ([key_name(schema, table, beside)] if table.key else []) + [
        own_name(table, f"{target}_seq", beside)
        if is_identity(column, table.type_of(target), rules)
        else _sequence(column, table, target, beside)
        for column, target in columns
        if draws_numbers(column, table.type_of(target))
    ]


def key_name(schema: TableSchema, table: TargetTable, beside: Collection[TableId]) -> str:
    """Name the primary key: as at the source, if it has one there that is free here."""
    name = schema.key_name
    is_free = name and TableId(table.target.schema, name) not in beside
    return name if is_free else own_name(table, "pkey", beside)


def own_name(table: TargetTable, what: str, beside: Collection[TableId]) -> str:
    """Name a relation that comes with a table: what PostgreSQL would call it, unless a table has that name or it is cut."""
    name = usual_name(table, what)
    is_free = fits(name) and TableId(table.target.schema, name) not in beside
    return name if is_free else with_digest(name, f"{table.target}.{what}")


def usual_name(table: TargetTable, what: str) -> str:
    return f"{table.target.name}_{what}"


def sequence_name(table: TargetTable, column: str) -> str:
    """Make a name that no other relation in the schema has."""
    return with_digest(f"{table.target.name}_{column}_seq", f"{table.target}.{column}")


def _sequence(column: Column, table: TargetTable, target: str, beside: Collection[TableId]) -> str:
    return own_name(table, f"{target}_seq", beside) if column.serial else sequence_name(table, target)


def draws_numbers(column: Column, logical: LogicalType) -> bool:
    """Return whether the column counts at the target. Not where the job chose a type that is no number."""
    return column.auto_increment and (not logical.target or logical.target in NUMBER_TYPES)


def is_identity(column: Column, logical: LogicalType, rules: ValueRules) -> bool:
    """Return whether the column becomes an identity, which only integers can be.

    https://www.postgresql.org/docs/current/ddl-identity-columns.html
    """
    return column.auto_increment and not column.serial and PostgresTypes().fit(logical, rules).native in IDENTITY_TYPES


def long_names(table: TargetTable) -> list[str]:
    return [n for n in (table.target.schema, table.target.name, *table.columns) if not fits(n)]


def column_line(
    schema: TableSchema,
    table: TargetTable,
    source: str,
    name: str,
    rules: ValueRules,
    version: int,
    beside: Collection[TableId],
) -> str:
    column, logical, in_key = schema.column(source), table.type_of(name), name in table.key
    fit = PostgresTypes().fit(logical, rules)
    if fit.fidelity is Fidelity.REFUSED:
        raise TargetError(f"column {name}: {fit.reason}", hint="correct [types.map] or [[tables]] columns.type")
    is_as_is = is_as_there(schema, logical)
    parts = [quote(name), native_type(schema, column, logical, rules) + (collation(column) if is_as_is else "")]
    if logical.carried is Kind.ENUM and not logical.target:
        parts.append(
            f"{_label_check(schema, table, name)}CHECK ({quote(name)} IN ({', '.join(map(literal, admitted(logical)))}))"
        )
    if is_identity(column, logical, rules):
        sequence = own_name(table, f"{name}_seq", beside)
        is_usual = sequence == usual_name(table, f"{name}_seq")
        named = "" if is_usual else f"SEQUENCE NAME {qualified(TableId(table.target.schema, sequence))}"
        options = " ".join(filter(None, (named, column.sequence)))
        parts.append("GENERATED BY DEFAULT AS IDENTITY" + (f" ({options})" if options else ""))
    elif (default := default_of(column, logical, is_as_is)) is not None:
        parts.append(f"DEFAULT {literal(default)}")
    elif column.default_term and (expression := terms.default(column.default_term, logical, version)):
        parts.append(f"DEFAULT {expression}")
    if in_key or not may_be_null(schema, column, logical, rules):
        parts.append("NOT NULL")
    return " ".join(parts)


def native_type(schema: TableSchema, column: Column, logical: LogicalType, rules: ValueRules) -> str:
    """Return the type of a column as a definition has it, without a collation."""
    return column.native if is_as_there(schema, logical) else PostgresTypes().fit(logical, rules).native


def _label_check(schema: TableSchema, table: TargetTable, column: str) -> str:
    """Return `CONSTRAINT name` where a check of the source has the name that PostgreSQL would give to the check of the
    labels.
    """
    name = usual_name(table, f"{column}_check")
    is_free = fits(name) and name not in {check.name for check in schema.checks}
    return "" if is_free else f"CONSTRAINT {quote(with_digest(name, f'{table.target}.{column}'))} "


def admitted(logical: LogicalType) -> tuple[str, ...]:
    """Return the labels and '', which the source stores for a value it did not know (K34)."""
    return logical.values if "" in logical.values else (*logical.values, "")


def may_be_null(schema: TableSchema, column: Column, logical: LogicalType, rules: ValueRules) -> bool:
    """Return whether the column is nullable at the target, which it also is where the job turns zero dates into NULL."""
    return column.nullable or (logical.carried in KINDS and choice(rules, schema, column.name) == NULL)


def is_as_there(schema: TableSchema, logical: LogicalType) -> bool:
    """Return whether a column has the type of its source, which is a PostgreSQL."""
    return is_ours(schema) and not logical.target


def default_of(column: Column, logical: LogicalType, is_as_is: bool = False) -> str | None:
    """Return the constant default as PostgreSQL takes it; None = none, NULL, or not expressible. `is_as_is`: it is in the
    words of the column's own type."""
    text = column.default
    if not column.has_default or column.default_is_expression or text is None or "\x00" in text:
        return None
    if is_as_is:
        return text
    if logical.carried in NO_DEFAULT_KINDS or (logical.carried in KINDS and not _is_date(logical, text)):
        return None
    return choices.constant(logical, text) if logical.target else text


def _is_date(logical: LogicalType, text: str) -> bool:
    try:
        parse_text(logical, text)
    except ValueError:
        return False
    return True


def loses_default(column: Column, logical: LogicalType, version: int = LATEST) -> bool:
    """Return whether the source has a default, other than NULL, or a counter that the target will not have."""
    if column.auto_increment:
        return not draws_numbers(column, logical)
    if not column.has_default or (column.default is None and not column.default_is_expression):
        return False
    if column.default_term is not None:
        return terms.default(column.default_term, logical, version) is None
    return default_of(column, logical) is None


def lost_defaults(schema: TableSchema, table: TargetTable) -> Iterator[tuple[str, str]]:
    """Yield source column, and what is lost, or why."""
    own = {source: planned for source, _, planned in verbatim.defaults(schema, table)}
    for source, target in target_columns(table).items():
        column = schema.column(source)
        if source in own:
            if isinstance(own[source], NotCarried):
                yield source, f"{column.default}: {own[source]}"
        elif loses_default(column, table.type_of(target)):
            yield source, told_default(column)


def default_statements(schema: TableSchema, table: TargetTable) -> dict[str, str]:
    """Return target column -> the statement that gives it its default, for defaults in our own words."""
    place = qualified(table.target)
    return {
        target: f"ALTER TABLE {place} ALTER {quote(target)} SET DEFAULT {planned}"
        for _, target, planned in verbatim.defaults(schema, table)
        if not isinstance(planned, NotCarried)
    }


def told_default(column: Column) -> str:
    return "AUTO_INCREMENT" if column.auto_increment else str(column.default)


def quoted_list(columns: Iterable[str]) -> str:
    return ", ".join(map(quote, columns))
