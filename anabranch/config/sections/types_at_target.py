"""`[types]` of the job file.

What does not live here: the choices of a target's own (`[target.options]`, in its connector).
"""

from __future__ import annotations

from typing import Literal

from anabranch.config.section import Section
from anabranch.config.values import ZeroDate


class Types(Section):
    """Decisions about values that the target cannot hold."""

    zero_date: ZeroDate = "stop"
    """Treat an invalid date (0000-00-00, 2024-00-15): `"stop"` with the row's key, write NULL (`"null"`), or the
    date that stands for it, at midnight UTC: `"0001-01-01"`, `"-infinity"`, `"infinity"`. In a primary key only an infinite
    date is accepted, and only for 0000-00-00, because two rows must not become one. For one column:
    `[[tables]] columns.zero_date`."""
    nul: Literal["stop", "strip"] = "stop"
    """A NUL character in text: stop with the row's key where the target's text has no such character (PostgreSQL), or leave the
    character out everywhere."""
    map: dict[str, str] = {}
    """Source type -> target type, instead of the type map's: `"tinyint(1)" = "boolean"`. The left side is the type as
    the source spells it, or its name alone, or a glob on either; the exact spelling wins, then the first. `"numeric()"`
    are those that have no sizes. Which types there are for a type: the [type table](types.md#types-of-your-own-choice)."""
