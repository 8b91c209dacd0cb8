"""Kinds of columns of a PostgreSQL source, and the text that both ends must show (values.py).

https://www.postgresql.org/docs/current/datatype.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.testing.torture.values import Kind, quoted, same


def _kind(native: str, texts: Mapping[str, str], nth: Callable[[int], str] | None = None, **more: object) -> Kind:
    """One that is called the same at both ends."""
    form = "number" if nth is str else "quoted" if nth else ""
    return Kind(f"pg {native}", native, native, texts, nth, **{"form": form, **more})  # type: ignore[arg-type]  # a mapping of mixed values


# Kinds that keys are made of as well.
_KEYS = (
    _kind("integer", same("-2147483648", "2147483647", "0", "-1"), str),
    _kind("bigint", same("-9223372036854775808", "9223372036854775807", "0"), str),
    _kind("smallint", same("-32768", "32767"), str),
    _kind("numeric(10,2)",
          {"-12345678.91": "-12345678.91", "0": "0.00", "0.5": "0.50", "-0.01": "-0.01", "99999999.99": "99999999.99"},
          lambda n: f"{n}.25", form="number"),
    _kind("character varying(40)",
          {**quoted("", "a", "A", "a ", "ä", "€ 😀", "\\.", "\\N"), "E'tab\\tnew\\n'": "tab\tnew\n", "'it''s'": "it's"},
          lambda n: f"'k{n}'"),
    _kind("text", {**quoted("", "null", "a b", "[x]:1"), "''''": "'"}, lambda n: f"'t{n}'"),
    _kind("bytea", quoted("\\x", "\\x00", "\\xfffefd00", "\\x5c4e090a0d"), lambda n: f"'\\x6b{n:08x}'"),
    _kind("timestamp without time zone",
          quoted("9999-12-31 23:59:59.999999", "0001-01-01 00:00:00.000001", "2024-02-29 12:00:00.1", "infinity",
                 "0044-03-15 12:00:00 BC"),
          lambda n: f"'2024-01-{1 + n // 3600 % 28:02} {n // 3600 // 28 % 24:02}:{n // 60 % 60:02}:{n % 60:02}'"),
    _kind("uuid", quoted("ffffffff-ffff-ffff-ffff-fffffffffff1"), lambda n: f"'{n:08x}-0000-4000-8000-000000000000'"),
)  # fmt: skip

_WIDE = "l\\''" * 20_000  # as it stands between quotes; more than a page, and kept outside of it

_REST = (
    _kind("boolean", {"true": "t", "false": "f"}),
    _kind("real", {"16777215": "1.6777215e+07", "0.1": "0.1", "-1.5e-7": "-1.5e-07", "'NaN'": "NaN", "'-0'": "-0"},
          is_comparable=False),
    _kind("double precision",
          {"1e308": "1e+308", "0.1": "0.1", "1e15": "1e+15", "2.5e-7": "2.5e-07", "'Infinity'": "Infinity", "'-0'": "-0"},
          is_comparable=False),
    _kind("numeric", {"'NaN'": "NaN", "1.00": "1.00", "1e40": "1" + "0" * 40, "-1e-30": f"-0.{'0' * 29}1"},
          is_comparable=False),
    _kind("character varying", {**quoted("", " ", "trailing  ", "ÄöÜ"), "E'a\\tb\\nc\\rd\\\\e'": "a\tb\nc\rd\\e",
                                "repeat('ab', 1500)": "ab" * 1500}, is_comparable=False),
    _kind("character(12)", {"''": " " * 12, "'ab'": f"ab{' ' * 10}", "'😀'": f"😀{' ' * 11}"}, is_comparable=False),
    Kind("pg wide text", "text", "text",
         {f"'{_WIDE}'": _WIDE.replace("''", "'"), "repeat('€ ', 3000)": "€ " * 3000, "''": "", "'x'": "x"},
         is_comparable=False, is_wide=True),
    Kind("pg wide bytea", "bytea", "bytea", {"decode(repeat('00ff', 9000), 'hex')": "\\x" + "00ff" * 9000, "'\\x'": "\\x"},
         is_comparable=False, is_wide=True),
    Kind("pg long text", "text", "text", {"repeat('z', 90000)": "z" * 90_000, "'short'": "short"}, is_comparable=False),
    _kind("json", quoted('{"b": [true,  null], "a": 1, "a": 2}', "null", "[]"), is_comparable=False),
    _kind("jsonb", quoted('{"a": 1, "b": [true, null, "x"]}', "null", "[]", '"€"', "12345678901234567890"),
          is_comparable=False),
    _kind("date", quoted("0044-03-15 BC", "9999-12-31", "2024-02-29", "infinity", "-infinity")),
    _kind("timestamp(3) without time zone", quoted("2024-02-29 12:00:00.125", "1969-12-31 23:59:59.9")),
    _kind("timestamp with time zone",
          quoted("1970-01-01 00:00:01+00", "2038-01-19 03:14:07.499999+00", "2024-03-31 02:30:00+00", "infinity")),
    _kind("time without time zone", quoted("00:00:00", "24:00:00", "23:59:59.999999")),
    _kind("time with time zone", quoted("00:00:00+00", "12:00:00-07:30")),
    _kind("interval", quoted("1 mon", "-1 days +02:03:04.5", "178000000 years", "00:00:00")),
    _kind("bit(10)", {"B'0000000000'": "0" * 10, "B'1000000001'": "1000000001"}),
    _kind("bit varying(20)", {"B''": "", "B'101'": "101"}),
    _kind("integer[]", quoted("{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[0:1]={7,8}")),
    _kind("text[]", {"'{\"a b\",NULL,\"NULL\",\"x\\\"y\",\"\"}'": '{"a b",NULL,"NULL","x\\"y",""}', "'{}'": "{}"}),
    _kind("inet", quoted("::1", "192.168.0.1/24", "2001:db8::ff00:42:8329")),
    _kind("macaddr", quoted("08:00:2b:01:02:03")),
    _kind("int4range", quoted("empty", "[1,5)", "(,)")),
    _kind("point", quoted("(1,2)", "(-0.5,1e+300)"), is_comparable=False),
    _kind("tsvector", {"'''a'':1 ''b c'':2,3'": "'a':1 'b c':2,3"}),
)  # fmt: skip

# Of a type of the history's own (labels.py), to which labels are added: these are there from the beginning.
TYPE, LABEL = "mood", "pg mood"
LABELS = ("'low'", "'mid'", "'high'")
OWN: Mapping[str, Kind] = {LABEL: Kind(LABEL, TYPE, TYPE, {one: one[1:-1] for one in LABELS}, form="quoted")}

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (*_KEYS, *_REST)}
NUMBERS = ("pg integer", "pg integer", "pg bigint", "pg smallint", "pg numeric(10,2)")
WHOLE = "pg integer"
