"""How far a job under torture goes back while its trail is dropped."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError, ConfigError, TrailError
from anabranch.testing.torture.local import go_back


def gone(at: int, wanted: int, firsts: list[int], error: type[AnabranchError] = ConfigError) -> list[int]:
    """The places that were asked for. `firsts`: where the trail begins, each time that somebody looks; the last stays."""
    asked = list[int]()

    def first() -> int:
        return firsts.pop(0) if len(firsts) > 1 else firsts[0]

    def rewind(to: int) -> None:
        asked.append(to)
        if to < first():
            raise error("it is gone")

    go_back(at, wanted, first, rewind)
    return asked


def test_so_far_or_as_far_as_the_trail_reaches() -> None:
    assert gone(19, 10, [3]) == [10] and gone(19, 10, [15]) == [15]
    assert gone(19, 10, [19]) == [] and gone(19, -4, [25]) == []


@pytest.mark.parametrize("error", [ConfigError, TrailError])
def test_a_place_that_is_dropped_meanwhile_is_left_for_the_next(error: type[AnabranchError]) -> None:
    assert gone(19, 18, [18, 19], error) == [18]  # the target's own place by now: there is nothing to go back to
    assert gone(19, 10, [12, 15], error) == [12, 15]


def test_a_refusal_that_the_trail_does_not_explain_comes_through() -> None:
    def refuse(to: int) -> None:
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        go_back(19, 10, lambda: 3, refuse)
