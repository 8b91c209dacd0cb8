"""Plan of altering a target's table, before anybody does it.

What does not live here: whether it is done at all (apply), the servers' facts (each connector).
"""

from __future__ import annotations

from dataclasses import dataclass

WRITTEN_PER_SECOND = 50 << 20  # bytes: what a table that is written anew is taken to need, index and all


@dataclass(frozen=True, slots=True)
class AlteringPlan:
    """`statements`, in their order; `inverse`: what takes the definition back, and with it all that rows have got since.
    `lock`: what others have to wait for, for people, and `link`: the vendor's page. `rewrites`: the server writes all rows
    anew. `rows`, `bytes` of the table with its indexes, by the server's statistics; None where it has none."""

    statements: tuple[str, ...]
    inverse: tuple[str, ...]
    lock: str
    link: str
    rewrites: bool
    rows: int | None = None
    bytes: int | None = None

    @property
    def seconds(self) -> float | None:
        """About how long it takes; None where that is not known."""
        if not self.rewrites:
            return 0.0
        return None if self.bytes is None else self.bytes / WRITTEN_PER_SECOND
