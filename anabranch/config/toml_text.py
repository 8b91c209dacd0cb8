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


def document_of(job: Mapping[str, Any]) -> str:
    """Return a job, such as JSON has it, as the text of a job file. What is None is left out: TOML has no such value."""
    lines, sections = list[str](), list[str]()
    for name, value in _without_none(job).items():
        if isinstance(value, Mapping):
            sections += ["", f"[{key_of(name)}]", *_pairs(value)]
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            for one in value:
                sections += ["", f"[[{key_of(name)}]]", *_pairs(one)]
        else:
            lines.append(f"{key_of(name)} = {text_of(value)}")
    return "\n".join([*lines, *sections, ""])


def _pairs(section: Mapping[str, Any]) -> list[str]:
    return [f"{key_of(name)} = {text_of(value)}" for name, value in section.items()]


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_none(one) for name, one in value.items() if one is not None}
    return [_without_none(one) for one in value if one is not None] if isinstance(value, list) else value


def key_of(name: str) -> str:
    """Return a key, in quotes where it needs some."""
    return name if _BARE.fullmatch(name) else text_of(name)


def comment_of(text: str) -> str:
    """Return text that may stand in a comment: on one line, without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split()))
