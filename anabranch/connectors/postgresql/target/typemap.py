"""Logical type -> PostgreSQL type, with fidelity and reason, as a table.

What does not live here: types that a job chooses instead (choices.py), DDL (ddl.py), what values look like (text_forms.py).
Vendor facts: https://www.postgresql.org/docs/current/datatype.html
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.connectors.postgresql.target import choices, text_forms
from anabranch.connectors.postgresql.target.fits import spellings, takes
from anabranch.connectors.postgresql.target.options import USUAL
from anabranch.contracts import ValueRules
from anabranch.model.at_target import AtTarget
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.schema import Column, TableSchema

FRACTION = 6  # digits of a second; https://www.postgresql.org/docs/current/datatype-datetime.html
VARCHAR_LIMIT = 10_485_760  # characters; https://www.postgresql.org/docs/current/datatype-character.html

EXACT, WIDENED, LOSSY = Fidelity.EXACT, Fidelity.WIDENED, Fidelity.LOSSY

# Kind -> native type (fields of LogicalType are put in), fidelity, reason.
NATIVE: dict[Kind, tuple[str, Fidelity, str]] = {
    Kind.INT8: ("smallint", WIDENED, "PostgreSQL has no one-byte integer"),
    Kind.INT16: ("smallint", EXACT, ""),
    Kind.INT32: ("integer", EXACT, ""),
    Kind.INT64: ("bigint", EXACT, ""),
    Kind.UINT8: ("smallint", WIDENED, "PostgreSQL has no unsigned integers"),
    Kind.UINT16: ("integer", WIDENED, "PostgreSQL has no unsigned integers"),
    Kind.UINT32: ("bigint", WIDENED, "PostgreSQL has no unsigned integers"),
    Kind.UINT64: ("numeric(20)", WIDENED, "PostgreSQL has no unsigned integers; bigint ends at 2^63-1"),
    Kind.DECIMAL: ("numeric({precision},{scale})", EXACT, ""),
    Kind.FLOAT32: ("real", EXACT, ""),
    Kind.FLOAT64: ("double precision", EXACT, ""),
    Kind.TEXT: ("varchar({length})", EXACT, 'a NUL character stops the job, [types] nul = "strip" removes it'),
    Kind.BINARY: ("bytea", WIDENED, "bytea has no declared length"),
    Kind.BIT: ("bit({length})", EXACT, ""),
    Kind.DATE: ("date", EXACT, 'a zero date stops the job, [types] zero_date = "null" makes it NULL'),
    Kind.TIMESTAMP: ("timestamp({fraction})", EXACT, "zero dates: [types] zero_date decides"),
    Kind.INSTANT: ("timestamptz({fraction})", EXACT, "zero dates: [types] zero_date decides"),
    Kind.DURATION: ("interval({fraction})", WIDENED, "interval holds more than the source's time type"),
    Kind.YEAR: ("smallint", WIDENED, "PostgreSQL has no year type"),
    Kind.ENUM: ("text", EXACT, "a check admits the labels and ''; it sorts as text, not by label number"),
    Kind.UUID: ("uuid", EXACT, ""),
    Kind.INET: ("inet", WIDENED, "inet also holds networks"),
    Kind.BOOLEAN: ("boolean", EXACT, ""),
    Kind.TIME: ("time({fraction})", EXACT, ""),
    Kind.INTERVAL: ("interval({fraction})", EXACT, ""),
    Kind.NATIVE: ("{native}", EXACT, ""),
    Kind.SET: ("text", WIDENED, "members joined by commas, not checked against the declared ones"),
}

# [target.options] json -> native type, fidelity, reason
JSON: dict[str, tuple[str, Fidelity, str]] = {
    "jsonb": (
        "jsonb",
        LOSSY,
        "refuses the escape \\u0000, turns -0.0 into 0.0 and dates or decimals inside into plain JSON; "
        '[target.options] json = "json" keeps the text',
    ),
    "json": ("json", EXACT, "keeps the source's JSON text; has no equality operator"),
    "text": ("text", EXACT, "keeps the source's JSON text"),
}

# [target.options] geometry and vector -> the same
GEOMETRY: dict[str, tuple[str, Fidelity, str]] = {
    "bytea": (
        "bytea",
        WIDENED,
        "WKB, with the SRID in it where there is one (EWKB); bytea is not checked; where PostGIS is installed "
        '[target.options] geometry = "geometry" keeps the type',
    ),
    "geometry": ("geometry", WIDENED, "PostGIS's type for geometry of every kind and SRID"),
}
VECTOR: dict[str, tuple[str, Fidelity, str]] = {
    "real[]": (
        "real[]",
        WIDENED,
        'an array of any length; where pgvector is installed [target.options] vector = "vector"',
    ),
    "vector": (
        "vector({length})",
        EXACT,
        "pgvector's type; `vector` without a size where MySQL holds shorter ones too",
    ),
}
UNSIZED = "no size is declared, because the source's size is only a maximum"
SETTINGS = (Kind.GEOMETRY, Kind.VECTOR)  # kinds for which the load asks the job's settings, not a column's choice
EXTENSIONS = {"geometry": "postgis", "vector": "vector", "citext": "citext"}  # a type's name -> what brings it


class PostgresTypes:
    """The TypeMap of this target. Total: every kind has a row above."""

    keeps_nul = False

    def fit(self, type: LogicalType, rules: ValueRules) -> Fit:
        if type.target and type.target != _setting(type.kind, rules):
            return _chosen(type, rules)
        if type.carried is Kind.ENUM and any("\x00" in label for label in type.values):
            return Fit(
                "text", Fidelity.REFUSED, "a label has a NUL character, which a CHECK of PostgreSQL cannot contain"
            )
        if type.fraction > FRACTION and not type.native:
            text = f"it keeps {FRACTION} digits of a second, not {type.fraction}"
            return Fit(NATIVE[type.kind][0].format(fraction=FRACTION), Fidelity.REFUSED, text)
        native, fidelity, reason = _row(type, rules)
        if type.carried is Kind.TEXT and (type.length is None or not 0 < type.length <= VARCHAR_LIMIT):
            native = "text"
        if type.native == native:
            fidelity, reason = EXACT, ""
        lossy = _chosen_loss(type.carried, rules)
        filled = native.format(
            length=type.length or 1,
            precision=type.precision,
            scale=type.scale,
            fraction=type.fraction,
            native=type.native,
        )
        return Fit(filled, LOSSY, lossy) if lossy else Fit(filled, fidelity, reason)

    def into(self, column: Column, type: LogicalType, standing: str, is_key: bool, rules: ValueRules) -> Fit:
        found = self.fit(type, rules)
        if found.fidelity is Fidelity.REFUSED:
            return found
        if not takes(standing, found.native):
            return Fit(found.native, Fidelity.REFUSED, f"{standing} does not hold all that {found.native} does")
        if is_key and not choices.may_be_key(type, column.collation):
            why = f"a key column cannot become {type.target}: its values print or compare otherwise"
            return Fit(found.native, Fidelity.REFUSED, why)
        return found

    def spellings(self, standing: str) -> Sequence[str]:
        return spellings(standing)

    def by_setting(self, kind: Kind, rules: ValueRules) -> str:
        setting = _setting(kind, rules)
        return setting if setting in EXTENSIONS else ""

    def why_not_computed(self, column: Column, schema: TableSchema, rules: ValueRules) -> str:
        return "its expressions are those of another database"

    def at_target(self, type: LogicalType, rules: ValueRules) -> AtTarget:
        return text_forms.at_target(type, rules)


def _setting(kind: Kind, rules: ValueRules) -> str:
    """Return what a setting of the whole job says of a kind."""
    return {Kind.GEOMETRY: rules.geometry, Kind.VECTOR: rules.vector}.get(kind, "")


def _row(type: LogicalType, rules: ValueRules) -> tuple[str, Fidelity, str]:
    if type.native and type.carried is Kind.NATIVE:  # in the words of this database
        return NATIVE[Kind.NATIVE]
    if type.kind is Kind.DECIMAL and not type.precision:
        return "numeric", EXACT, ""
    if type.kind is Kind.JSON:
        return JSON[rules.json or USUAL.json]
    if type.kind is Kind.GEOMETRY:
        return GEOMETRY[rules.geometry or USUAL.geometry]
    if type.kind is Kind.VECTOR:
        native, fidelity, reason = VECTOR[rules.vector or USUAL.vector]
        unsized = native.partition("(")[0]
        return (native, fidelity, reason) if type.length or native == unsized else (unsized, WIDENED, UNSIZED)
    return NATIVE[type.kind]


def _chosen(type: LogicalType, rules: ValueRules) -> Fit:
    """Return the job's own choice, or why it is refused."""
    found = choices.choice(type)
    if found is None:
        there = ", ".join(choices.possible(type)) or (
            "none" if type.kind not in SETTINGS else f"[target.options] {type.kind}"
        )
        return Fit(type.target, Fidelity.REFUSED, f"{type} cannot become {type.target}; possible: {there}")
    lossy = _chosen_loss(type.carried, rules)
    return Fit(type.target, LOSSY if lossy else found.fidelity, "; ".join(filter(None, (found.reason, lossy))))


def _chosen_loss(kind: Kind, rules: ValueRules) -> str:
    """Say what the user's own [types] choices lose, "" for nothing."""
    if kind is Kind.TEXT and rules.nul == "strip":
        return 'NUL characters are removed ([types] nul = "strip")'
    if kind in (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT) and rules.zero_date != "stop":
        into = "NULL" if rules.zero_date == "null" else rules.zero_date
        return f'zero dates become {into} (zero_date = "{rules.zero_date}")'
    return ""
