"""The page of types at MySQL and MariaDB as targets, made of the type map's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anabranch.connectors.mysql.source.typemap import NativeType
from anabranch.connectors.mysql.source.typemap import logical_type as own_type
from anabranch.connectors.mysql.target import choices, collations, printed
from anabranch.connectors.mysql.target.typemap import JSON, MARIADB, MYSQL, MysqlTypes
from anabranch.connectors.postgresql.source.typemap import KINDS, PRINTED, logical_type
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column

SOURCE = "anabranch/connectors/mysql/target/typemap.py and the tables beside it"
RULES = ValueRules(json="json")
SIZED = {
    "character varying": "character varying(40)",
    "bit": "bit(5)",
    "timestamp without time zone": "timestamp(6) without time zone",
    "timestamp with time zone": "timestamp(6) with time zone",
    "time without time zone": "time(6) without time zone",
}
MORE = ("bit(65)", "numeric(10,2)", "numeric(2,-3)", "integer[]", "public.a_type_of_your_own")
_HEAD = """Columns of MySQL and MariaDB keep their types in the source's own words, sizes and attributes included. What
one of the two does not have, or has in another sense:
"""


def types_at_mysql(examples: Mapping[str, NativeType]) -> Iterator[str]:
    """Yield the page. `examples`: a type of a MySQL or MariaDB source -> an example of it."""
    yield "*exact*: every value arrives as it is. *widened*: every value fits and reads back equal, the declared range is"
    yield "larger. *lossy*: some values lose what the note names, or stop the job."
    yield "The other types: [types at PostgreSQL](types.md)."
    yield ""
    yield from _own(examples)
    yield from _postgresql()
    yield from _json()
    yield from _choices()
    yield from _collations()


def _own(examples: Mapping[str, NativeType]) -> Iterator[str]:
    yield "## From MySQL and MariaDB"
    yield ""
    yield _HEAD
    yield "| source column (example) | MySQL | fidelity | MariaDB | fidelity | note |"
    yield "|---|---|---|---|---|---|"
    for native in examples.values():
        column = Column("c", own_type(native), native.full)
        assert column.type is not None
        first, second = (MysqlTypes(family).column_fit(column, column.type, RULES) for family in (MYSQL, MARIADB))
        if {first.native, second.native} != {native.full} or first.fidelity != "exact":
            row = f"| `{native.full}` | `{first.native}` | {first.fidelity} | `{second.native}` | {second.fidelity} |"
            yield f"{row} {first.reason or second.reason} |"
    yield ""


def _postgresql() -> Iterator[str]:
    yield "## From PostgreSQL"
    yield ""
    yield "| type | MySQL and MariaDB | fidelity | note |"
    yield "|---|---|---|---|"
    for name in (*KINDS, *PRINTED, *printed.NAMED, *MORE):
        type = logical_type(SIZED.get(name, name))
        first, second = (MysqlTypes(family).fit(type, RULES) for family in (MYSQL, MARIADB))
        both = f"`{first.native}`" + f" (MariaDB: `{second.native}`)" * (first.native != second.native)
        yield f"| `{SIZED.get(name, name)}` | {both} | {first.fidelity} | {first.reason} |"
    yield ""
    yield "A text or `bytea` without a length that stands in a key becomes `varchar(255)` or `varbinary(255)`, or what"
    yield "`[[tables]] columns.type` says."
    yield ""


def _json() -> Iterator[str]:
    yield "## JSON"
    yield ""
    yield "| `[target.options] json` | target | type | fidelity | note |"
    yield "|---|---|---|---|---|"
    for (family, setting), (native, fidelity, note) in JSON.items():
        title = "MySQL" if family == MYSQL else "MariaDB"
        yield f'| `"{setting}"` | {title} | `{native}` | {fidelity} | {note} |'
    yield ""


def _choices() -> Iterator[str]:
    yield "## Types of your own choice"
    yield ""
    yield "`[types.map]` and `columns.type` of a `[[tables]]` entry of the job file choose another type, with its sizes."
    yield "Declared are those that take the text form of a value exactly, or refuse it. Integers and `year` become every type"
    yield "of integer as well, `unsigned` or not: a value that does not fit stops the job. `native` are the types of"
    yield "PostgreSQL that no other database has."
    yield ""
    yield "| logical type | chosen type | fidelity | in keys | note |"
    yield "|---|---|---|---|---|"
    rows: dict[tuple[str, choices.Choice], list[Kind]] = {}
    for kind, name, one in choices.every():
        rows.setdefault((name, one), []).append(kind)
    for (name, one), kinds in rows.items():
        only = " (MariaDB)" if one.family else ""
        in_keys = "yes" if one.in_keys else "no"
        yield f"| {', '.join(kinds)} | `{name}`{only} | {one.fidelity} | {in_keys} | {one.reason} |"
    yield ""


def _collations() -> Iterator[str]:
    first, second, last = collations.BY_BYTES
    yield "## Collations"
    yield ""
    yield f"Texts of a PostgreSQL compare byte by byte: made tables have `{first}`, `{second}` in MariaDB,"
    yield f"and `{last}` where the server has neither; there blanks at the end do not count. Columns of MySQL and MariaDB"
    yield "keep their collation. Where the target does not have it, the first of these that it has stands in, of the same"
    yield "character set:"
    yield ""
    yield "| collation | stand-ins |"
    yield "|---|---|"
    yield from (
        f"| `…_{end}` | {', '.join(f'`…_{one}`' for one in near)} |" for end, near in collations.STAND_INS.items()
    )
    yield ""
