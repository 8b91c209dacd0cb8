"""Encrypted trails: nothing of a row can be read in their files, and no file is believed that is not what was written there."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from anabranch import failpoints
from anabranch.errors import StateError, TrailCorrupt, TrailError, TrailKeyMissing
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Part
from anabranch.trail import keys, pack, rekeying, sealing
from anabranch.trail.format import (
    PREFIX_LENGTH,
    Frame,
    FrameKind,
    SegmentName,
    decode_prefix,
    encode_frame,
    encode_prefix,
)
from anabranch.trail.headers import check_segment
from anabranch.trail.keys import key_id
from anabranch.trail.open_staging import kept
from anabranch.trail.outgoing import HistoryPiece, Outgoing
from anabranch.trail.reader import TrailReader
from anabranch.trail.replica import TrailReplica
from anabranch.trail.segment import SegmentReader
from anabranch.trail.staging import staged
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter

pytest.importorskip("cryptography")

PLAINTEXT = (b"note 3/1", b"note 12/", b"large 7")
ONE, OTHER = bytes(range(32)), bytes(range(100, 132))


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """Data keys that an earlier test has unwrapped are not known."""
    sealing.forget()
    yield
    failpoints.arm({})


def key_file(folder: Path, name: str = "one.key", key: bytes = ONE) -> Path:
    path = folder / name
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(key)
    return path


def by_file(folder: Path, *former: Path, name: str = "one.key", key: bytes = ONE) -> dict[str, Any]:
    current = {"key_file": str(key_file(folder, name, key))}
    return {"current": current, "former": [{"key_file": str(one)} for one in former]}


def fill(writer: TrailWriter, samples: Any, last: int, first: int = 1) -> None:
    for n in range(first, last + 1):
        for chunk in samples.large(n) if samples.is_large(n) else [samples.chunk(n, n)]:
            writer.append(chunk)
        writer.flush()


def rows_of(trail: Path, samples: Any) -> dict[int, Any]:
    sealing.forget()
    with TrailReader(trail) as reader:
        found: dict[int, Any] = samples.found_rows([reader.load(ref) for ref in reader.descriptors(0)])
        assert reader.check().problems == []
    return found


def segments(trail: Path) -> list[Path]:
    return sorted(path for path in trail.iterdir() if SegmentName.parse(path.name))


def header_of(path: Path) -> dict[str, Any]:
    found = decode_prefix(path.read_bytes())
    assert found
    header: dict[str, Any] = json.loads(path.read_bytes()[PREFIX_LENGTH:][: found[0].head_length])
    return header


@pytest.fixture
def written(open_writer: Callable[..., TrailWriter], samples: Any, tmp_path: Path) -> Path:
    """A trail of some segments, all of them encrypted; its writer has ended."""
    writer = open_writer(segment_bytes=8000, encrypt=by_file(tmp_path))
    fill(writer, samples, 20)
    writer.close()
    assert len(segments(tmp_path / "trail")) > 2
    return tmp_path / "trail"


def refused(trail: Path) -> TrailError:
    sealing.forget()
    with pytest.raises(TrailError) as caught, TrailReader(trail) as reader:
        for ref in reader.descriptors(0):
            reader.load(ref)
    assert caught.value.hint
    return caught.value


def test_rows_are_read_and_stand_in_no_file(written: Path, samples: Any) -> None:
    assert rows_of(written, samples) == samples.expected_rows(1, 20, with_large=True)
    for path in filter(Path.is_file, written.parent.rglob("*")):
        assert not [text for text in (*PLAINTEXT, ONE) if path.name != "one.key" and text in path.read_bytes()], path
    assert json.loads((written / "trail.json").read_text())["format"] == 3
    header = header_of(segments(written)[0])
    assert header["format"] == 3 and header["encryption"]["key"] == key_id(ONE)
    with TrailReader(written) as reader:
        assert {facts.key for facts in reader.segments()} == {key_id(ONE)}


def test_no_bit_of_a_segment_may_change(open_writer: Callable[..., TrailWriter], samples: Any, tmp_path: Path) -> None:
    """The segment is sealed, and so small that each of its bits is tried; what has its checksum right again is refused, too."""
    writer = open_writer(segment_bytes=1, encrypt=by_file(tmp_path))
    writer.append(samples.chunk(3, 3))
    writer.flush()
    writer.append(samples.chunk(4, 4))
    writer.close()
    trail, path = tmp_path / "trail", segments(tmp_path / "trail")[0]
    content, tried = path.read_bytes(), 0
    for offset, frame in frames(content):
        for at in range(offset + PREFIX_LENGTH, offset + frame.length):
            broken = bytearray(content)
            broken[at] ^= 1 << at % 8
            if at % 2:  # the checksums fit what is there
                head = bytes(broken[offset + PREFIX_LENGTH :][: frame.head_length])
                body = bytes(broken[offset + PREFIX_LENGTH + frame.head_length :][: frame.body_length])
                prefix = encode_frame(frame._replace(body_crc=crc32(body)), head)
                broken[offset : offset + PREFIX_LENGTH] = prefix
            path.write_bytes(broken)
            with pytest.raises(TrailError, match=path.name):
                read_segment(trail, path)
            tried += 1
        for at in (
            range(offset + 2, offset + PREFIX_LENGTH - 4) if offset else ()
        ):  # nobody reads the numbers of a header
            broken = bytearray(content)
            broken[at] ^= 1 << at % 8
            found = decode_prefix(bytes(broken[offset:]))
            if found and found[0].length <= len(content) - offset:
                head = bytes(broken[offset + PREFIX_LENGTH :][: found[0].head_length])
                broken[offset : offset + PREFIX_LENGTH] = encode_frame(found[0], head)
            path.write_bytes(broken)
            with pytest.raises(TrailError, match=path.name):
                read_segment(trail, path)
    assert tried > 1000
    assert any(path.name in problem for problem in TrailReader(trail).check().problems)
    path.write_bytes(content)
    assert list(rows_of(trail, samples)) == [1, 2]


def frames(content: bytes) -> Iterator[tuple[int, Frame]]:
    """Offsets and prefixes of a sealed segment's frames."""
    offset = 0
    while offset < len(content) - 16:
        found = decode_prefix(content[offset:])
        assert found
        yield offset, found[0]
        offset += found[0].length


