"""Keep objects in HDFS, by WebHDFS.

An object is written beside the others under a name that no listing shows, brought to the data nodes' disks, and gets its name
by a rename that the name node refuses where the name is taken, or that replaces it: each is one step of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

from anabranch.config.store_urls import StoreUrl
from anabranch.errors import Side
from anabranch.stores.contract import Found, Guarantees, ObjectExists, ObjectMissing
from anabranch.stores.failures import Failures
from anabranch.stores.folders import ABANDONED_S, SHARED, UPLOADS, Entry, below, folders_of
from anabranch.stores.hdfs_session import HdfsSession, Refused
from anabranch.stores.names import checked

MISSING, TAKEN = "FileNotFoundException", "FileAlreadyExistsException"


def open_hdfs(url: StoreUrl, end: Side) -> HdfsStore:
    """Open the store of `trail+hdfs://USER@NAMENODE/DIRECTORY/NAME`. DIRECTORY has to be there; NAME is made with the first
    object. Nothing is asked of the server yet."""
    shown = f"hdfs://{url.user}@{url.host}{'' if url.port == 9870 else f':{url.port}'}{url.path}"
    failures = Failures(end, shown)
    return HdfsStore(url.path, failures, HdfsSession(url, failures))


class HdfsStore:
    """Files below a directory of HDFS.

    Delivery: `create` and `replace` return when the data nodes have the bytes on their disks and the name node the name;
    readers see an object whole or not at all."""

    guarantees = Guarantees(creates_once=True, lists_at_once=True)

    def __init__(self, root: str, failures: Failures, session: HdfsSession) -> None:
        self._root, self._failures, self._session = root, failures, session
        self._made: set[str] = set()
        self._is_tidy = False

    def path(self, name: str = "") -> str:
        return f"{self._failures.place}/{name}"

    def create(self, name: str, content: bytes) -> None:
        self._write(checked(name), content, "NONE")

    def replace(self, name: str, content: bytes) -> None:
        self._write(checked(name), content, "OVERWRITE")

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        with self._asking(checked(name)):
            for is_last in (False, False, True):
                size = self._size(name)
                wanted = max(0, size - offset if length is None else min(size - offset, length))
                if not wanted:
                    return b""
                try:
                    content = self._session.fetch(self._place(name), offset, wanted)
                except Refused:
                    if is_last:
                        raise
                    continue
                # It may have been replaced between the requests: then it is asked for anew.
                if len(content) == wanted and self._size(name) == size:
                    return content
            raise self._failures.away(f"{name}: it is replaced again and again")

    def size(self, name: str) -> int:
        with self._asking(checked(name)):
            return self._size(name)

    def names(self, prefix: str = "") -> Iterator[Found]:
        """Yield objects in the order of their names; the entries of a folder, and of those above it, are in memory."""
        with self._asking(""):
            self._look()
            yield from below(self._listed, prefix)

    def delete(self, name: str) -> None:
        with self._asking(checked(name)), suppress(ObjectMissing):
            self._size(name)
            self._session.ask("DELETE", self._place(name), "DELETE")

    def close(self) -> None:
        return None

    def _place(self, name: str) -> str:
        """Return the path of an object. HDFS has no ":" in names."""
        return f"{self._root}/{name.replace('%', '%25').replace(':', '%3A')}" if name else self._root

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        """Translate what the server refuses."""
        with self._session.translated(name):
            try:
                yield
            except Refused as error:
                if error.kind == TAKEN:
                    raise ObjectExists(name) from None
                if error.kind != MISSING:
                    raise
                self._look()
                raise ObjectMissing(name) from None

    def _look(self) -> None:
        """Raise ConfigError unless the directory is there into which the root belongs."""
        parent = self._root.rpartition("/")[0] or "/"
        try:
            found = self._session.ask("GET", parent, "GETFILESTATUS")["FileStatus"]["type"]
        except Refused as error:
            if error.kind != MISSING:
                raise
            found = ""
        if found != "DIRECTORY":
            raise self._failures.wrong(f"the directory {parent} is not there", "make it, for the user of the URL")

    def _size(self, name: str) -> int:
        found = self._session.ask("GET", self._place(name), "GETFILESTATUS")["FileStatus"]
        if found["type"] != "FILE":
            raise ObjectMissing(name)
        return int(found["length"])

    def _listed(self, folder: str) -> list[Entry]:
        return [
            Entry(_name_of(one), one["type"] == "DIRECTORY", int(one["length"]))
            for one in self._statuses(self._place(folder))
            if one["pathSuffix"]  # of a file there is its own
        ]

    def _statuses(self, path: str) -> Iterator[dict[str, Any]]:
        """Yield what the name node says of the entries of a folder, by its own pages; nothing where it is not there."""
        after: dict[str, str | int] = {}
        with _unless_missing():
            while True:
                page = self._session.ask("GET", path, "LISTSTATUS_BATCH", **after)["DirectoryListing"]
                found = page["partialListing"]["FileStatuses"]["FileStatus"]
                yield from found
                if not found or not page["remainingEntries"]:
                    return
                after = {"startAfter": found[-1]["pathSuffix"]}

    def _write(self, name: str, content: bytes, renaming: str) -> None:
        with self._asking(name):
            try:
                self._write_once(name, content, renaming)
            except Refused as error:
                if error.kind != MISSING:
                    raise
                self._made.clear()  # somebody has removed a folder
                self._write_once(name, content, renaming)

    def _write_once(self, name: str, content: bytes, renaming: str) -> None:
        self._make(UPLOADS, *folders_of(name)[-1:])
        upload = self._place(f"{UPLOADS}/{uuid4().hex}.tmp")
        try:
            self._session.send(upload, content)
            if self._session.ask("GET", upload, "GETFILESTATUS")["FileStatus"]["length"] != len(content):
                raise self._failures.away(f"{name}: the server has another number of bytes than were sent")
            self._tidy(upload)
            self._session.ask("PUT", upload, "RENAME", destination=self._place(name), renameoptions=renaming)
        except Refused:
            with suppress(Refused, OSError):  # then it goes when it is old
                self._session.ask("DELETE", upload, "DELETE")
            raise

    def _make(self, *folders: str) -> None:
        """Make the root and folders below it, unless they are there."""
        for folder in ("", *folders):
            if folder in self._made:
                continue
            if not folder:
                self._look()
            mode = "750"
            if folder in SHARED:
                mode = self._session.ask("GET", self._place(""), "GETFILESTATUS")["FileStatus"]["permission"]
            self._session.ask("PUT", self._place(folder), "MKDIRS", permission=mode)
            self._made.add(folder)

    def _tidy(self, newest: str) -> None:
        """Remove uploads that were cut in half long ago, by the clock of the name node; once, with the first write."""
        if self._is_tidy:
            return
        self._is_tidy = True
        now = self._session.ask("GET", newest, "GETFILESTATUS")["FileStatus"]["modificationTime"]
        folder = self._place(UPLOADS)
        for one in self._statuses(folder):
            if one["type"] == "FILE" and now - one["modificationTime"] > ABANDONED_S * 1000:
                self._session.ask("DELETE", f"{folder}/{one['pathSuffix']}", "DELETE")


def _name_of(status: dict[str, Any]) -> str:
    return str(status["pathSuffix"]).replace("%3A", ":").replace("%25", "%")


@contextmanager
def _unless_missing() -> Iterator[None]:
    try:
        yield
    except Refused as error:
        if error.kind != MISSING:
            raise
