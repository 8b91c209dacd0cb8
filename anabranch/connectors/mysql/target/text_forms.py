"""Text forms of values here: the texts that the terms (terms.py) read where they are not those of their kind, and the
texts that MySQL and MariaDB print for one value in several ways. Data, told once per column (typemap.py).

Bytes and geometry stay as their kind has them, `\\x` and hexadecimal digits: sources print them like that already, and a
term takes them from there. What does not live here: making texts (rows/lines.py), comparing them (verify/), SQL (terms.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.connectors.mysql.target.words import bare
from anabranch.contracts import ValueRules
from anabranch.model.at_target import AtTarget, CanonicalForm, TextForm
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows import json_texts

# A vector is its bytes: as text both servers print six digits of each element.
# https://dev.mysql.com/doc/refman/9.7/en/vector-functions.html · https://mariadb.com/kb/en/vec_totext/
TEXTS: Mapping[Kind, TextForm] = {Kind.VECTOR: TextForm.BARE_DIGITS}
# Kind and the name of the type that the job chose -> what that type makes alike. A DECIMAL prints all of its digits.
CHOSEN: Mapping[tuple[Kind, str], CanonicalForm] = {
    (Kind.TEXT, "uuid"): CanonicalForm.UUID,
    (Kind.UUID, "uuid"): CanonicalForm.UUID,
    (Kind.DECIMAL, "double"): CanonicalForm.FLOAT64_WITHOUT_SIGN,
}
# Of domains the text is the one that PostgreSQL prints, not the one that both ends print a number as.
FLOATS: Mapping[Kind, CanonicalForm] = {Kind.FLOAT32: CanonicalForm.FLOAT32, Kind.FLOAT64: CanonicalForm.FLOAT64}
# MariaDB has no -0.0, in columns and in results.
WITHOUT_SIGN: Mapping[Kind, CanonicalForm] = {
    Kind.FLOAT32: CanonicalForm.FLOAT32_WITHOUT_SIGN,
    Kind.FLOAT64: CanonicalForm.FLOAT64_WITHOUT_SIGN,
}
SORT_AS_TEXT = frozenset(
    ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "varbinary", "binary", "longblob", "enum")
)
CLOCKS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT})
WHOLE = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "decimal"))  # types that hold whole numbers


def at_target(type: LogicalType, rules: ValueRules, family: str) -> AtTarget:
    name = bare(type.target)
    return AtTarget(
        text=_text(type, rules),
        canonical=_canonical(type, name, rules, family),
        sorts_as_text=name in SORT_AS_TEXT,
        keeps_whole=not name or name in WHOLE,
        zero_dates=type.carried in CLOCKS and "-infinity" in (rules.zero_date, *(to for _, _, to in rules.zero_dates)),
    )


def _text(type: LogicalType, rules: ValueRules) -> TextForm:
    form = json_texts.wanted(type, rules)
    return TEXTS.get(type.carried, TextForm.OF_KIND) if form is TextForm.OF_KIND else form


def _canonical(type: LogicalType, name: str, rules: ValueRules, family: str) -> CanonicalForm:
    """Return the canonical form of a type's values. MySQL's JSON is compared by value, MariaDB's is its text.

    https://dev.mysql.com/doc/refman/8.0/en/json.html#json-normalization · https://mariadb.com/kb/en/json/
    """
    if Kind.JSON in (type.kind, _kind_of(name)):
        is_text = family != "mysql" or (name or rules.json) not in ("json", "")
        return CanonicalForm.JSON_TEXT if is_text else CanonicalForm.JSON_VALUES
    if not name and type.kind in FLOATS and (family == "mariadb" or type.printed):
        return (WITHOUT_SIGN if family == "mariadb" else FLOATS)[type.kind]
    if type.carried is Kind.VECTOR:
        return CanonicalForm.AS_IT_IS
    if name == "decimal":
        return CanonicalForm.NUMBER
    return CHOSEN.get((type.kind, name), CanonicalForm.OF_KIND)


def _kind_of(name: str) -> Kind | None:
    return Kind.JSON if name == "json" else None
