"""Hold a session with an FTP server, by ftplib: opened when it is needed, opened anew after a failure or a long rest."""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from ftplib import FTP, FTP_TLS, Error, error_perm, error_temp
from io import BytesIO
from typing import Any

from anabranch.config.store_urls import StoreUrl
from anabranch.errors import AnabranchError
from anabranch.stores.failures import Failures

SILENCE_S = 30.0  # without an answer
REST_S = 20.0  # after which a session is asked whether it is still there: servers end those that rest
BLOCK = 1 << 16
FULL = ("452", "552")
_NO_ROOM = re.compile("no space|disk full|quota", re.IGNORECASE)  # many servers have one code for every failed write
_LOGIN = ("530", "532", "331")


class FtpSession:
    """A session with a server. What the server refuses is ftplib's `Error`, which `translated` makes the project's."""

    def __init__(self, url: StoreUrl, failures: Failures) -> None:
        self._url, self._failures = url, failures
        self._context: ssl.SSLContext | None = None
        if url.kind == "ftps":
            authority = url.option("ssl_ca") or None
            if authority and not os.access(authority, os.R_OK):
                raise failures.wrong(f"the file {authority} cannot be read", "the option ssl_ca names a file (PEM)")
            try:
                self._context = ssl.create_default_context(cafile=authority)
            except ssl.SSLError:
                raise failures.wrong(f"the file {authority} is no authority", "the option ssl_ca names a PEM") from None
        self._open: FTP | None = None
        self._used = 0.0
        self._home = ""

    @property
    def home(self) -> str:
        """Return the directory in which a session begins."""
        self._server()
        return self._home

    def ask(self, command: str) -> str:
        """Return the answer to a command."""
        return self._server().sendcmd(command)

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return int(self.ask(f"SIZE {path}").split()[1])

    def has_folder(self, path: str) -> bool:
        """Return whether a session may enter a folder. Every path is absolute, so that it may stay there."""
        try:
            self.ask(f"CWD {path}")
        except error_perm:
            return False
        return True

    def listed(self, path: str) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield names and facts of what is in a folder."""
        server = self._server()
        found = list(server.mlsd(path))
        server.voidcmd("TYPE I")  # in the type of listings sizes are refused
        return iter(found)

    def store(self, path: str, content: BytesIO) -> None:
        """Write a file. Raises what the server says where it ends the line of data in the middle."""
        server = self._server()
        try:
            server.storbinary(f"STOR {path}", content, BLOCK)
        except (BrokenPipeError, ConnectionResetError):
            server.voidresp()
            raise

    def read(self, path: str, offset: int, length: int | None) -> bytes:
        """Return bytes of a file; of a part the rest is left where it is, and with it the session."""
        server, parts = self._server(), bytearray()
        if length is None:
            server.retrbinary(f"RETR {path}", parts.extend, BLOCK, offset or None)
            return bytes(parts)
        with server.transfercmd(f"RETR {path}", offset or None) as line:
            while len(parts) < length and (part := line.recv(min(BLOCK, length - len(parts)))):
                parts.extend(part)
        if len(parts) < length:
            server.voidresp()  # says whether it was the end of the file, or of the line
        else:
            self._drop()
        return bytes(parts)

    def close(self) -> None:
        if self._open is not None:
            with suppress(Error, OSError, EOFError):
                self._open.quit()
        self._drop()

    @contextmanager
    def translated(self, name: str) -> Iterator[None]:
        """Make errors of the session those of the project, and end a session that is out of step."""
        what = f"{name}: " * bool(name)
        try:
            yield
        except error_perm as error:
            raise self._refused(what, code_of(error)) from None
        except error_temp as error:
            self._drop()
            if code_of(error) in FULL or _NO_ROOM.search(str(error)):
                raise self._failures.full(f"{what}no room is left") from None
            raise self._failures.away(f"{what}the server answers {code_of(error)}") from None
        except ssl.SSLCertVerificationError:
            self._drop()
            hint = "name the authority (PEM) with the option ssl_ca, and the server by the name in its certificate"
            raise self._failures.wrong("the server's certificate is not trusted", hint) from None
        except TimeoutError:
            self._drop()
            raise self._failures.away(f"{what}no answer within {SILENCE_S:g} s") from None
        except (ConnectionRefusedError, socket.gaierror):
            self._drop()
            raise self._failures.away("it cannot be reached") from None
        except (Error, EOFError, OSError, ValueError):
            self._drop()
            raise self._failures.away(f"{what}the line was cut before the answer") from None

    def _refused(self, what: str, code: str) -> AnabranchError:
        if code in FULL:
            return self._failures.full(f"{what}no room is left")
        if code in _LOGIN:
            self._drop()
            return self._failures.wrong("the login is refused", "check user and password of the URL")
        return self._failures.wrong(f"{what}the server refuses it ({code})")

    def _server(self) -> FTP:
        if self._open is not None and time.monotonic() - self._used > REST_S:
            try:
                self._open.voidcmd("NOOP")
            except (Error, OSError, EOFError):
                self._drop()
        if self._open is None:
            self._open = self._opened()
        self._used = time.monotonic()
        return self._open

    def _opened(self) -> FTP:
        server = FTP(timeout=SILENCE_S) if self._context is None else _Tls(context=self._context, timeout=SILENCE_S)
        try:
            server.connect(self._url.host, self._url.port)
            server.login(self._url.user, self._url.password)
            if isinstance(server, FTP_TLS):
                server.prot_p()
            server.voidcmd("TYPE I")
            self._home = server.pwd()
        except BaseException:  # whatever it was: closed, and passed on
            server.close()
            raise
        return server

    def _drop(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None


class _Tls(FTP_TLS):
    """Let lines of data go on with the session of TLS, which some servers demand."""

    def ntransfercmd(self, cmd: str, rest: int | str | None = None) -> tuple[socket.socket, int | None]:
        line, size = FTP.ntransfercmd(self, cmd, rest)
        control: Any = self.sock
        return self.context.wrap_socket(line, server_hostname=self.host, session=control.session), size


def code_of(error: Error) -> str:
    """Return the three digits of a server's answer."""
    return str(error)[:3]


def seconds_of(fact: str) -> float:
    """Return the time that a listing says, as "20260102030405"; 0 for none."""
    try:
        return datetime.strptime(fact[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
