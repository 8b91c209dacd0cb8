"""Rewriting a sealed segment's small frames into large ones (K30): same transactions, same sequences.

Done by a child process, so that capture's own interpreter never waits for it: `python -m anabranch.trail.pack DIR`. The
new file is complete and synced before a rename publishes it; then the old one is removed. Readers that have the old one
open keep reading it, the file system frees it with the last of them; others find the transactions again by sequence.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from anabranch import log
from anabranch.errors import AnabranchError
from anabranch.failpoints import reach
from anabranch.rows.chunk import Chunk, Part, TableRows
from anabranch.trail import published, retention
from anabranch.trail.codec import TableFrame
from anabranch.trail.format import FORMAT, FrameKind, SegmentName, ends_before, segment_names
from anabranch.trail.headers import check_segment
from anabranch.trail.lock import maintenance
from anabranch.trail.regroup import ChunkGroup, join
from anabranch.trail.segment import SegmentReader, SegmentWriter
from anabranch.trail.storage import LocalStorage, Storage

CHUNK_ROWS = 20_000
CHUNK_TRANSACTIONS = 20_000
CHUNK_BYTES = 4 << 20  # in memory
MIN_CHUNKS = 16  # fewer frames are not worth a file
LARGE_FRAME = 256 * 1024  # bytes; frames of few, wide rows are large already


def is_worthwhile(chunks: int, rows: int, size: int) -> bool:
    """Return whether packing a segment is worth its cost. `size`: bytes of the segment."""
    return chunks >= MIN_CHUNKS and rows < chunks * CHUNK_ROWS // 4 and size < chunks * LARGE_FRAME


class Packer:
    """The writer's handle on the child: at most one, only after there is something to pack."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._is_wanted = False
        self._child: subprocess.Popen[bytes] | None = None

    def offer(self, chunks: int, rows: int, size: int) -> None:
        """Note that a segment was sealed; it is packed if that is worthwhile."""
        self._is_wanted = self._is_wanted or is_worthwhile(chunks, rows, size)

    def tick(self) -> None:
        """Start or collect the packing process after a publication; never waits."""
        if self._child and self._child.poll() is not None:
            self._reap()
        if self._is_wanted and not self._child:
            self._is_wanted = False
            self._child = _spawn(self._directory)

    def stop(self) -> None:
        """End a running child: half a packed file is removed at the next start."""
        if self._child:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _reap(self) -> None:
        assert self._child
        _, errors = self._child.communicate()
        if self._child.returncode:
            log.get(part="trail").warning("trail_pack_failed", error=errors.decode(errors="replace")[-500:])
        self._child = None


def _spawn(directory: Path) -> subprocess.Popen[bytes]:
    package_root = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [package_root, os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-m", "anabranch.trail.pack", str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
    )


def pack_all(directory: str | Path) -> list[str]:
    """Pack every segment that is worth it. Returns their names."""
    storage = LocalStorage(directory)
    packed = []
    for name in _candidates(Path(directory), storage):
        before = ends_before(segment_names(storage.names()), name)
        if pack(Path(directory), storage, name, before):
            packed.append(str(name))
    return packed


def pack(directory: Path, storage: Storage, name: SegmentName, before: int | None = None) -> bool:
    """Rewrite one segment (`before`: `ends_before`); False where that is not worth it or the segment went away."""
    try:
        source = SegmentReader(storage, str(name))
    except FileNotFoundError:
        return False
    try:
        source.index.complete(before)
        if not is_worthwhile(len(source.index.offsets), source.index.rows, source.size()):
            return False
        return _swap(directory, storage, name, source)
    finally:
        source.close()


def _candidates(directory: Path, storage: Storage) -> list[SegmentName]:
    cell = published.opened(storage)
    try:
        newest = published.read(cell).number
    finally:
        cell.close()
    names = [name for name in segment_names(storage.names()) if name.number < newest and not name.packed]
    return [name for name in names if not is_copied(directory, storage, name)]


