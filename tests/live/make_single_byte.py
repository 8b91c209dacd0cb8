"""Writes anabranch/connectors/mysql/single_byte.py from what a MySQL server itself converts.

python tests/live/make_single_byte.py mysql://root:…@127.0.0.1:3306/
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from anabranch.connectors.mysql import charsets
from anabranch.testing.databases import connect
from anabranch.testing.servers import server_from_dsn

MODULE = Path(charsets.__file__).with_name("single_byte.py")
HEAD = '''"""Character sets of one byte: the character of every byte, U+FFFE where there is none. Data, made by
tests/live/make_single_byte.py from what MySQL 8.0 converts to utf8mb4; a live test compares it with both servers.

What does not live here: sets whose characters have several bytes (`charsets.py`).
"""

UPPER: dict[str, str] = {  # bytes 0x80 to 0xFF; those below are ASCII
'''
NAMES = [
    *(
        "armscii8",
        "cp1250",
        "cp1251",
        "cp1256",
        "cp1257",
        "cp850",
        "cp852",
        "cp866",
        "dec8",
        "geostd8",
        "greek",
        "hebrew",
    ),
    *("hp8", "keybcs2", "koi8r", "koi8u", "latin1", "latin2", "latin5", "latin7", "macce", "macroman", "tis620"),
]
NO_CHARACTER = "\ufffe"
PER_LINE = 16


def characters(cursor: object, charset: str) -> str:
    """By byte, as the server converts them; `?` and U+FFFD stand for none."""
    found = []
    for byte in range(256):
        cursor.execute(f"SELECT CONVERT(CONVERT(x'{byte:02x}' USING {charset}) USING utf8mb4)")
        told = cursor.fetchone()[0]
        is_known = len(told or "") == 1 and told != "\ufffd" and (told != "?" or byte == ord("?"))
        found.append(told if is_known else NO_CHARACTER)
    return "".join(found)


def literal(text: str) -> Iterator[str]:
    for start in range(0, len(text), PER_LINE):
        part = "".join(f"\\u{ord(one):04x}" for one in text[start : start + PER_LINE])
        yield f'        "{part}"'


def main(dsn: str) -> None:
    lines = [HEAD.rstrip("\n")]
    with closing(connect(server_from_dsn(dsn))) as connection, closing(connection.cursor()) as cursor:
        for name in NAMES:
            told = characters(cursor, name)
            assert told[:128] == "".join(map(chr, range(128))), f"{name} is not ASCII below 0x80"
            lines += [f'    "{name}": (', *literal(told[128:]), "    ),"]
    MODULE.write_text("\n".join([*lines, "}", ""]))


if __name__ == "__main__":
    main(sys.argv[1])
