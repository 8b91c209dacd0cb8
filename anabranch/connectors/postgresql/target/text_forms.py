"""Text forms of values here: the texts that PostgreSQL reads where they are not those of their kind, and the texts that
it prints for one value in several ways. Data, told once per column (typemap.py).

What does not live here: making texts (rows/lines.py), comparing them (verify/), the SQL that reads them (verify.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.connectors.postgresql.target.options import USUAL
from anabranch.contracts import ValueRules
from anabranch.model.at_target import AtTarget, CanonicalForm, TextForm
from anabranch.model.datatype import Kind, LogicalType

# Columns of these types take another text than the kind's. Any spelling of a UUID is read, one is printed: that of lower case.
# https://www.postgresql.org/docs/current/datatype-uuid.html, https://postgis.net/docs/using_postgis_dbmanagement.html#EWKB_EWKT,
# https://github.com/pgvector/pgvector#storing
TEXTS: Mapping[tuple[Kind, str], TextForm] = {
    (Kind.TEXT, "uuid"): TextForm.LOWER_CASE,
    (Kind.GEOMETRY, "geometry"): TextForm.BARE_DIGITS,
    (Kind.VECTOR, "vector"): TextForm.BRACKETS,
}
# What a job's own choice of a type makes alike: a plain number has no zero with a sign.
CHOSEN: Mapping[tuple[Kind, str], CanonicalForm] = {
    (Kind.TEXT, "uuid"): CanonicalForm.UUID,
    (Kind.TEXT, "json"): CanonicalForm.JSON_TEXT,
    (Kind.TEXT, "jsonb"): CanonicalForm.JSON_VALUES,
    (Kind.JSON, "jsonb"): CanonicalForm.JSON_VALUES,
    (Kind.DECIMAL, "double precision"): CanonicalForm.FLOAT64_WITHOUT_SIGN,
    (Kind.FLOAT32, "numeric"): CanonicalForm.FLOAT32_WITHOUT_SIGN,
    (Kind.FLOAT64, "numeric"): CanonicalForm.FLOAT64_WITHOUT_SIGN,
}
# Types with floats in them: up to 11 PostgreSQL prints more digits than tell them apart.
# https://www.postgresql.org/docs/12/release-12.html
WITH_FLOATS: Mapping[str, CanonicalForm] = {
    f"{name}{array}": CanonicalForm.FLOATS32 if name == "real" else CanonicalForm.FLOATS64
    for name in ("real", "double precision", "point", "line", "lseg", "box", "path", "polygon", "circle")
    for array in ("", "[]")
}
SORT_AS_TEXT = ("text", "varchar", "character", "char", "bytea", "json")  # the beginnings of their names
WHOLE = frozenset(("smallint", "integer", "int", "bigint", "numeric"))  # types that hold whole numbers


def at_target(type: LogicalType, rules: ValueRules) -> AtTarget:
    return AtTarget(
        text=TEXTS.get((type.carried, type.target), TextForm.OF_KIND),
        canonical=_canonical(type, rules),
        sorts_as_text=type.target.startswith(SORT_AS_TEXT),
        keeps_whole=not type.target or type.target in WHOLE,
    )


def _canonical(type: LogicalType, rules: ValueRules) -> CanonicalForm:
    """Return the canonical form of a type's values; JSON is compared as jsonb does.

    https://www.postgresql.org/docs/current/datatype-json.html
    """
    if type.carried is Kind.NATIVE:
        return WITH_FLOATS.get(type.native, CanonicalForm.OF_KIND)
    kept = type.target or (rules.json or USUAL.json if type.carried is Kind.JSON else "")
    return CHOSEN.get((type.carried, kept), CanonicalForm.OF_KIND)
