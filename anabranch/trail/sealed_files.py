"""Encrypted files that are no files of frames: sealed in pieces one behind the other, read at any place again.

In front stands a header that can be read: whose file it is, under which name, and its wrapped data key. Each piece is sealed
for its number and for whether another one follows: what was cut, extended, exchanged inside the file or put in from another
one is refused. What does not live here: the cipher (`sealing.py`), keys (`keys.py`), which file belongs where.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from anabranch.errors import TrailCorrupt
from anabranch.trail import identity, sealing
from anabranch.trail.format import to_json
from anabranch.trail.sealing import TAG, Seal, Tampered
from anabranch.trail.storage import Data, Storage, read_whole

MAGIC = b"\x89anaSEAL"
PIECE = 1 << 20  # bytes that are sealed at once
JSON = ".json"
USUAL = 2048  # bytes that most headers fit into
LONGEST = 1 << 16  # bytes of a header
_LENGTH = struct.Struct("<I")


def header_for(storage: Storage, name: str) -> dict[str, Any]:
    """Return the facts that a file of this name in the trail is bound to."""
    found = identity.load(storage)
    return {"name": name} | ({"job": found.job, "job_uuid": found.job_uuid} if found else {})


def opened(storage: Storage, name: str, header: Mapping[str, Any]) -> Seal:
    """Return the seal of the file of this name. Raises Tampered for another file's header, TrailKeyMissing."""
    if header.get("name") != name:
        raise Tampered(f"it was written as {header.get('name')}: it is not the file that was written here")
    found = identity.load(storage)
    if found and "job_uuid" in header and header["job_uuid"] != found.job_uuid:
        raise Tampered(f"it belongs to job {header.get('job')} ({header['job_uuid']}), the trail to {found.job}")
    seal = sealing.opened(storage, header, f"{name} ({storage.path(name)})")
    if seal is None:
        raise Tampered("its header says nothing of its encryption")
    return seal


def header_of(data: bytes) -> tuple[dict[str, Any], int]:
    """Return the header of a file that begins with MAGIC, and where its pieces begin. Raises Tampered."""
    with suppress(ValueError, struct.error):
        (length,) = _LENGTH.unpack_from(data, len(MAGIC))
        begin = len(MAGIC) + _LENGTH.size
        found = json.loads(data[begin : begin + length])
        if length <= LONGEST and isinstance(found, dict):
            return found, begin + length
    raise Tampered("its header cannot be read")


def header_in(storage: Storage, name: str) -> Mapping[str, Any] | None:
    """Return the header of an encrypted file, or of a small one that names it in JSON; None for one that is not encrypted.
    Raises Tampered, FileNotFoundError."""
    if not name.endswith(JSON):
        file = storage.open(name)
        try:
            data = file.read(0, USUAL)
            if data.startswith(MAGIC) and len(data) == USUAL and _LENGTH.unpack_from(data, len(MAGIC))[0] > USUAL - 64:
                data = file.read(0, LONGEST + 64)
        finally:
            file.close()
        return header_of(data)[0] if data.startswith(MAGIC) else None
    with suppress(ValueError, KeyError, TypeError, AttributeError):  # not encrypted, or told by who reads it
        found = json.loads(read_whole(storage, name))
        header = found if sealing.FACTS in found else found["sealed"]["header"]
        return header if isinstance(header, dict) else None
    return None


class SealedWriter(io.RawIOBase):
    """Writes a file in pieces, for who writes one byte behind the other. It is whole once `finish` has returned."""

    def __init__(self, sink: Any, seal: Seal, header: Mapping[str, Any]) -> None:
        self._sink, self._seal = sink, seal
        self._held, self._number, self._length = bytearray(), 0, 0
        facts = to_json(dict(header))
        self._sink.write(MAGIC + _LENGTH.pack(len(facts)) + facts)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._length

    def write(self, data: Any) -> int:
        self._held += data
        self._length += len(data)
        if len(self._held) > PIECE:
            view, at = memoryview(self._held), 0
            while len(view) - at > PIECE:  # the last piece stays: it is told from others
                self._put(view[at : at + PIECE], is_last=False)
                at += PIECE
            rest = bytes(view[at:])
            view.release()
            self._held = bytearray(rest)
        return len(data)

    def finish(self) -> None:
        """Write the last piece."""
        self._put(memoryview(self._held), is_last=True)
        self._held = bytearray()

    def _put(self, piece: Data, *, is_last: bool) -> None:
        self._sink.write(self._seal.piece(self._number, is_last, piece))
        self._number += 1


class SealedReader(io.RawIOBase):
    """The content of such a file, read at any place. Not for several threads."""

    def __init__(self, path: Path, storage: Storage, name: str) -> None:
        """Open the file. Raises FileNotFoundError, TrailKeyMissing, TrailCorrupt."""
        self._path, self._at, self._piece = path, 0, (-1, b"")
        self._file = path.open("rb")
        try:
            with self._telling():
                header, self._begin = header_of(self._file.read(LONGEST + 64))
                self._seal = opened(storage, name, header)
            closed = self._file.seek(0, io.SEEK_END) - self._begin
            self._pieces = max(1, -(-closed // (PIECE + TAG)))
            self._length = closed - self._pieces * TAG
            self._loaded(self._pieces - 1)  # says that nothing behind it is missing
        except BaseException:  # whatever it was: let go, and passed on
            self._file.close()
            raise

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view, done = memoryview(buffer).cast("B"), 0
        while done < len(view) and self._at < self._length:
            number, inside = divmod(self._at, PIECE)
            found = memoryview(self._loaded(number))[inside : inside + len(view) - done]
            view[done : done + len(found)] = found
            done, self._at = done + len(found), self._at + len(found)
        return done

    def close(self) -> None:
        self._file.close()
        super().close()

    def _loaded(self, number: int) -> bytes:
        if self._piece[0] != number:
            self._file.seek(self._begin + number * (PIECE + TAG))
            closed, is_last = self._file.read(PIECE + TAG), number == self._pieces - 1
            with self._telling():
                self._piece = number, self._seal.open_piece(number, is_last, closed)
        return self._piece[1]

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except Tampered as error:
            raise TrailCorrupt(f"{self._path}: {error}") from None


def is_sealed(path: Path) -> bool:
    """Return whether a file begins as an encrypted one. Raises FileNotFoundError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
