"""Try two pumps that write into one store: one goes on and one stops, and nothing that counts is let go of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.errors import (
    ConfigError,
    StateError,
    TargetUnavailable,
)
from anabranch.stores.contract import ObjectMissing
from anabranch.trail import retention
from anabranch.trail.replica_files import load_files
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter
from anabranch.transport import pieces
from anabranch.transport.store_place import PutNote
from anabranch.transport.store_source import load_mark
from rigs import trail_source as samples
from rigs.hop_files import wait_for
from rigs.memory_store import Objects
from rigs.trail_loads import a_load
from unit.transport.conftest import rows, write
from unit.transport.test_store_way import filled, into, never, objects, out, put_all, take_all, unarmed

__all__ = ["filled", "objects", "unarmed"]


@pytest.mark.parametrize("objects", ["once"], indirect=True)
def test_of_two_pumps_into_one_name_one_stops(writer, tmp_path, objects, running):
    """Both have the same trail, in two places; which one goes on is decided by the number that both want."""
    write(writer, 50)
    first = out(tmp_path, objects)
    told: list[StateError] = []

    def stopped() -> None:
        try:
            first.run(never)
        except StateError as error:
            told.append(error)

    running(SimpleNamespace(run=lambda stop: stopped()))
    wait_for(lambda: first.state.acknowledged == 50)
    put_all_of_a_replica(tmp_path, objects)
    second = out(tmp_path, objects, source="r", name="second")
    second.run(never, until_caught_up=True)  # it finds nothing to do, and is no harm
    hold = threading.Event()

    def on(verb: str, name: str) -> None:
        if verb == "create" and name.startswith("pieces/") and not hold.is_set():
            hold.set()
            other = pieces.decode(objects.content[objects.pieces()[-1]], len(objects.pieces()), "last")
            head = replace(
                other.head, number=other.head.number + 1, previous=other.digest, writer="other", pump="second"
            )
            objects.content[name] = pieces.encode(head, b"")

    objects.on = on
    write(writer, 10)
    wait_for(lambda: told)
    assert "was written by another pump (second, session other)" in told[0].message
    objects.on = lambda verb, name: None
    put_all(tmp_path, objects, name="out")  # started again it goes on behind the other one's
    take_all(tmp_path, objects)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 60, with_large=True)


def put_all_of_a_replica(tmp_path: Path, objects: Objects) -> None:
    """Make the same trail at another place, `r`."""
    take_all(tmp_path, objects, to="r", name="at r")


@pytest.mark.parametrize("objects", ["once"], indirect=True)
def test_a_put_of_a_dead_process_that_comes_late_is_gone_on_from(writer, tmp_path, objects):
    write(writer, 30)
    late = Objects()
    put_all(tmp_path, late)
    objects.content["trail.json"] = late.content["trail.json"]
    done = []

    def on(verb: str, name: str) -> None:
        if verb == "create" and name == pieces.name_of(1) and not done:
            done.append(name)
            objects.content[name] = late.content[name]

    objects.on = on
    (tmp_path / "a" / "hops" / "out.store").unlink()
    put_all(tmp_path, objects)
    assert done
    take_all(tmp_path, objects)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 30, with_large=True)


@pytest.mark.parametrize("objects", ["once"], indirect=True)
def test_a_trail_that_was_begun_where_one_is_decided_needs_that(filled, tmp_path):
    filled.creates_once = False
    with pytest.raises(ConfigError, match="begun by a way that creates an object once"):
        put_all(tmp_path, filled)


def two_places(writer: TrailWriter, tmp_path: Path, objects: Objects) -> None:
    """Put 40 transactions into a store; then the trail has 60, and so has a copy of it, `r`."""
    write(writer, 40)
    put_all(tmp_path, objects)
    write(writer, 20)
    other = Objects()
    put_all(tmp_path, other, name="copy")
    take_all(tmp_path, other, to="r")


def overtake(tmp_path: Path, objects: Objects, before: Callable[[], None], **options: Any) -> None:
    """Let another pump, which looked before, go on in the place of the first piece that is put from now on."""
    number, overtaking = len(objects.pieces()) + 1, threading.local()

    def after(verb: str, name: str) -> None:
        if verb == "create" and pieces.number_of(name) == number and not hasattr(overtaking, "hidden"):
            overtaking.hidden = name
            before()
            put_all(tmp_path, objects, source="r", name="second", **options)
            overtaking.hidden = ""

    def on(verb: str, name: str) -> None:
        if verb == "size" and name == getattr(overtaking, "hidden", None):
            raise ObjectMissing(name)

    objects.after, objects.on = after, on


@pytest.mark.parametrize("objects", ["claims"], indirect=True)
@pytest.mark.parametrize("size", [3_000, 8_000_000])
def test_who_is_overtaken_stops_and_who_has_read_its_piece_goes_back(writer, tmp_path, objects, running, size):
    """The store cannot decide. What was read of the one that is overtaken is compared with what the other one has put."""
    two_places(writer, tmp_path, objects)
    source = into(tmp_path, objects)
    running(source)
    wait_for(lambda: source.state.acknowledged == 40)
    held_from = retention.readers(tmp_path / "a")["pump out"].sequence
    overtake(tmp_path, objects, lambda: wait_for(lambda: source.state.acknowledged > 40), size=size)
    with pytest.raises(
        StateError, match="another pump has begun to write into memory/, and goes on in the place of this"
    ):
        out(tmp_path, objects, size=8_000).run(never)
    assert retention.readers(tmp_path / "a")["pump out"].sequence == held_from == 40  # what it has put does not count
    wait_for(lambda: source.state.acknowledged == 60)
    objects.after, objects.on = lambda verb, name: None, lambda verb, name: None
    write(writer, 20)
    put_all(tmp_path, objects)  # started again it goes on behind the other one
    wait_for(lambda: source.state.acknowledged == 80)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 80, with_large=True)
    take_all(tmp_path, objects, to="c", name="new")
    assert rows(tmp_path / "c") == rows(tmp_path / "b")
    wait_for(lambda: load_mark(tmp_path / "b").number == load_mark(tmp_path / "c").number)


@pytest.mark.parametrize("objects", ["claims"], indirect=True)
def test_files_of_a_load_in_a_piece_that_was_overtaken_are_put_again(writer, tmp_path, objects):
    """The claim of the other one comes late: the piece was noted, and does not count any more."""
    two_places(writer, tmp_path, objects)
    held: dict[str, bytes] = {}

    def after(verb: str, name: str) -> None:
        if verb == "create" and name.startswith("writers/") and not held:
            held[name] = objects.content.pop(name)
            raise TargetUnavailable("memory: cut")

    objects.after = after
    with pytest.raises(TargetUnavailable):
        out(tmp_path, objects, source="r", name="second", give_up=-1.0).run(never)
    names = a_load(tmp_path / "a")
    put_all(tmp_path, objects)
    objects.content.update(held)  # what was noted beside the trail is overtaken now
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    assert [one.name for one in load_files(LocalStorage(tmp_path / "b")) if one.name.endswith(".arrow")] == names
    assert rows(tmp_path / "b") == samples.expected_rows(1, 60, with_large=True)


@pytest.mark.parametrize("objects", ["claims"], indirect=True)
def test_a_reader_that_was_stopped_before_a_piece_was_overtaken_goes_back(writer, tmp_path, objects):
    two_places(writer, tmp_path, objects)
    overtake(tmp_path, objects, lambda: take_all(tmp_path, objects) and None)
    with pytest.raises(StateError, match="another pump has begun to write"):
        out(tmp_path, objects, size=8_000).run(never)
    put_all(tmp_path, objects, keep=0.0)
    take_all(tmp_path, objects)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 60, with_large=True)
    put_all(tmp_path, objects, keep=0.0)
    first = pieces.number_of(objects.pieces()[0])
    assert first is not None and first > 1  # also the piece that nobody reads went


@pytest.mark.parametrize("objects", ["claims"], indirect=True)
def test_of_two_that_say_at_once_that_they_write_one_does(writer, tmp_path, objects):
    """Both have looked, and both have written the same object: the store has kept the later one."""
    two_places(writer, tmp_path, objects)
    done: list[str] = []

    def after(verb: str, name: str) -> None:
        if verb == "create" and name.startswith("writers/") and not done:
            done.append(name)
            ours = objects.content.pop(name)
            put_all(tmp_path, objects, source="r", name="second")
            assert objects.content[name] != ours

    objects.after = after
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    assert done and rows(tmp_path / "b") == samples.expected_rows(1, 60, with_large=True)


@pytest.mark.parametrize("objects", ["claims"], indirect=True)
def test_who_puts_first_long_after_it_looked_goes_on_behind_what_came_meanwhile(writer, tmp_path, objects, running):
    """The former pump has put pieces meanwhile, and has let go of what is in them."""
    write(writer, 40)
    first = out(tmp_path, objects)

    def until_overtaken(stop: Callable[[], bool]) -> None:
        with suppress(StateError):
            first.run(stop)

    running(SimpleNamespace(run=until_overtaken))
    wait_for(lambda: first.state.acknowledged == 40)
    copy = Objects()
    put_all(tmp_path, copy, name="copy")
    take_all(tmp_path, copy, to="r", name="at r")
    second = out(tmp_path, objects, source="r", name="second")
    running(second)
    wait_for(lambda: second.state.acknowledged == 40)
    names = a_load(tmp_path / "a")
    write(writer, 20)
    wait_for(lambda: first.state.acknowledged == 60 and {*names} <= {*PutNote(tmp_path / "a", "out").load().files})
    put_all(tmp_path, copy, name="copy")
    take_all(tmp_path, copy, to="r", name="at r")
    wait_for(lambda: second.state.acknowledged == 60)
    write(writer, 20)
    put_all(tmp_path, copy, name="copy")
    take_all(tmp_path, copy, to="r", name="at r")
    wait_for(lambda: second.state.acknowledged == 80)
    take_all(tmp_path, objects)
    assert [one.name for one in load_files(LocalStorage(tmp_path / "b")) if one.name.endswith(".arrow")] == names
    assert rows(tmp_path / "b") == samples.expected_rows(1, 80, with_large=True)


@pytest.mark.parametrize("objects", ["claims"], indirect=True)
def test_a_claim_that_comes_late_is_believed_and_what_it_overtakes_is_compared(writer, tmp_path, objects):
    """The object of one session is replaced by that of another, long after, as a server may do that was asked twice."""
    two_places(writer, tmp_path, objects)
    claims = sorted(name for name in objects.content if name.startswith("writers/") and "-next" not in name)
    late: dict[str, bytes] = {}

    def after(verb: str, name: str) -> None:
        if verb == "create" and name.startswith("writers/") and not late:
            late[name] = objects.content.pop(name)
            raise TargetUnavailable("memory: cut")

    objects.after = after
    with pytest.raises(TargetUnavailable):
        out(tmp_path, objects, give_up=-1.0).run(never)
    put_all(tmp_path, objects, source="r", name="second")
    take_all(tmp_path, objects)
    assert len(claims) == 1 and late and set(late) <= set(objects.content)
    objects.content.update(late)
    write(writer, 20)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 80, with_large=True)
