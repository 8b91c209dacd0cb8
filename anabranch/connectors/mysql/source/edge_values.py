"""Types of MySQL and MariaDB with values that are easily lost.

https://dev.mysql.com/doc/refman/8.0/en/data-types.html. What does not live here: putting them anywhere (`drawn_values.py`).
"""

from __future__ import annotations

INTEGERS = {
    "tinyint": (-128, 127, 1),
    "tinyint(1)": (-128, 127, 2),
    "tinyint unsigned": (0, 255),
    "smallint": (-32768, 32767),
    "smallint unsigned": (0, 65535),
    "mediumint": (-8388608, 8388607),
    "mediumint unsigned": (0, 16777215),
    "int": (-2147483648, 2147483647),
    "int unsigned": (0, 4294967295),
    "int(6) unsigned zerofill": (0, 42, 4294967295),
    "bigint": (-(2**63), 2**63 - 1, 0),
    "bigint unsigned": (0, 2**63, 2**64 - 1),
    "year": (1901, 2155, 2024),
}
NUMBERS = {
    "decimal(10,2)": ("-12345678.91", "0.00", "0.5", "-0.01"),
    "decimal(65,30)": ("99999999999999999999999999999999999.999999999999999999999999999999", "-1e-30", "0"),
    "decimal(65,0)": ("9" * 65, "-" + "9" * 65),
    "decimal(5,0) unsigned zerofill": ("7", "0"),
    "float": ("16777215", "0.1", "-1.5e-7", "3.4028234e38", "1e-45", "-0.0", "1e7", "123456789"),
    "double": ("1e308", "0.1", "-0.0", "5e-324", "1e15", "123456789012345678", "2.5e-7"),
    "double(12,3)": ("123456789.125", "-0.001", "0"),
    "float(7,2)": ("12345.67", "0.01"),
    "float(7,3)": ("9999.999", "-0.001"),
    "double(20,10)": ("1234567890.0123456789", "-0.0000000001"),
}
TEXTS = ("", " ", "a\tb\nc\rd\\e", "\\N", "\\x41", "ÄöÜ", "'\"`", "trailing  ", "2024-00-15", "1e5", "\x01\x7f")
WORDS = {
    "varchar(60) character set utf8mb4": (*TEXTS, "😀€"),
    "varchar(60) character set utf8mb3": (*TEXTS, "€"),
    "char(20) character set utf8mb4": ("", "ab", "😀"),
    "varchar(60) character set latin1": ("", "ÄöÜ", "€‰", "a\\b"),
    "text character set latin1": ("ÄöÜ\t",),
    "varchar(60) character set ascii": ("", "plain\\"),
    "tinytext": ("x", ""),
    "mediumtext": ("m" * 70_000, ""),
    "longtext": ("l\\" * 40_000, ""),
    "enum('a','b\\\\c','it''s','','ä,b')": ("a", "b\\c", "it's", "", "ä,b"),
    "enum('x','ä') character set latin1": ("ä",),
    "set(" + ",".join(f"'m{i}'" for i in range(64)) + ")": ("m0,m63", "", ",".join(f"m{i}" for i in range(64))),
    "set('p','q','r\\tx')": ("", "p", "p,r\tx", "p,q,r\tx"),
    "json": ('{"a": 1, "b": [true, null, "x\\\\y"]}', '"\\u20ac"', "null", "[]", "12345678901234567890"),
}
BYTES = {
    "binary(4)": (b"", b"ab", b"\0\0\0\0", b"\\x\t\n"),
    "varbinary(300)": (b"", b"\xff\xfe\xfd\0", bytes(range(256))),
    "blob": (b"\\N", b""),
    "longblob": (bytes(range(256)) * 300, b""),
}
CLOCKS = {
    "date": ("1000-01-01", "9999-12-31", "2024-02-29"),
    "datetime": ("1000-01-01 00:00:00", "9999-12-31 23:59:59"),
    "datetime(3)": ("2024-02-29 12:00:00.125",),
    "datetime(6)": ("9999-12-31 23:59:59.999999", "1000-01-01 00:00:00.000001"),
    "timestamp null": ("1970-01-01 00:00:01", "2038-01-19 03:14:07", "2024-03-31 02:30:00"),
    "timestamp(6) null": ("2038-01-19 03:14:07.499999",),
    "time": ("-838:59:59", "838:59:59", "00:00:00", "-00:00:01", "08:05:03"),
    "time(6)": ("-838:59:58.999999", "838:59:58.999999", "-00:00:00.000001", "100:00:00.5"),
    "time(2)": ("-00:00:00.01", "12:00:00.99"),
}
BITS = {"bit(1)": (0, 1), "bit(10)": (0, 513, 1023), "bit(64)": (0, 2**63, 2**64 - 1)}
ALL = {**INTEGERS, **NUMBERS, **WORDS, **BYTES, **CLOCKS, **BITS}