def read_segment(trail: Path, path: Path) -> None:
    """Read all of it, as `trail check` does."""
    storage, name = LocalStorage(trail), SegmentName.parse(path.name)
    assert name
    segment = SegmentReader(storage, path.name)
    try:
        check_segment(storage, segment, name)
        segment.index.complete(None)
        read = 0
        for offset, frame, _ in segment.frames(0, segment.size()):
            if frame.kind == FrameKind.CHUNK:
                segment.chunk(offset)
            else:
                segment.body(offset, frame)
            read = offset + frame.length
        if read != segment.size() - 16:
            raise segment.damage(read, "no frame is here")
    finally:
        segment.close()


def test_a_segment_that_is_cut_at_a_frame_is_refused(written: Path) -> None:
    path = segments(written)[1]
    content = path.read_bytes()
    cuts = [offset for offset, frame in frames(content) if frame.kind == FrameKind.CHUNK]
    for offset in cuts:
        path.write_bytes(content[:offset])
        assert segments(written)[2].name in refused(written).message or path.name in refused(written).message
    assert len(cuts) > 2


def test_segments_that_changed_places_or_are_of_another_trail_are_refused(
    written: Path, samples: Any, tmp_path: Path
) -> None:
    first, second = segments(written)[:2]
    one, two = first.read_bytes(), second.read_bytes()
    first.write_bytes(two)
    second.write_bytes(one)
    assert first.name in refused(written).message
    second.write_bytes(two)
    with TrailWriter.open(
        tmp_path / "other" / "trail", **samples.JOB | {"job_uuid": "uuid-2"}, pack=False, encrypt=by_file(tmp_path)
    ) as writer:
        for table in (samples.ORDERS, samples.NOTES):
            writer.schema(samples.definition(table))
        writer.append(samples.chunk(1, 1))
    shutil.copy(segments(tmp_path / "other" / "trail")[0], first)
    assert "belongs to job shop (uuid-2)" in refused(written).message


