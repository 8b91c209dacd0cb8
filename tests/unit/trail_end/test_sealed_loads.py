"""Loads in a trail that is encrypted: no file tells a row or a key, and none is believed that is not what was written there."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.contracts import Bounds
from anabranch.errors import ConfigError, TrailCorrupt, TrailKeyMissing
from anabranch.model.ids import TableId
from anabranch.model.table_life import Life, TableState
from anabranch.trail import identity, keys, lock, rekeying, sealed_files, sealing
from anabranch.trail.identity import Identity
from anabranch.trail.load_readers import copied_load
from anabranch.trail.storage import LocalStorage
from anabranch.trail_end import chunk_files, manifests
from anabranch.trail_end.ledger import STATE, Ledger, one_state, put_state, state_of
from anabranch.trail_end.manifests import ChunkFile, Manifest, RecordedChunk

pytest.importorskip("cryptography")

TABLE = TableId("shop", "orders")
NAME = "load/shop.orders/1/000000-a.arrow"
SECRET = "a-value-nobody-else-has"
PIECE = 256


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file of a test has many pieces; data keys that an earlier test has unwrapped are not known."""
    monkeypatch.setattr(sealed_files, "PIECE", PIECE)
    sealing.forget()
    yield
    sealing.forget()


@pytest.fixture
def trail(tmp_path: Path) -> Path:
    return encrypted(tmp_path / "one")


def encrypted(home: Path, key: int = 1, job: str = "uuid-1") -> Path:
    """A trail that is encrypted, with nothing in it."""
    found = home / "trail"
    (found / NAME).parent.mkdir(parents=True)
    identity.save(LocalStorage(found), Identity("out", job, "source"))
    keys.save(LocalStorage(found), {"current": key_file(home, key), "former": []})
    return found


def key_file(home: Path, key: int) -> dict[str, str]:
    path = home / f"{key}.key"
    path.touch(mode=0o600)
    path.write_bytes(bytes([key] * 32))
    return {"key_file": str(path)}


def lines(rows: int = 400) -> bytes:
    return b"".join(b"%d\t%s %d\n" % (number, SECRET.encode(), number) for number in range(rows))


def content(trail: Path, name: str = NAME) -> bytes:
    sealing.forget()
    return b"".join(map(chunk_files.joined, chunk_files.read(trail, name, ["id", "words"])))


def write(trail: Path, name: str = NAME) -> ChunkFile:
    return chunk_files.write(trail, name, ["id", "words"], [lines()])


def tells(folder: Path, secret: str = SECRET) -> list[Path]:
    """Every file below a folder in which a value can be read; files of rows are compressed, which is tried as well."""
    return [one for one in folder.rglob("*") if one.is_file() and secret.encode() in one.read_bytes()]


def test_rows_come_back_and_no_column_file_can_be_opened_without_the_key(trail: Path) -> None:
    file = write(trail)
    chunk_files.check(trail, file)
    assert content(trail) == lines() and not tells(trail)
    assert sealed_files.is_sealed(trail / NAME) and b"ARROW1" not in (trail / NAME).read_bytes()
    assert file.bytes > 3 * PIECE, "it has pieces"
    (trail.parent / "1.key").unlink()
    with pytest.raises(TrailKeyMissing, match=r"000000-a\.arrow .* is encrypted by key"):
        content(trail)


@pytest.mark.parametrize("rows", [0, 1, 3, 7])
def test_a_file_of_any_length_comes_back(rows: int, trail: Path) -> None:
    for piece in (1, 97, PIECE, 1 << 20):
        sealed_files.PIECE, name = piece, NAME.replace("-a", f"-{piece}")
        chunk_files.write(trail, name, ["id", "words"], [lines(rows)])
        assert content(trail, name) == lines(rows)


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _cut_at_a_piece(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: -_last(path)])


def _last(path: Path) -> int:
    begin = sealed_files.header_of(path.read_bytes())[1]
    return (path.stat().st_size - begin) % (PIECE + sealing.TAG) or PIECE + sealing.TAG


def _exchanged(path: Path) -> None:
    data, whole = path.read_bytes(), PIECE + sealing.TAG
    at = sealed_files.header_of(data)[1]
    one, two = data[at : at + whole], data[at + whole : at + 2 * whole]
    path.write_bytes(data[:at] + two + one + data[at + 2 * whole :])


def _extended(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 40)


