"""Types of a PostgreSQL with values that hypothesis draws, and those that a MySQL or MariaDB does not take."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from anabranch.connectors.postgresql.source.edge_values import values_of
from rigs.drawn_values import (
    BEYOND,
    DAYS,
    DOCUMENTS,
    LAST_DAY,
    ODD_DOCUMENTS,
    TEXTS,
    Drawn,
    Values,
    decimals,
    document,
    floats,
    hexadecimal,
    number,
    unsigned_zero,
    whole,
)

TEXT = "CASE WHEN v IS NOT NULL THEN encode(convert_to(format('%s', v), 'UTF8'), 'hex') END"  # as its type prints it
TEXT_THERE = "LOWER(HEX(CONVERT(v USING utf8mb4)))"
AS_CHAR = "CAST(v AS CHAR)"
MOMENT, MOMENT_THERE = "YYYY-MM-DD HH24:MI:SS.US", "%Y-%m-%d %H:%i:%s.%f"
RELEASE = 18


def _quoted(type: str, texts: st.SearchStrategy[str]) -> Values:
    return texts.map(lambda text: f"{_literal(text)}::{type}")


def _literal(text: str) -> str:
    return f"convert_from('\\x{hexadecimal(text)}', 'UTF8')"


def _moments(most_digits: int = 6) -> st.SearchStrategy[str]:
    edges = ("0001-01-01 00:00:00", f"{LAST_DAY} 23:59:59.999999", "1970-01-01 00:00:00", "2024-02-29 12:00:00.5")
    cut = len("YYYY-MM-DD HH:MM:SS.") + most_digits
    return (st.sampled_from(edges) | st.datetimes().map(lambda at: at.isoformat(" "))).map(lambda text: text[:cut])


def _intervals() -> st.SearchStrategy[str]:
    parts = st.tuples(st.integers(-9999, 9999), st.integers(-40, 40), st.integers(-(10**12), 10**12))
    edges = ("178000000 years", "-178000000 years", "24:00:00", "-1 year 2 mons -3 days 04:05:06.789", "0")
    return st.sampled_from(edges) | parts.map(lambda p: f"{p[0]} mons {p[1]} days {p[2]} microseconds")


def _arrays(elements: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(elements | st.just("NULL"), max_size=4).map(lambda all: "{" + ",".join(all) + "}")


def _addresses() -> st.SearchStrategy[str]:
    edges = ("::ffff:1.2.3.4/128", "10.1.2.3/8", "0.0.0.0/0", "::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
    return st.sampled_from(edges) | st.ip_addresses().map(str)


def _times() -> st.SearchStrategy[str]:
    return st.sampled_from(("24:00:00", "00:00:00", "23:59:59.999999", "00:00:00.000001")) | st.times().map(str)


def _offsets() -> st.SearchStrategy[str]:
    return st.sampled_from(("+00", "-15:59", "+15:59", "+05:30", "-00:00:01"))


def drawn(family: str) -> Iterator[Drawn]:
    """Types whose values all arrive, with the values that the table of types takes."""
    zero = number if family == "mysql" else unsigned_zero
    for type, low, high in (("smallint", -(1 << 15), 1 << 15), ("integer", -(1 << 31), 1 << 31), ("oid", 0, 1 << 32)):
        yield Drawn(type, whole(low, high - 1), "v::text", AS_CHAR)
    yield Drawn("bigint", whole(-(1 << 63), (1 << 63) - 1).map("'{}'::bigint".format), "v::text", AS_CHAR)
    yield Drawn("xid8", whole(0, (1 << 64) - 1).map("'{}'::xid8".format), "v::text", AS_CHAR)
    yield Drawn("numeric(65,30)", decimals(65, 30), "v::text", AS_CHAR)
    yield Drawn("numeric(7,2)", decimals(7, 2), "v::text", AS_CHAR)
    yield Drawn("numeric(2,-3)", whole(-99, 99).map("{}000".format), "v::text", AS_CHAR)
    yield Drawn("numeric", st.sampled_from(("'NaN'", "1e-300", "-1e300", "0.00")) | decimals(90, 40), TEXT, TEXT_THERE)
    yield Drawn("real", floats(4, "'{}'::real".format), "v::float8::text", "v * 1e0", zero)
    yield Drawn("double precision", floats(8, "'{}'::float8".format), "v::text", AS_CHAR, zero)
    yield Drawn("text", TEXTS.map(_literal), TEXT, TEXT_THERE)
    yield Drawn("varchar(20)", TEXTS.map(_literal), TEXT, TEXT_THERE)
    yield Drawn("char(14)", TEXTS.map(_literal), TEXT, TEXT_THERE)
    yield Drawn("name", _quoted("name", TEXTS), TEXT, TEXT_THERE)
    contents = st.sampled_from((b"", b"\0", b"\\x", bytes(range(256)))) | st.binary(max_size=30)
    yield Drawn("bytea", contents.map(lambda data: f"'\\x{data.hex()}'::bytea"), "encode(v, 'hex')", "LOWER(HEX(v))")
    yield Drawn("uuid", st.uuids().map("'{}'::uuid".format), TEXT, TEXT_THERE)
    yield Drawn("boolean", st.sampled_from(("true", "false")), "v::int::text", AS_CHAR)
    for width in (1, 17, 64):
        bits = whole(0, (1 << width) - 1).map(lambda text, width=width: f"B'{int(text):0{width}b}'")  # type: ignore[misc]  # a default in a lambda
        yield Drawn(f"bit({width})", bits, "v::text", f"LPAD(BIN(v), {width}, '0')")
    yield Drawn("bit varying", st.text("01", max_size=70).map("B'{}'".format), TEXT, TEXT_THERE)
    yield from _clocks()
    yield from _documents(family)
    yield from _printed()


def _clocks() -> Iterator[Drawn]:
    days = st.sampled_from(("0001-01-01", LAST_DAY, "2024-02-29")) | DAYS.map(str)
    yield Drawn("date", days.map("'{}'::date".format), "to_char(v, 'YYYY-MM-DD')", AS_CHAR)
    for digits in (6, 0, 3):
        moments = _moments(digits).map("'{}'".format)
        # a moment that would be rounded beyond the last day is none that the type has there
        moments = moments.filter(lambda text: not text.startswith(f"'{LAST_DAY}")) if digits < 6 else moments
        there = f"DATE_FORMAT(v, '{MOMENT_THERE}')"
        yield Drawn(f"timestamp({digits})", moments, f"to_char(v, '{MOMENT}')", there)
        zoned = moments.map(lambda text: text[:-1] + "+00'")
        yield Drawn(f"timestamptz({digits})", zoned, f"to_char(v AT TIME ZONE 'UTC', '{MOMENT}')", there)
        times = _times().map("'{}'::time".format)
        there = "TIME_FORMAT(v, '%H:%i:%s.%f')"
        yield Drawn(f"time({digits})", times, "to_char(v - '00:00'::time, 'HH24:MI:SS.US')", there)
    zoned = st.tuples(_times(), _offsets()).map("".join)
    yield Drawn("timetz", _quoted("timetz", zoned), TEXT, TEXT_THERE)
    yield Drawn("interval", _quoted("interval", _intervals()), TEXT, TEXT_THERE)


def _documents(family: str) -> Iterator[Drawn]:
    same = document if family == "mysql" else str
    documents = st.sampled_from(ODD_DOCUMENTS if family == "mysql" else (*ODD_DOCUMENTS, BEYOND)) | DOCUMENTS
    if family == "mysql":  # its -0.0 is 0, a last digit may be another one, and the text is not kept
        documents = documents.filter("-0.0".__ne__)
    yield Drawn("json", _quoted("json", documents), TEXT, TEXT_THERE, same)
    without = documents.filter(lambda text: "\\u0000" not in text)
    yield Drawn("jsonb", _quoted("jsonb", without), TEXT, TEXT_THERE, same)


def _printed() -> Iterator[Drawn]:
    """Types that arrive as the text that PostgreSQL prints: some drawn, all others with their edges."""
    yield Drawn("inet", _quoted("inet", _addresses()), TEXT, TEXT_THERE)
    yield Drawn(
        "money", whole(-(1 << 63), (1 << 63) - 1).map(lambda cents: f"'{_money(cents)}'::money"), TEXT, TEXT_THERE
    )
    yield Drawn("integer[]", _quoted("int[]", _arrays(whole(-(1 << 31), (1 << 31) - 1))), TEXT, TEXT_THERE)
    doubles = floats(8, str) | st.sampled_from(("NaN", "-Infinity"))
    yield Drawn("double precision[]", _quoted("float8[]", _arrays(doubles)), TEXT, TEXT_THERE)
    quoted = TEXTS.map(lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')
    yield Drawn("text[]", _quoted("text[]", _arrays(quoted)), TEXT, TEXT_THERE)
    ranges = st.tuples(st.integers(-(1 << 31), (1 << 30) - 2), st.integers(0, 1 << 30))
    yield Drawn("int4range", ranges.map(lambda r: f"'[{r[0]},{r[0] + r[1]}]'::int4range"), TEXT, TEXT_THERE)
    mood = ("CREATE TYPE mood AS ENUM ('sad', 'it''s ok', 'a,b', 'Sad', 'zé\\%')",)
    labels = st.sampled_from(("'sad'", "'it''s ok'", "'a,b'", "'Sad'", "'zé\\%'"))
    yield Drawn("mood", labels.map("{}::mood".format), TEXT, TEXT_THERE, setup=mood)
    code = ("CREATE DOMAIN code AS varchar(20) CHECK (VALUE <> 'never')",)
    yield Drawn("code", TEXTS.map(_literal), TEXT, TEXT_THERE, setup=code)
    pair = ("CREATE TYPE pair AS (a text, b integer)",)
    yield Drawn("pair", TEXTS.map(lambda text: f"ROW({_literal(text)}, 1)::pair"), TEXT, TEXT_THERE, setup=pair)
    for type, edges in values_of(RELEASE).items():
        if type not in OTHERWISE:
            casts = st.sampled_from(edges).map(lambda text, type=type: f"({text})::{type}")  # type: ignore[misc]  # a default in a lambda
            yield Drawn(type, casts, TEXT, TEXT_THERE)


def _money(cents: str) -> str:
    return f"{'-' * cents.startswith('-')}{cents.lstrip('-').rjust(3, '0')[:-2]}.{cents.lstrip('-').rjust(3, '0')[-2:]}"


# Types of the edges that are drawn above, or are not texts at the target.
OTHERWISE = frozenset(
    (
        *("boolean", "smallint", "integer", "bigint", "numeric", "numeric(10,3)", "real", "double precision", "bytea"),
        *("character(5)", "text", "name", "date", "time without time zone", "timestamp without time zone", "bit(5)"),
        *(
            "timestamp with time zone",
            "interval",
            "bit varying",
            "inet",
            "uuid",
            "json",
            "jsonb",
            "integer[]",
            "text[]",
        ),
        *("double precision[]", "money", "oid", "xid", "cid", "xid8", "numeric(2,-3)", "numeric(3,5)", "int4range"),
    )
)
STOPPING = (
    *(("real", f"'{value}'") for value in ("NaN", "Infinity", "-Infinity")),
    *(("double precision", f"'{value}'") for value in ("NaN", "Infinity", "-Infinity")),
    *(("numeric(7,2)", f"'{value}'") for value in ("NaN",)),
    *(("date", f"'{value}'") for value in ("infinity", "-infinity", "0001-12-31 BC", "10000-01-01", "5874897-12-31")),
    *(
        (f"timestamp{zone}", f"'{value}'")
        for zone in ("", "tz")
        for value in (
            "infinity",
            "-infinity",
            "0044-03-15 12:00:00 BC",
            "10000-01-01 00:00:00",
            "294276-12-31 23:59:59.999999",
        )
    ),
)
OF_MYSQL = (("jsonb", "'{\"a\": 1e400}'"), ("json", "'[1e400]'"))


def stopping(family: str) -> tuple[tuple[str, str], ...]:
    """Types with a value that stops the job, or parks the table."""
    return (*STOPPING, *OF_MYSQL) if family == "mysql" else STOPPING
