"""The verdict on a history: on each target of its job by itself, and on the kit before that.

What does not live here: the verdict on one target (check.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.testing.torture.check import Checker, Failure
from anabranch.testing.torture.watcher import Observation


@dataclass(frozen=True)
class Seen:
    """All that was seen of one target. `name` is "" for the first."""

    name: str
    checker: Checker
    observations: Sequence[Observation]

    def said(self, failure: Failure) -> Failure:
        """Return the failure with the target's name."""
        return Failure(failure.kind, f"at the {self.name} target: {failure.message}") if self.name else failure


def verdict(targets: Sequence[Seen], source: Mapping[str, Sequence[bytes]], *, is_whole: bool) -> Failure | None:
    """The kit's own mistakes first: what rests on them says nothing. `is_whole`: the last that was seen is the end."""
    if failure := targets[0].checker.source(source):
        return failure
    for one in targets:
        found = one.checker.observed(one.observations)
        found = found or (one.checker.final(one.observations[-1]) if is_whole else None)
        if found is not None:
            return one.said(found)
    return None