def is_copied(directory: Path, storage: Storage, name: SegmentName) -> bool:
    """Return whether somebody who copies bytes may have a part of the segment, and not all of its transactions."""
    copies = [
        one.sequence for one in retention.readers(directory, storage=storage).values() if one.kind == retention.COPY
    ]
    following = next((one for one in segment_names(storage.names()) if one.number > name.number), None)
    return bool(copies) and (following is None or min(copies) < following.next - (not following.fragments))


def _swap(directory: Path, storage: Storage, name: SegmentName, source: SegmentReader) -> bool:
    packed = SegmentName(name.number, name.epoch, name.next, name.fragments, packed=True)
    temporary = f"{packed}.{os.getpid()}.tmp"
    header = check_segment(storage, source, name) | {"format": FORMAT}
    target = SegmentWriter(storage, temporary, packed, header)
    try:
        _copy(source, target)
        target.seal()
        target.sync()
    finally:
        target.close()
    reach("trail.pack.written")
    with maintenance(directory):
        if str(name) not in storage.names() or is_copied(
            directory, storage, name
        ):  # dropped meanwhile, or packed by another
            storage.remove(temporary)
            return False
        storage.rename(temporary, str(packed))
        reach("trail.pack.renamed")
        storage.remove(str(name))
    return True


def _copy(source: SegmentReader, target: SegmentWriter) -> None:
    """Copy all chunks, small ones joined, without fragments that were begun anew. Memory: one group.

    The only heartbeat that stays is one before the first chunk, where a trail starts.
    """
    _copy_start(source, target)
    group = ChunkGroup()
    for offset in _kept(source):
        frame, _ = source.frame(offset)
        chunk = source.chunk(offset)
        if group.chunks and (_is_large(group) or not group.accepts(chunk)):
            _write(source, target, join(group.chunks), 0)
            group = ChunkGroup()
        if chunk.part is Part.WHOLE:
            group.add(chunk)
        else:
            _write(source, target, chunk, frame.fragment)
    if group.chunks:
        _write(source, target, join(group.chunks), 0)


def _kept(source: SegmentReader) -> Iterator[int]:
    """Yield the offsets of the chunks that count.

    After a lost connection the fragments of the open transaction come again, from the first one (`TrailWriter.rewind`):
    the former ones have the same sequence and number, and are left out. Those at the end may go on in the next segment.
    """
    held: list[int] = []
    for offset in source.index.offsets:
        frame, _ = source.frame(offset)
        if frame.part is Part.WHOLE or not frame.fragment:
            held = []
        held.append(offset)
        if frame.part is not Part.FRAGMENT:
            yield from held
            held = []
    yield from held


def _is_large(group: ChunkGroup) -> bool:
    return group.rows >= CHUNK_ROWS or group.transactions >= CHUNK_TRANSACTIONS or group.bytes >= CHUNK_BYTES


def _copy_start(source: SegmentReader, target: SegmentWriter) -> None:
    for _, frame, head in source.frames(0, source.index.end):
        if frame.kind == FrameKind.HEARTBEAT:
            place = json.loads(head)
            target.heartbeat(place["native"], place["resume"], place["time"])
        if frame.kind in (FrameKind.HEARTBEAT, FrameKind.CHUNK):
            return


def _write(source: SegmentReader, target: SegmentWriter, chunk: Chunk, fragment: int) -> None:
    def table_frame(rows: TableRows) -> TableFrame:
        return TableFrame(source.definition(rows.table, rows.version), rows.batch.schema)

    target.chunk(chunk, fragment, table_frame)


def main(directory: str) -> None:
    """Run the child process, which ends when its parent does."""

    def end_with_parent() -> None:
        os.read(0, 1)  # not sys.stdin, whose lock would be held at the interpreter's end
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    os.nice(10)
    try:
        pack_all(directory)
    except AnabranchError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1])
