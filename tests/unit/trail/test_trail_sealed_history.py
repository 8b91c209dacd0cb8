"""Schema history and repairs in an encrypted trail: no definition and no key is told, lines hold where they stand."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import TrailCorrupt, TrailKeyMissing
from anabranch.trail import history_file, keys, rekeying, repairs, sealed_history, sealing
from anabranch.trail.history import line_of
from anabranch.trail.reader import TrailReader
from anabranch.trail.replica_files import KEYS, LoadFilesCopy
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter

pytest.importorskip("cryptography")

SECRET = "a-value-nobody-else-has"
OpenWriter = Callable[..., TrailWriter]


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """Data keys that an earlier test has unwrapped are not known."""
    sealing.forget()
    yield


def said(folder: Path, key: int = 1, *former: int) -> dict[str, Any]:
    return {"current": key_file(folder, key), "former": [key_file(folder, one) for one in former]}


def key_file(folder: Path, key: int) -> dict[str, str]:
    path = folder / f"{key}.key"
    path.touch(mode=0o600)
    path.write_bytes(bytes([key] * 32))
    return {"key_file": str(path)}


@pytest.fixture
def trail(open_writer: OpenWriter, samples: Any, tmp_path: Path) -> Path:
    """A trail whose table was altered twice; its writer has ended."""
    writer = open_writer(encrypt=said(tmp_path))
    for version in (2, 3):
        writer.alter(samples.definition(version=version), f"ALTER TABLE orders COMMENT '{SECRET} {version}'")
        writer.append(samples.chunk(version - 1, version - 1))
        writer.flush()
    writer.close()
    return tmp_path / "trail"


def statements(trail: Path) -> list[str]:
    sealing.forget()
    with TrailReader(trail) as reader:
        return [entry.statement for entry in reader.history.entries if entry.statement]


def lines(trail: Path) -> list[bytes]:
    return (trail / "history").read_bytes().splitlines(keepends=True)


def sealed_lines(trail: Path) -> list[int]:
    return [number for number, line in enumerate(lines(trail)) if b'"sealed":' in line]


WANTED = [f"ALTER TABLE orders COMMENT '{SECRET} {version}'" for version in (2, 3)]


def test_definitions_and_statements_are_read_and_stand_nowhere(trail: Path, samples: Any) -> None:
    assert statements(trail) == WANTED
    content = (trail / "history").read_bytes()
    assert not [text for text in (SECRET, "orders", "ALTER") if text.encode() in content]
    assert all(line[:8] == b"%08x" % zlib.crc32(line[9:-1]) for line in lines(trail)), "replicas go on by lines"
    (trail.parent / "1.key").unlink()
    with pytest.raises(TrailKeyMissing, match=r"history .* is encrypted by key"):
        statements(trail)


def _flipped(found: list[bytes], at: int) -> None:
    said = json.loads(found[at][9:])
    text = said["sealed"]
    said["sealed"] = text[:40] + ("B" if text[40] == "A" else "A") + text[41:]
    found[at] = line_of(json.dumps(said, separators=(",", ":")).encode())


def _exchanged(found: list[bytes], at: int) -> None:
    found[at], found[at + 1] = found[at + 1], found[at]


def _taken_out(found: list[bytes], at: int) -> None:
    filler = b'{"kind":"recovered","sequence":0,"reason":""}'
    room = len(found[at]) - len(line_of(filler))
    found[at] = line_of(filler.replace(b'""', b'"' + b"." * room + b'"'))


def _of_the_header(found: list[bytes], at: int) -> None:
    found[at] = line_of(found[at][9:-1].replace(b'"name":"history"', b'"name":"histOry"'))


@pytest.mark.parametrize("change", [_flipped, _exchanged, _taken_out, _of_the_header])
def test_a_changed_line_with_a_right_checksum_is_refused(
    change: Callable[[list[bytes], int], None], trail: Path
) -> None:
    found = lines(trail)
    change(found, sealed_lines(trail)[-2])
    (trail / "history").write_bytes(b"".join(found))
    with pytest.raises(TrailCorrupt, match=r"schema history is damaged at byte \d+, line \d+.*history\)"):
        statements(trail)


def test_a_history_of_another_trail_is_refused(trail: Path, samples: Any, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with TrailWriter.open(
        other / "trail", **samples.JOB | {"job_uuid": "uuid-2"}, pack=False, encrypt=said(tmp_path)
    ) as writer:
        writer.schema(samples.definition())
        writer.alter(samples.definition(version=2), "ALTER")
        writer.append(samples.chunk(1, 1))
        writer.flush()
    found, theirs = lines(trail), lines(other / "trail")
    (trail / "history").write_bytes(b"".join([found[0], *theirs[1:], *found[1:]]))
    with pytest.raises(TrailCorrupt, match=r"belongs to job .*uuid-2"):
        statements(trail)


def test_encryption_is_turned_on_and_off_in_the_history(open_writer: OpenWriter, samples: Any, tmp_path: Path) -> None:
    off = {"current": None, "former": [key_file(tmp_path, 1)]}
    for version, encrypt in ((2, None), (3, said(tmp_path)), (4, off), (5, said(tmp_path))):
        writer = open_writer(encrypt=encrypt)
        writer.alter(samples.definition(version=version), f"ALTER {version}")
        writer.append(samples.chunk(version - 1, version - 1))
        writer.flush()
        writer.close()
    trail = tmp_path / "trail"
    assert statements(trail) == [f"ALTER {version}" for version in (2, 3, 4, 5)]
    text = (trail / "history").read_text()
    assert [f"ALTER {version}" in text for version in (2, 3, 4, 5)] == [True, False, True, False]


def test_a_sealed_history_is_exported_and_put_back(trail: Path) -> None:
    storage = LocalStorage(trail)
    text = history_file.exported(storage)
    assert SECRET not in text
    (trail / "history").unlink()
    came = history_file.lines_of(storage, text, "kept")
    history_file.put_back(storage, history_file.restored(storage, came, "kept")[0])
    assert statements(trail) == WANTED


def test_another_key_opens_the_history_and_tells_replicas(trail: Path, tmp_path: Path) -> None:
    found = rekeying.rekey(trail, said(tmp_path, 2, 1))
    assert found.others == 0 and list(found.keys) == [keys.key_id(bytes([2] * 32))]
    (tmp_path / "1.key").unlink()
    keys.save(LocalStorage(trail), said(tmp_path, 2), may_turn=False)
    assert statements(trail) == WANTED
    (trail / keys.REWRAPPED).unlink()
    assert statements(trail) == WANTED, "by what replicas have"
    (trail / KEYS).unlink()
    with pytest.raises(TrailKeyMissing):
        statements(trail)


def test_another_key_while_a_former_release_captures_asks_for_no_sealed_lines(
    open_writer: OpenWriter, samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows no spans of the history, and adds lines as they are; a capture of this release begins a span."""
    trail, place = tmp_path / "trail", tmp_path / keys.FILE
    writer = open_writer(encrypt=said(tmp_path))
    noted = json.loads(place.read_text())
    del noted["history"]
    place.write_text(json.dumps(noted))
    with monkeypatch.context() as former:
        former.setattr(sealed_history.LineSealer, "text", lambda self, text, offset: text)
        for version in (2, 3):
            writer.alter(samples.definition(version=version), f"ALTER TABLE orders COMMENT '{SECRET} {version}'")
            writer.append(samples.chunk(version - 1, version - 1))
            writer.flush()
            assert statements(trail) == WANTED[: version - 1]
            rekeying.rekey(trail, said(tmp_path, 2, 1))
        writer.close()
    assert statements(trail) == WANTED and "history" not in json.loads(place.read_text())
    open_writer(encrypt=said(tmp_path, 2, 1)).close()
    assert json.loads(place.read_text())["history"] == [[(trail / "history").stat().st_size, None]]
    assert statements(trail) == WANTED


