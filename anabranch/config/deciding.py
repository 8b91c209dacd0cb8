"""The line of the job file that decides what a hint is about: hints name its key, `[types] zero_date`.

What does not live here: where keys stand in TOML text (lines.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from anabranch.config.lines import Path

if TYPE_CHECKING:
    from anabranch.config.job import JobConfig

_KEY = re.compile(r"(?<!\[)\[([\w.]+)\] (\w+)|\[\[tables\]\] ([\w.]+)")


def names_key(hint: str) -> bool:
    """Return whether a hint names a key of the job file."""
    return _KEY.search(hint) is not None


def deciding(config: JobConfig, hint: str, table: str) -> str:
    """Return `line 14`, or that the file does not have the section; "" where the hint names no key. `table`: the one that the
    hint is about, for keys of `[[tables]]`."""
    return ", ".join(dict.fromkeys(_told(config, path) for path in _paths(config, hint, table)))


def _told(config: JobConfig, path: Path) -> str:
    line = config.line_of(*path)
    if line is None:
        return f"[{path[0]}] is not in the file, its defaults hold"
    return f"line {line}"


def _paths(config: JobConfig, hint: str, about: str) -> Iterator[Path]:
    """Yield the keys that the hint names; those of `[[tables]]` only where the table has an entry there."""
    for section, key, entry in _KEY.findall(hint):
        if section:
            yield config.place_of(*section.split("."), key)
        else:
            numbers = [number for number, table in enumerate(config.tables) if str(table.id) == about]
            yield from (("tables", number, *entry.split(".")) for number in numbers)
