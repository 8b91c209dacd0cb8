"""Names of trails and of pumps, and addresses of hops."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_ADDRESS = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]/?#@]+)):(\d{1,5})")


def is_trail_name(text: str) -> bool:
    """Return whether a trail may have this name, which is a directory's, too."""
    return _NAME.fullmatch(text) is not None


def address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT. Raises ValueError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[3]) < 65536:
        raise ValueError("HOST:PORT, such as 127.0.0.1:7420 or [::1]:7420")
    return found[1] or found[2], int(found[3])


def reader_name(name: str) -> str:
    """Return the name under which a pump is registered with its trail."""
    return f"pump {name}"
