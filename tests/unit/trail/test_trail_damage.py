"""Damage to what a trail says of itself: each byte of a header and of the history, cut, emptied, swapped with another job's,
of another format. Every reader refuses with the file, the place and what to do; none believes what is left."""

from __future__ import annotations

import functools
import json
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import StateError, TrailError
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.trail import pack as packing
from anabranch.trail.format import PREFIX_LENGTH, FrameKind, SegmentName, decode_prefix, encode_prefix, to_json
from anabranch.trail.history import Entry, SchemaHistory, parse
from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from anabranch.trail.storage import LocalStorage
from anabranch.trail.writer import TrailWriter

TRANSACTIONS = 12
FOLLOWED = {"first": 0, "middle": 1, "published": -1}


@pytest.fixture(scope="module")
def written(samples: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A trail of several segments, whose two tables are defined and one of them twice; its writer has ended."""

    def write(**who: str) -> Path:
        trail = tmp_path_factory.mktemp("written") / "trail"
        with TrailWriter.open(trail, **{**samples.JOB, **who}, segment_bytes=2000, pack=False) as writer:
            for table in (samples.ORDERS, samples.NOTES):
                writer.schema(samples.definition(table))
            for n in range(1, TRANSACTIONS + 1):
                writer.append(samples.chunk(n, n))
            writer.schema(samples.definition(version=2))
        return trail

    return functools.cache(write)


@pytest.fixture
def make(written: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """A copy that may be damaged."""

    def make_(name: str = "trail", **who: str) -> Path:
        return Path(shutil.copytree(written(**who), tmp_path / name))

    return make_


def segments(trail: Path) -> list[Path]:
    return sorted(p for p in trail.iterdir() if SegmentName.parse(p.name))


def header_length(path: Path) -> int:
    found = decode_prefix(path.read_bytes())
    assert found and found[0].kind == FrameKind.HEADER
    return found[0].length


def read_all(trail: Path) -> None:
    with TrailReader(trail) as reader:
        assert reader.end().position.sequence == TRANSACTIONS
        for ref in reader.descriptors(0):
            reader.load(ref)
        assert reader.history.latest(TableId("shop", "orders"))


def ways_to_read(trail: Path) -> Iterator[Callable[[], object]]:
    """Everything that looks into every segment: apply's and the load's way, `trail ls`, `trail show`, positions."""
    yield lambda: read_all(trail)
    yield lambda: TrailReader(trail).segments()
    yield lambda: list(show(TrailReader(trail), after=0))
    yield lambda: [TrailReader(trail).position_at(n) for n in range(TRANSACTIONS + 1)]


def refused(look: Callable[[], object]) -> TrailError:
    with pytest.raises(TrailError) as caught:
        look()
    assert caught.value.hint, caught.value
    return caught.value


def damages(content: bytes, length: int) -> Iterator[tuple[str, bytes]]:
    """One bit of each byte, and the file cut behind each."""
    for at in range(length):
        broken = bytearray(content)
        broken[at] ^= 1 << at % 8
        yield f"bit {at % 8} of byte {at}", bytes(broken)
        yield f"cut at {at}", content[:at]


@pytest.mark.parametrize("place, form", [*((place, "segment") for place in FOLLOWED), ("first", "packed")])
def test_every_byte_of_a_header_is_checked(make: Callable[..., Path], place: str, form: str) -> None:
    trail = make()
    path = segments(trail)[FOLLOWED[place]]
    if form == "packed":
        path = packed(trail, path)
    content = path.read_bytes()
    read_all(trail)
    for what, broken in damages(content, header_length(path)):
        path.write_bytes(broken)
        error = refused(lambda: read_all(trail))
        assert f"segment {path.name}, offset 0: " in error.message and str(path) in error.message, what
    look_at = [content[:40], b"", broken]
    for broken in look_at:
        path.write_bytes(broken)
        for look in ways_to_read(trail):
            assert str(path) in refused(look).message
        assert any(str(path) in problem for problem in TrailReader(trail).check().problems)
    path.write_bytes(content)
    read_all(trail)


def packed(trail: Path, path: Path) -> Path:
    name = SegmentName.parse(path.name)
    assert name
    worthwhile, packing.is_worthwhile = packing.is_worthwhile, lambda *_: True
    try:
        assert packing.pack(trail, LocalStorage(trail), name)
    finally:
        packing.is_worthwhile = worthwhile
    return path.with_suffix(".packed")


def with_header(path: Path, **changes: object) -> None:
    """The same file with other facts in its header, and a right checksum."""
    content = path.read_bytes()
    length = header_length(path)
    facts = json.loads(content[PREFIX_LENGTH:length]) | changes
    head = to_json({key: value for key, value in facts.items() if value is not None})
    path.write_bytes(encode_prefix(FrameKind.HEADER, head) + head + content[length:])


HEADERS = {
    "another job's": ({"job": "crm", "job_uuid": "uuid-9"}, r"it belongs to job crm \(uuid-9\), the trail to job shop"),
    "another source's": ({"source_identity": "server-9"}, "captured from source server-9, the trail from server-1"),
    "another number": ({"number": 7}, "the file's name says number 1, its header 7"),
    "another writer": ({"epoch": 7}, "the file's name says epoch 1, its header 7"),
    "another sequence": ({"next": 7}, "the file's name says next 1, its header 7"),
    "other fragments": ({"fragments": 7}, "the file's name says fragments 0, its header 7"),
    "a newer format": ({"format": 4}, "has format 4, this release knows 3"),
    "no format": ({"format": None}, "no usable format: None"),
    "a format that is none": ({"format": "1"}, "no usable format: '1'"),
    "no job": ({"job_uuid": None}, "nothing usable of 'job_uuid'"),
    "no place": ({"resume": 5}, "nothing usable of 'resume'"),
}


@pytest.mark.parametrize("changes, message", HEADERS.values(), ids=HEADERS)
def test_a_header_that_is_whole_and_not_ours(make: Callable[..., Path], changes: dict[str, Any], message: str) -> None:
    trail = make()
    path = segments(trail)[0]
    with_header(path, **changes)
    for look in ways_to_read(trail):
        error = refused(look)
        assert re.search(message, error.message) and str(path) in error.message
    assert any(re.search(message, problem) for problem in TrailReader(trail).check().problems)


def test_the_segment_that_was_written_last_is_checked_by_the_next_writer(
    make: Callable[..., Path], samples: Any
) -> None:
    trail = make()
    path = segments(trail)[-1]
    content = path.read_bytes()
    for changes, message in HEADERS.values():
        message = message.replace("number 1", f"number {len(segments(trail))}").replace("next 1,", r"next \d+,")
        path.write_bytes(content)
        with_header(path, **changes)
        with pytest.raises(TrailError, match=message):
            TrailWriter.open(trail, **samples.JOB, pack=False)
    for broken in (content[:30], b"", b"\0" + content[1:]):
        path.write_bytes(broken)
        with pytest.raises(TrailError, match=f"segment {path.name}, offset 0"):
            TrailWriter.open(trail, **samples.JOB, pack=False)


def test_a_server_that_was_followed_is_known(make: Callable[..., Path], samples: Any) -> None:
    trail = make()
    with TrailWriter.open(trail, **samples.JOB, segment_bytes=2000, pack=False) as writer:
        writer.adopt_identity("server-2")
        writer.append(samples.chunk(TRANSACTIONS + 1, TRANSACTIONS + 1))
    with TrailReader(trail) as reader:
        assert len([reader.load(ref) for ref in reader.descriptors(0)]) > 1
        assert reader.check().problems == []


def test_files_of_two_jobs_that_changed_places(make: Callable[..., Path]) -> None:
    trail, other = make(), make("other", job="crm", job_uuid="uuid-2", source_identity="server-2")
    shared = {path.name for path in trail.iterdir()} & {path.name for path in other.iterdir()}
    names = {*(path.name for path in segments(trail)), "history", "trail.json"}
    assert names <= shared
    for name in sorted(names):
        mine = (trail / name).read_bytes()
        shutil.copy(other / name, trail / name)
        error = refused(lambda: read_all(trail))
        assert "uuid-1" in error.message and "uuid-2" in error.message and str(trail) in error.message, name
        assert TrailReader(trail).check().problems, name
        (trail / name).write_bytes(mine)
    read_all(trail)


def test_every_byte_of_the_history_is_checked(make: Callable[..., Path], samples: Any) -> None:
    trail = make()
    path = trail / "history"
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    assert len(lines) == 4
    tables = ["", str(samples.ORDERS), "shop.odd.name", str(samples.ORDERS)]
    starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
    for at in range(len(content)):
        line = sum(at >= start for start in starts) - 1
        for broken in (content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :], content[:at]):
            error = refused(functools.partial(parse, broken, len(content), SchemaHistory()))
            assert f"damaged at byte {starts[line]}, line {line + 1}" in error.message
            if line and len(broken) == len(content) and not is_in_name(lines[line], at - starts[line]):
                assert f"of table {tables[line]}" in error.message
            elif line > 1:
                assert " table " in error.message
            if at % 97 == 0:
                path.write_bytes(broken)
                assert str(path) in refused(lambda: read_all(trail)).message
    path.write_bytes(content)
    read_all(trail)


def is_in_name(line: bytes, at: int) -> bool:
    begin = line.index(b'"id":')
    return begin <= at < line.index(b"}", begin)


def test_the_next_writer_and_check_name_the_table_of_a_damaged_line(make: Callable[..., Path], samples: Any) -> None:
    trail = make()
    path = trail / "history"
    content = bytearray(path.read_bytes())
    content[content.index(b'"odd.name"') + 40] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        TrailError, match=r"line 3, of table shop\.odd\.name as far as it can be read: .*checksum.*history\)"
    ):
        TrailWriter.open(trail, **samples.JOB, pack=False)
    assert any("of table shop.odd.name" in problem for problem in TrailReader(trail).check().problems)


def test_a_line_of_a_later_release_is_no_traceback(make: Callable[..., Path], samples: Any) -> None:
    definition: TableSchema = samples.definition()
    whole = Entry("schema", 1, schema=definition).to_line()
    text = whole[9:-1].replace(b'"kind"', b'"colour":"red","kind"')
    line = b"%08x %s\n" % (zlib.crc32(text), text)
    error = refused(lambda: parse(whole + line, 0, SchemaHistory()))
    assert "line 2, of table shop.orders as far as it can be read: this release cannot read the line" in error.message


def test_rows_whose_definition_is_missing_are_no_traceback(make: Callable[..., Path], samples: Any) -> None:
    trail = make()
    path = trail / "history"
    lines = path.read_bytes().splitlines(keepends=True)
    same = Entry("schema", 1, schema=replace(samples.definition(TableId("shop", "xxx.name")))).to_line()
    assert len(same) == len(lines[2])  # so that the published length fits
    path.write_bytes(b"".join([*lines[:2], same, *lines[3:]]))
    error = refused(lambda: list(show(TrailReader(trail), after=0)))
    assert "definition 1 of shop.odd.name" in error.message.replace('"', "") and str(path) in error.message


def test_where_the_trail_ends_is_checked(make: Callable[..., Path], samples: Any) -> None:
    trail = make()
    path = trail / "published"
    content = path.read_bytes()
    for broken in (
        b"",
        content[:100],
        bytes(256),
        bytes([content[0] ^ 1, *content[1:128], content[128] ^ 1, *content[129:]]),
    ):
        path.write_bytes(broken)
        error = refused(lambda: TrailReader(trail).end())
        assert str(path) in error.message and "start capture" in error.hint
    with TrailWriter.open(trail, **samples.JOB, pack=False):  # as the message says
        pass
    read_all(trail)


def test_a_file_that_somebody_took_away_is_no_traceback(make: Callable[..., Path], samples: Any) -> None:
    trail = make()
    (trail / "published").unlink()
    error = refused(lambda: TrailReader(trail))
    assert f"{trail / 'published'}: " in error.message and "missing" in error.message and "start capture" in error.hint
    with TrailWriter.open(trail, **samples.JOB, pack=False):  # as the message says
        pass
    read_all(trail)
    (trail / "history").unlink()
    for look in (lambda: read_all(trail), lambda: TrailWriter.open(trail, **samples.JOB, pack=False)):
        error = refused(look)
        assert f"missing ({trail / 'history'})" in error.message and "backup" in error.hint
    assert any("history is missing" in problem for problem in TrailReader(trail).check().problems)


def test_a_trail_without_segments_and_its_end_is_not_begun_anew(tmp_path: Path, samples: Any) -> None:
    with TrailWriter.open(tmp_path, **samples.JOB, pack=False):
        pass
    (tmp_path / "published").unlink()
    error = refused(lambda: TrailWriter.open(tmp_path, **samples.JOB, pack=False))
    assert "published is missing" in error.message and "backup" in error.hint


def test_every_byte_of_the_trail_file_is_checked(make: Callable[..., Path], samples: Any) -> None:
    trail = make()
    path = trail / "trail.json"
    content = path.read_bytes()
    harmless = range(content.index(b"shop"), content.index(b"shop") + 4)  # the name is for people, the uuid decides
    for at in range(len(content) - 1):
        if at in harmless:
            continue
        broken = content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
        if broken.split() == content.split() or b'"format":3' in broken:  # a trail that may have encrypted files
            continue
        path.write_bytes(broken)
        assert str(trail) in refused(lambda: read_all(trail)).message, (at, broken)
        with pytest.raises((TrailError, StateError)):
            TrailWriter.open(trail, **samples.JOB, pack=False)
