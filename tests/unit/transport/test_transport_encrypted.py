"""An encrypted trail at the next store: it comes without its key, is read by it there, and by another one that came later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.contracts import Bounds
from anabranch.errors import TrailCorrupt, TrailKeyMissing
from anabranch.model.ids import TableId
from anabranch.trail import keys, rekeying, sealing
from anabranch.trail.storage import LocalStorage
from anabranch.trail_end import chunk_files, manifests
from anabranch.trail_end.manifests import Manifest, RecordedChunk
from unit.transport.conftest import begun, rows, write

pytest.importorskip("cryptography")

TABLE = TableId("shop", "orders")
ROWS = "load/shop.orders/1/000000-a.arrow"
SECRET = "a-value-nobody-else-has"


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """Data keys that an earlier test has unwrapped are not known."""
    sealing.forget()
    yield


def key(folder: Path, number: int) -> dict[str, str]:
    path = folder / f"{number}.key"
    path.touch(mode=0o600)
    path.write_bytes(bytes([number] * 32))
    return {"key_file": str(path)}


def load(trail: Path) -> Manifest:
    """Put a load of one file into the trail."""
    (trail / ROWS).parent.mkdir(parents=True)
    file = chunk_files.write(trail, ROWS, ["id", "words"], [f"{SECRET}\tx\n".encode() * 9])
    found = Manifest(TABLE, 1, 1, ("id", "words"), (RecordedChunk(Bounds(None, (SECRET,)), "1", "1", file),))
    manifests.save(trail, found)
    return found


def found(trail: Path) -> tuple[Manifest | None, bytes, dict[int, Any]]:
    sealing.forget()
    cells = chunk_files.read(trail, ROWS, ["id", "words"])
    return manifests.load(trail, TABLE), b"".join(map(chunk_files.joined, cells)), rows(trail)


def test_a_trail_is_carried_without_its_key_and_read_by_it_also_by_a_later_one(way: Any, tmp_path: Path) -> None:
    trail, copy = tmp_path / "a", tmp_path / "receiver" / "shop"
    writer = begun(trail, encrypt={"current": key(tmp_path, 1), "former": []})
    write(writer, 3)
    load(trail)
    wanted = found(trail)
    receiver = way.receiver()
    way.pump(receiver.port).run(lambda: False, until_caught_up=True)
    assert not [one for one in copy.rglob("*") if one.is_file() and SECRET.encode() in one.read_bytes()]
    for _ in range(2):
        with pytest.raises(TrailKeyMissing, match=r"is encrypted by key .* \(keys there: none\)"):
            found(copy)
    keys.note_reader(LocalStorage(copy), {"current": key(tmp_path, 2), "former": []})
    with pytest.raises(TrailKeyMissing, match=r"which is not there \(keys there: [0-9a-f]{16}\)"):
        found(copy)
    keys.note_reader(LocalStorage(copy), {"current": key(tmp_path, 1), "former": []})
    assert found(copy) == wanted
    said = {"current": key(tmp_path, 2), "former": [key(tmp_path, 1)]}
    assert rekeying.rekey(trail, said).others == 0
    write(writer, 6)
    writer.close()
    wanted = (*wanted[:2], rows(trail))  # the load's file has gone here, once it was there
    way.pump(receiver.port).run(lambda: False, until_caught_up=True)
    (tmp_path / "1.key").unlink()
    assert found(copy) == wanted, "by the later key alone"
    (copy / ROWS).write_bytes((copy / ROWS).read_bytes()[:-1] + b"\0")
    with pytest.raises(TrailCorrupt, match=r"000000-a\.arrow"):
        found(copy)
