"""Logical type -> type of MySQL and MariaDB, with fidelity and reason, as tables.

`MysqlTypes.fit` knows the logical type alone; `MysqlTypes.column_fit` the source's column too, and takes the types of this
family in the source's own words (own_words.py). What does not live here: what PostgreSQL prints (printed.py), types that a
job chooses instead (choices.py), what values look like (text_forms.py, terms.py), collations (collations.py).
Vendor facts: https://dev.mysql.com/doc/refman/8.0/en/data-types.html · https://mariadb.com/kb/en/data-types/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anabranch.connectors.mysql.target import choices, own_computed, own_words, printed, text_forms
from anabranch.connectors.mysql.target.enums import LABELLED, takes_texts
from anabranch.connectors.mysql.target.fits import spellings, takes
from anabranch.connectors.mysql.target.words import labelled
from anabranch.contracts import ValueRules
from anabranch.model.at_target import AtTarget
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.json_texts import is_json

MYSQL, MARIADB = "mysql", "mariadb"
FRACTION = 6  # digits of a second; https://dev.mysql.com/doc/refman/8.0/en/fractional-seconds.html
# The longest that a row may have, in characters of utf8mb4: https://dev.mysql.com/doc/refman/8.0/en/column-count-limit.html
VARCHAR_LIMIT = 16_383
VARBINARY_LIMIT = 65_532

EXACT, WIDENED, LOSSY, REFUSED = Fidelity.EXACT, Fidelity.WIDENED, Fidelity.LOSSY, Fidelity.REFUSED
ZERO_DATES = 'a zero date stops the job; [types] zero_date = "-infinity" stores every invalid date as 0000-00-00'

# Kind -> native type (fields of LogicalType are put in), fidelity, reason.
NATIVE: dict[Kind, tuple[str, Fidelity, str]] = {
    Kind.INT8: ("tinyint", EXACT, ""),
    Kind.INT16: ("smallint", EXACT, ""),
    Kind.INT32: ("int", EXACT, ""),
    Kind.INT64: ("bigint", EXACT, ""),
    Kind.UINT8: ("tinyint unsigned", EXACT, ""),
    Kind.UINT16: ("smallint unsigned", EXACT, ""),
    Kind.UINT32: ("int unsigned", EXACT, ""),
    Kind.UINT64: ("bigint unsigned", EXACT, ""),
    Kind.DECIMAL: ("decimal({precision},{scale})", EXACT, ""),
    Kind.FLOAT32: ("float", EXACT, ""),
    Kind.FLOAT64: ("double", EXACT, ""),
    Kind.BOOLEAN: ("tinyint(1)", WIDENED, "the target stores a boolean as a one-byte integer"),
    Kind.TEXT: ("varchar({length})", EXACT, ""),
    Kind.BINARY: ("varbinary({length})", EXACT, ""),
    Kind.BIT: ("bit({length})", EXACT, ""),
    Kind.DATE: ("date", EXACT, ZERO_DATES),
    Kind.TIME: ("time({fraction})", WIDENED, "the type also holds times that are not times of day"),
    Kind.TIMESTAMP: ("datetime({fraction})", EXACT, ZERO_DATES),
    Kind.INSTANT: ("timestamp({fraction})", EXACT, ZERO_DATES),
    Kind.DURATION: ("time({fraction})", EXACT, ""),
    Kind.INTERVAL: ("varchar(128)", WIDENED, printed.AS_PRINTED),
    Kind.YEAR: ("year", EXACT, ""),
    Kind.ENUM: ("enum", EXACT, "the error value ('' that is not a label) stops the job"),
    Kind.SET: ("set", EXACT, ""),
    Kind.UUID: ("char(36)", WIDENED, "any text of that length fits; [target.options] uuid chooses another type"),
    Kind.INET: ("varchar(45)", WIDENED, "any text of that length fits"),
    Kind.GEOMETRY: ("geometry", EXACT, ""),
    Kind.VECTOR: ("vector({length})", EXACT, ""),
    Kind.NATIVE: ("longtext", WIDENED, printed.AS_PRINTED),
}
# MariaDB's own, since 10.7. It stores time-based ones in another order, and refuses what would look like one of those.
# https://mariadb.com/kb/en/uuid-data-type/
OWN_UUID = ("uuid", LOSSY, "MariaDB refuses UUIDs with version 8 to 15 and variant below 6; such a value stops the job")
STOPPING = printed.STOPPING | choices.STOPPING | {OWN_UUID[2]}  # reasons that change no value
JSON: dict[tuple[str, str], tuple[str, Fidelity, str]] = {
    (MYSQL, "json"): (
        "json",
        LOSSY,
        "MySQL reorders keys, keeps one of several equal keys, stores numbers beyond 64 bits as doubles, may change the last "
        "digit of a double, and dates or decimals inside become plain JSON; "
        '[target.options] json = "text" keeps the text',
    ),
    (MARIADB, "json"): ("json", EXACT, "a longtext that keeps the source's JSON text"),
    (MYSQL, "text"): ("longtext", EXACT, "keeps the source's JSON text"),
    (MARIADB, "text"): ("longtext", EXACT, "keeps the source's JSON text"),
}
# [target.options] uuid and instant -> the type for all columns of the kind
UUIDS = {"binary": "binary(16)", "native": "uuid"}
INSTANTS = {"timestamp": "timestamp", "datetime": "datetime"}


class MysqlTypes:
    """The TypeMap of this target, `family` being "mysql" or "mariadb". Total: every kind has a row above."""

    keeps_nul = True

    def __init__(self, family: str = MYSQL) -> None:
        self.family = family

    def fit(self, type: LogicalType, rules: ValueRules) -> Fit:
        found = self._fit(type, rules)
        stops = found.fidelity is LOSSY and found.reason.removesuffix(f"; {printed.DOMAIN}") in STOPPING
        return replace(found, stops=True) if stops else found

    def _fit(self, type: LogicalType, rules: ValueRules) -> Fit:
        if type.base:
            return printed.of_domain(self.fit(printed.base(type), rules))
        if type.target and type.target != self.by_setting(type.kind, rules):
            found = choices.fit(type, self.family)
            is_text = is_json(type) and found.fidelity is WIDENED
            return Fit(found.native, WIDENED, printed.row(type, self.family)[2]) if is_text else found
        if type.fraction > FRACTION and type.kind in printed.CLOCKS:
            text = f"it keeps {FRACTION} digits of a second, not {type.fraction}"
            return Fit(NATIVE[type.kind][0].format(fraction=FRACTION), REFUSED, text)
        native, fidelity, reason = self._row(type, rules)
        if type.kind is Kind.TEXT and not type.printed:
            native = native if type.length and type.length <= VARCHAR_LIMIT else "longtext"
        if type.kind is Kind.BINARY:
            native = native if type.length and type.length <= VARBINARY_LIMIT else "longblob"
        if not type.fraction:
            native = native.replace("({fraction})", "")
        filled = native.format(
            length=type.length or 1,
            precision=type.precision,
            scale=type.scale,
            fraction=type.fraction,
        )
        return _with_loss(Fit(filled, fidelity, reason), type, rules)

    def column_fit(self, column: Column, type: LogicalType, rules: ValueRules) -> Fit:
        """Choose the type of a source's column, whose logical type is `type` by the job's rules: in its own words where the
        source is of this family."""
        found = own_words.fit(column, type, self.family) if not type.target and type.kind is not Kind.JSON else None
        if found is None:
            return self.fit(type, rules)
        return _with_loss(found, type, rules)

    def into(self, column: Column, type: LogicalType, standing: str, is_key: bool, rules: ValueRules) -> Fit:
        found = self.column_fit(column, type, rules)
        if found.fidelity is REFUSED:
            return found
        if type.target in LABELLED and not takes_texts(standing):
            why = "it has labels that are numbers, empty or end in a blank, which texts are not told from"
            return Fit(found.native, REFUSED, why)
        if not takes(standing, found.native):
            return Fit(found.native, REFUSED, f"{standing} does not hold all that {found.native} does")
        if is_key and not choices.may_be_key(type, self.family):
            return Fit(found.native, REFUSED, f"a key column cannot become {type.target}: its values compare otherwise")
        return found

    def spellings(self, standing: str) -> Sequence[str]:
        return spellings(standing)

    def by_setting(self, kind: Kind, rules: ValueRules) -> str:
        if kind is Kind.UUID:
            chosen = UUIDS.get(rules.uuid, "")
            return chosen if chosen != "uuid" or self.family == MARIADB else ""
        return INSTANTS.get(rules.instant, "") if kind is Kind.INSTANT else ""

    def why_not_computed(self, column: Column, schema: TableSchema, rules: ValueRules) -> str:
        return own_computed.why_not(column, schema, rules, self.family)

    def at_target(self, type: LogicalType, rules: ValueRules) -> AtTarget:
        return text_forms.at_target(type, rules, self.family)

    def _row(self, type: LogicalType, rules: ValueRules) -> tuple[str, Fidelity, str]:
        if type.target:  # what a setting of the job says for all columns of the kind
            return self._set(type)
        if type.kind is Kind.JSON:
            return JSON[self.family, "text" if rules.json == "text" else "json"]
        if type.carried is Kind.NATIVE:  # PostgreSQL's, as it prints them
            found = printed.row(type, self.family)
            return (_labelled(type)[0], *found[1:]) if found is printed.ENUM else found
        if type.native:  # PostgreSQL's, of which rows have the value
            return printed.value(type, self.family) or NATIVE[type.kind]
        if type.kind in (Kind.ENUM, Kind.SET):
            return _labelled(type)
        if type.kind is Kind.VECTOR and not type.length:
            why = "the source's column also holds shorter vectors, so this is the largest size that the target allows"
            return "vector(16383)", WIDENED, why
        return NATIVE[type.kind]

    def _set(self, type: LogicalType) -> tuple[str, Fidelity, str]:
        if type.kind is Kind.UUID:
            return OWN_UUID if type.target == "uuid" else (type.target, EXACT, "")
        if type.target == "datetime":
            return "datetime({fraction})", WIDENED, printed.UTC
        if type.printed:
            return "timestamp({fraction})", LOSSY, printed.TIMESTAMP
        return NATIVE[Kind.INSTANT]


def _labelled(type: LogicalType) -> tuple[str, Fidelity, str]:
    """Return an ENUM or SET in words. Braces in a label stay: the fields of the type are put into what is returned."""
    text = labelled(type.kind.value, type.values).replace("{", "{{").replace("}", "}}")
    return text, EXACT, NATIVE[type.kind][2]


def _with_loss(fit: Fit, type: LogicalType, rules: ValueRules) -> Fit:
    """Add what the user's own [types] choices lose."""
    if type.carried is Kind.TEXT and rules.nul == "strip":
        return Fit(fit.native, LOSSY, 'NUL characters are removed ([types] nul = "strip")')
    if type.carried not in (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT) or rules.zero_date == "stop":
        return fit
    if rules.zero_date == "infinity":
        return Fit(fit.native, REFUSED, f"the target has no infinite date (zero_date); {ZERO_DATES.partition('; ')[2]}")
    into = {"null": "NULL", "-infinity": "0000-00-00"}.get(rules.zero_date, rules.zero_date)
    return Fit(fit.native, LOSSY, f'zero dates become {into} (zero_date = "{rules.zero_date}")')
