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
NO_NAN = "NaN and infinities, which it does not have, stop the job"
NO_MINUS = "MariaDB has no -0.0, which becomes 0"
RANGE = "infinity and what is outside of the years 1 to 9999 stop the job"
UTC = "the instant's clock in UTC"
TIMESTAMP = "what is outside of 1970 to 2038 stops the job"
CLOCKS = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.INSTANT, Kind.DURATION})
BITS = 64  # https://dev.mysql.com/doc/refman/8.0/en/bit-type.html
# Most digits, and most behind the point. https://dev.mysql.com/doc/refman/8.0/en/fixed-point-types.html ·
# https://mariadb.com/kb/en/decimal/
PRECISION, SCALES = 65, {"mysql": 30, "mariadb": 38}
NO_DIGITS = (
    "numeric without digits holds more than any number there, and none is rounded: choose for all of them by [types.map] "
    '"numeric()", or by columns.type: "decimal(65,30)" (a value with more digits stops the job), "double" (rounded), or '
    '"longtext" (the text)'
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
    Kind.BOOLEAN: ("tinyint(1)", WIDENED, "a boolean is a number of one byte there"),
    Kind.DATE: ("date", LOSSY, RANGE),
    Kind.TIME: ("time({fraction})", WIDENED, "it holds more than the times of a day"),
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
    "character": ("varchar({length})", EXACT, "with the blanks that PostgreSQL fills it up with"),
    "name": ("varchar(63)", WIDENED, "it counts characters, not bytes"),
    "time with time zone": ("varchar(32)", WIDENED, AS_PRINTED),
    "bit varying": ("longtext", WIDENED, "its digits"),
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
    "citext": ("longtext", WIDENED, "it no longer ignores case: the collation of made tables compares bytes"),
    "xml": ("longtext", WIDENED, "the text; it is not checked"),
    "hstore": ("longtext", WIDENED, AS_PRINTED),
    **dict.fromkeys(("tsvector", "tsquery", "jsonpath"), ("longtext", WIDENED, AS_PRINTED)),
    **dict.fromkeys(
        ("point", "line", "lseg", "box", "path", "polygon", "circle"),
        ("longtext", WIDENED, f"{AS_PRINTED}; a plane without a spatial system is no geometry there"),
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
    "JSON: [1, 2]; it sorts as text, and elements that are no numbers or booleans are texts",
)
ENUM: Row = (
    "enum",
    EXACT,
    "labels that the source adds later are added here with the first row that has one; in a key, a unique index or a foreign "
    "key it is a text",
)
UNFIT_ENUM: Row = (
    "longtext",
    WIDENED,
    "the label; an enum(…) would take labels like these for another one: '', whole numbers, blanks at the end; or has no"
    " place for control characters, letters beyond U+FFFF, or so many labels",
)
COMPOSITE_AS_JSON = '; [target.options] composites = "json" makes it JSON'
COMPOSITE: Row = ("longtext", WIDENED, f"{AS_PRINTED}: (1,2){COMPOSITE_AS_JSON}")
JSON_COMPOSITE: Row = (
    "longtext",
    WIDENED,
    'JSON: {"a": 1, "b": 2}; it sorts as text, and fields that are no numbers or booleans are texts',
)
OTHER: Row = ("longtext", WIDENED, f"{AS_PRINTED}: of an enum in a key the label")
DOMAIN = "checks of the domain are not made"
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
        return ("bit({length})", EXACT, "") if (type.length or 1) <= BITS else ("varchar({length})", WIDENED, "digits")
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
        return f"decimal({PRECISION},{SCALES[family]})", REFUSED, f"it holds {most}; {NO_DIGITS.partition(': ')[2]}"
    return f"decimal({precision},{scale})", LOSSY, "NaN, which it does not have, stops the job"
