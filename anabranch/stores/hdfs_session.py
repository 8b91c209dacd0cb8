"""Ask a name node of HDFS by WebHDFS, with the standard library: one request a step, bytes to and from the data nodes.

https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-hdfs/WebHDFS.html. Texts of the server, which hold its stack,
are never repeated.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from anabranch.config.store_urls import StoreUrl
from anabranch.errors import AnabranchError
from anabranch.stores.failures import Failures

SILENCE_S = 60.0  # without an answer
_FULL = ("DSQuotaExceededException", "NSQuotaExceededException", "QuotaByStorageTypeExceededException")
_RIGHTS = ("AccessControlException", "SecurityException", "AuthorizationException", "AuthenticationException")


class Refused(Exception):
    """A server's answer that is an error. `kind`: the name of its exception, or the status where it has none."""

    def __init__(self, kind: str, status: int) -> None:
        super().__init__(kind)
        self.kind, self.status = kind, status


class HdfsSession:
    """The way to a name node. Every request has a line of its own."""

    def __init__(self, url: StoreUrl, failures: Failures) -> None:
        self._host, self._port, self._user, self._failures = url.host, url.port, url.user, failures

    def ask(self, method: str, path: str, op: str, **options: str | int) -> Any:
        """Return what the name node answers, as JSON has it. Raises Refused."""
        status, _, content = self._send(method, self._host, self._port, self._target(path, op, options), None)
        return _checked(status, content)

    def send(self, path: str, content: bytes) -> None:
        """Write a new file, whose blocks the data nodes bring to their disks. Raises Refused."""
        target = self._target(path, "CREATE", {"overwrite": "false", "createflag": "create,sync_block"})
        status, body = self._redirected("PUT", target, content)
        _checked(status, body)

    def fetch(self, path: str, offset: int, length: int) -> bytes:
        """Return bytes of a file. Raises Refused."""
        target = self._target(path, "OPEN", {"offset": offset, "length": length})
        status, body = self._redirected("GET", target, None)
        if status != 200:
            _checked(status, body)
        return body

    def _target(self, path: str, op: str, options: dict[str, str | int]) -> str:
        query = urlencode({"op": op, "user.name": self._user, **options})
        return f"/webhdfs/v1{quote(path)}?{query}"

    def _redirected(self, method: str, target: str, content: bytes | None) -> tuple[int, bytes]:
        """Ask the name node, and go where it points to."""
        status, location, body = self._send(method, self._host, self._port, target, None)
        if status != 307:
            return status, body
        place = urlsplit(location)
        if place.scheme != "http" or not place.hostname:
            raise self._failures.wrong("the name node points to no data node by http", "a cluster without TLS")
        status, _, body = self._send(method, place.hostname, place.port or 80, f"{place.path}?{place.query}", content)
        return status, body

    def _send(self, method: str, host: str, port: int, target: str, content: bytes | None) -> tuple[int, str, bytes]:
        line = HTTPConnection(host, port, timeout=SILENCE_S)
        try:
            line.request(method, target, content, {"Content-Type": "application/octet-stream"} if content else {})
            answer = line.getresponse()
            return answer.status, answer.getheader("Location", ""), answer.read()
        finally:
            line.close()

    @contextmanager
    def translated(self, name: str) -> Iterator[None]:
        """Make errors of the session those of the project."""
        what = f"{name}: " * bool(name)
        try:
            yield
        except Refused as error:
            raise self._refused(what, error) from None
        except (ConnectionRefusedError, socket.gaierror):
            raise self._failures.away("it cannot be reached") from None
        except TimeoutError:
            raise self._failures.away(f"{what}no answer within {SILENCE_S:g} s") from None
        except (OSError, HTTPException, ValueError, KeyError, TypeError):
            raise self._failures.away(f"{what}the line was cut before the answer") from None

    def _refused(self, what: str, error: Refused) -> AnabranchError:
        if error.kind in _FULL:
            return self._failures.full(f"{what}the quota is used up ({error.kind})")
        if error.kind in _RIGHTS or error.status == 401:
            return self._failures.wrong(f"{what}permission denied ({error.kind})")
        if error.kind == "StandbyException":
            return self._failures.away(
                "this name node is the standby", "name the active one, or wait until it takes over"
            )
        if error.kind in ("ParentNotDirectoryException", "InvalidPathException"):
            return self._failures.wrong(f"{what}what is above it is no directory", "look at the directory of the URL")
        return self._failures.away(f"{what}the server answers {error.status} ({error.kind})")


def _checked(status: int, content: bytes) -> Any:
    """Return the JSON of an answer. Raises Refused."""
    if 200 <= status < 300:
        return json.loads(content) if content.strip() else {}
    try:
        kind = str(json.loads(content)["RemoteException"]["exception"])
    except (ValueError, KeyError, TypeError):
        kind = ""
    raise Refused(kind if kind.isalnum() else str(status), status)
