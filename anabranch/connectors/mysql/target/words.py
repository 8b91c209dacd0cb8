"""Types in the words of MySQL and MariaDB: a type's name without what stands around it, literals, lists of labels."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SIZES = re.compile(r"\(([\d,\s]*)\)")
_HINTS = re.compile(r"/\*.*?\*/", re.DOTALL)


def bare(native: str) -> str:
    """Return the name of a type alone: `int(10) unsigned` -> `int`."""
    return native.partition("(")[0].partition(" ")[0].lower()


def sizes(native: str) -> tuple[int, ...]:
    """Return the numbers in the parentheses of a type, () without any; labels are none."""
    found = _SIZES.search(native)
    return tuple(int(size) for size in found[1].split(",") if size.strip()) if found else ()


def without_hints(native: str) -> str:
    """Return a type without the comments that MariaDB prints behind one: `/* mariadb-5.3 */`, `/*M!100301 COMPRESSED*/`."""
    return native if bare(native) in ("enum", "set") else " ".join(_HINTS.sub("", native).split())


def literal(text: str) -> str:
    """Return a string literal. Our sessions speak utf8mb4, and backslashes are escapes in them (session.py)."""
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0")
    return f"'{escaped}'"


def labelled(name: str, labels: Iterable[str]) -> str:
    """Return `enum('a','b')` or `set('a','b')`."""
    return f"{name}({','.join(literal(label) for label in labels)})"
