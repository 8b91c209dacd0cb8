"""Keep objects on an FTP server, with TLS (`ftps`, by AUTH TLS) or without it (`ftp`).

The protocol has no step that fails where a name is taken, so a name is looked at first and then moved to, which is told by
`creates_once`. What is written stands under a name that no listing shows until all of its bytes are there. Listings are those
of MLSD (RFC 3659), whose lines mean the same at every server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ftplib import Error, error_perm, error_temp
from io import BytesIO
from typing import NoReturn
from uuid import uuid4

from anabranch.config.store_urls import StoreUrl
from anabranch.errors import Side
from anabranch.stores.contract import Found, Guarantees, ObjectExists, ObjectMissing
from anabranch.stores.failures import Failures
from anabranch.stores.folders import ABANDONED_S, UPLOADS, Entry, below, folders_of
from anabranch.stores.ftp_session import FtpSession, code_of, seconds_of
from anabranch.stores.names import checked

NO_FILE = ("550", "501")  # also where something is not allowed: what is there is then looked up in a listing
UNKNOWN = ("500", "502", "504")
ONE_STEP = "a server that lets a file be renamed to one that is there, in one step"


def open_ftp(url: StoreUrl, end: Side) -> FtpStore:
    """Open the store of `trail+ftp://…` or `trail+ftps://USER:PASSWORD@HOST/DIRECTORY/NAME`. DIRECTORY has to be there; NAME is
    made with the first object. Nothing is asked of the server yet."""
    shown = f"{url.kind}://{url.user}@{url.host}{'' if url.port == 21 else f':{url.port}'}{url.path}"
    failures = Failures(end, shown)
    return FtpStore(url, failures, FtpSession(url, failures))


class FtpStore:
    """Files below a directory of a server.

    Delivery: `create` and `replace` return when the server has said that it has all bytes, under the object's name; whether
    they are on its disk the protocol does not tell. Readers see an object whole or not at all."""

    guarantees = Guarantees(creates_once=False, lists_at_once=True)

    def __init__(self, url: StoreUrl, failures: Failures, session: FtpSession) -> None:
        self._path, self._failures, self._session = url.path, failures, session
        self._made: set[str] = set()
        self._is_tidy = False

    def path(self, name: str = "") -> str:
        return f"{self._failures.place}/{name}"

    def create(self, name: str, content: bytes) -> None:
        checked(name)
        with self._asking(name):
            with suppress(ObjectMissing):
                self._size(name)
                raise ObjectExists(name)
            self._write(name, content)

    def replace(self, name: str, content: bytes) -> None:
        checked(name)
        with self._asking(name):
            self._write(name, content)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        checked(name)
        with self._asking(name):
            left = max(0, self._size(name) - offset)
            if not left or length == 0:
                return b""
            if length is not None and length < left:
                return self._session.read(self._place(name), offset, length)
            content = self._session.read(self._place(name), offset, None)
            # A line of data that is cut looks like the end of the file, unless the server says so.
            if len(content) not in (left, max(0, self._size(name) - offset)):
                raise self._failures.away(f"{name}: the bytes end before their end")
            return content

    def size(self, name: str) -> int:
        with self._asking(checked(name)):
            return self._size(name)

    def names(self, prefix: str = "") -> Iterator[Found]:
        """Yield objects in the order of their names; the entries of a folder, and of those above it, are in memory."""
        with self._asking(""):
            self._look()
            yield from below(self._listed, prefix)

    def delete(self, name: str) -> None:
        with self._asking(checked(name)):
            try:
                self._session.ask(f"DELE {self._place(name)}")
            except error_perm:
                if self._is_file(name):
                    raise

    def close(self) -> None:
        self._session.close()

    def _place(self, name: str) -> str:
        root = self._path
        if root.startswith("/~/"):
            root = f"{self._session.home.rstrip('/')}/{root[3:]}"
        return f"{root}/{name}" if name else root

    @contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        """Translate what the server refuses."""
        with self._session.translated(name):
            yield

    def _look(self) -> None:
        """Raise ConfigError unless the directory is there into which the root belongs."""
        parent = self._place("").rpartition("/")[0] or "/"
        if not self._session.has_folder(parent):
            raise self._failures.wrong(f"the directory {parent} is not there", "make it at the server")

    def _size(self, name: str) -> int:
        try:
            return self._session.size(self._place(name))
        except error_perm as error:
            if code_of(error) not in NO_FILE or self._is_file(name):
                raise
        self._look()
        raise ObjectMissing(name)

    def _is_file(self, name: str) -> bool:
        """Look whether an object is there, since a refusal does not say it."""
        try:
            facts = self._session.ask(f"MLST {self._place(name)}").lower()
            return "type=file" in facts
        except error_perm as error:
            if code_of(error) not in UNKNOWN:
                return False
        folder, _, last = name.rpartition("/")
        return any(one.name == last and not one.is_folder for one in self._listed(folder))

    def _listed(self, folder: str) -> list[Entry]:
        try:
            return [
                Entry(name, facts.get("type", "").lower() == "dir", int(facts.get("size") or 0))
                for name, facts in self._session.listed(self._place(folder))
                if facts.get("type", "").lower() in ("dir", "file")
            ]
        except error_perm as error:
            if code_of(error) in UNKNOWN:
                raise self._failures.wrong("the server does not know MLSD", "one that lists by RFC 3659") from None
            if self._session.has_folder(self._place(folder)):
                raise
            return []

    def _write(self, name: str, content: bytes) -> None:
        self._make(UPLOADS, *folders_of(name))
        upload = self._place(f"{UPLOADS}/{uuid4().hex}.tmp")
        try:
            self._session.store(upload, BytesIO(content))
            if self._session.size(upload) != len(content):
                raise self._failures.away(f"{name}: the server has another number of bytes than were sent")
            self._tidy()
            self._rename(upload, name)
        except (error_perm, error_temp):
            self._made.clear()
            with suppress(Error, OSError, EOFError):  # then it goes when it is old
                self._session.ask(f"DELE {upload}")
            raise

    def _rename(self, upload: str, name: str) -> None:
        self._session.ask(f"RNFR {upload}")
        try:
            self._session.ask(f"RNTO {self._place(name)}")
        except error_perm:
            if not self._is_file(name):
                raise
            with suppress(Error):
                self._session.ask(f"DELE {upload}")
            self._cannot_replace(name)

    def _cannot_replace(self, name: str) -> NoReturn:
        raise self._failures.wrong(f"{name}: the server does not rename to a name that is taken", ONE_STEP) from None

    def _make(self, *folders: str) -> None:
        """Make the root and folders below it, unless they are there."""
        for folder in ("", *folders):
            if folder in self._made:
                continue
            path = self._place(folder)
            if not self._session.has_folder(path):
                if not folder:
                    self._look()
                try:
                    self._session.ask(f"MKD {path}")
                except error_perm:
                    if not self._session.has_folder(path):
                        raise
            self._made.add(folder)

    def _tidy(self) -> None:
        """Remove uploads that were cut in half long ago, by the clock of the server; once, with the first write."""
        if self._is_tidy:
            return
        self._is_tidy = True
        with suppress(error_perm):
            folder = self._place(UPLOADS)
            ages = {
                name: seconds_of(facts.get("modify", ""))
                for name, facts in self._session.listed(folder)
                if facts.get("type", "").lower() == "file"
            }
            newest = max(ages.values(), default=0.0)
            for name, changed in ages.items():
                if changed and newest - changed > ABANDONED_S:
                    self._session.ask(f"DELE {folder}/{name}")
