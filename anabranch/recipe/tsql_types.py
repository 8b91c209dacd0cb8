"""Types of columns in T-SQL, for logical types of any source: what mirror tables of a SQL Server's change data capture have.

A contract: no SQL Server is asked, and none is a target yet. What does not live here: the statements (`tsql_script.py`).
https://learn.microsoft.com/sql/t-sql/data-types/data-types-transact-sql
"""

from __future__ import annotations

from anabranch.model.datatype import Kind, LogicalType

LONGEST_TEXT, LONGEST_BINARY = 4000, 8000  # characters of nvarchar(n), bytes of varbinary(n)
MOST_DIGITS, MOST_FRACTION = 38, 7
TEXT, BINARY = "nvarchar(max)", "varbinary(max)"
FIXED = {
    Kind.INT8: "smallint",  # tinyint has no sign
    Kind.INT16: "smallint",
    Kind.INT32: "int",
    Kind.INT64: "bigint",
    Kind.UINT8: "tinyint",
    Kind.UINT16: "int",
    Kind.UINT32: "bigint",
    Kind.UINT64: "decimal(20, 0)",
    Kind.FLOAT32: "real",
    Kind.FLOAT64: "float(53)",
    Kind.BOOLEAN: "bit",
    Kind.DATE: "date",
    Kind.DURATION: "nvarchar(20)",  # a MySQL's time has up to 838 hours, with a sign
    Kind.INTERVAL: "nvarchar(80)",
    Kind.YEAR: "smallint",
    Kind.SET: TEXT,
    Kind.JSON: TEXT,
    Kind.UUID: "uniqueidentifier",
    Kind.INET: "varchar(45)",
    Kind.GEOMETRY: BINARY,
    Kind.NATIVE: TEXT,
    Kind.VECTOR: BINARY,
}
OF_A_DAY = {Kind.TIME: "time", Kind.TIMESTAMP: "datetime2", Kind.INSTANT: "datetimeoffset"}
# Bytes of a value, for the limits of keys; what is not here may be as long as it is declared, or without end.
BYTES = {
    "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "decimal(20, 0)": 13, "real": 4, "float(53)": 8, "bit": 1, "date": 3,
    "uniqueidentifier": 16, "varchar(45)": 45, "nvarchar(20)": 40, "nvarchar(80)": 160,
}  # fmt: skip


def type_of(type: LogicalType) -> tuple[str, str]:
    """Return a type's name in T-SQL, and what some of its values would lose there, "" for nothing."""
    if type.carried is Kind.NATIVE:  # its values are texts that the source prints
        return (FIXED[Kind.UUID], "") if type.kind is Kind.UUID else (TEXT, "")
    match type.kind:
        case Kind.TEXT:
            return _sized("nvarchar", type.length, LONGEST_TEXT), ""
        case Kind.BINARY:
            return _sized("varbinary", type.length, LONGEST_BINARY), ""
        case Kind.BIT:
            return f"binary({((type.length or 64) + 7) // 8})", ""
        case Kind.ENUM:
            return _sized("nvarchar", max(map(len, type.values), default=0) or None, LONGEST_TEXT), ""
        case Kind.DECIMAL if 0 < type.precision <= MOST_DIGITS and 0 <= type.scale <= type.precision:
            return f"decimal({type.precision}, {type.scale})", ""
        case Kind.DECIMAL:
            return TEXT, ""
        case Kind.TIME | Kind.TIMESTAMP | Kind.INSTANT:
            lost = "24:00:00 is no time there" if type.kind is Kind.TIME else ""
            return f"{OF_A_DAY[type.kind]}({min(type.fraction, MOST_FRACTION)})", lost
    return FIXED[type.kind], ""


def bytes_of(name: str) -> int | None:
    """Return the most bytes that a value of a type has in an index; None for one that no index takes."""
    if name in BYTES:
        return BYTES[name]
    word, _, size = name.rstrip(")").partition("(")
    if size == "max":
        return None
    if word == "decimal":
        return 17
    if word in OF_A_DAY.values():
        return 10
    return int(size) * (2 if word == "nvarchar" else 1)


def _sized(word: str, length: int | None, most: int) -> str:
    return f"{word}({length})" if length and length <= most else f"{word}(max)"
