"""Say which names objects may have, so that each name means the same in every store.

A part that begins with "." is for the stores: what is not whole yet stands there.
"""

from __future__ import annotations

LONGEST = 800  # bytes; S3 allows 1,024 with the prefix, file systems 255 a part
LONGEST_PART = 200


def checked(name: str) -> str:
    """Return the name. Raises ValueError for one that not every store can keep."""
    parts = name.split("/")
    if any(not part or part[0] == "." for part in parts) or not name.isprintable() or "\\" in name:
        raise ValueError(f"{name!r} cannot be the name of an object")
    if len(name.encode()) > LONGEST or any(len(part.encode()) > LONGEST_PART for part in parts):
        raise ValueError(f"{name[:40]!r}… is too long for the name of an object")
    return name


def is_hidden(part: str) -> bool:
    """Return whether a part of a path is none of an object's name."""
    return part.startswith(".")
