"""Hold a session with an SFTP server, by asyncssh: the host's key is checked, what fails is told in our words.

The library is asynchronous and stores are not, so a thread of the session's own runs it; that also answers the server while
nobody asks for anything. After a failure the next call opens a new session.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import asyncssh

from anabranch.config.store_urls import StoreUrl
from anabranch.errors import AnabranchError
from anabranch.stores.failures import Failures

T = TypeVar("T")
CONNECT_S, LOGIN_S = 10.0, 30.0
ALIVE_S, MISSED = 15.0, 3  # a server that has not answered so many questions, so many seconds apart, is away
LONGEST_S = 900.0  # one call
CLOSE_S = 5.0  # a session that ends in order, then it is cut
ROOM_LEFT = 1 << 16  # bytes; with less a server that only says "failure" is taken to be full
_HOST_KEYS = (
    "compare its fingerprint with the server's, then put it into known_hosts, or host_key=SHA256:… into the URL"
)
_LOST = (asyncssh.ConnectionLost, asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection)


class SftpSession:
    """A session that is opened when it is first needed. `call` runs work in it, which is given its client."""

    def __init__(self, url: StoreUrl, failures: Failures) -> None:
        self._url, self._failures = url, failures
        self._options = _options(url, failures)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="anabranch-sftp", daemon=True)
        self._connection: asyncssh.SSHClientConnection | None = None
        self._client: asyncssh.SFTPClient | None = None
        self._shown = ""

    def call(self, work: Callable[[asyncssh.SFTPClient], Awaitable[T]]) -> T:
        """Return what `work` returns. Raises its SFTPError where the server refuses a step, and errors of the project for the
        rest."""
        if not self._thread.is_alive():
            self._thread.start()
        future = asyncio.run_coroutine_threadsafe(self._run(work), self._loop)
        try:
            return future.result(LONGEST_S)
        except TimeoutError:  # the session answers, its SFTP does not
            raise self._given_up() from None
        finally:
            future.cancel()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()

    async def _run(self, work: Callable[[asyncssh.SFTPClient], Awaitable[T]]) -> T:
        try:
            client = self._client or await self._opened()
            return await work(client)
        except asyncssh.SFTPError as error:
            if isinstance(error, _LOST):
                raise self._dropped("the line was cut before the answer") from None
            raise
        except (asyncssh.Error, OSError, asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            raise self._translated(error) from None

    async def _opened(self) -> asyncssh.SFTPClient:
        self._connection, _ = await asyncssh.create_connection(
            lambda: _Client(self), self._url.host, self._url.port, options=None, **self._options
        )
        self._client = await self._connection.start_sftp_client()
        return self._client

    async def _end(self) -> None:
        """End the session in order, or cut it where the server takes no part in that."""
        if (connection := self._connection) is not None:
            connection.close()
            with suppress(TimeoutError):
                await asyncio.wait_for(connection.wait_closed(), CLOSE_S)
            connection.abort()
        self._connection = self._client = None

    def _given_up(self) -> AnabranchError:
        """Cut the session on its own thread: what hangs in it ends with it."""

        async def cut() -> AnabranchError:
            return self._dropped(f"no answer within {LONGEST_S:g} s")

        return asyncio.run_coroutine_threadsafe(cut(), self._loop).result()

    def _dropped(self, why: str) -> AnabranchError:
        if self._connection is not None:
            self._connection.abort()
        self._connection = self._client = None
        return self._failures.away(why)

    def _translated(self, error: Exception) -> AnabranchError:
        self._dropped("")
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            shown = f" ({self._shown})" if self._shown else ""
            return self._failures.wrong(f"the server shows a host key that is not known{shown}", _HOST_KEYS)
        if isinstance(error, asyncssh.PermissionDenied):
            return self._failures.wrong("the login is refused", "check user, password and key of the URL")
        if isinstance(error, asyncssh.KeyImportError | asyncssh.KeyEncryptionError):
            return self._failures.wrong("the key cannot be used", "check the options key and key_passphrase of the URL")
        if isinstance(error, asyncssh.ChannelOpenError):
            return self._failures.wrong("the server lets nobody use SFTP", "switch its subsystem sftp on for the user")
        if isinstance(error, TimeoutError):
            return self._failures.away("no answer within the time for it")
        if isinstance(error, OSError) and not isinstance(error, ConnectionError) and error.filename:
            return self._failures.wrong(f"the file {error.filename} cannot be read", "check the options of the URL")
        if isinstance(error, OSError):
            return self._failures.away(
                f"it cannot be reached ({os.strerror(error.errno) if error.errno else 'no address'})"
            )
        if isinstance(error, _LOST):
            return self._failures.away("the line was cut before the answer")
        return self._failures.away(f"the session ended ({type(error).__name__})")

    def is_expected(self, key: asyncssh.SSHKey) -> bool:
        """Return whether a host key is one that the URL names. It is kept, so that a message can tell it."""
        self._shown = key.get_fingerprint()
        return self._shown in self._url.option("host_key").replace(" ", "").split(",")


class _Client(asyncssh.SSHClient):
    def __init__(self, session: SftpSession) -> None:
        self._session = session

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        return self._session.is_expected(key)


def _options(url: StoreUrl, failures: Failures) -> dict[str, Any]:
    options: dict[str, Any] = {
        "username": url.user,
        "config": None,  # ~/.ssh/config may lead elsewhere, or run commands
        "connect_timeout": CONNECT_S,
        "login_timeout": LOGIN_S,
        "keepalive_interval": ALIVE_S,
        "keepalive_count_max": MISSED,
    }
    if url.password:
        options["password"] = url.password
    if key := url.option("key"):
        options |= {"client_keys": [key], "agent_path": None, "passphrase": url.option("key_passphrase") or None}
    if known := url.option("known_hosts"):
        if not os.access(known, os.R_OK):
            raise failures.wrong(f"the file {known} cannot be read", "the option known_hosts names a file")
        options["known_hosts"] = known
    if url.option("host_key"):
        if known or not all(one.startswith("SHA256:") for one in url.option("host_key").replace(" ", "").split(",")):
            raise failures.wrong("host_key is no fingerprint", "host_key=SHA256:…, without known_hosts")
        options["known_hosts"] = ([], [], [])
    return options
