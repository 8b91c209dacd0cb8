"""Keep objects on an SFTP server.

An object is written beside the others under a name that no listing shows, made durable where the server can do that
(fsync@openssh.com), and gets its name by a hard link (hardlink@openssh.com), which fails where the name is taken. Other servers
have the name looked at and then moved to, which is told by `creates_once`. An object is replaced in one step
(posix-rename@openssh.com) or not at all.
"""

from __future__ import annotations

import stat
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TypeVar
from uuid import uuid4

from asyncssh import (
    SFTPAttrs,
    SFTPClient,
    SFTPError,
    SFTPFailure,
    SFTPFileAlreadyExists,
    SFTPNoSpaceOnFilesystem,
    SFTPNoSuchFile,
    SFTPNoSuchPath,
    SFTPOpUnsupported,
    SFTPPermissionDenied,
    SFTPQuotaExceeded,
    SFTPWriteProtect,
)

from anabranch.config.store_urls import StoreUrl
from anabranch.errors import AnabranchError, ConfigError, Side
from anabranch.stores.contract import Found, Guarantees, ObjectExists, ObjectMissing
from anabranch.stores.failures import Failures
from anabranch.stores.folders import ABANDONED_S, SHARED, UPLOADS, Entry, below, folders_of
from anabranch.stores.names import checked
from anabranch.stores.sftp_session import ROOM_LEFT, SftpSession

T = TypeVar("T")
_MISSING = (SFTPNoSuchFile, SFTPNoSuchPath)
_FULL = (SFTPNoSpaceOnFilesystem, SFTPQuotaExceeded)
_RIGHTS = (SFTPPermissionDenied, SFTPWriteProtect)


def open_sftp(url: StoreUrl, end: Side) -> SftpStore:
    """Open the store of `trail+sftp://USER@HOST/DIRECTORY/NAME`. DIRECTORY has to be there; NAME is made with the first
    object. Nothing is asked of the server yet."""
    shown = f"sftp://{url.user}@{url.host}{'' if url.port == 22 else f':{url.port}'}{url.path}"
    return SftpStore(url, Failures(end, shown))


