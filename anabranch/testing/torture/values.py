"""Kinds of columns: what a value is called at a source, and the text that PostgreSQL must show for it; those of MySQL and
MariaDB.

A table of our own, written by hand: nothing here asks the product. `tests/live/test_torture_values.py` brings every value
to a target once. What does not live here: those of PostgreSQL (postgresql_values.py), which columns a table has (schemas.py).
Sources: https://dev.mysql.com/doc/refman/8.0/en/literals.html ·
https://www.postgresql.org/docs/current/datatype.html (text output)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Literal = str | None  # as it stands in a statement; None = NULL
Text = str | None  # as PostgreSQL prints it; None = NULL
Version = tuple[int, ...]
NEVER: Version = (999,)
# Constants whose meaning a statement tells: no bytes, no exponents, no functions, no spaces that a CHAR takes off.
_PLAIN = re.compile(r"-?\d{1,15}(\.\d+)?|'([^\\]*[^\\ ])?'")
# What has no default at every server, or one whose meaning depends on the session that wrote it.
_WITHOUT_DEFAULT = ("text", "longtext", "blob", "longblob", "json", "point", "timestamp", "bit")
WITHOUT_SIGN = " without -0"  # the end of the name of a kind that is another one without that value


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of column.

    `texts`: literal -> text, for the edges. `nth`: a literal for every number from 0 on, all different by any collation;
    such a kind may be in keys, `form` says how its literals become texts: `number` as they are, `quoted` without their
    quotes, `hex` with PostgreSQL's prefix. `at_target`: what PostgreSQL calls it. `ignores_case`: 'a' = 'A' = 'a  ' at the
    source. `is_comparable`: a literal of it finds the row that holds it. `is_wide`: PostgreSQL is to keep it outside of the
    row, as it is. `since`: the first version, by server."""

    name: str
    native: str
    at_target: str
    texts: Mapping[str, str | Mapping[str, str]]
    nth: Callable[[int], str] | None = None
    form: str = ""
    ignores_case: bool = False
    is_comparable: bool = True
    since: Mapping[str, Version] = field(default_factory=dict)
    is_wide: bool = False

    def text(self, literal: Literal, family: str) -> Text:
        """`family`: the source's."""
        if literal is None:
            return None
        known = self.texts.get(literal)
        if known is not None:
            return known if isinstance(known, str) else known[family]
        if self.form == "number":
            return literal
        if self.form == "quoted":
            return literal[1:-1]
        if self.form == "hex":
            return "\\x" + literal[2:-1]
        raise ValueError(f"{literal} is not a value of {self.name}")

    def literal(self, text: Text) -> Literal:
        """A literal for a text of this kind, on any server."""
        if text is None:
            return None
        for literal, known in self.texts.items():
            if text == known or (not isinstance(known, str) and text in known.values()):
                return literal
        return {"number": text, "quoted": f"'{text}'", "hex": f"x'{text[2:]}'"}[self.form]

    def folded(self, text: Text) -> Text:
        """Equal for texts that a unique key of the source takes for equal."""
        return text.lower().rstrip(" ") if text is not None and self.ignores_case else text

    def is_known_to(self, family: str, version: Version) -> bool:
        return version >= self.since.get(family, ())


def plain_constants(kind: Kind) -> list[str]:
    """Return the literals that may be a default whose meaning the statement alone tells."""
    if kind.native.startswith(_WITHOUT_DEFAULT):
        return []
    found = sorted(literal for literal in kind.texts if _PLAIN.fullmatch(literal))
    # A catalogue shows a float in its own digits.
    return [literal for literal in found if len(literal) < 7] if kind.name in ("float", "double") else found


def same(*literals: str) -> dict[str, str]:
    """Literals that are their own texts."""
    return {literal: literal for literal in literals}


def quoted(*texts: str) -> dict[str, str]:
    """Texts that mean themselves between quotes."""
    return {f"'{text}'": text for text in texts}


def _hex(*digits: str) -> dict[str, str]:
    return {f"x'{d}'": f"\\x{d}" for d in digits}


_CASELESS = "varchar(40) character set utf8mb4 collate utf8mb4_general_ci"  # pads with spaces, on both servers
_FRACTIONS: dict[str, Version] = {"mysql": (5, 6, 4)}
_JSON: dict[str, Version] = {"mysql": (5, 7, 8)}
_ONLY_MARIADB: dict[str, Version] = {"mysql": NEVER, "mariadb": (10, 10)}

