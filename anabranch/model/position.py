"""Positions: the trail's own sequence, with the source's native position beside it (K18).

Order is the sequence and nothing else. `native` is text that only its connector understands.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the trail: `sequence` counts committed transactions from 1 (0 = before the first); `native` is the
    source's position just after it, e.g. `mysql-bin.000003:15499`. Text form `<sequence>@<native>`."""

    sequence: int
    native: str = ""

    def __str__(self) -> str:
        return f"{self.sequence}@{self.native}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parse what `str` gives. Raises ValueError."""
        number, at, native = text.partition("@")
        if not at or not number.isdigit():
            raise ValueError(f"expected <sequence>@<native position>, got {text!r}")
        return cls(int(number), native)


@dataclass(frozen=True, slots=True)
class LogMark:
    """A place in the source's log with everything needed to continue or compare there.

    `native` is the short text of `Position.native`; `resume` is the connector's own JSON: identity of the server, file
    and offset, and where there are GTIDs the normalised set of all that is included. `commit_time` is in microseconds
    since 1970 UTC by the source's clock, 0 if unknown. Compare marks only through the connector (`LogOrder`)."""

    native: str
    resume: str
    commit_time: int = 0


@dataclass(frozen=True, slots=True)
class HeldLog:
    """`bytes` of log that a source keeps until we have read it, of `limit` at most (None: as much as the disk takes).
    `warning`: why a person should look, "" while nobody has to."""

    bytes: int
    limit: int | None = None
    warning: str = ""