class SftpStore:
    """Files below a directory of a server.

    Delivery: `create` and `replace` return when the server has the object under its name, and on its disk where it knows
    fsync@openssh.com; readers see an object whole or not at all."""

    def __init__(self, url: StoreUrl, failures: Failures) -> None:
        self.root = url.path.removeprefix("/~/")  # a session begins in the login's directory
        self._failures = failures
        self._session = SftpSession(url, failures)
        self._made: set[str] = set()
        self._is_tidy = False

    @cached_property
    def guarantees(self) -> Guarantees:
        """Say what the server can do, which is tried by a link. Without the right to write it is the least."""
        try:
            return Guarantees(self._asked(UPLOADS, self._has_links), lists_at_once=True)
        except ConfigError:
            return Guarantees(creates_once=False, lists_at_once=True)

    def path(self, name: str = "") -> str:
        return f"{self._failures.place}/{name}"

    def create(self, name: str, content: bytes) -> None:
        checked(name)
        named = self._link if self.guarantees.creates_once else self._rename
        self._written(name, content, named)

    def replace(self, name: str, content: bytes) -> None:
        checked(name)

        async def named(client: SFTPClient, upload: str, name: str) -> None:
            await client.posix_rename(upload, self._place(name))

        self._written(name, content, named)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        path = self._place(checked(name))

        async def work(client: SFTPClient) -> bytes:
            try:
                async with client.open(path, "rb") as file:
                    # Of the open file: the name may be another one's by now.
                    left = max(0, _size_of(await file.stat(), name) - offset)
                    content = await file.read(left if length is None else min(left, length), offset)
                    return content if isinstance(content, bytes) else content.encode()
            except SFTPFailure:
                await self._size(client, name)  # some servers do not open a folder
                raise

        return self._asked(name, work)

    def size(self, name: str) -> int:
        checked(name)
        return self._asked(name, lambda client: self._size(client, name))

    def names(self, prefix: str = "") -> Iterator[Found]:
        """Yield objects in the order of their names; the entries of a folder, and of those above it, are in memory."""
        self._asked("", self._look)
        return below(lambda folder: self._asked("", lambda client: self._listed(client, folder)), prefix)

    def delete(self, name: str) -> None:
        path = self._place(checked(name))

        async def work(client: SFTPClient) -> None:
            with suppress(*_MISSING, ObjectMissing):
                await self._size(client, name)
                await client.remove(path)

        self._asked(name, work)

    def close(self) -> None:
        self._session.close()

    def _place(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _asked(self, name: str, work: Callable[[SFTPClient], Awaitable[T]]) -> T:
        """Run work, and translate what the server refuses."""

        async def told(client: SFTPClient) -> T:
            try:
                return await work(client)
            except _MISSING:
                await self._look(client)
                raise ObjectMissing(name) from None

        try:
            return self._session.call(told)
        except SFTPError as error:
            raise self._failed(error, name) from None

    def _failed(self, error: SFTPError, name: str) -> AnabranchError:
        what = f"{name}: " * bool(name)
        if isinstance(error, _FULL):
            return self._failures.full(f"{what}no room is left")
        if isinstance(error, _RIGHTS):
            return self._failures.wrong(f"{what}permission denied")
        if isinstance(error, SFTPOpUnsupported):
            hint = "a server that knows posix-rename@openssh.com, as OpenSSH's does"
            return self._failures.wrong(f"{what}the server cannot replace a file in one step", hint)
        return self._failures.away(f"{what}the server answers with status {error.code}")

    async def _look(self, client: SFTPClient) -> None:
        """Raise ConfigError unless the directory is there into which the root belongs."""
        parent = self.root.rpartition("/")[0] or ("/" if self.root.startswith("/") else ".")
        try:
            found = await client.stat(parent)
        except _MISSING:
            found = SFTPAttrs()
        if not stat.S_ISDIR(found.permissions or 0):
            raise self._failures.wrong(f"the directory {parent} is not there", "make it at the server")

    async def _size(self, client: SFTPClient, name: str) -> int:
        return _size_of(await client.stat(self._place(name)), name)

    async def _listed(self, client: SFTPClient, folder: str) -> list[Entry]:
        found: list[Entry] = []
        with suppress(*_MISSING):
            async for entry in client.scandir(self._place(folder)):
                mode, name = entry.attrs.permissions or 0, entry.filename
                text = name if isinstance(name, str) else name.decode()
                if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                    found.append(Entry(text, stat.S_ISDIR(mode), entry.attrs.size or 0))
        return found

    def _written(self, name: str, content: bytes, named: Callable[[SFTPClient, str, str], Awaitable[None]]) -> None:
        async def once(client: SFTPClient) -> None:
            await self._make(client, UPLOADS, *folders_of(name))
            upload = await self._uploaded(client, content)
            try:
                await named(client, upload, name)
            finally:
                with suppress(SFTPError):  # moved away already, or it goes when it is old
                    await client.remove(upload)

        async def work(client: SFTPClient) -> None:
            try:
                await once(client)
            except _MISSING:  # somebody has removed a folder
                self._made.clear()
                await once(client)

        try:
            self._asked(name, work)
        except ObjectMissing:
            raise self._failures.away(f"{name}: its folder is removed again and again") from None

    async def _uploaded(self, client: SFTPClient, content: bytes) -> str:
        """Write an upload, durably where the server can, and return its path."""
        path = self._place(f"{UPLOADS}/{uuid4().hex}.tmp")
        try:
            async with client.open(path, "xb") as file:
                await file.write(content)
                with suppress(SFTPOpUnsupported):
                    await file.fsync()
        except SFTPFailure:
            with suppress(SFTPError):
                await client.remove(path)
            if await self._is_full(client, len(content)):
                raise SFTPNoSpaceOnFilesystem("") from None
            raise
        await self._tidy(client, path)
        return path

    async def _is_full(self, client: SFTPClient, wanted: int) -> bool:
        """Return whether there is no room for so many bytes: OpenSSH calls every failure by the same name."""
        with suppress(SFTPError):
            room = await client.statvfs(self.root)
            return room.bavail * room.frsize < wanted + ROOM_LEFT
        return False

    async def _link(self, client: SFTPClient, upload: str, name: str) -> None:
        await self._named(client, name, client.link(upload, self._place(name)))

    async def _rename(self, client: SFTPClient, upload: str, name: str) -> None:
        if await client.exists(self._place(name)):
            raise ObjectExists(name)
        await self._named(client, name, client.rename(upload, self._place(name)))

    async def _named(self, client: SFTPClient, name: str, step: Awaitable[None]) -> None:
        """Do what gives an object its name. Raises ObjectExists where the name is taken, which servers call a failure."""
        try:
            await step
        except SFTPFileAlreadyExists:
            raise ObjectExists(name) from None
        except SFTPFailure:
            if await client.exists(self._place(name)):
                raise ObjectExists(name) from None
            raise

    async def _has_links(self, client: SFTPClient) -> bool:
        """Link an upload twice: the second has to be refused."""
        await self._make(client, UPLOADS)
        upload = await self._uploaded(client, b"")
        other = f"{upload}.link"
        try:
            await client.link(upload, other)
            await client.link(upload, other)
        except SFTPPermissionDenied:
            raise
        except SFTPError:
            return await client.exists(other)
        finally:
            for path in (other, upload):
                with suppress(SFTPError):
                    await client.remove(path)
        return False

    async def _make(self, client: SFTPClient, *folders: str) -> None:
        """Make the root and folders below it, unless they are there."""
        for folder in ("", *folders):
            if folder in self._made:
                continue
            if not await client.isdir(self._place(folder)):
                try:
                    await client.mkdir(self._place(folder))
                    await self._share(client, folder)
                except (SFTPFailure, SFTPFileAlreadyExists):
                    if not await client.isdir(self._place(folder)):
                        raise
            self._made.add(folder)

    async def _share(self, client: SFTPClient, folder: str) -> None:
        """Give a folder the mode of the root where it is one that readers write, too."""
        if folder in SHARED:
            with suppress(SFTPError):
                mode = (await client.stat(self._place(""))).permissions
                if mode is not None:
                    await client.chmod(self._place(folder), stat.S_IMODE(mode))

    async def _tidy(self, client: SFTPClient, newest: str) -> None:
        """Remove uploads that were cut in half long ago, by the clock of the server; once, with the first write."""
        if self._is_tidy:
            return
        self._is_tidy = True
        with suppress(SFTPError):
            now = (await client.stat(newest)).mtime or 0
            folder = self._place(UPLOADS)
            async for entry in client.scandir(folder):
                is_file = stat.S_ISREG(entry.attrs.permissions or 0)
                if is_file and now - (entry.attrs.mtime or now) > ABANDONED_S:
                    name = entry.filename
                    await client.remove(f"{folder}/{name if isinstance(name, str) else name.decode()}")


def _size_of(found: SFTPAttrs, name: str) -> int:
    if not stat.S_ISREG(found.permissions or 0) or found.size is None:
        raise ObjectMissing(name)
    return found.size
