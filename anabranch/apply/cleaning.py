"""Cleaning up beside epochs, at a target that keeps changes for a time only.

What does not live here: for how long (the target's options), what goes first (its `clean_up`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from anabranch import pace
from anabranch.contracts import CleansUp

ENOUGH = 0.2  # seconds of one look: epochs wait meanwhile


@dataclass
class Cleaning:
    """The clean-up of one run of apply. Time is counted from its beginning on; what lies between two runs does not count."""

    writer: object
    _counted: float = field(default_factory=time.monotonic)
    _is_left: bool = True  # what the run before has left

    def look(self) -> None:
        """Remove a little, where the time has come or something is left. Raises TargetUnavailable: what was counted then is
        counted no more, and changes stay so much longer."""
        if not isinstance(self.writer, CleansUp):
            return
        began = time.monotonic()
        elapsed = int(began - self._counted) if began - self._counted >= pace.current.apply_clean_up else 0
        if not elapsed and not self._is_left:
            return
        self._counted += elapsed
        self._is_left = self.writer.clean_up(elapsed)
        while self._is_left and time.monotonic() - began < ENOUGH:
            self._is_left = self.writer.clean_up(0)
