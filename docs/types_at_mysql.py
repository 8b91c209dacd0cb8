"""The page of types at MySQL and MariaDB as targets, made of the type map's tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from anabranch.connectors.mysql.source.typemap import NativeType
from anabranch.connectors.mysql.source.typemap import logical_type as own_type
from anabranch.connectors.mysql.target import choices, collations, own_computed, printed
from anabranch.connectors.mysql.target.columns import WIDEST
from anabranch.connectors.mysql.target.release import INDEX_BYTES, OLD_COLUMN_BYTES
from anabranch.connectors.mysql.target.typemap import JSON, MARIADB, MYSQL, MysqlTypes
from anabranch.connectors.postgresql.source.typemap import KINDS, PRINTED, logical_type
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column
from anabranch.rows.json_texts import as_json

SOURCE = "anabranch/connectors/mysql/target/typemap.py and the tables beside it"
RULES = ValueRules(json="json")
SIZED = {
    "character varying": "character varying(40)",
    "bit": "bit(5)",
    "timestamp without time zone": "timestamp(6) without time zone",
    "timestamp with time zone": "timestamp(6) with time zone",
    "time without time zone": "time(6) without time zone",
}
DOMAIN_OVER = ("integer", "numeric(10,2)")
ENUMS = {"`'sad'`, `'happy'`": ("sad", "happy"), "`'1'`, `'2'`": ("1", "2")}
ARRAYS = (
    ("integer[]", "{1,NULL,3}"),
    ("integer[]", "{{1,2},{3,4}}"),
    ("integer[]", "[0:1]={1,2}"),
    ("numeric(5,2)[]", "{1.00,NaN}"),
    ("boolean[]", "{t,f}"),
    ("text[]", '{a,"b c",NULL,"NULL"}'),
    ("box[]", "{(1,1),(0,0);(3,3),(2,2)}"),
)
COMPOSITE = logical_type(
    "public.a_composite", fields=(("n", "integer"), ("price", "numeric(5,2)"), ("done", "boolean"), ("words", "text[]"))
)
COMPOSITES = ('(1,1.50,t,"{a,b}")', "(,NaN,,)", '(-1,,f,"{""x y""}")')
MORE = ("bit(65)", "numeric(10,2)", "numeric(2,-3)", "integer[]", "public.a_type_of_your_own")
_HEAD = """Columns of MySQL and MariaDB keep their types in the source's own words, sizes and attributes included. What
one of the two does not have, or has in another sense:
"""


def types_at_mysql(examples: Mapping[str, NativeType]) -> Iterator[str]:
    """Yield the page. `examples`: a type of a MySQL or MariaDB source -> an example of it."""
    yield "*exact*: every value arrives as it is. *widened*: every value fits and reads back equal, the declared range is"
    yield "larger. *lossy*: some values lose what the note names, or stop the job. The one value that an *exact* type spells"
    yield "otherwise, and that reads back equal, is in its note: -0.0 is 0 at a MariaDB."
    yield "The other types: [types at PostgreSQL](types.md)."
    yield ""
    yield from _own(examples)
    yield from _postgresql()
    yield from _arrays()
    yield from _composites()
    yield from _json()
    yield from _computed()
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
        is_other = {first.native, second.native} != {native.full} or first.fidelity != "exact"
        if is_other or first.reason or second.reason:
            row = f"| `{native.full}` | `{first.native}` | {first.fidelity} | `{second.native}` | {second.fidelity} |"
            yield f"{row} {first.reason or second.reason} |"
    yield ""
    yield 'A NUL character in a text arrives as it is, unless `[types] nul = "strip"` leaves it out. Labels of `enum` and `set`'
    yield "arrive whole, also with characters beyond U+FFFF, which no definition that a server prints shows."
    yield ""


def _postgresql() -> Iterator[str]:
    yield "## From PostgreSQL"
    yield ""
    yield "| type | MySQL and MariaDB | fidelity | note |"
    yield "|---|---|---|---|"
    names = (*KINDS, *PRINTED, *printed.NAMED, *MORE)
    types = {f"`{name}`": logical_type(name) for name in (SIZED.get(name, name) for name in names)}
    types |= {f"an enum, {what}": logical_type("public.an_enum", labels=some) for what, some in ENUMS.items()}
    types["a composite"] = COMPOSITE
    types |= {f"a domain over `{name}`": logical_type("public.a_domain_of_your_own", name) for name in DOMAIN_OVER}
    for name, type in types.items():
        first, second = (MysqlTypes(family).fit(type, RULES) for family in (MYSQL, MARIADB))
        both = f"`{first.native}`" + f" (MariaDB: `{second.native}`)" * (first.native != second.native)
        yield f"| {name} | {both} | {first.fidelity} | {_both(first.reason, second.reason)} |"
    yield ""
    yield "A text or `bytea` without a length that stands in a key becomes a `varchar` or `varbinary`: columns without a"
    yield f"length share what the others leave of the {INDEX_BYTES:,} bytes of an index row, four to a character. Alone in a"
    yield f"key it is `varchar({INDEX_BYTES // WIDEST})` or `varbinary({INDEX_BYTES})`; before MySQL 5.7 a column has no more"
    yield f"than {OLD_COLUMN_BYTES} bytes of it. `[[tables]] columns.type` says otherwise. A longer value stops the job,"
    yield "it is never cut. Preflight asks the source how long the values are, of tables of up to 256 MB: where they are too"
    yield "long it refuses, with lengths that hold them, or says that no key has room for them. With a filter, or `[apply]"
    yield "on_error` other than `stop`, it warns: such rows may be left out."
    yield ""
    yield "A domain over `numeric` without digits, or with more than a `decimal` has there, is the `longtext` that PostgreSQL"
    yield "prints. Labels of an enum that the source has renamed are not the column's: rows with them are refused until"
    yield "`anabranch load JOB --table T --recreate` makes the table anew. Where several jobs write to it, and their enums have"
    yield "other labels, the error has the `ALTER TABLE` that gives the column those of all. Columns of a foreign key have one"
    yield "type at both ends: where a parent is made anew with a domain's own type, its children are made anew behind it."
    yield ""


def _arrays() -> Iterator[str]:
    yield "## Arrays"
    yield ""
    yield 'With `[target.options] arrays = "json"` arrays of a PostgreSQL are JSON in a `longtext`, for JSON functions of the'
    yield "server. Each text of an array has a JSON text that no other has, so nothing is lost:"
    yield ""
    yield "| type | PostgreSQL prints | JSON |"
    yield "|---|---|---|"
    for native, text in ARRAYS:
        yield f"| `{native}` | `{text}` | `{as_json(logical_type(native), text)}` |"
    yield ""
    yield "Numbers keep their digits; `NaN`, infinities and all that is neither a number nor a boolean are texts: dates,"
    yield "JSON, `bytea` as `\\x` and digits, composites, domains of any type. It is a `longtext`, since the server's own JSON"
    yield "makes `1.0` of `1.00`; JSON functions take a number for a double. Elements stand apart by the sign that the source"
    yield "has for their type (`typdelim`): `;` for `box`, `:` for types of PostGIS, mostly a comma. Arrays keep PostgreSQL's"
    yield "text in keys, unique indexes and foreign keys, in domains over arrays, and where that sign is a letter, a digit or"
    yield "beyond ASCII; of types that are not the server's own also where a release without this option has loaded the table,"
    yield "until it is loaded again. A filter (`where`) cannot name a column with JSON. A text type of the job's choice holds"
    yield "the JSON, too. Verification reads tables with such columns row by row."
    yield ""


def _composites() -> Iterator[str]:
    yield "## Composites"
    yield ""
    yield 'With `[target.options] composites = "json"` values of composite types are JSON in a `longtext`, an object with the'
    yield "names of the fields in their order. Of a type made by"
    yield f"`CREATE TYPE … AS ({', '.join(f'{name} {native}' for name, native in COMPOSITE.fields)})`:"
    yield ""
    yield "| PostgreSQL prints | JSON |"
    yield "|---|---|"
    for text in COMPOSITES:
        yield f"| `{text}` | `{as_json(COMPOSITE, text)}` |"
    yield ""
    yield "Fields are as elements of arrays are: numbers with their digits, booleans, `null`, all others as the text that"
    yield "PostgreSQL prints, arrays and composites inside of it, too. What is said of arrays in keys, filters, types of the"
    yield "job's choice and verification is so of composites. Texts stay domains over composites and row types of tables,"
    yield "whose fields change with the table and not by `ALTER TYPE`. That parks the tables that have the type, until they"
    yield "are loaded again; a value that comes in the seconds before with another number of fields is a JSON text as it is"
    yield "printed."
    yield ""


def _both(first: str, second: str) -> str:
    """Return what is to be noted of MySQL and of MariaDB."""
    if first == second or second.startswith(f"{first}; "):
        return second
    return "; ".join(note for note in (first, second and f"MariaDB: {second}") if note)


def _json() -> Iterator[str]:
    yield "## JSON"
    yield ""
    yield "| `[target.options] json` | target | type | fidelity | note |"
    yield "|---|---|---|---|---|"
    for (family, setting), (native, fidelity, note) in JSON.items():
        title = "MySQL" if family == MYSQL else "MariaDB"
        yield f'| `"{setting}"` | {title} | `{native}` | {fidelity} | {note} |'
    yield ""


def _computed() -> Iterator[str]:
    def listed(some: Iterable[str]) -> str:
        return ", ".join(f"`{one}`" for one in sorted(some))

    yield "## Generated columns"
    yield ""
    yield "A generated column of a MySQL or MariaDB is computed by the target, too, `VIRTUAL` or `STORED` as at the source,"
    yield "where its expression gives the same from the same row, whatever release it is and whatever settings the session has"
    yield "that writes. Every other one is a plain column with the source's values, and preflight says why. `[target.options]"
    yield 'computed = "values"` makes all of them plain. Known to give the same are expressions of whole numbers, `decimal`,'
    yield f"`date` and `datetime`, and of `varchar` in {listed(own_computed.CHARSETS)}, that have nothing but"
    yield ""
    yield f"- {listed(own_computed.FOR_ALL)}, `IS NULL`, and constants;"
    yield f"- where no text is read also {listed(own_computed.WITHOUT_TEXTS)}, arithmetic without `/`, comparisons and"
    yield f"  {listed(own_computed.WORDS_WITHOUT_TEXTS)}."
    yield ""
    yield "The result is a whole number (of a text its length), `decimal`, `date`, `char` or `varchar`, and nothing of it is"
    yield "rounded or cut. A column in a primary key, in a foreign key of its table, or in `newest_by`, and one that reads a"
    yield "column which the job leaves out, renames or gives another type, is plain, too."
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
