"""How soon it is said for whom we wait: within ten seconds, whatever the moment. The live tests show that it is said."""

from __future__ import annotations

from anabranch import waits


def test_a_wait_is_told_within_ten_seconds_of_its_beginning() -> None:
    """A session counts as busy after BUSY, at one of the looks at our own; the server is asked at the next turn to do so."""
    slowest = waits.BUSY + 2 * waits.TICK + max(waits.LOOK, waits.LOOK_AGAIN)
    assert slowest < 10.0 / 1.5, "a third of it is left for the connection and the answer"
