"""Readers of a trail in a store, and what is removed behind them: who is refused holds nothing, and no pump stands still."""

from __future__ import annotations

import pytest

from anabranch.errors import TrailError
from anabranch.trail.replica import hops_of
from anabranch.trail.storage import LocalStorage
from anabranch.transport import pieces, store_facts, store_retention
from anabranch.transport.store_claims import Claims
from anabranch.transport.store_place import Put
from anabranch.transport.store_retention import Retention
from anabranch.transport.store_source import load_mark
from rigs import trail_source as samples
from rigs.memory_store import Objects
from unit.transport.conftest import rows, write
from unit.transport.test_store_way import into, objects, put_all, take_all

__all__ = ["objects"]


def never() -> bool:
    return False


def test_a_reader_that_was_removed_and_comes_back_is_refused_and_holds_nothing(writer, tmp_path, objects):
    write(writer, 40)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    take_all(tmp_path, objects, to="c", name="second")
    del objects.content["readers/second.json"]
    write(writer, 100)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    put_all(tmp_path, objects, keep=0.0)
    with pytest.raises(TrailError, match=r"piece \d+ was removed from memory"):
        take_all(tmp_path, objects, to="c", name="second")
    assert "readers/second.json" not in objects.content


def test_a_reader_whose_pieces_go_while_it_registers_takes_its_object_back(writer, tmp_path, objects):
    write(writer, 100)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)

    def after(verb: str, name: str) -> None:
        if verb == "replace" and name == "readers/second.json":
            objects.after = lambda verb, name: None
            found = store_facts.begun(objects.opened())
            assert found
            store_facts.save(objects.opened(), store_facts.from_piece_on(found, 3))

    objects.after = after
    with pytest.raises(TrailError, match="piece 1 was removed from memory"):
        take_all(tmp_path, objects, to="c", name="second")
    assert "readers/second.json" not in objects.content


def test_a_replica_that_an_older_one_was_put_in_place_of_is_read_into_from_the_first_piece(writer, tmp_path, objects):
    write(writer, 40)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    write(writer, 40)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects, to="c")
    (tmp_path / "c" / "stored.json").rename(tmp_path / "b" / "stored.json")
    assert load_mark(tmp_path / "b").number == len(objects.pieces())
    take_all(tmp_path, objects)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 80, with_large=True)
    assert hops_of(LocalStorage(tmp_path / "b")) == ("out", "into")


@pytest.mark.parametrize("objects", ["claims"], indirect=True)
def test_until_caught_up_looks_again_where_another_session_goes_on(writer, tmp_path, objects):
    """The session that goes on puts its first pieces while the reader asks, and has not said how far it is."""
    write(writer, 40)
    put_all(tmp_path, objects)
    write(writer, 40)
    source = into(tmp_path, objects)
    done = []

    def on(verb: str, name: str) -> None:
        if verb == "read" and pieces.number_of(name) == len(objects.pieces()) + 1 and not done:
            done.append(name)
            put_all(tmp_path, objects)
            del objects.content["writer.json"]

    objects.on = on
    source.run(never, until_caught_up=True)
    assert done and rows(tmp_path / "b") == samples.expected_rows(1, 80, with_large=True)


@pytest.fixture
def many() -> Objects:
    found = Objects()
    for number in range(1, 61):
        found.content[pieces.name_of(number)] = b"x"
    return found


def retention_of(objects: Objects, put: Put) -> Retention:
    store = objects.opened()
    return Retention(store, put, 0.0, Claims(store, False))


def test_leftovers_are_listed_and_what_is_gone_is_not_asked_for(many):
    """The note is new, and the store has had 100 million pieces."""
    first = 100_000_000
    many.content[pieces.name_of(first)] = b"x"
    put = Put()
    retention_of(many, put)._delete(first, never)
    assert many.pieces() == [pieces.name_of(first)] and put.swept == first
    assert many.times("delete", "") == 60


def test_one_turn_removes_so_many_and_the_next_one_goes_on(many, monkeypatch):
    monkeypatch.setattr(store_retention, "MOST", 25)
    put = Put()
    one = retention_of(many, put)
    left = []
    for _ in range(4):
        one._delete(56, never)
        left.append(len(many.pieces()))
    assert left == [35, 10, 5, 5] and put.swept == 56


def test_removing_ends_when_the_pump_is_to_stop(many):
    asked = iter([False] * 5)
    put = Put()
    retention_of(many, put)._delete(51, lambda: next(asked, True))
    assert len(many.pieces()) == 55 and put.swept == 1
