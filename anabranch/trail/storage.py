"""Storage of the trail's bytes: a small interface, and local files behind it.

Offsets are the callers' business: a write that fails half-way leaves bytes that nobody is told about. Errors are
OSError here; `failures.py` makes them errors of the trail.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

Data = bytes | memoryview
LOOKS = 5  # at a small file that is replaced each time
_HERE = secrets.token_hex(
    4
)  # beside a process id: another machine, or container, that sees the directory has the same ids


class Readable(Protocol):
    def read(self, offset: int, length: int) -> bytes:
        """Read up to `length` bytes; fewer at the end of the file. FileNotFoundError where a network took it away."""

    def size(self) -> int: ...

    def is_replaced(self) -> bool:
        """Return whether its name is another file's by now."""

    def close(self) -> None: ...


class Writable(Protocol):
    def write_at(self, offset: int, parts: Sequence[Data]) -> None:
        """Write all parts one after another. When it raises, any of the bytes may be there."""

    def sync(self) -> None:
        """Make what was written survive a power failure."""

    def close(self) -> None: ...


class Storage(Protocol):
    """Named files of one trail; "readers/x" is a file in a folder. A missing file is FileNotFoundError.

    Delivery: names made by `create`, `make_folder`, `replace` and `rename` are durable on return, contents of `replace`
    too."""

    def path(self, name: str) -> str:
        """Return where a person finds the file."""

    def names(self, folder: str = "") -> list[str]: ...

    def create(self, name: str) -> Writable:
        """Create a new, empty file. Raises FileExistsError when it is there."""

    def make_folder(self, name: str) -> None:
        """Create a folder unless it is there."""

    def reopen(self, name: str) -> Writable: ...

    def open(self, name: str) -> Readable: ...

    def replace(self, name: str, content: bytes, *, is_durable: bool = True) -> None:
        """Replace the content of a small file: readers see the old one or the new one.

        With `is_durable` false it does not wait for the disk: after a power failure the file may be old or empty.
        """

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, name: str) -> None:
        """Remove a file. Readers that have it open keep reading."""


def _gone(error: OSError, path: Path) -> OSError:
    """Return a FileNotFoundError for a file that another machine has removed or replaced while we have it open: over a network
    its bytes are gone then."""
    return FileNotFoundError(error.errno, error.strerror, str(path)) if error.errno == errno.ESTALE else error


class _Descriptor:
    """A descriptor that is closed once, however often that is asked: its number may be somebody else's by then."""

    _fd = -1

    def close(self) -> None:
        handle, self._fd = self._fd, -1
        if handle >= 0:
            os.close(handle)

    def __del__(self) -> None:
        self.close()  # whoever forgot it would keep a descriptor, of which a process has few


class LocalReadable(_Descriptor):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        found = os.fstat(self._fd)
        self._file = found.st_dev, found.st_ino

    def read(self, offset: int, length: int) -> bytes:
        try:
            first = os.pread(self._fd, length, offset)
        except OSError as error:
            raise _gone(error, self._path) from None
        if len(first) == length or not first:
            return first
        return first + self.read(offset + len(first), length - len(first))

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            raise _gone(error, self._path) from None

    def is_replaced(self) -> bool:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) != self._file


class LocalWritable(_Descriptor):
    def __init__(self, path: Path, flags: int) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o640)

    def write_at(self, offset: int, parts: Sequence[Data]) -> None:
        waiting = [memoryview(part) for part in parts if len(part)]
        while waiting:
            written = os.pwritev(self._fd, waiting[:64], offset)
            offset += written
            while waiting and written >= len(waiting[0]):
                written -= len(waiting.pop(0))
            if written:
                waiting[0] = waiting[0][written:]

    def sync(self) -> None:
        os.fdatasync(self._fd)


class LocalStorage:
    """Files below one directory of a local file system."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def path(self, name: str) -> str:
        return str(self.directory / name)

    def names(self, folder: str = "") -> list[str]:
        try:
            return sorted(os.listdir(self.directory / folder))
        except FileNotFoundError:
            return []

    def create(self, name: str) -> Writable:
        writable = LocalWritable(self.directory / name, os.O_CREAT | os.O_EXCL)
        self._sync_folder(name)
        return writable

    def make_folder(self, name: str) -> None:
        path = self.directory / name
        if not path.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            self._sync_folder(name)

    def reopen(self, name: str) -> Writable:
        return LocalWritable(self.directory / name, 0)

    def open(self, name: str) -> Readable:
        return LocalReadable(self.directory / name)

    def replace(self, name: str, content: bytes, *, is_durable: bool = True) -> None:
        path = self.directory / name
        self.make_folder(os.path.dirname(name))
        temporary = path.with_name(f"{path.name}.{os.getpid()}-{_HERE}.tmp")
        writable = LocalWritable(temporary, os.O_CREAT | os.O_TRUNC)
        try:
            writable.write_at(0, [content])
            if is_durable:
                writable.sync()
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            writable.close()
        os.replace(temporary, path)
        if is_durable:
            self._sync_folder(name)

    def rename(self, old: str, new: str) -> None:
        os.rename(self.directory / old, self.directory / new)
        self._sync_folder(new)

    def remove(self, name: str) -> None:
        os.unlink(self.directory / name)
        self._sync_folder(name)

    def _sync_folder(self, name: str) -> None:
        fd = os.open((self.directory / name).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def read_whole(storage: Storage, name: str) -> bytes:
    """Return the content of a small file, also where it is replaced on another machine meanwhile."""
    for _ in range(LOOKS):
        readable = storage.open(name)
        try:
            return readable.read(0, readable.size())
        except FileNotFoundError:  # it was there a moment ago
            continue
        finally:
            readable.close()
    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), storage.path(name))
