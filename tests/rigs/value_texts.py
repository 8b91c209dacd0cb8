"""Values of every logical type, in the text form that load and verification give a PostgreSQL."""

from __future__ import annotations

from anabranch.model.datatype import Kind, LogicalType

# kind, parameters, text forms as they stand in a line
VALUES: list[tuple[LogicalType, list[bytes]]] = [
    (LogicalType(Kind.INT8), [b"-128", b"127"]),
    (LogicalType(Kind.UINT32), [b"0", b"4294967295"]),
    (LogicalType(Kind.UINT64), [b"18446744073709551615"]),
    (LogicalType(Kind.DECIMAL, precision=65, scale=30), [b"-" + b"9" * 35 + b"." + b"9" * 30, b"0." + b"0" * 30]),
    (LogicalType(Kind.FLOAT32), [b"1.6777215e+07", b"1.1", b"-0", b"1e-45"]),
    (LogicalType(Kind.FLOAT64), [b"0.1", b"1.7976931348623157e+308", b"5e-324"]),
    (LogicalType(Kind.TEXT, 30), ["häß\U0001f600".encode(), b"", b"a\\tb\\nc\\rd\\\\e\\\\N", b"\x08\x0b\x0c\\\\b"]),
    (LogicalType(Kind.TEXT), [b"trailing   ", b"\\\\."]),
    (LogicalType(Kind.BINARY), [b"\\\\x", b"\\\\x00ff5c0a"]),
    (LogicalType(Kind.BIT, 10), [b"0000000001", b"1111111111"]),
    (LogicalType(Kind.DATE), [b"0001-01-01", b"9999-12-31"]),
    (LogicalType(Kind.TIMESTAMP), [b"0001-01-01 00:00:00.000000", b"9999-12-31 23:59:59.999999"]),
    (LogicalType(Kind.TIMESTAMP, fraction=0), [b"2024-02-29 12:00:00.000000"]),
    (LogicalType(Kind.INSTANT), [b"1970-01-01 00:00:01.000001+00", b"2038-01-19 03:14:07.500000+00"]),
    (
        LogicalType(Kind.DURATION),
        [b"838:59:59.000000", b"-838:59:59.000000", b"-00:00:00.000001", b"00:00:00.000000", b"05:06:07.080910"],
    ),
    (LogicalType(Kind.YEAR), [b"1901", b"0"]),
    (LogicalType(Kind.ENUM, values=("a", "b'c")), [b"a", b"b'c", b""]),
    (LogicalType(Kind.SET, values=("x", "y")), [b"x,y", b""]),
    (LogicalType(Kind.JSON), [b'{"a": [1, "\\\\""]}', b"null"]),
]
