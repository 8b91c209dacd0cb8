"""Keep objects as files below one directory, of this machine or shared by machines.

An object is written beside the others under a name that no listing shows, made durable, and gets its name by a link, which
fails where the name is taken: of several writers one succeeds, over NFS as well. File systems without hard links (FAT, some
shares) have the name looked at and then moved to, which is told by `creates_once`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from uuid import uuid4

from anabranch.config.store_urls import StoreUrl
from anabranch.errors import AnabranchError, ConfigError, Side
from anabranch.stores.contract import Found, Guarantees, ObjectExists, ObjectMissing
from anabranch.stores.failures import Failures
from anabranch.stores.folders import ABANDONED_S, SHARED, UPLOADS, Entry, below
from anabranch.stores.names import checked

BLOCK = 1 << 20
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_RIGHTS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_MISSING = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EINVAL})


def open_directory(url: StoreUrl, end: Side) -> DirectoryStore:
    """Open the store of `trail+objects:///DIRECTORY/NAME`. DIRECTORY has to be there; NAME is made with the first object."""
    return DirectoryStore(Path(url.path), end)


class DirectoryStore:
    """Files below `root`, whose parent has to be there: where a share is not mounted nothing is written into what is below.

    Delivery: `create` and `replace` return when file and folder are on the disk; readers see an object whole or not at all."""

    def __init__(self, root: Path, end: Side) -> None:
        self.root = root
        self._failures = Failures(end, str(root))
        self._look()
        self._is_tidy = False

    @cached_property
    def guarantees(self) -> Guarantees:
        """Say what the file system can do, which is tried by a link. Without the right to write it is the least."""
        return Guarantees(creates_once=self._has_links(), lists_at_once=True)

    def path(self, name: str = "") -> str:
        return str(self.root / name)

    def create(self, name: str, content: bytes) -> None:
        target = self.root / checked(name)
        with self._writing(name), self._uploaded(content) as upload:
            self._make(target.parent)
            if self.guarantees.creates_once:
                self._link(upload, target)
            elif target.exists():
                raise ObjectExists(name)
            else:
                os.rename(upload, target)
            _sync(target.parent)

    def replace(self, name: str, content: bytes) -> None:
        target = self.root / checked(name)
        with self._writing(name), self._uploaded(content) as upload:
            self._make(target.parent)
            os.replace(upload, target)
            _sync(target.parent)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with self._reading(name), (self.root / checked(name)).open("rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ObjectMissing(name)
            wanted = max(0, os.fstat(file.fileno()).st_size - offset)
            wanted = wanted if length is None else min(length, wanted)
            parts: list[bytes] = []
            while wanted and (part := os.pread(file.fileno(), wanted, offset)):
                parts.append(part)
                wanted, offset = wanted - len(part), offset + len(part)
            return b"".join(parts)

    def size(self, name: str) -> int:
        with self._reading(name):
            found = os.stat(self.root / checked(name))
            if not stat.S_ISREG(found.st_mode):
                raise ObjectMissing(name)
            return found.st_size

    def names(self, prefix: str = "") -> Iterator[Found]:
        """Yield objects in the order of their names; the names of a folder, and of those above it, are in memory."""
        with self._reading(prefix):
            self._look()
            yield from below(self._listed, prefix)

    def delete(self, name: str) -> None:
        path = self.root / checked(name)
        with self._writing(name), suppress(*_MISSING):
            os.unlink(path)
            _sync(path.parent)

    def close(self) -> None:
        return None

    def _look(self) -> None:
        """Raise ConfigError unless the directory is there into which the root belongs."""
        with self._writing(""):
            is_there = stat.S_ISDIR(os.stat(self.root.parent).st_mode)
        if not is_there:
            raise self._failures.wrong(f"{self.root.parent} is no directory", hint="name a directory")

    def _listed(self, folder: str) -> list[Entry]:
        found: list[Entry] = []
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.root / folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    found.append(Entry(entry.name, entry.is_dir(), entry.stat().st_size))
        return found

    @contextmanager
    def _uploaded(self, content: bytes) -> Iterator[Path]:
        """Write an upload, durably; it is gone afterwards, whatever happens."""
        self._make(self.root / UPLOADS)
        path = self.root / UPLOADS / f"{uuid4().hex}.tmp"
        try:
            with path.open("xb", buffering=0) as file:
                left = memoryview(content)
                while left:
                    left = left[file.write(left[:BLOCK]) :]
                os.fsync(file.fileno())
                now = os.fstat(file.fileno()).st_mtime
            self._tidy(now)
            yield path
        finally:
            with suppress(FileNotFoundError):
                path.unlink()

    def _link(self, upload: Path, target: Path) -> None:
        try:
            os.link(upload, target)
        except FileExistsError:
            # A server of files may have linked it and lost its answer; asked again it says that the name is taken.
            if os.stat(upload).st_nlink < 2:
                raise ObjectExists(target.relative_to(self.root).as_posix()) from None

    def _has_links(self) -> bool:
        try:
            with self._writing(UPLOADS), self._uploaded(b"") as upload:
                other = upload.with_suffix(".link")
                try:
                    os.link(upload, other)
                except OSError as error:
                    if error.errno not in _NO_LINKS:
                        raise
                    return False
                other.unlink()
                return True
        except ConfigError:
            return False

    def _tidy(self, now: float) -> None:
        """Remove uploads that were cut in half long ago, by the clock of the file system; once, with the first write."""
        if self._is_tidy:
            return
        self._is_tidy = True
        with os.scandir(self.root / UPLOADS) as entries:
            for entry in entries:
                with suppress(OSError):
                    if now - entry.stat().st_mtime > ABANDONED_S:
                        os.unlink(entry)

    def _make(self, folder: Path) -> None:
        """Make a folder and those above it up to the root, durably."""
        if folder.is_dir():
            return
        if folder != self.root:
            self._make(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o750)
            if folder.parent == self.root and folder.name in SHARED:
                folder.chmod(stat.S_IMODE(self.root.stat().st_mode))
        _sync(folder.parent)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(error, name) from error

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except _MISSING:
            self._look()
            raise ObjectMissing(name) from None
        except OSError as error:
            raise self._failed(error, name) from error

    def _failed(self, error: OSError, name: str) -> AnabranchError:
        what = f"{name}: {error.strerror}" if name else str(error.strerror)
        if error.errno in _FULL:
            return self._failures.full(what)
        if error.errno in _RIGHTS:
            return self._failures.wrong(what)
        if isinstance(error, _MISSING):
            hint = f"make the directory {self.root.parent}, or mount it"
            missing = name if name and self.root.parent.is_dir() else self.root.parent
            return self._failures.wrong(f"{missing} is not there", hint)
        return self._failures.away(what)


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
