"""A trail through a store of objects: what is written at one end stands at the other, whatever the store does in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.errors import (
    Side,
    SourceUnavailable,
    StateError,
    TargetUnavailable,
    TrailCorrupt,
    TrailError,
    ValueRefused,
)
from anabranch.job import store_jobs
from anabranch.lifecycle.asking import ask_for_load
from anabranch.model.ids import TableId
from anabranch.stores.contract import ObjectExists
from anabranch.trail import load_readers, pack, requests, retention
from anabranch.trail.replica import hops_of
from anabranch.trail.replica_files import load_files
from anabranch.trail.storage import LocalStorage
from anabranch.transport import hop_state, pieces, store_pump
from anabranch.transport.names import reader_name
from anabranch.transport.store_pump import StorePump
from anabranch.transport.store_source import StoreSource, load_mark
from rigs import trail_source as samples
from rigs.hop_files import wait_for
from rigs.memory_store import Objects, away, full, refused
from rigs.trail_loads import a_load
from unit.transport.conftest import begun, rows, write


@pytest.fixture(autouse=True)
def unarmed() -> Iterator[None]:
    yield
    failpoints.arm({})


@pytest.fixture(params=["once", "claims"])
def objects(request: pytest.FixtureRequest) -> Objects:
    """A store that decides between two who create one object, and one that does not."""
    return Objects(creates_once=request.param == "once")


def never() -> bool:
    return False


def out(tmp_path: Path, objects: Objects, *, source: str = "a", name: str = "out", **options: Any) -> StorePump:
    options = {"interval": 0.0, "longest_pause": 0.2, "size": 20_000, **options}
    return StorePump(tmp_path / source, name, "shop", objects.opened, to="memory", **options)


def into(tmp_path: Path, objects: Objects, *, to: str = "b", name: str = "into", **options: Any) -> StoreSource:
    options = {"longest_pause": 0.2, "longest_look": 0.05, **options}
    return StoreSource(tmp_path / to, name, objects.source, of="memory", **options)


def put_all(tmp_path: Path, objects: Objects, **options: Any) -> StorePump:
    pump = out(tmp_path, objects, **options)
    pump.run(never, until_caught_up=True)
    return pump


def take_all(tmp_path: Path, objects: Objects, **options: Any) -> StoreSource:
    source = into(tmp_path, objects, **options)
    source.run(never, until_caught_up=True)
    return source


def changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("compress", [False, True])
def test_all_of_a_trail_comes_through_a_store(writer, tmp_path, objects, compress):
    write(writer, 100)
    assert pack.pack_all(tmp_path / "a")
    write(writer, 100)
    folder = tmp_path / "a" / "load" / "shop.orders"
    folder.mkdir(parents=True)
    (folder / "1.arrow").write_bytes(bytes(range(256)) * 3000)
    (folder / "empty.arrow").write_bytes(b"")
    (folder / "manifest.json").write_bytes(b'{"files":[]}')
    pump = put_all(tmp_path, objects, compress=compress)
    assert len(objects.pieces()) > 5 and pump.state.acknowledged == 200
    source = take_all(tmp_path, objects)
    assert rows(tmp_path / "b") == rows(tmp_path / "a") == samples.expected_rows(1, 200, with_large=True)
    for file in folder.iterdir():
        assert (tmp_path / "b" / "load" / "shop.orders" / file.name).read_bytes() == file.read_bytes()
    assert hops_of(LocalStorage(tmp_path / "b")) == ("out", "into")
    assert retention.readers(tmp_path / "a")["pump out"].sequence == 200
    assert source.state.acknowledged == source.state.published == 200
    before = dict(objects.content)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    assert {name: objects.content[name] for name in objects.pieces()} == {n: before[n] for n in before if "pieces" in n}


@pytest.mark.parametrize("until_caught_up", [True, False])
def test_the_last_file_of_a_load_goes_to_its_end(writer, tmp_path, objects, running, until_caught_up):
    """A file that is larger than what goes out in one turn, and no other behind it."""
    write(writer, 5)
    file = tmp_path / "a" / "load" / "shop.orders" / "1.arrow"
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(range(256)) * (store_pump.FILE_TURN // 256 * 2 + 7))
    if until_caught_up:
        put_all(tmp_path, objects, size=1 << 20)
    else:
        pump = out(tmp_path, objects, size=1 << 20)
        running(pump)
        wait_for(lambda: pump.state.files_left == 0 and pump.state.bytes_sent > 2 * store_pump.FILE_TURN)
    take_all(tmp_path, objects)
    assert (tmp_path / "b" / "load" / "shop.orders" / "1.arrow").read_bytes() == file.read_bytes()


def test_both_run_while_the_trail_grows(writer, tmp_path, objects, running):
    pump, source = out(tmp_path, objects, interval=0.05), into(tmp_path, objects)
    running(source)
    running(pump)
    for n in range(6):
        write(writer, 30)
        wait_for(lambda n=n: source.state.acknowledged >= 30 * n)
    wait_for(lambda: source.state.acknowledged == 180)
    wait_for(lambda: [one["acknowledged"] for one in pump.state.behind] == [180] or pump._noted)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 180, with_large=True)


def test_each_cut_between_bytes_of_frames_is_found_again(writer, tmp_path, objects):
    """Pieces of one byte more than nothing: frames lie over several of them, and every process takes one piece and dies."""
    write(writer, 40)
    put_all(tmp_path, objects, size=50)
    count = 0
    while True:
        source = into(tmp_path, objects)
        seen = objects.times("read", "pieces/")
        source.run(lambda seen=seen: objects.times("read", "pieces/") > seen + 2)
        count += 1
        if load_mark(tmp_path / "b").number >= len(objects.pieces()):
            break
        assert count < 500
    assert rows(tmp_path / "b") == samples.expected_rows(1, 40, with_large=True)


def test_a_listing_that_shows_nothing_is_not_believed(writer, tmp_path, objects):
    objects.lag = lambda name: True
    write(writer, 60)
    put_all(tmp_path, objects)
    write(writer, 60)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 120, with_large=True)


def lose_answers(objects: Objects, every: int, error: Callable[[], Exception]) -> None:
    """Lose the answer to every so many-th put of a piece, which is carried out all the same."""
    puts = []

    def after(verb: str, name: str) -> None:
        if verb == "create" and name.startswith("pieces/"):
            puts.append(name)
            if len(puts) % every == 0:
                raise error()

    objects.after = after


def test_puts_whose_answers_are_lost(writer, tmp_path, objects):
    lose_answers(objects, 3, lambda: TargetUnavailable("memory: the answer was lost"))
    write(writer, 150)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 150, with_large=True)


def test_a_put_that_a_library_has_done_twice_is_one(writer, tmp_path, objects):
    """Let a library put a piece again by itself, so that the second try finds the object of the first."""
    lose_answers(objects, 1, lambda: ObjectExists("again"))
    write(writer, 150)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 150, with_large=True)


@pytest.mark.parametrize("verb", ["create", "read", "size", "names", "replace"])
@pytest.mark.parametrize("what", ["away", "full", "refused"])
def test_a_store_that_is_away_full_or_refuses_for_a_while(writer, tmp_path, objects, running, verb, what):
    """The pumps wait and say so; the trail grows meanwhile, and all comes in the end."""
    errors = {"away": away, "full": full, "refused": refused}
    pump, source = out(tmp_path, objects, name="out"), into(tmp_path, objects)
    running(pump)
    running(source)
    write(writer, 30)
    wait_for(lambda: source.state.acknowledged == 30)
    is_away = threading.Event()
    is_away.set()

    def on(asked: str, name: str) -> None:
        if is_away.is_set() and asked in (verb, "create"):
            raise errors[what]()

    objects.on = on
    write(writer, 30)
    wait_for(lambda: "waiting" in pump.state.state)
    write(writer, 30)
    is_away.clear()
    wait_for(lambda: source.state.acknowledged == 90)
    assert pump.state.state == "sending" and pump.state.error == ""
    assert rows(tmp_path / "b") == samples.expected_rows(1, 90, with_large=True)


def test_who_gives_up_says_why(writer, tmp_path, objects):
    def on(verb: str, name: str) -> None:
        raise away()

    objects.on = on
    with pytest.raises(TargetUnavailable, match="it answers 503"):
        out(tmp_path, objects, give_up=0.1).run(never)
    with pytest.raises(SourceUnavailable, match="it answers 503"):
        into(tmp_path, objects, give_up=0.1).run(never)


def test_credentials_that_never_worked_are_told_at_once(writer, tmp_path, objects):
    def on(verb: str, name: str) -> None:
        raise refused()

    objects.on = on
    for one in (out(tmp_path, objects), into(tmp_path, objects)):
        with pytest.raises(Exception, match="the credentials are refused"):
            one.run(never)


# --- what is wrong in the store ---------------------------------------------------------------------------------------


@pytest.fixture
def filled(writer, tmp_path, objects) -> Objects:
    write(writer, 100)
    put_all(tmp_path, objects)
    assert len(objects.pieces()) > 3
    return objects


def test_a_piece_that_is_missing_in_the_middle_is_named(filled, tmp_path):
    del filled.content[filled.piece(3)]
    with pytest.raises(
        TrailCorrupt, match=r"piece 3 is missing \(memory/pieces/0{19}3.*\), piece \d+ was written behind"
    ):
        take_all(tmp_path, filled)
    assert load_mark(tmp_path / "b").number == 2


@pytest.mark.parametrize("at", [0, 8, 100, -33, -1])
def test_a_byte_that_was_changed_is_told(filled, tmp_path, at):
    name = filled.piece(3)
    filled.content[name] = changed(filled.content[name], len(filled.content[name]) + at if at < 0 else at)
    with pytest.raises(TrailCorrupt, match=r"piece 3 .* is not what was written"):
        take_all(tmp_path, filled)


def test_a_piece_that_was_cut_is_told(filled, tmp_path):
    name = filled.piece(4)
    for length in (0, 10, len(filled.content[name]) - 1):
        filled.content[name] = filled.content[name][:length]
        with pytest.raises(TrailCorrupt, match=r"piece 4 .* is not what was written"):
            take_all(tmp_path, filled)


def test_pieces_that_were_swapped_are_told(filled, tmp_path):
    one, other = filled.piece(3), filled.piece(4)
    filled.content[one], filled.content[other] = filled.content[other], filled.content[one]
    with pytest.raises(TrailCorrupt, match=r"piece 3 .* says that it is piece 4"):
        take_all(tmp_path, filled)


def test_a_piece_in_another_ones_place_is_told_by_the_next_one(filled, tmp_path):
    """Put a whole piece with the right number, made anew, in the place of the one that was written."""
    name = filled.piece(3)
    found = pieces.decode(filled.content[name], 3, name)
    filled.content[name] = pieces.encode(replace(found.head, at=1.0), found.body)
    with pytest.raises(TrailCorrupt, match=r"piece 4 .* does not follow the piece 3 that was read"):
        take_all(tmp_path, filled)


def test_pieces_of_another_trail_are_refused(filled, tmp_path):
    other = begun(tmp_path / "other", job="bank", job_uuid="uuid-2")
    write(other, 100)
    theirs = Objects()
    put_all(tmp_path, theirs, source="other")
    other.close()
    with pytest.raises(StateError, match=r"memory/: the trail belongs to job bank \(uuid-2\), not to shop \(uuid-1\)"):
        put_all(tmp_path, theirs)
    take_all(tmp_path, theirs, to="c")
    with pytest.raises(StateError, match="belongs to job bank"):
        take_all(tmp_path, filled, to="c")
    filled.content[filled.piece(2)] = theirs.content[theirs.piece(2)]
    with pytest.raises(StateError, match=r"piece 2 .* is of job bank, and of another beginning"):
        take_all(tmp_path, filled)


def test_a_store_that_has_lost_what_was_put_is_refused(filled, tmp_path, writer):
    kept = dict(filled.content)
    first, last = filled.piece(1), filled.pieces()[-1]
    write(writer, 10)
    del filled.content[last]
    with pytest.raises(StateError, match=f"memory/{last} is gone, which was put there"):
        put_all(tmp_path, filled)
    filled.content[last] = kept[first]
    with pytest.raises(TrailCorrupt, match="says that it is piece 1"):
        put_all(tmp_path, filled)
    found = pieces.decode(kept[last], len(filled.pieces()), last)
    filled.content[last] = pieces.encode(replace(found.head, at=1.0), found.body)
    with pytest.raises(StateError, match="is another than the piece that was put there"):
        put_all(tmp_path, filled)
    filled.content.clear()
    with pytest.raises(StateError, match="has nothing any more"):
        put_all(tmp_path, filled)
    filled.content.update(kept)
    put_all(tmp_path, filled)
    take_all(tmp_path, filled)
    assert rows(tmp_path / "b") == rows(tmp_path / "a")


def test_a_store_of_a_newer_release_is_refused(filled, tmp_path):
    name = filled.piece(2)
    body = bytearray(filled.content[name])
    body[7] = 2
    filled.content[name] = pieces.sealed(bytes(body[: -pieces.DIGEST]))
    with pytest.raises(TrailError, match="has format 2, this release knows 1"):
        take_all(tmp_path, filled)


# --- readers and retention --------------------------------------------------------------------------------------------


def test_pieces_go_once_every_reader_has_them(writer, tmp_path, objects):
    write(writer, 100)
    put_all(tmp_path, objects, keep=0.0)
    count = len(objects.pieces())
    take_all(tmp_path, objects)
    take_all(tmp_path, objects, to="c", name="second")
    write(writer, 100)
    put_all(tmp_path, objects, keep=3600.0)
    assert pieces.number_of(objects.pieces()[0]) == 1
    take_all(tmp_path, objects)
    pump = put_all(tmp_path, objects, keep=0.0)
    first = pieces.number_of(objects.pieces()[0])
    assert first is not None and 1 < first <= count + 1 < len(objects.pieces()) + first
    assert {one["name"]: one["acknowledged"] for one in pump.state.behind} == {"into": 200, "second": 100}
    with pytest.raises(TrailError, match=r"piece \d+ was removed from memory"):
        take_all(tmp_path, objects, to="d", name="late")
    assert "readers/late.json" not in objects.content
    take_all(tmp_path, objects, to="c", name="second")
    assert rows(tmp_path / "b") == rows(tmp_path / "c") == samples.expected_rows(1, 200, with_large=True)


def test_a_reader_that_listings_do_not_show_keeps_its_pieces(writer, tmp_path, objects):
    write(writer, 100)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    take_all(tmp_path, objects, to="c", name="second")
    put_all(tmp_path, objects)
    objects.lag = lambda name: "second" in name
    write(writer, 100)
    put_all(tmp_path, objects)
    take_all(tmp_path, objects)
    put_all(tmp_path, objects, keep=0.0)
    take_all(tmp_path, objects, to="c", name="second")
    assert rows(tmp_path / "c") == samples.expected_rows(1, 200, with_large=True)


def test_files_of_a_load_go_from_the_trail_once_the_store_has_them(writer, tmp_path, objects):
    trail = tmp_path / "a"
    write(writer, 3)
    names = a_load(trail)
    retention.register_copy(trail, reader_name("out"), 0)
    assert load_readers.sweep(trail) == []
    failpoints.arm({failpoints.VARIABLE: "store.noted=raise"})
    with pytest.raises(failpoints.FailpointReached):
        put_all(tmp_path, objects)
    assert load_readers.sweep(trail) == []  # it is in the store, and the trail was not told
    put_all(tmp_path, objects)
    assert sorted(load_readers.sweep(trail)) == names
    take_all(tmp_path, objects)
    assert [one.name for one in load_files(LocalStorage(tmp_path / "b")) if one.name.endswith(".arrow")] == names


# --- the replica ------------------------------------------------------------------------------------------------------


def test_whether_a_reader_may_write_is_tried_where_readers_write(filled, tmp_path, writer):
    assert store_jobs._tried(filled.source(), Side.SOURCE, "into") == []
    tried = {name for verb, name in filled.calls if verb == "replace" and name.endswith(".tried")}
    assert len(tried) == 1 and tried.pop().startswith("readers/into-")
    assert not any(name.endswith(".tried") or name.startswith("preflight") for name in filled.content)
    filled.content["readers/into-1.tried"] = store_jobs.TRIED  # of one that was killed
    take_all(tmp_path, filled)
    write(writer, 50)
    pump = put_all(tmp_path, filled, keep=0.0)
    assert [one["name"] for one in pump.state.behind] == ["into"]


def test_a_load_is_not_asked_for_by_way_of_a_store(filled, tmp_path):
    """Nobody would hear it: what is missing is told at once."""
    take_all(tmp_path, filled)
    trail, why = tmp_path / "b", ValueRefused("the load's files are gone", hint="load it there")
    with pytest.raises(ValueRefused, match="the load's files are gone"):
        ask_for_load(SimpleNamespace(trail=trail), TableId("shop", "orders"), why, never, SimpleNamespace())
    assert requests.pending(trail, requests.LOADS) == []


def test_a_replica_whose_note_is_lost_is_compared_and_goes_on(filled, tmp_path, writer):
    take_all(tmp_path, filled)
    (tmp_path / "b" / "stored.json").unlink()
    write(writer, 20)
    put_all(tmp_path, filled)
    take_all(tmp_path, filled)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 120, with_large=True)
    assert load_mark(tmp_path / "b").number == len(filled.pieces())


def test_a_replica_that_has_other_bytes_is_refused(filled, tmp_path, writer):
    take_all(tmp_path, filled)
    (tmp_path / "b" / "stored.json").unlink()
    newest = sorted(tmp_path.glob("b/*.segment"))[-1]
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    with pytest.raises((StateError, TrailError)):
        take_all(tmp_path, filled)


def test_status_of_both_shows_the_store(filled, tmp_path):
    take_all(tmp_path, filled)
    put_all(tmp_path, filled)
    ours = hop_state.states(tmp_path / "a")[0]
    assert ours["store"]["pieces"] == len(filled.pieces()) and ours["store"]["first"] == 1
    theirs = hop_state.states(tmp_path / "b", hop_state.FETCHED)[0]
    assert theirs["store"]["taken"] == len(filled.pieces()) and theirs["acknowledged"] == 100
