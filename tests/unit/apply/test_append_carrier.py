"""An epoch of an Appender that takes too long goes on in halves, and a transaction that does so twice is named."""

from __future__ import annotations

from typing import Any, cast

import pytest

from anabranch.apply.append_carrier import AppendCarrier
from anabranch.apply.feed import Feed
from anabranch.contracts import TookTooLong
from anabranch.errors import RowRefused
from anabranch.model.position import Position


class Here:
    """A progress and its writer, of which the carrier asks no more than to roll back."""

    def rollback(self) -> None: ...

    @property
    def writer(self) -> Here:
        return self


class Slow(AppendCarrier):
    """Takes too long for more than `most` transactions at once, and `late` times for any."""

    most, late = 1, 0

    def __init__(self) -> None:
        super().__init__(cast(Any, Here()), cast(Any, None))
        self.done: list[tuple[int, int]] = []

    def _at_once(self, feed: Feed) -> None:
        if feed.upto - feed.after > self.most or self.late:
            self.late = max(0, self.late - 1)
            raise TookTooLong("cannot commit an epoch: it took longer than 10 seconds", hint="raise it")
        self.done.append((feed.after, feed.upto))


class Stretch(Feed):
    """A stretch of a trail that nobody reads."""

    def end(self) -> tuple[Position, int]:
        return Position(self.upto, "log.1:10"), 0


def feed(upto: int) -> Feed:
    return Stretch(cast(Any, None), 0, upto)


def test_an_epoch_that_takes_too_long_goes_on_in_halves() -> None:
    carrier = Slow()
    carrier.carry_out(feed(3))
    assert carrier.done == [(0, 1), (1, 2), (2, 3)]


def test_one_transaction_is_tried_again_and_then_named() -> None:
    carrier = Slow()
    carrier.late = 1
    carrier.carry_out(feed(1))
    assert carrier.done == [(0, 1)]
    carrier.late = 2
    with pytest.raises(RowRefused, match=r"one transaction: .*10 seconds") as refused:
        carrier.carry_out(feed(1))
    assert refused.value.position == "1@log.1:10" and refused.value.hint == "raise it"
