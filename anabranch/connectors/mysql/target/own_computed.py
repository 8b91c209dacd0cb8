"""Generated columns of a MySQL or MariaDB source that the target computes too, and why it does not compute others.

A computed column is right only if both servers make the same of the same row, whatever their releases and the settings of
whoever wrote it: time zone, sql_mode, language, sizes of packets. What is not in the tables below gets the source's values.
https://dev.mysql.com/doc/refman/8.0/en/create-table-generated-columns.html · https://mariadb.com/kb/en/generated-columns/
What does not live here: how they are made (`columns.py`, `ddl.py`), computed columns of other sources (`other_words.py`), which
columns the job changes (rules/).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from anabranch.connectors.mysql.target import own_words
from anabranch.connectors.mysql.target.words import bare
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.zero_dates import KINDS, STOP, choice

VALUES = "values"  # [target.options] computed
WHOLE = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64})
UNSIGNED = frozenset({Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64})
NUMBERS = WHOLE | {Kind.DECIMAL}
CLOCKS = frozenset({Kind.DATE, Kind.TIMESTAMP})  # an instant is printed in the time zone of a session
# Character sets in which a text has the same bytes at both ends (length, hex, md5): for latin1 a target may have utf8mb4.
# A `char` is filled up or not by a sql_mode (PAD_CHAR_TO_FULL_LENGTH), and of a long text a function gives NULL where it
# exceeds max_allowed_packet.
CHARSETS = frozenset(("utf8mb4", "utf8mb3", "utf8", "ascii"))
# Functions that look at no collation, time zone, language or sql_mode.
FOR_ALL = frozenset(
    """char_length character_length coalesce concat concat_ws hex if ifnull isnull left length ltrim md5 octet_length reverse
    right rtrim sha1 sha2 substr substring trim""".split()  # noqa: SIM905 - a table of words
)
WITHOUT_TEXTS = frozenset(
    """abs cast ceil ceiling date day dayofmonth dayofweek dayofyear floor greatest hour last_day least minute mod month nullif
    quarter round second sign to_days weekday year""".split()  # noqa: SIM905 - a table of words
)
NUMBERS_OF_TEXTS = frozenset(("char_length", "character_length", "length", "octet_length"))
WITHOUT_TIME = ("date(", "cast(", "last_day(")
WORDS_FOR_ALL = frozenset(("is", "null"))
WORDS_WITHOUT_TEXTS = frozenset(
    "and or not in between case when then else end div mod true false as date".split()  # noqa: SIM905 - a table of words
)
MARKS_FOR_ALL, MARKS_WITHOUT_TEXTS = "(),", "+-*%=<>!"  # a quotient has as many digits as a setting says
_NOT_NULL = re.compile(r"\bis not null\b", re.IGNORECASE)
_TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<name>`(?:[^`]|``)+`) | (?P<text>(?:_utf8mb4)?'(?:[^'\\]|\\.|'')*')
      | (?P<number>\d+(?:\.\d+)?(?![\w.])) | (?P<function>\w+(?=\()) | (?P<word>\w+) | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


def why_not(column: Column, schema: TableSchema, rules: ValueRules, family: str) -> str:
    """Say why the column gets the source's values; "" where the target computes it."""
    from anabranch.connectors.mysql.target.clauses import (
        DOUBTFUL,
        as_written,
        is_doubtful,
        is_of_family,
    )  # it knows the driver, and is seldom asked

    if not is_of_family(schema) or not column.generated or not column.expression:
        return "its expression is not known"
    if rules.computed == VALUES:
        return '[target.options] computed = "values" asks for a plain column'
    if any(column.name in key.columns for key in schema.foreign_keys):
        return "a foreign key uses it"
    if column.type is None or own_words.fit(column, column.type, family) is None:
        return f"{column.native} becomes another type"
    inputs = [schema.column(name) for name in schema.named_by(column)]
    text = as_written(column.expression)
    found = [*_unlike_inputs(inputs, schema, rules), *_unlike_results(column, inputs, text)]
    found += [DOUBTFUL] * is_doubtful(text)
    return found[0] if found else _unlike_words(text, inputs, is_number=column.type.kind in NUMBERS)


