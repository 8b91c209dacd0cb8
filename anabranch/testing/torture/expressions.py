"""Expressions of computed columns: what is said to a MySQL or MariaDB, and the text that the model expects.

The model says the same of a row as the server does, by rules of its own. What does not live here: which tables have such
columns (computed.py). https://dev.mysql.com/doc/refman/8.0/en/create-table-generated-columns.html
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anabranch.testing.torture.values import Kind, Text

# Kinds that a CONCAT prints as the target does, and those of which it needs, or prints, something else.
PRINTED_ALIKE = (
    "tinyint", "smallint", "mediumint", "int", "bigint", "smallint unsigned", "int unsigned", "bigint unsigned", "decimal",
    "exact text", "short text", "computed text", "computed number",
)  # fmt: skip
IN_HEX, WITH_FRACTIONS = "bytes", "moment"
READABLE = frozenset({*PRINTED_ALIKE, IN_HEX, WITH_FRACTIONS})
# Texts of collations of their own are not put beside each other.
NUMBERS = frozenset(name for name in PRINTED_ALIKE if "text" not in name)
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("computed text", "varchar(400) character set utf8mb4 collate {exact}", "character varying(400)", {},
             is_comparable=False),
        Kind("computed number", "bigint", "bigint", {}, is_comparable=False),
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Computed:
    """`how`: one of HOWS, of `columns`, which may be computed as well. Stored in the row, or computed when it is read."""

    how: str
    columns: tuple[str, ...]
    is_stored: bool = False

    def sql(self, kinds: Sequence[Kind]) -> str:
        """`kinds` of `columns`."""
        read = (f"HEX({name})" if kind.name == IN_HEX else name for name, kind in zip(self.columns, kinds, strict=True))
        return f"AS ({HOWS[self.how].sql.format(', '.join(read))}) {'STORED' if self.is_stored else 'VIRTUAL'}"

    def text(self, kinds: Sequence[Kind], texts: Sequence[Text]) -> Text:
        return HOWS[self.how].text(list(map(_printed, kinds, texts)))


@dataclass(frozen=True, slots=True)
class How:
    kind: str
    sql: str
    text: Callable[[Sequence[Text]], Text]


def _printed(kind: Kind, text: Text) -> Text:
    if text is None or kind.name in PRINTED_ALIKE:
        return text
    if kind.name == IN_HEX:
        return text.removeprefix("\\x").upper()
    seconds, _, fraction = text.partition(".")
    return f"{seconds}.{fraction:0<6}"


def _crc(texts: Sequence[Text]) -> Text:
    return None if texts[0] is None else str(zlib.crc32(f"b{texts[0]}".encode()))


HOWS: Mapping[str, How] = {
    "word": How("computed text", "CONCAT('b', {})", lambda texts: None if texts[0] is None else f"b{texts[0]}"),
    "known": How("computed text", "IF(({}) IS NULL, 'none', 'some')", lambda t: "none" if t[0] is None else "some"),
    "crc": How("computed number", "CRC32(CONCAT('b', {}))", _crc),
    "joined": How("computed text", "CONCAT_WS('/', {})", lambda texts: "/".join(t for t in texts if t is not None)),
    "over": How("computed text", "CONCAT('<', IFNULL({}, '?'), '>')", lambda t: f"<{'?' if t[0] is None else t[0]}>"),
}
