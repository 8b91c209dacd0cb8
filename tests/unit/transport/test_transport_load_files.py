"""The files of a load at the next store: a manifest stands there only behind what it names; `stop` and back-pressure."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from anabranch import pace
from anabranch.pace import Pace
from anabranch.trail import load_readers, replica_files, retention
from anabranch.trail.load_readers import Note, Taken
from anabranch.trail.replica_files import LoadFilesCopy, load_files
from anabranch.trail.storage import LocalStorage
from anabranch.transport import link as links
from anabranch.transport import pump as pumps
from anabranch.transport import router as routers
from anabranch.transport.bandwidth import Limiter
from anabranch.transport.link import LinkLost
from anabranch.transport.messages import Kind
from rigs.trail_loads import a_load
from unit.transport.conftest import pair, write


def loaded(trail: Path, *names: str, table: str = "t") -> None:
    """Write files of rows, then the manifest that names them."""
    folder = trail / "load" / table
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(name.encode() * 30)
    (folder / "manifest.json.tmp").write_text(json.dumps(names))
    os.replace(folder / "manifest.json.tmp", folder / "manifest.json")


@pytest.fixture
def whole(monkeypatch) -> list[str]:
    """Look at the store after each file that comes whole: whatever a manifest names is there. Returns the names."""
    came, add = [], LoadFilesCopy.add

    def watched(self: LoadFilesCopy, name: str, *rest: Any) -> bool:
        if not add(self, name, *rest):
            return False
        came.append(name)
        for manifest in (self._storage.directory / "load").rglob("manifest.json"):
            for one in json.loads(manifest.read_bytes()):
                if not (manifest.parent / one).exists():
                    came.append(f"{manifest} without {one}")
        return True

    monkeypatch.setattr(LoadFilesCopy, "add", watched)
    return came


def test_a_manifest_that_is_replaced_on_the_way_comes_with_its_files(way, writer, tmp_path, monkeypatch, whole) -> None:
    trail = tmp_path / "a"
    write(writer, 3)
    loaded(trail, "1.arrow")
    loaded(trail, "9.arrow", table="u")
    send = pumps._Session._send_file

    def again(self: Any, file: Any) -> int:
        if file.name.endswith("/1.arrow"):
            loaded(trail, "1.arrow", "2.arrow")
        return send(self, file)

    monkeypatch.setattr(pumps._Session, "_send_file", again)
    way.pump(way.receiver().port).run(lambda: False, until_caught_up=True)
    assert not [one for one in whole if "without" in one]
    assert load_files(LocalStorage(tmp_path / "receiver" / "shop")) == load_files(LocalStorage(trail))
    assert json.loads((tmp_path / "receiver/shop/load/t/manifest.json").read_bytes()) == ["1.arrow", "2.arrow"]


def test_a_manifest_does_not_come_where_a_file_before_it_is_gone(way, writer, tmp_path, monkeypatch, whole) -> None:
    trail = tmp_path / "a"
    write(writer, 3)
    loaded(trail, "1.arrow")
    send = pumps._Session._send_file

    def anew(self: Any, file: Any) -> int:
        if file.name.endswith("/1.arrow"):
            (trail / "load/t/1.arrow").unlink()
            return send(self, file)
        if file.name.endswith("manifest.json") and not (trail / "load/t/2.arrow").exists():
            sent = send(self, file)
            assert not (tmp_path / "receiver/shop/load/t/manifest.json").exists()
            loaded(trail, "2.arrow")
            return sent
        return send(self, file)

    monkeypatch.setattr(pumps._Session, "_send_file", anew)
    way.pump(way.receiver().port).run(lambda: False, until_caught_up=True)
    assert whole == ["load/t/2.arrow", "load/t/manifest.json"]


def test_what_was_written_since_the_last_look_is_there_at_the_end(way, writer, tmp_path, monkeypatch, whole) -> None:
    """All that is published was acknowledged, and a load has ended a moment ago."""
    write(writer, 3)
    look, looks = pumps._Session._look, []

    def late(self: Any) -> bool:
        found = look(self)
        if not looks:
            loaded(tmp_path / "a", "1.arrow")
        looks.append(found)
        return found

    monkeypatch.setattr(pumps._Session, "_look", late)
    monkeypatch.setattr(pace, "current", Pace(hop_look=3600.0))
    way.pump(way.receiver().port).run(lambda: False, until_caught_up=True)
    assert looks[:2] == [False, True] and not looks[-1]
    assert whole == ["load/t/1.arrow", "load/t/manifest.json"]


def test_a_manifest_that_comes_while_a_folder_is_looked_at_is_listed_with_its_files_or_not(
    tmp_path, monkeypatch
) -> None:
    (tmp_path / "load" / "t").mkdir(parents=True)
    named = replica_files._named
    (tmp_path / "load/t/1.arrow").write_bytes(b"1")

    def during(storage: Any, path: Path) -> Any:
        loaded(tmp_path, "1.arrow", "2.arrow")
        return named(storage, path)

    monkeypatch.setattr(replica_files, "_named", during)
    names = [one.name for one in load_files(LocalStorage(tmp_path))]
    assert not any(name.endswith("manifest.json") for name in names) or "load/t/2.arrow" in names


def test_large_facts_come_in_pieces(way, writer, tmp_path) -> None:
    (tmp_path / "a" / "load").mkdir()
    (tmp_path / "a" / "load" / "source.json").write_bytes(os.urandom(3 << 20))
    way.pump(way.receiver().port).run(lambda: False, until_caught_up=True)
    assert load_files(LocalStorage(tmp_path / "receiver" / "shop")) == load_files(LocalStorage(tmp_path / "a"))


def test_stop_is_heard_in_a_backlog_and_the_limit_holds_until_then(way, writer, tmp_path) -> None:
    write(writer, 400)
    pump = way.pump(way.receiver().port, limiter=Limiter(1000.0))
    backlog = sum(file.stat().st_size for file in (tmp_path / "a").glob("*.segment"))
    pump.run(lambda: pump.state.bytes_sent > 0)
    sent, pieces = pump.state.bytes_sent, len(list((tmp_path / "a").glob("*.segment")))
    assert pieces > 3 and sent < backlog / 3
    pump = way.pump(way.nodes[0].port)
    pump.run(lambda: False, until_caught_up=True)
    assert pump.state.acknowledged == 400


def test_stop_is_heard_while_the_other_side_takes_nothing(monkeypatch) -> None:
    monkeypatch.setattr(links, "STOPPING", 0.0)
    one, _other = pair()
    one.stop = lambda: True
    with pytest.raises(LinkLost, match="takes nothing now, and this side ends"):
        one.send(b"x" * 50_000_000)


def test_a_router_does_not_count_as_silence_that_it_does_not_listen(monkeypatch) -> None:
    """The receiver takes nothing and says so, for longer than a peer may be silent."""
    monkeypatch.setattr(routers, "SILENCE", 0.2)
    (pump, back), (onward, receiver) = pair(), pair()
    for one in (pump, back, onward, receiver):
        one.trust()
    heard, ends = [], threading.Event()

    def fill() -> None:
        with pytest.raises(LinkLost):
            while True:
                pump.say(Kind.SEGMENT, {"name": "x", "offset": 0}, bytes(256 * 1024))

    def wait() -> None:
        while not ends.wait(0.05):
            receiver.say(Kind.WAITING, {"reason": "disk full"})
            heard.append(pump.received)

    relay = routers._Relay("router", back, onward, lambda: len(heard) > 40)
    threads = [threading.Thread(target=one, daemon=True) for one in (fill, wait)]
    for thread in threads:
        thread.start()
    relay.run()
    ends.set()
    assert relay._there.size >= routers.HELD and not relay._there.is_reading
    back.close()
    onward.close()
    for thread in threads:
        thread.join(10)


def test_files_go_behind_a_pump_once_the_next_store_has_them(way, writer, tmp_path: Path) -> None:
    trail, there = tmp_path / "a", tmp_path / "receiver" / "shop"
    write(writer, 3)
    names = a_load(trail)
    pump = way.pump(way.receiver().port)
    retention.register_copy(trail, pumps.reader_name(pump.name), 0)
    assert load_readers.sweep(trail) == []
    pump.run(lambda: False, until_caught_up=True)
    assert sorted(load_readers.sweep(trail)) == names
    write(writer, 2)
    pump.run(lambda: False, until_caught_up=True)
    assert [one.name for one in load_files(LocalStorage(there)) if one.name.endswith(".arrow")] == names
    later = a_load(trail, 2)
    assert load_readers.sweep(trail) == []
    pump.run(lambda: False, until_caught_up=True)
    assert sorted(load_readers.sweep(trail)) == later
    assert set(later) <= {one.name for one in load_files(LocalStorage(there))}


def test_what_a_store_has_removed_does_not_come_again(way, writer, tmp_path: Path) -> None:
    """The files are still in the trail that the pump reads: another reader of it lacks them."""
    trail, there = tmp_path / "a", tmp_path / "receiver" / "shop"
    write(writer, 3)
    names = a_load(trail)
    retention.register(trail, "apply@slow.1", 0)
    receiver = way.receiver()
    way.pump(receiver.port).run(lambda: False, until_caught_up=True)
    retention.register(there, "apply@quick.2", 0)
    load_readers.save(there, "apply@quick.2", Note({"shop.orders": Taken(1, 1, True)}))
    assert sorted(load_readers.sweep(there)) == names
    write(writer, 2)
    way.pump(receiver.port).run(lambda: False, until_caught_up=True)
    assert not list(there.rglob("*.arrow")) and len(list(trail.rglob("*.arrow"))) == 2
