"""Types of PostgreSQL -> types of MySQL and MariaDB: every one that is captured, with fidelity and reason, as data.

Of most of them the rows have the text that PostgreSQL prints. What has no counterpart keeps that text, so that nothing is
lost, nothing rounded, and what comes back is what was there. https://www.postgresql.org/docs/current/datatype.html
What does not live here: kinds of other sources (typemap.py), SQL (terms.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from anabranch.connectors.mysql.target import enums
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.rows.json_texts import is_json

EXACT, WIDENED, LOSSY, REFUSED = Fidelity.EXACT, Fidelity.WIDENED, Fidelity.LOSSY, Fidelity.REFUSED
Row = tuple[str, Fidelity, str]

AS_PRINTED = "the text that PostgreSQL prints; it sorts as text"
AS_BITS = "the bits as a text of 0 and 1"
NO_NAN = "the type has no NaN and no infinities: such a value stops the job"
NO_NAN_ALONE = "the type has no NaN: such a value stops the job"
NO_MINUS = "MariaDB has no -0.0, which becomes 0"
RANGE = "infinity and values outside the years 1 to 9999 stop the job"
UTC = "date and time in UTC"
TIMESTAMP = "values outside 1970 to 2038 stop the job"
CLOCKS = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT, Kind.DURATION})
BITS = 64  # https://dev.mysql.com/doc/refman/8.0/en/bit-type.html
# Most digits, and most behind the point. https://dev.mysql.com/doc/refman/8.0/en/fixed-point-types.html ·
# https://mariadb.com/kb/en/decimal/
PRECISION, SCALES = 65, {"mysql": 30, "mariadb": 38}
NO_DIGITS = (
    "numeric without a precision may hold more digits than any number type of the target, and nothing is rounded: choose a "
    'type for all such columns with [types.map] "numeric()", or for one with columns.type: "decimal(65,30)" (a value with '
    'more digits stops the job), "double" (rounded), or "longtext" (the text)'
)

# Types of which rows have values, as format_type() names them.
VALUES: Mapping[str, Row] = {
    "real": ("float", LOSSY, NO_NAN),
    "double precision": ("double", LOSSY, NO_NAN),
    "text": ("longtext", EXACT, ""),
    "bytea": ("longblob", EXACT, ""),
}
# Kinds whose values are printed.
KINDS: Mapping[Kind, Row] = {
    Kind.BOOLEAN: ("tinyint(1)", WIDENED, "the target stores a boolean as a one-byte integer"),
    Kind.DATE: ("date", LOSSY, RANGE),
    Kind.TIME: ("time({fraction})", WIDENED, "the type also holds times that are not times of day"),
    Kind.TIMESTAMP: ("datetime({fraction})", LOSSY, RANGE),
    Kind.INSTANT: (
        "datetime({fraction})",
        LOSSY,
        f'{UTC}; {RANGE}; [target.options] instant = "timestamp" keeps the type for 1970 to 2038',
    ),
    Kind.INTERVAL: ("varchar(128)", WIDENED, AS_PRINTED),
}
# Types that no other database has in the same sense: their names without sizes and schema. The lengths are the longest that
# each one prints.
NAMED: Mapping[str, Row] = {
    "money": ("varchar(64)", WIDENED, f"{AS_PRINTED}, with the currency of the source's lc_monetary"),
    '"char"': ("varchar(4)", WIDENED, AS_PRINTED),
    "character": ("varchar({length})", EXACT, "keeps the blanks with which PostgreSQL pads it"),
    "name": ("varchar(63)", WIDENED, "its length counts characters, not bytes"),
    "time with time zone": ("varchar(32)", WIDENED, AS_PRINTED),
    "bit varying": ("longtext", WIDENED, AS_BITS),
    "inet": ("varchar(49)", WIDENED, AS_PRINTED),
    "cidr": ("varchar(49)", WIDENED, AS_PRINTED),
    "macaddr": ("char(17)", WIDENED, AS_PRINTED),
    "macaddr8": ("char(23)", WIDENED, AS_PRINTED),
    "oid": ("int unsigned", EXACT, ""),
    "xid": ("int unsigned", EXACT, ""),
    "cid": ("int unsigned", EXACT, ""),
    "xid8": ("bigint unsigned", EXACT, ""),
    "tid": ("varchar(32)", WIDENED, AS_PRINTED),
    "pg_lsn": ("varchar(17)", WIDENED, AS_PRINTED),
    "citext": ("longtext", WIDENED, "comparison is case-sensitive: tables that the load creates compare bytes"),
    "xml": ("longtext", WIDENED, "the text; it is not checked"),
    "hstore": ("longtext", WIDENED, AS_PRINTED),
    **dict.fromkeys(("tsvector", "tsquery", "jsonpath"), ("longtext", WIDENED, AS_PRINTED)),
    **dict.fromkeys(
        ("point", "line", "lseg", "box", "path", "polygon", "circle"),
        ("longtext", WIDENED, f"{AS_PRINTED}; values without a spatial reference system are not stored as a geometry"),
    ),
    **dict.fromkeys(
        ("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"), ("longtext", WIDENED, AS_PRINTED)
    ),
    **dict.fromkeys(
        ("int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"),
        ("longtext", WIDENED, AS_PRINTED),
    ),
    **dict.fromkeys(("int2vector", "oidvector", "refcursor"), ("longtext", WIDENED, AS_PRINTED)),
    **dict.fromkeys(("txid_snapshot", "pg_snapshot"), ("longtext", WIDENED, AS_PRINTED)),
    **dict.fromkeys(
        ("regclass", "regtype", "regproc", "regprocedure", "regoper", "regoperator", "regrole", "regnamespace",
         "regconfig", "regdictionary", "regcollation"),
        ("longtext", WIDENED, f"the name that {AS_PRINTED.removeprefix('the text that ')}"),
    ),
}  # fmt: skip
AS_JSON = '; [target.options] arrays = "json" makes it JSON'
ARRAY: Row = ("longtext", WIDENED, f"{AS_PRINTED}: {{1,2}}{AS_JSON}")
JSON_ARRAY: Row = (
    "longtext",
    WIDENED,
    "JSON: [1, 2]; it sorts as text, and elements other than numbers and booleans are strings",
)
ENUM: Row = (
    "enum",
    EXACT,
    "a label that the source adds later is added to the column with the first row that uses it; in a key, a unique index "
    "or a foreign key the column is a text",
)
UNFIT_ENUM: Row = (
    "longtext",
    WIDENED,
    "the label as text: an enum(…) would confuse labels like '', whole numbers or ones with blanks at the end, or cannot "
    "hold control characters, characters beyond U+FFFF or so many labels",
)
COMPOSITE_AS_JSON = '; [target.options] composites = "json" makes it JSON'
COMPOSITE: Row = ("longtext", WIDENED, f"{AS_PRINTED}: (1,2){COMPOSITE_AS_JSON}")
JSON_COMPOSITE: Row = (
    "longtext",
    WIDENED,
    'JSON: {"a": 1, "b": 2}; it sorts as text, and fields other than numbers and booleans are strings',
)
OTHER: Row = ("longtext", WIDENED, f"{AS_PRINTED}: for an enum in a key it is the label")
DOMAIN = "the domain's own checks are not enforced"
# Reasons that say of every value which the type does not hold that it stops the job.
STOPPING = frozenset((NO_NAN, NO_NAN_ALONE, RANGE, TIMESTAMP, KINDS[Kind.INSTANT][2]))
# Kinds of which rows have values, where no domain is around them.
_AS_VALUES = frozenset(
    (Kind.INT16, Kind.INT32, Kind.INT64, Kind.FLOAT32, Kind.FLOAT64, Kind.TEXT, Kind.BINARY, Kind.UUID)
)


def value(type: LogicalType, family: str) -> Row | None:
    """Return the type for one whose values are not printed; None where there is no more to say than of its kind."""
    found = VALUES.get(type.native)
    if found and family == "mariadb" and type.kind in (Kind.FLOAT32, Kind.FLOAT64):
        return found[0], found[1], f"{found[2]}; {NO_MINUS}"
    return found


def base(type: LogicalType) -> LogicalType:
    """Return the type that a domain is made of, with what a setting of the job says for all columns of its kind."""
    return replace(type, native=type.base, base="", printed=type.kind not in _AS_VALUES)


def of_domain(fit: Fit) -> Fit:
    """Return the fit of a domain, that of its base being given: the target does not know what the domain itself refuses."""
    if fit.fidelity is REFUSED:
        return fit
    reason = fit.reason.partition(AS_JSON)[0]  # of arrays themselves
    return Fit(
        fit.native, WIDENED if fit.fidelity is EXACT else fit.fidelity, "; ".join(filter(None, (reason, DOMAIN)))
    )


def row(type: LogicalType, family: str) -> Row:
    """Return the type for one whose values are printed."""
    if type.kind is Kind.DECIMAL:
        return _decimal(type, family)
    if type.kind is Kind.BIT:
        return ("bit({length})", EXACT, "") if (type.length or 1) <= BITS else ("varchar({length})", WIDENED, AS_BITS)
    if type.kind in KINDS:
        return KINDS[type.kind]
    if type.kind is Kind.ENUM:
        return ENUM if enums.are_fit(type.values) else UNFIT_ENUM
    if type.native.endswith("[]"):
        return JSON_ARRAY if is_json(type) else ARRAY
    if type.fields:
        return JSON_COMPOSITE if is_json(type) else COMPOSITE
    found = NAMED.get(name(type.native))
    if found is None:
        return OTHER
    return found[0].format(length=_length(type.native)), found[1], found[2]


def name(native: str) -> str:
    """Return a type's name without sizes and without the schema of an extension."""
    head, _, tail = native.partition("(")
    found = (head + tail.partition(")")[2]).strip()
    return found if found.startswith('"') else found.rpartition(".")[2]


def _length(native: str) -> int:
    digits = native.partition("(")[2].partition(")")[0]
    return int(digits) if digits.isdigit() else 1


def _decimal(type: LogicalType, family: str) -> Row:
    """Return a DECIMAL with the digits of a numeric; numeric(2,-3) has five of them, numeric(3,5) five behind the point."""
    if not type.precision:
        return "decimal(65,30)", REFUSED, NO_DIGITS
    scale = max(type.scale, 0)
    precision = max(type.precision - min(type.scale, 0), scale)
    if precision > PRECISION or scale > SCALES[family]:
        most = f"{PRECISION} digits, {SCALES[family]} of them behind the point"
        return (
            f"decimal({PRECISION},{SCALES[family]})",
            REFUSED,
            f"decimal holds at most {most}; {NO_DIGITS.partition(': ')[2]}",
        )
    return f"decimal({precision},{scale})", LOSSY, NO_NAN_ALONE