def test_frames_that_changed_places_are_refused(written: Path) -> None:
    """Also those of the same length, whose checksums are right."""
    path = segments(written)[0]
    content = path.read_bytes()
    chunks = [(offset, frame.length) for offset, frame in frames(content) if frame.kind == FrameKind.CHUNK]
    (a, length), (b, following) = chunks[1:3]
    middle = content[a + length : b]
    path.write_bytes(
        content[:a] + content[b : b + following] + middle + content[a : a + length] + content[b + following :]
    )
    error = refused(written)
    assert f"segment {path.name}, offset " in error.message and "put here from another place" in error.message


def test_an_older_copy_of_a_segment_is_refused(
    open_writer: Callable[..., TrailWriter], samples: Any, tmp_path: Path
) -> None:
    writer = open_writer(segment_bytes=8000, encrypt=by_file(tmp_path))
    fill(writer, samples, 3)
    path = segments(tmp_path / "trail")[0]
    older = path.read_bytes()
    fill(writer, samples, 20, first=4)
    newest = path.read_bytes()
    path.write_bytes(older)
    assert "follows 3" in refused(tmp_path / "trail").message
    path.write_bytes(newest)
    writer.close()
    assert list(rows_of(tmp_path / "trail", samples)) == [*range(1, 21)]


def test_a_segment_without_encryption_in_an_encrypted_trail_is_refused(
    written: Path, samples: Any, tmp_path: Path
) -> None:
    """Somebody who has no key writes rows of his own: headers, checksums and sequences are right."""
    forged = tmp_path / "forged" / "trail"
    with TrailWriter.open(forged, **samples.JOB, segment_bytes=8000, pack=False) as writer:
        for table in (samples.ORDERS, samples.NOTES):
            writer.schema(samples.definition(table))
        for n in range(1, 20):
            writer.append(samples.chunk(n, n))
    path = segments(written)[0]
    shutil.copy(segments(forged)[0], path)
    error = refused(written)
    assert path.name in error.message and "it is not encrypted, and was to be" in error.message


@pytest.mark.parametrize("form", ["raw", "hex", "base64", "base64 with a newline"])
def test_a_key_may_be_written_in_three_ways(form: str) -> None:
    text = {"raw": ONE, "hex": ONE.hex().encode(), "base64": base64.b64encode(ONE)}[form.partition(" ")[0]]
    assert keys.parse_key(text + b"\n" * ("newline" in form), "here") == ONE


