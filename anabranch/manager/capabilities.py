"""The parts of ways that a machine may run: `anabranch serve --only PART`.

A machine that stands where a target cannot be reached, or must not be, runs captures alone; another one only passes trails on.
What does not live here: when something is started (`supervising.py`).
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from enum import StrEnum

from anabranch.config.hop_kinds import HopFile, Kind
from anabranch.config.hops import Hop, hop_of
from anabranch.config.job import JobConfig
from anabranch.errors import ConfigError


class Part(StrEnum):
    """A part of a way between databases. A job with a database at both ends is a capture and an apply."""

    CAPTURE = "capture"
    APPLY = "apply"
    PUMP = "pump"
    ROUTE = "route"
    RECEIVE = "receive"


def parts_of(kind: Kind, file: JobConfig | HopFile) -> tuple[Part, ...]:
    """Return the parts that the process of a job or a hop does."""
    if not isinstance(file, JobConfig):
        return (Part(kind.value),)
    hop = hop_of(file)
    return (Part.CAPTURE, Part.APPLY) if hop is None else (Part.CAPTURE if hop is Hop.CAPTURE else Part.APPLY,)


class Capabilities:
    """Tells what this machine may run: everything, unless `only` names parts."""

    def __init__(self, only: Collection[Part] = ()) -> None:
        self.parts = tuple(part for part in Part if part in only or not only)

    @property
    def is_limited(self) -> bool:
        """Return whether there is anything that this machine may not run."""
        return len(self.parts) < len(Part)

    def require(self, name: str, wanted: Collection[Part]) -> None:
        """Raise ConfigError for what this machine may not run."""
        if missing := [part for part in wanted if part not in self.parts]:
            message = f"{name} is not started on {socket.gethostname()}, which runs only: {', '.join(self.parts)}"
            options = " ".join(f"--only {part}" for part in missing)
            hint = f"start it where its ends are reached, or begin the manager of this machine with {options}, too"
            raise ConfigError(message, job=name, hint=hint)


__all__ = ["Capabilities", "Part", "parts_of"]