def _unlike_inputs(inputs: list[Column], schema: TableSchema, rules: ValueRules) -> Iterator[str]:
    for column in inputs:
        kind = column.type.kind if column.type else Kind.NATIVE
        if kind is Kind.TEXT:
            if bare(column.native) != "varchar" or column.charset.lower() not in CHARSETS:
                yield (
                    f"it reads {column.name} ({column.native} {column.charset}): only a varchar in utf8mb4, utf8mb3 or ascii "
                    "gives the same result"
                )
            if rules.nul != "stop":
                yield f'it reads {column.name}, which [types] nul = "{rules.nul}" changes'
        elif kind not in NUMBERS | CLOCKS:
            yield f"it reads {column.name} ({column.native}), which other servers or settings may convert differently"
        elif kind in KINDS and choice(rules, schema, column.name) != STOP:
            yield f"it reads {column.name}, of which [types] zero_date changes values"


def _unlike_results(column: Column, inputs: list[Column], text: str) -> Iterator[str]:
    """Yield why the result is not kept as it is. Of what is rounded or cut the server gives a note, which refuses a load."""
    kind = column.type.kind if column.type else Kind.NATIVE
    if kind not in NUMBERS | {Kind.TEXT, Kind.DATE}:
        yield f"as {column.native} the result depends on settings"
    if "-" in text and any(c.type and c.type.kind in UNSIGNED for c in inputs):
        yield "whether a difference of unsigned numbers may be negative depends on a sql_mode"
    moments = [c for c in inputs if c.type and c.type.kind is Kind.TIMESTAMP]
    if kind is Kind.DATE and moments and not text.lstrip("(").lower().startswith(WITHOUT_TIME):
        yield f"the time of {moments[0].name} is cut"
    if kind in NUMBERS and column.type and _decimals(text, inputs) > column.type.scale:
        yield "the result may have more decimals than the column"
    if kind is Kind.TEXT and bare(column.native) not in ("varchar", "char"):
        yield f"as {column.native} the result depends on the size of packets"


def _decimals(text: str, inputs: list[Column]) -> int:
    """Return the most decimals that sums and products of what an expression names can have."""
    scales = {f"`{c.name}`".lower(): c.type.scale for c in inputs if c.type and c.type.kind is Kind.DECIMAL}
    found = [(one.lastgroup, one[0].lower()) for one in _TOKEN.finditer(text)]
    constants = (len(number.partition(".")[2]) for kind, number in found if kind == "number")
    return sum(scales.get(name, 0) for kind, name in found if kind == "name") + sum(constants)


def _unlike_words(expression: str, inputs: list[Column], is_number: bool) -> str:
    """Say which word of an expression is not known to mean the same, "" for none. `is_number`: its result."""
    has_texts = any(column.type and column.type.kind is Kind.TEXT for column in inputs)
    functions = (NUMBERS_OF_TEXTS if is_number else FOR_ALL) if has_texts else FOR_ALL | WITHOUT_TEXTS
    words = WORDS_FOR_ALL if has_texts else WORDS_FOR_ALL | WORDS_WITHOUT_TEXTS
    marks = MARKS_FOR_ALL if has_texts else MARKS_FOR_ALL + MARKS_WITHOUT_TEXTS
    known = {"function": functions, "word": words, "mark": marks}
    for found in _TOKEN.finditer(_NOT_NULL.sub("is null", expression)):
        kind = found.lastgroup or ""
        if kind in known and found[0].lower() not in known[kind]:
            beside = " beside a text, which a collation compares" if has_texts and kind == "mark" else ""
            return f"{found[0]} of its expression is not known to mean the same{beside}"
    return ""
