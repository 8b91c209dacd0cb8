"""Errors of a log in JSON as whoever reads it takes them: their text behind the line."""

from __future__ import annotations

import json


def as_read(log: str) -> str:
    """Return what was written to stderr, with the text of each error behind its line: where, what, what to do."""
    return "".join(line + _text(line) for line in log.splitlines(keepends=True))


def _text(line: str) -> str:
    try:
        found = json.loads(line)
    except ValueError:  # a text
        return ""
    if not isinstance(found, dict) or found.get("event") != "error" or "message" not in found:
        return ""
    where = [f"{name} {found[name]}" for name in ("job", "table", "position") if found.get(name)]
    text = f"{', '.join(where)}: " * bool(where) + " — ".join(filter(None, (found["message"], found["hint"])))
    return "".join(f"error: {one}\n" for one in (text, *found.get("notes", ())))
