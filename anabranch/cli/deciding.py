"""The line of the job file that decides what a message is about: hints name its key, `[types] zero_date`.

What does not live here: where keys stand in TOML text (config/lines.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from anabranch.config import JobConfig, load_job
from anabranch.config.lines import Path
from anabranch.errors import AnabranchError, ConfigError

_KEY = re.compile(r"(?<!\[)\[([\w.]+)\] (\w+)|\[\[tables\]\] ([\w.]+)")


def deciding_line(error: AnabranchError, arguments: list[str]) -> str:
    """Return ` (line 14 of shop.toml)`; "" where the hint names no key, or there is no job file."""
    file = next((argument for argument in arguments if argument.endswith(".toml")), "")
    if not file or not error.hint or isinstance(error, ConfigError) or not _KEY.search(error.hint):
        return ""
    try:
        config = load_job(file)
    except AnabranchError:
        return ""
    told = [_told(config, path) for path in _paths(error, config)]
    return f" ({file}: {', '.join(dict.fromkeys(told))})" if told else ""


def _told(config: JobConfig, path: Path) -> str:
    line = config.line_of(*path)
    if line is None:
        return f"[{path[0]}] is not in the file, its defaults hold"
    return f"line {line}"


def _paths(error: AnabranchError, config: JobConfig) -> Iterator[Path]:
    """Yield the keys that the hint names; those of `[[tables]]` only where the table has an entry there."""
    for section, key, entry in _KEY.findall(error.hint):
        if section:
            yield config.place_of(*section.split("."), key)
        else:
            numbers = [number for number, table in enumerate(config.tables) if str(table.id) == error.table]
            yield from (("tables", number, *entry.split(".")) for number in numbers)