def test_a_replica_takes_no_older_file_of_keys(trail: Path, tmp_path: Path) -> None:
    rekeying.rekey(trail, said(tmp_path, 2, 1))
    first = (trail / KEYS).read_bytes()
    rekeying.rekey(trail, said(tmp_path, 3, 2, 1))
    second = (trail / KEYS).read_bytes()
    assert [json.loads(one)["number"] for one in (first, second)] == [1, 2]
    (tmp_path / "copy" / "load").mkdir(parents=True)
    copy = LoadFilesCopy(tmp_path / "copy")
    for sent, stands in ((first, first), (second, second), (first, second), (second, second)):
        assert copy.add(KEYS, len(sent), 0, sent)
        assert (tmp_path / "copy" / KEYS).read_bytes() == stands
        assert sorted(one.name for one in (tmp_path / "copy" / "load").iterdir()) == ["keys.json"]


def test_a_repair_tells_no_key_of_a_row(trail: Path, samples: Any, tmp_path: Path) -> None:
    place = trail / "repairs"
    asked = repairs.ask(place, samples.ORDERS, [{"id": SECRET}], [{"id": None}])
    assert repairs.asked(place) == [asked]
    repairs.answer(place, asked, [({"id": SECRET}, f"why {SECRET}")])
    sealing.forget()
    found = repairs.found(place, samples.ORDERS)
    assert found and found.refused == (({"id": SECRET}, f"why {SECRET}"),)
    (file,) = place.iterdir()
    assert SECRET.encode() not in file.read_bytes()
    assert rekeying.rekey(trail, said(tmp_path, 2, 1)).others == 0
    (tmp_path / "1.key").unlink()
    sealing.forget()
    assert repairs.found(place, samples.ORDERS) == found
    other = file.with_name("other.t.json")
    other.write_bytes(file.read_bytes())
    with pytest.raises(TrailCorrupt, match=r"other\.t\.json cannot be read: it was written as"):
        repairs.asked(place)