def test_keys_that_are_none_are_refused_before_anything_is_written(
    open_writer: Callable[..., TrailWriter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = key_file(tmp_path)
    path.chmod(0o640)
    short = key_file(tmp_path, "short.key", b"too short")
    monkeypatch.delenv("SHOP_TRAIL_KEY", raising=False)
    for current, message in (
        ({"key_file": str(path)}, "can be read or written by others"),
        ({"key_file": str(tmp_path / "none.key")}, "cannot be read"),
        ({"key_file": str(short)}, "has no key of 32 bytes"),
        ({"key_env": "SHOP_TRAIL_KEY"}, "SHOP_TRAIL_KEY"),
    ):
        with pytest.raises(TrailKeyMissing, match=message) as caught:
            open_writer(encrypt={"current": current, "former": []})
        assert caught.value.hint
    assert not segments(tmp_path / "trail") and not (tmp_path / keys.FILE).exists()


def test_a_lost_key_and_another_one_are_said_by_id(written: Path, samples: Any, tmp_path: Path) -> None:
    (tmp_path / "one.key").unlink()
    error = refused(written)
    assert isinstance(error, TrailKeyMissing) and f"key {key_id(ONE)}, which is not there" in error.message
    key_file(tmp_path, key=OTHER)
    error = refused(written)
    assert isinstance(error, TrailKeyMissing) and f"(keys there: {key_id(OTHER)})" in error.message
    with pytest.raises(TrailKeyMissing):
        TrailWriter.open(written, **samples.JOB, encrypt=by_file(tmp_path, key=OTHER), pack=False)
    key_file(tmp_path)
    assert rows_of(written, samples) == samples.expected_rows(1, 20, with_large=True)


def test_a_key_of_the_environment(
    open_writer: Callable[..., TrailWriter], samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_TRAIL_KEY", ONE.hex())
    writer = open_writer(encrypt={"current": {"key_env": "SHOP_TRAIL_KEY"}, "former": []})
    fill(writer, samples, 5)
    writer.close()
    assert rows_of(tmp_path / "trail", samples) == samples.expected_rows(1, 5)
    assert ONE.hex() not in (tmp_path / keys.FILE).read_text()
    monkeypatch.delenv("SHOP_TRAIL_KEY")
    assert "SHOP_TRAIL_KEY" in refused(tmp_path / "trail").message


SERVICE = """
import base64, json, sys
keys = {"v1": 1, "v2": 2}
asked = json.load(sys.stdin)
open(sys.argv[1] + ".asked", "a").write(asked["do"] + "\\n")
newest = open(sys.argv[1]).read().strip()
if newest == "down":
    sys.exit("the service is away")
mixed = lambda name, data: bytes(one ^ keys[name] for one in data)
if asked["do"] == "wrap":
    print(json.dumps({"key": newest, "data": base64.b64encode(mixed(newest, base64.b64decode(asked["data"]))).decode()}))
else:
    print(json.dumps({"data": base64.b64encode(mixed(asked["key"], base64.b64decode(asked["data"]))).decode()}))
"""


def test_a_key_service_wraps_and_is_asked_once_for_each_file(
    open_writer: Callable[..., TrailWriter], samples: Any, tmp_path: Path
) -> None:
    script, state = tmp_path / "service.py", tmp_path / "state"
    script.write_text(SERVICE)
    state.write_text("v1")
    command = [sys.executable, "-I", "-S", str(script), str(state)]
    said = {"current": {"key_command": command}, "former": []}
    writer = open_writer(segment_bytes=20_000, encrypt=said)
    fill(writer, samples, 20)
    trail, count = tmp_path / "trail", len(segments(tmp_path / "trail")) + 1  # and the history
    state.with_suffix(".asked").write_text("")
    assert rows_of(trail, samples) == samples.expected_rows(1, 20, with_large=True)
    assert (tmp_path / "state.asked").read_text().split() == ["unwrap"] * count
    state.write_text("v2")
    found = rekeying.rekey(trail, said)
    assert (found.key, found.keys, found.plain) == ("v2", {"v2": count}, 0)
    assert rows_of(trail, samples) == samples.expected_rows(1, 20, with_large=True)
    state.write_text("down")
    error = refused(trail)
    assert isinstance(error, TrailKeyMissing) and "exit code 1, the service is away" in error.message
    writer._failed = True  # without its service it cannot begin a segment, and is not asked to


def test_another_key_while_it_is_written_and_read(
    open_writer: Callable[..., TrailWriter], open_reader: Callable[[], TrailReader], samples: Any, tmp_path: Path
) -> None:
    """The writer takes it with its next flush; the former one may go as soon as nothing is left under it."""
    writer = open_writer(encrypt=by_file(tmp_path))
    fill(writer, samples, 10)
    reader, trail = open_reader(), tmp_path / "trail"
    before = reader.descriptors(0)
    former = tmp_path / "one.key"
    found = rekeying.rekey(trail, by_file(tmp_path, former, name="other.key", key=OTHER))
    assert (found.key, found.keys, found.others) == (key_id(OTHER), {key_id(OTHER): 2}, 0), "a segment, and the history"
    fill(writer, samples, 12, first=11)
    assert [header_of(path)["encryption"]["key"] for path in segments(trail)] == [key_id(ONE), key_id(OTHER)]
    former.unlink()
    keys.save(LocalStorage(trail), by_file(tmp_path, name="other.key", key=OTHER), may_turn=False)
    fill(writer, samples, 15, first=13)
    assert samples.found_rows([reader.load(ref) for ref in before]) == samples.expected_rows(1, 10, with_large=True)
    writer.close()
    assert rows_of(trail, samples) == samples.expected_rows(1, 15, with_large=True)
    found = rekeying.rekey(trail, by_file(tmp_path, name="other.key", key=OTHER))
    assert found.keys == {key_id(OTHER): 3}
    assert rows_of(trail, samples) == samples.expected_rows(1, 15, with_large=True)


@pytest.mark.parametrize("name", ["trail.rekey", "trail.rekey.wrapped"])
def test_failpoints_of_another_key_leave_a_trail_that_is_read(
    written: Path, samples: Any, tmp_path: Path, name: str
) -> None:
    former = tmp_path / "one.key"
    said = by_file(tmp_path, former, name="other.key", key=OTHER)
    failpoints.arm({failpoints.VARIABLE: f"{name}=raise", failpoints.LOG_VARIABLE: str(tmp_path / "log")})
    with pytest.raises(failpoints.FailpointReached):
        rekeying.rekey(written, said)
    failpoints.arm({})
    assert rows_of(written, samples) == samples.expected_rows(1, 20, with_large=True)
    assert rekeying.encryption(LocalStorage(written)).others > 0
    assert rekeying.rekey(written, said).others == 0
    former.unlink()
    assert rows_of(written, samples) == samples.expected_rows(1, 20, with_large=True)


def test_a_kill_between_format_and_keys_begins_again(
    open_writer: Callable[..., TrailWriter], samples: Any, tmp_path: Path
) -> None:
    failpoints.arm({failpoints.VARIABLE: "trail.encryption=raise", failpoints.LOG_VARIABLE: str(tmp_path / "log")})
    with pytest.raises(failpoints.FailpointReached):
        open_writer(encrypt=by_file(tmp_path))
    failpoints.arm({})
    assert not (tmp_path / keys.FILE).exists()
    writer = open_writer(encrypt=by_file(tmp_path))
    fill(writer, samples, 3)
    writer.close()
    assert rows_of(tmp_path / "trail", samples) == samples.expected_rows(1, 3)


def test_turned_on_for_a_trail_that_exists_and_off_again(
    open_writer: Callable[..., TrailWriter], samples: Any, tmp_path: Path, kill: Callable[[TrailWriter], None]
) -> None:
    trail, said = tmp_path / "trail", by_file(tmp_path)
    off = {"current": None, "former": [said["current"]]}
    for last, encrypt in ((5, None), (10, said), (15, off), (20, said)):
        writer = open_writer(encrypt=encrypt)
        fill(writer, samples, last, first=last - 4)
        kill(writer)
        assert rows_of(trail, samples) == samples.expected_rows(1, last, with_large=True)
    assert ["encryption" in header_of(path) for path in segments(trail)] == [False, True, False, True]
    found = rekeying.encryption(LocalStorage(trail))
    assert found and (found.key, found.keys, found.plain) == (key_id(ONE), {key_id(ONE): 2}, 2)
    with pytest.raises(StateError, match=r"has been encrypted .* no \[trail\] encrypt"):
        open_writer()
    with pytest.raises(StateError, match="turned off"):
        keys.save(LocalStorage(trail), off, may_turn=False)


def test_packed_segments_are_encrypted_as_well(
    open_writer: Callable[..., TrailWriter], samples: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that was not, and one that was before encryption was turned off."""
    monkeypatch.setattr(pack, "is_worthwhile", lambda *_: True)
    trail, said = tmp_path / "trail", by_file(tmp_path)
    open_writer().close()
    for last, encrypt in ((5, None), (10, said), (11, {"current": None, "former": [said["current"]]})):
        writer = open_writer(encrypt=encrypt)
        fill(writer, samples, last, first=1 if last == 5 else last - 4 if last == 10 else 11)
        if last == 10:
            assert len(pack.pack_all(trail)) == 1
        writer.close()
    assert len(pack.pack_all(trail)) == 1
    found = [("encryption" in header_of(path), path.suffix) for path in segments(trail)]
    assert found == [(True, ".packed"), (True, ".packed"), (False, ".segment")]
    assert not any(text in path.read_bytes() for path in segments(trail)[:2] for text in PLAINTEXT)
    assert rows_of(trail, samples) == samples.expected_rows(1, 11, with_large=True)


def test_staged_transactions_are_encrypted(
    open_writer: Callable[..., TrailWriter], samples: Any, tmp_path: Path, kill: Callable[[TrailWriter], None]
) -> None:
    """Prepared ones, and parts of open ones; the end of a prepared one is noted in its finished file, twice if need be."""
    said = by_file(tmp_path)
    writer = open_writer(encrypt=said)
    writer.staging.add(samples.chunk(3, 3))
    writer.staging.prepare("xid-1", samples.mark(3))
    writer.open_staging.keep(
        "xid-2", [replace(samples.chunk(7, 7), part=Part.FRAGMENT)], samples.mark(6), samples.mark(7), 1
    )
    for _ in range(2):
        writer.staging.decide("xid-1", LogMark("log:9", "9", 9000))
    kill(writer)
    trail = tmp_path / "trail"
    files = [path for path in (trail / "staging").iterdir() if path.is_file()]
    assert len(files) == 2 and not any(b"note " in path.read_bytes() for path in files)
    sealing.forget()
    (one,), (other,) = staged(trail), kept(trail)
    assert (one.xid, one.rows, one.decided) == ("xid-1", 3, "9") and (other.xid, other.rows) == ("xid-2", (3,))
    writer = open_writer(encrypt=said)
    assert samples.found_rows([replace(c, first_sequence=1) for c in writer.staging.chunks("xid-1")])[
        1
    ] == samples.source_rows(3)
    assert len(list(writer.open_staging.chunks("xid-2"))) == 1
    kill(writer)
    content = files[0].read_bytes()
    files[0].write_bytes(files[1].read_bytes())
    with pytest.raises(TrailCorrupt):
        (staged if files[0].suffix == ".staged" else kept)(trail)
    files[0].write_bytes(content)
    found = rekeying.rekey(trail, by_file(tmp_path, tmp_path / "one.key", name="other.key", key=OTHER))
    assert found.others == 0 and found.keys[key_id(OTHER)] >= 2


def test_a_place_of_a_file_is_encrypted_once(tmp_path: Path, written: Path) -> None:
    """A second frame at the same place would have the nonce of the first."""
    storage = LocalStorage(written)
    seal, _ = sealing.begin(storage, {"job": "shop"})
    assert seal
    frame = [encode_prefix(FrameKind.HEARTBEAT, b"{}"), b"{}"]
    seal.frame(100, frame)
    with pytest.raises(TrailError, match="a place that another one had"):
        seal.frame(100, frame)


def test_a_reader_of_a_trail_that_is_not_encrypted_loads_no_library(tmp_path: Path, samples: Any) -> None:
    with TrailWriter.open(tmp_path / "trail", **samples.JOB, pack=False) as writer:
        for table in (samples.ORDERS, samples.NOTES):
            writer.schema(samples.definition(table))
        writer.append(samples.chunk(1, 1))
    code = (
        "import sys; from anabranch.trail.reader import TrailReader; from anabranch.trail.writer import TrailWriter\n"
        "with TrailReader(sys.argv[1]) as trail: trail.load(trail.descriptors(0)[0])\n"
        "print([name for name in sys.modules if name.startswith('cryptography')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "trail")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert done.stdout.strip() == "[]"


def test_a_segment_that_was_opened_before_is_read_by_its_own_key(written: Path) -> None:
    segment = SegmentReader(LocalStorage(written), segments(written)[0].name)
    assert segment.seal() is not None and segment.index.end == 0
    segment.close()


def test_a_replica_is_copied_without_the_key_and_read_with_it(samples: Any, tmp_path: Path) -> None:
    source, target, said = tmp_path / "a" / "trail", tmp_path / "b" / "trail", by_file(tmp_path)
    with TrailWriter.open(source, **samples.JOB, segment_bytes=8000, pack=False, encrypt=said) as writer:
        for table in (samples.ORDERS, samples.NOTES):
            writer.schema(samples.definition(table))
        fill(writer, samples, 20)
    outgoing = Outgoing(source)
    replica = TrailReplica.open(target, outgoing.identity)
    outgoing.start(replica.held)
    for piece in outgoing.pieces():
        if isinstance(piece, HistoryPiece):
            replica.add_history(piece.offset, piece.data, is_anew=piece.is_anew)
        else:
            replica.append(piece.name, piece.offset, piece.data)
    assert replica.flush().sequence == 20
    replica.close()
    outgoing.close()
    assert isinstance(refused(target), TrailKeyMissing)
    other = by_file(tmp_path, tmp_path / "one.key", name="other.key", key=OTHER)
    assert rekeying.rekey(target, other).others == 0
    assert rows_of(target, samples) == samples.expected_rows(1, 20, with_large=True)