# Kinds that keys are made of as well.
_KEYS = (
    Kind("int", "int", "integer", same("-2147483648", "2147483647", "0", "-1"), str, "number"),
    Kind("bigint unsigned", "bigint unsigned", "numeric(20,0)",
         same("18446744073709551615", "9223372036854775808", "0"), str, "number"),
    Kind("smallint", "smallint", "smallint", same("-32768", "32767"), str, "number"),
    Kind("exact text", "varchar(40) character set utf8mb4 collate {exact}", "character varying(40)",
         {**quoted("", "a", "A", "a ", "ä", "€ 😀"), "'\\\\.'": "\\.", "'tab\\tnew\\n'": "tab\tnew\n"},
         lambda n: f"'k{n}'", "quoted"),
    Kind("caseless text", _CASELESS, "character varying(40)", quoted("a", "A", "B", "zz "), lambda n: f"'K{n}'", "quoted",
         ignores_case=True, is_comparable=False),
    Kind("short text", "char(12) character set utf8mb4 collate utf8mb4_bin", "character varying(12)",
         {**quoted("", "ab"), "'ab  '": "ab", "'😀'": "😀"}, lambda n: f"'c{n}'", "quoted"),
    Kind("decimal", "decimal(10,2)", "numeric(10,2)",
         {"-12345678.91": "-12345678.91", "0": "0.00", "0.5": "0.50", "-0.01": "-0.01", "99999999.99": "99999999.99"},
         lambda n: f"{n}.25", "number"),
    Kind("bytes", "varbinary(40)", "bytea", _hex("", "00", "fffefd00", "5c4e090a0d"), lambda n: f"x'6b{n:08x}'", "hex"),
    Kind("moment", "datetime(6)", "timestamp without time zone",
         {"'9999-12-31 23:59:59.999999'": "9999-12-31 23:59:59.999999",
          "'1000-01-01 00:00:00.000001'": "1000-01-01 00:00:00.000001",
          "'2024-02-29 12:00:00.100000'": "2024-02-29 12:00:00.1"},
         lambda n: f"'2024-01-{1 + n // 3600 % 28:02} {n // 3600 // 28 % 24:02}:{n // 60 % 60:02}:{n % 60:02}'", "quoted",
         since=_FRACTIONS),
)  # fmt: skip

