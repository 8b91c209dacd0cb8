"""Values of a job file as TOML text, for files that the product writes.

What does not live here: which values those are, and the comments between them (`rules/reverse_file.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_CONTROL = re.compile("[\x7f\u0080-\u009f\u2028\u2029]")  # JSON writes them as they are, TOML or an editor does not


def text_of(value: Any) -> str:
    """Return a value as it stands behind `key = `. Sections come as inline tables. https://toml.io/en/v1.0.0"""
    if isinstance(value, str):
        return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04X}", json.dumps(value, ensure_ascii=False))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{key_of(name)} = {text_of(one)}" for name, one in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text_of, value))}]"
    return str(value)


def key_of(name: str) -> str:
    """Return a key, in quotes where it needs some."""
    return name if _BARE.fullmatch(name) else text_of(name)


def comment_of(text: str) -> str:
    """Return text that may stand in a comment: on one line, without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
