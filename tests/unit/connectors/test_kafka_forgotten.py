"""Tests of the decision to commit or abort messages whose end a broker has forgotten: the job's state says which."""

from __future__ import annotations

from typing import Any, cast

import pytest

from anabranch.connectors.kafka.target import forgotten
from anabranch.connectors.kafka.target.records import Key, Records, Value
from anabranch.connectors.kafka.target.sequences import Place
from anabranch.connectors.kafka.target.state_forms import (
    CHECKPOINT,
    NotedTopic,
    checkpoint_value,
    first_rows_key,
    topic_value,
)
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint

STATE, A, B = ("anabranch.shop", 0), ("a", 0), ("a", 1)
TOPIC: dict[Key, Value] = {("topic", "a"): topic_value(NotedTopic("a", "id", 2))}


def state(sequence: int) -> dict[Key, Value]:
    return {**TOPIC, CHECKPOINT: checkpoint_value(Checkpoint("me", 1, Position(sequence, "log.1:9"), 0))}


class Records_:
    """A state of which a reader sees `there` at once, and `later` where it waits for all of it."""

    def __init__(self, there: dict[Key, Value], later: dict[Key, Value]) -> None:
        self.there, self.later = there, later

    def refresh(self, is_decided: bool = False) -> None:
        self.there = self.later if is_decided else self.there


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Any:
    """How partitions end. `left`: those that are open; `messages`: sequences of theirs; `told`: of readable ones."""

    def end(
        records: Records_, left: list[Place], messages: dict[Place, int], told: dict[Place, int] | None = None
    ) -> dict[Place, bool]:
        done: dict[Place, bool] = {}
        monkeypatch.setattr(forgotten, "administrator", lambda endpoint: None)
        monkeypatch.setattr(forgotten, "left_open", lambda client, places, limit: dict.fromkeys(left, (1, 2)))
        monkeypatch.setattr(forgotten, "ends_at", lambda client, places, is_committed, limit: dict.fromkeys(places, 1))
        monkeypatch.setattr(
            forgotten, "open_ones", lambda endpoint, ranges: {one: messages[one] for one in ranges if one in messages}
        )
        monkeypatch.setattr(forgotten, "newest", lambda endpoint, ranges: told or {})
        monkeypatch.setattr(
            forgotten,
            "_end",
            lambda producer, places, is_committed, limit: done.update(dict.fromkeys(places, is_committed)),
        )
        endpoint = Endpoint("kafka", "", 0, "", "")
        forgotten.end_forgotten(endpoint, "shop", cast(Any, None), cast(Records, records))
        return done

    return end


def test_what_the_checkpoint_has_passed_was_committed(ended: Any) -> None:
    assert ended(Records_(state(7), state(7)), [A, B], {A: 7, B: 8}) == {A: True, B: False}
    assert ended(Records_(state(7), state(7)), [A, B], {B: 7}) == {B: True}  # what is open in A is another program's
    assert ended(Records_(state(7), state(7)), [], {}) == {}


def test_a_state_that_becomes_readable_meanwhile_is_read_before_anything_is_decided(ended: Any) -> None:
    assert ended(Records_(state(5), state(7)), [A], {A: 7}) == {A: True}


def test_rows_of_an_initial_load_go_by_the_note_that_is_committed_with_them(ended: Any) -> None:
    loaded: dict[Key, Value] = {**state(7), first_rows_key("a"): {}}
    assert ended(Records_(state(7), state(7)), [A], {A: 0}) == {A: False}
    assert ended(Records_(loaded, loaded), [A], {A: 0}) == {A: True}


def test_where_the_state_itself_is_open_a_message_behind_it_tells_that_it_was_committed(ended: Any) -> None:
    there = state(7)
    assert ended(Records_(there, there), [STATE, A], {A: 8}, {B: 7}) == {STATE: False, A: False}
    assert ended(Records_(there, there), [STATE, A], {A: 8}, {B: 8}) == {STATE: True, A: True}
    assert ended(Records_({}, {}), [STATE], {}) == {STATE: False}