_REST = (
    Kind("tinyint", "tinyint", "smallint", same("-128", "127", "0")),
    Kind("boolean", "tinyint(1)", "smallint", same("0", "1", "2", "-128")),
    Kind("tinyint unsigned", "tinyint unsigned", "smallint", same("0", "255")),
    Kind("smallint unsigned", "smallint unsigned", "integer", same("0", "65535")),
    Kind("mediumint", "mediumint", "integer", same("-8388608", "8388607", "-1")),
    Kind("mediumint unsigned", "mediumint unsigned", "bigint", same("0", "16777215")),
    Kind("int unsigned", "int unsigned", "bigint", same("0", "4294967295")),
    Kind("bigint", "bigint", "bigint", same("-9223372036854775808", "9223372036854775807", "0")),
    Kind("year", "year", "smallint", same("1901", "2155", "2024")),
    Kind("large decimal", "decimal(65,30)", "numeric(65,30)",
         {f"{'9' * 35}.{'9' * 30}": f"{'9' * 35}.{'9' * 30}", "-1e-30": f"-0.{'0' * 29}1", "0": f"0.{'0' * 30}"}),
    Kind("float", "float", "real",
         {"16777215": "1.6777215e+07", "0.1": "0.1", "-1.5e-7": "-1.5e-07", "3.4028234e38": "3.4028235e+38", "0": "0",
          "123456": "123456", "-0e0": {"mysql": "-0", "mariadb": "0"}}, is_comparable=False),
    Kind("double", "double", "double precision",
         {"1e308": "1e+308", "0.1": "0.1", "1e15": "1e+15", "123456789012345678": "1.2345678901234568e+17",
          "2.5e-7": "2.5e-07", "0": "0", "-0e0": {"mysql": "-0", "mariadb": "0"}}, is_comparable=False),
    Kind("text", "text character set utf8mb4", "text",
         {**quoted("", " ", "trailing  ", "ÄöÜ", "😀€", "2024-00-15"), "'a\\tb\\nc\\rd\\\\e'": "a\tb\nc\rd\\e",
          "'\\\\N'": "\\N", "'\\\\x41'": "\\x41", "'\\'\"`'": "'\"`", "repeat('ab', 1500)": "ab" * 1500},
         is_comparable=False),
    Kind("western text", "varchar(60) character set latin1", "character varying(60)", quoted("", "ÄöÜ", "€‰"),
         is_comparable=False),
    Kind("large text", "longtext character set utf8mb4", "text",
         {"repeat('l\\\\', 20000)": "l\\" * 20000, "''": "", "'x'": "x"}, is_comparable=False),
    Kind("enum", "enum('a','b\\\\c','it''s','','ä,b') character set utf8mb4", "text",
         {"'a'": "a", "'b\\\\c'": "b\\c", "'it''s'": "it's", "''": "", "'ä,b'": "ä,b"}, is_comparable=False),
    Kind("set", "set('p','q','r\\tx') character set utf8mb4", "text",
         {"''": "", "'p'": "p", "'p,r\\tx'": "p,r\tx", "'p,q,r\\tx'": "p,q,r\tx"}, is_comparable=False),
    Kind("json", "json", "jsonb",
         {"'{\"b\": [true, null, \"x\"], \"a\": 1}'": '{"a": 1, "b": [true, null, "x"]}', "'null'": "null", "'[]'": "[]",
          "'\"\\\\u20ac\"'": '"€"', "'12345678901234567890'": "12345678901234567890"}, is_comparable=False, since=_JSON),
    Kind("fixed bytes", "binary(4)", "bytea",
         {"x''": "\\x00000000", "x'6162'": "\\x61620000", "x'5c780900'": "\\x5c780900"}, is_comparable=False),
    Kind("blob", "blob", "bytea", _hex("", "5c4e", "00ff"), is_comparable=False),
    Kind("large blob", "longblob", "bytea", {"repeat(x'00ff', 5000)": "\\x" + "00ff" * 5000, "x''": "\\x"},
         is_comparable=False),
    Kind("date", "date", "date", quoted("1000-01-01", "9999-12-31", "2024-02-29")),
    Kind("datetime", "datetime", "timestamp without time zone", quoted("1000-01-01 00:00:00", "9999-12-31 23:59:59")),
    Kind("datetime(3)", "datetime(3)", "timestamp(3) without time zone",
         {"'2024-02-29 12:00:00.125'": "2024-02-29 12:00:00.125", "'1969-12-31 23:59:59.900'": "1969-12-31 23:59:59.9"},
         since=_FRACTIONS),
    Kind("timestamp", "timestamp null", "timestamp with time zone",
         {"'1970-01-01 00:00:01'": "1970-01-01 00:00:01+00", "'2038-01-19 03:14:07'": "2038-01-19 03:14:07+00",
          "'2024-03-31 02:30:00'": "2024-03-31 02:30:00+00"}),
    Kind("timestamp(6)", "timestamp(6) null", "timestamp with time zone",
         {"'2038-01-19 03:14:07.499999'": "2038-01-19 03:14:07.499999+00"}, since=_FRACTIONS),
    Kind("time", "time", "interval",
         quoted("-838:59:59", "838:59:59", "00:00:00", "-00:00:01", "08:05:03")),
    Kind("time(6)", "time(6)", "interval",
         {**quoted("-838:59:58.999999", "-00:00:00.000001"), "'100:00:00.500000'": "100:00:00.5"}, since=_FRACTIONS),
    Kind("bit(1)", "bit(1)", "bit(1)", {"b'0'": "0", "b'1'": "1"}),
    Kind("bit(10)", "bit(10)", "bit(10)", {"0": "0" * 10, "513": "1000000001", "1023": "1" * 10}),
    Kind("bit(64)", "bit(64)", "bit(64)", {"0": "0" * 64, "18446744073709551615": "1" * 64}),
    Kind("point", "point", "bytea",
         {"ST_GeomFromText('POINT(1 2)')": "\\x0101000000000000000000f03f0000000000000040",
          "ST_GeomFromText('POINT(0 0)')": "\\x0101000000" + "00" * 16}, is_comparable=False, since={"mysql": (5, 6)}),
    Kind("uuid", "uuid", "uuid", quoted("123e4567-e89b-12d3-a456-426655440000", "ffffffff-ffff-ffff-ffff-fffffffffff1"),
         since=_ONLY_MARIADB),
    Kind("inet6", "inet6", "inet", quoted("::1", "2001:db8::ff00:42:8329"), since=_ONLY_MARIADB),
    Kind("inet4", "inet4", "inet", quoted("0.0.0.0", "255.255.255.255"), since=_ONLY_MARIADB),
)  # fmt: skip

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*_KEYS, *_REST)}
# Collations that compare bytes and do not pad, which foreign keys that change rows need (K1).
EXACT = {"mysql": "utf8mb4_0900_bin", "mariadb": "utf8mb4_nopad_bin"}
EXACT_BEFORE = {"mysql": ((8, 0, 17), "utf8mb4_bin"), "mariadb": ((10, 2), "utf8mb4_bin")}


def kinds(family: str, version: Version) -> Sequence[Kind]:
    """Return the kinds that a server knows."""
    return [kind for kind in KINDS.values() if kind.is_known_to(family, version)]


def exact_collation(family: str, version: Version) -> str:
    first, older = EXACT_BEFORE[family]
    return EXACT[family] if version >= first else older


def copied(text: Text) -> str:
    """A value as COPY … TO STDOUT writes it (https://www.postgresql.org/docs/current/sql-copy.html, text format)."""
    return "\\N" if text is None else text.translate(_ESCAPES)


_ESCAPES = str.maketrans(
    {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"},
)