def _of_a_later_header(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"job":"out"', b'"job":"oUt"'))


@pytest.mark.parametrize("change", [_flipped, _cut_at_a_piece, _exchanged, _extended, _of_a_later_header])
def test_a_changed_file_is_refused_by_name_also_without_its_checksum(
    change: Callable[[Path], None], trail: Path
) -> None:
    file = write(trail)
    change(trail / NAME)
    with pytest.raises(TrailCorrupt, match=r"000000-a\.arrow"):
        chunk_files.check(trail, file)
    with pytest.raises(TrailCorrupt, match=r"000000-a\.arrow.*it is not what was written|its tag is wrong"):
        content(trail)


def test_a_file_of_another_place_or_trail_is_refused(trail: Path, tmp_path: Path) -> None:
    write(trail)
    other = NAME.replace("-a", "-b")
    shutil.copy(trail / NAME, trail / other)
    with pytest.raises(TrailCorrupt, match=r"it was written as .*-a\.arrow"):
        content(trail, other)
    theirs = encrypted(tmp_path / "two", job="uuid-2")
    shutil.copy(trail / NAME, theirs / NAME)
    with pytest.raises(TrailCorrupt, match=r"it belongs to job out \(uuid-1\)"):
        content(theirs)
    stranger = encrypted(tmp_path / "three", key=3)
    shutil.copy(trail / NAME, stranger / NAME)
    with pytest.raises(TrailKeyMissing, match=r"is encrypted by key .* \(keys there"):
        content(stranger)


def manifest(file: ChunkFile, key: str = SECRET) -> Manifest:
    return Manifest(TABLE, 1, 5, ("id", "words"), (RecordedChunk(Bounds(None, ("7", key)), "low", "high", file),))


def test_a_manifest_tells_no_key_and_is_carried_without_one(trail: Path) -> None:
    wanted = manifest(write(trail))
    manifests.save(trail, wanted)
    sealing.forget()
    assert manifests.load(trail, TABLE) == wanted and not tells(trail)
    assert copied_load((trail / manifests.file_of(TABLE)).read_bytes()) == (str(TABLE), 1)
    (trail.parent / "1.key").unlink()
    sealing.forget()
    with pytest.raises(TrailKeyMissing, match=r"manifest\.json"):
        manifests.load(trail, TABLE)


@pytest.mark.parametrize("name", ["sha256", "rows", "low", "file"])
def test_a_manifest_that_names_another_file_is_refused(name: str, trail: Path) -> None:
    manifests.save(trail, manifest(write(trail)))
    path = trail / manifests.file_of(TABLE)
    data = json.loads(path.read_text())
    data["chunks"][0][name] = "load/x" if name == "file" else 4 if name == "rows" else "ab"
    path.write_text(json.dumps(data))
    with pytest.raises(TrailCorrupt, match=r"manifest\.json cannot be read: it is not what was written here"):
        manifests.load(trail, TABLE)


def test_a_manifest_without_encryption_is_refused_unless_it_stood_there_before(tmp_path: Path) -> None:
    trail = tmp_path / "trail"
    (trail / NAME).parent.mkdir(parents=True)
    file = chunk_files.write(trail, NAME, ["id", "words"], [lines(3)])
    manifests.save(trail, manifest(file))
    old = (trail / manifests.file_of(TABLE)).read_bytes()
    keys.save(LocalStorage(trail), {"current": key_file(tmp_path, 1), "former": []})
    assert manifests.load(trail, TABLE) == manifest(file) and content(trail) == lines(3)
    manifests.save(trail, manifest(file, "other"))
    assert manifests.load(trail, TABLE) == manifest(file, "other")
    (trail / manifests.file_of(TABLE)).write_bytes(old.replace(b'"7"', b'"8"'))
    with pytest.raises(TrailCorrupt, match="it is not encrypted, and was to be"):
        manifests.load(trail, TABLE)


def test_why_a_table_was_left_out_is_told_to_nobody_without_the_key(trail: Path) -> None:
    (trail / "published").write_bytes(b"")
    why, plain = f"column words: '{SECRET}' does not fit", TableId("shop", "a")
    manifests.complete(trail, {TABLE: why, plain: "another one"})
    sealing.forget()
    assert manifests.parked(trail) == {TABLE: why, plain: "another one"} and not tells(trail)
    said = {"current": key_file(trail.parent, 2), "former": [key_file(trail.parent, 1)]}
    found = rekeying.rekey(trail, said)
    assert (dict(found.keys), found.others) == ({keys.key_id(bytes([2] * 32)): 1}, 0)
    (trail.parent / "1.key").unlink()
    sealing.forget()
    assert manifests.parked(trail) == {TABLE: why, plain: "another one"}
    path = trail / manifests.COMPLETE
    path.write_text(path.read_text().replace("shop.a", "shop.b"))
    with pytest.raises(TrailCorrupt, match=r"complete\.json cannot be read: it is not what was written here"):
        manifests.parked(trail)
    (trail.parent / "2.key").unlink()
    sealing.forget()
    assert manifests.is_complete(trail), "whoever waits for the load's end needs no key"
    with pytest.raises(TrailKeyMissing, match=r"complete\.json"):
        manifests.parked(trail)


def test_the_end_of_a_load_that_a_former_release_has_noted_is_read(trail: Path) -> None:
    (trail / manifests.COMPLETE).write_text('{"format":1,"parked":{"shop.orders":"a type"}}')
    assert manifests.parked(trail) == {TABLE: "a type"} and manifests.is_complete(trail)


def test_the_ledger_tells_no_reason_why_a_table_is_parked(trail: Path) -> None:
    ledger, why = Ledger(trail), f"'{SECRET}' does not fit"
    ledger.prepare()
    state = TableState(TABLE, TABLE, Life.PARKED, reason=why)
    other = TableState(TableId("shop", "b"), TABLE, Life.PENDING)
    with ledger.transaction() as connection:
        put_state(connection, "j", state)
        put_state(connection, "j", other)
        assert one_state(connection, "j", TABLE) == state
    ledger.close()
    sealing.forget()
    assert not tells(trail)
    found = [state_of(row) for row in Ledger(trail).rows(f"SELECT {STATE} FROM table_state ORDER BY source DESC")]
    assert found == [state, other]


def test_another_key_wraps_the_data_keys_of_loads_too(trail: Path) -> None:
    wanted = manifest(write(trail))
    manifests.save(trail, wanted)
    said = {"current": key_file(trail.parent, 2), "former": [key_file(trail.parent, 1)]}
    (trail / "published").write_bytes(b"")
    found = dict(rekeying._rewrapped(LocalStorage(trail), keys_of(trail, said)))
    LocalStorage(trail).replace(keys.REWRAPPED, json.dumps(found).encode())
    (trail.parent / "1.key").unlink()
    sealing.forget()
    assert manifests.load(trail, TABLE) == wanted and content(trail) == lines()
    assert len(found) == 2


def test_another_key_while_a_file_of_rows_is_written_wraps_its_data_key_too(trail: Path) -> None:
    (trail / "published").write_bytes(b"")
    said = {"current": key_file(trail.parent, 2), "former": [key_file(trail.parent, 1)]}

    def blocks() -> Iterator[bytes]:
        yield lines(200)
        found = rekeying.encryption(LocalStorage(trail))
        assert found and dict(found.keys) == {keys.key_id(bytes([1] * 32)): 1}
        found = rekeying.rekey(trail, said)
        assert (dict(found.keys), found.others) == ({keys.key_id(bytes([2] * 32)): 1}, 0)
        yield lines(200)

    file = chunk_files.write(trail, NAME, ["id", "words"], blocks())
    (trail.parent / "1.key").unlink()
    chunk_files.check(trail, file)
    assert content(trail) == 2 * lines(200)


def test_a_file_that_begins_while_the_key_is_exchanged_has_the_new_one(
    trail: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its header stands nowhere yet when the command looks for what the former key wraps."""
    (trail / "published").write_bytes(b"")
    said = {"current": key_file(trail.parent, 2), "former": [key_file(trail.parent, 1)]}
    begin, turns = sealing.begin, []

    def slow(*about: Any) -> Any:
        found = begin(*about)
        if not turns:
            turns.append(rekeying.rekey(trail, said).others)
        return found

    monkeypatch.setattr(sealing, "begin", slow)
    write(trail)
    (trail.parent / "1.key").unlink()
    assert turns == [0] and content(trail) == lines()


@pytest.mark.parametrize("left", [b"", sealed_files.MAGIC, sealed_files.MAGIC + b"\x40\0\0\0{"])
def test_a_file_whose_process_ended_at_its_header_is_nobodys(left: bytes, trail: Path) -> None:
    (trail / "published").write_bytes(b"")
    write(trail)
    (trail / f"{NAME}.1.tmp").write_bytes(left)
    said = {"current": key_file(trail.parent, 2), "former": [key_file(trail.parent, 1)]}
    assert rekeying.rekey(trail, said).others == 0


def keys_of(trail: Path, said: dict[str, object]) -> keys.KeyRing:
    keys.save(LocalStorage(trail), said)
    found = keys.ring(LocalStorage(trail))
    assert found
    return found


def test_the_ledger_tells_no_key_and_reads_what_it_had_before(tmp_path: Path) -> None:
    trail = tmp_path / "trail"
    ledger = Ledger(trail)
    ledger.prepare()
    insert = (
        "INSERT INTO chunk (job, source, generation, number, lower, low, high, file, bytes, sha256)"
        " VALUES ('j', 't', 1, ?, ?, '', '', '', 0, '')"
    )
    texts = [json.dumps([SECRET, str(number)]) for number in range(3)]
    with ledger.transaction() as connection:
        connection.execute(insert, (0, connection.seals(texts[0])))
    assert tells(trail)
    with ledger.transaction() as connection:
        connection.execute("DELETE FROM chunk")
        connection.execute("PRAGMA secure_delete")
    keys.save(LocalStorage(trail), {"current": key_file(tmp_path, 1), "former": []})
    with ledger.transaction() as connection:
        connection.execute(insert, (0, '["plain"]'))
        for number in (1, 2):
            connection.execute(insert, (number, connection.seals(texts[number])))
    ledger.close()
    sealing.forget()
    assert [row[0] for row in Ledger(trail).rows("SELECT lower FROM chunk ORDER BY number")] == [
        '["plain"]',
        *texts[1:],
    ]
    (tmp_path / "1.key").unlink()
    sealing.forget()
    with pytest.raises(TrailKeyMissing, match=r"ledger/key\.json"):
        Ledger(trail).rows("SELECT lower FROM chunk")


def test_a_reader_notes_its_key_beside_a_trail_and_the_writers_stays(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "way")
    storage.make_folder("")
    one, two = key_file(tmp_path, 1), key_file(tmp_path, 2)
    keys.note_reader(storage, {"current": two, "former": []})
    ring = keys.ring(storage)
    assert ring and ring.current is None and [one.id() for one in ring.every] == [keys.key_id(bytes([2] * 32))]
    keys.save(storage, {"current": one, "former": []})
    keys.note_reader(storage, {"current": two, "former": [one]})
    ring = keys.ring(storage)
    assert ring and ring.current and ring.current.id() == keys.key_id(bytes([1] * 32)) and ring.is_on
    assert sorted(one.name for one in tmp_path.iterdir() if "encryption" in one.name) == [".way.encryption.json"]
    with pytest.raises(TrailKeyMissing):
        keys.note_reader(storage, {"current": {"key_file": str(tmp_path / "none")}, "former": []})


def test_a_reader_that_notes_its_key_turns_no_encryption_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trail's writer turns it on between each look of the reader and what the reader writes; or it has to wait."""
    storage = LocalStorage(tmp_path / "way")
    storage.make_folder("")
    one, two, three = (key_file(tmp_path, key) for key in (1, 2, 3))
    keys.note_reader(storage, {"current": three, "former": []})
    known, taken, go_on = keys._known, lock._taken, threading.Event()
    writers: list[threading.Thread] = []

    def turn_on() -> None:
        with lock.maintenance(tmp_path / "way"):
            keys.save(storage, {"current": one, "former": []})
        go_on.set()

    def look(storage: LocalStorage) -> dict[str, Any] | None:
        found = known(storage)
        if threading.current_thread() is threading.main_thread():
            go_on.clear()
            writers.append(threading.Thread(target=turn_on))
            writers[-1].start()
            assert go_on.wait(60)
        return found

    def try_lock(fd: int, how: int) -> bool:
        if not (has := taken(fd, how)):
            go_on.set()
        return has

    monkeypatch.setattr(keys, "_known", look)
    monkeypatch.setattr(lock, "_taken", try_lock)
    keys.note_reader(storage, {"current": two, "former": []})
    for writer in writers:
        writer.join(60)
    ring = keys.ring(storage)
    assert ring and ring.is_on and ring.current == keys.service_of(one)
    assert ring.readers == (keys.service_of(two), keys.service_of(three))


def test_a_reader_that_comes_while_a_key_service_is_asked_stays_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalStorage(tmp_path / "way")
    storage.make_folder("")
    one, two = key_file(tmp_path, 1), key_file(tmp_path, 2)
    wrap = keys.LocalKey.wrap

    def slow(key: keys.LocalKey, data: bytes) -> keys.Wrapped:
        keys.note_reader(storage, {"current": two, "former": []})
        return wrap(key, data)

    monkeypatch.setattr(keys.LocalKey, "wrap", slow)
    keys.save(storage, {"current": one, "former": []})
    ring = keys.ring(storage)
    assert ring and ring.is_on and ring.readers == (keys.service_of(two),)


def test_a_reader_whose_key_is_noted_already_writes_nothing(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "way")
    storage.make_folder("")
    said = {"current": key_file(tmp_path, 2), "former": []}
    keys.note_reader(storage, said)
    (tmp_path / "way" / lock.MAINTENANCE).unlink()
    keys.note_reader(storage, said)
    assert not (tmp_path / "way" / lock.MAINTENANCE).exists(), "a trail that is read only is read"


def test_a_library_that_is_missing_is_named(trail: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(trail)
    for name in ("cryptography.hazmat.primitives.ciphers.aead", "cryptography.hazmat.primitives"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    sealing.forget()
    with pytest.raises((ConfigError, TrailKeyMissing), match="not installed"):
        content(trail)
