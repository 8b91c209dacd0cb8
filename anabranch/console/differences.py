"""Tells two texts of a job file apart, line by line, without the passwords in them.

What does not live here: how it looks (`templates/`).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from anabranch.manager.masking import masked

KINDS = {"+": "ins", "-": "del", "@": "b"}


@dataclass(frozen=True)
class Difference:
    """The lines of a difference, each with the HTML element that it stands in, "" for one that is in both.
    `is_hidden`: the texts differ in passwords alone."""

    lines: list[tuple[str, str]]
    is_hidden: bool


def difference(before: str, after: str) -> Difference:
    """Return what differs, with three lines around each place."""
    left, right = masked(before).splitlines(), masked(after).splitlines()
    found = list(difflib.unified_diff(left, right, lineterm=""))[2:]
    return Difference([(KINDS.get(line[:1], ""), line) for line in found], not found and before != after)
