"""Whoever listens for trails: accepts connections, asks each who it is, and gives it to a thread of its own."""

from __future__ import annotations

import errno
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from anabranch import log
from anabranch.errors import AnabranchError, ConfigError, StateError, TrailError
from anabranch.trail.failures import is_sync_failure
from anabranch.transport.link import Link, LinkLost, reason
from anabranch.transport.messages import VERSION, Kind, Message, ProtocolError
from anabranch.transport.names import is_trail_name
from anabranch.transport.ready import ready
from anabranch.transport.tls import SECONDS, Allowed, names_of

CONNECTIONS = 256
BACKLOG = 128
LOOK = 0.25  # seconds between two looks whether we are to stop
HOPS = 16
# An address comes with its interface, the name with its server, room when others have ended.
_PASSING = frozenset({
    errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.ENETDOWN, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM,
    errno.ENOSPC,
})  # fmt: skip
_PASSING_NAME = frozenset({socket.EAI_AGAIN, socket.EAI_MEMORY})


@dataclass(frozen=True, slots=True)
class Caller:
    """A peer that sends a trail. `peer`: what its certificate calls it, else its address; `hops`: who has sent it so far."""

    link: Link
    peer: str
    trail: str
    hops: tuple[str, ...]
    head: dict[str, Any]


class Refused(Exception):
    """The other side is told, and the connection ends. `is_passing`: it may be otherwise later."""

    def __init__(self, code: str, message: str, hint: str = "", *, is_passing: bool = False) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.is_passing = code, message, hint, is_passing

    def head(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "hint": self.hint, "retry": self.is_passing}


def listening(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at all addresses of a host's name. Raises ConfigError; StateError for what may come right by
    itself, as an address that this machine has not got yet."""
    found: list[socket.socket] = []
    try:
        for family, *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            made = socket.socket(family, socket.SOCK_STREAM)
            found.append(made)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(address)
            made.listen(BACKLOG)
    except OSError as error:
        for one in found:
            one.close()
        message = f"[listen] address {host}:{port} cannot be used: {error.strerror or error}"
        if error.errno in (_PASSING_NAME if isinstance(error, socket.gaierror) else _PASSING):
            raise StateError(message, hint="HOST:PORT of here, which nobody else has; then start it again") from None
        raise ConfigError(message, hint="HOST:PORT of here") from None
    return found


@dataclass
class Server:
    """Serves until `stop` says so. `serve` has a caller for as long as its connection lives; what it raises ends that one,
    but for a failed fsync, which ends the process."""

    sockets: Sequence[socket.socket]
    tls: ssl.SSLContext | None
    allowed: Sequence[Allowed]
    serve: Callable[[Caller], None]
    stop: Callable[[], bool]
    _links: set[Link] = field(default_factory=set)
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)
    _strangers: list[socket.socket] = field(default_factory=list)  # have not said yet who they are; the oldest first
    failure: BaseException | None = None

    def run(self) -> None:
        """Accept connections. Raises the TrailError of a failed fsync."""
        try:
            while not self.stop() and self.failure is None:
                for one in ready(self.sockets, [], LOOK):
                    self._accept(one)
        finally:
            for one in self.sockets:
                one.close()
            with self._mutex:
                links = list(self._links)
            for link in links:
                link.cut()
            while self._cut_stranger():
                continue
            for thread in self._threads:
                thread.join(SECONDS)
        if self.failure is not None:
            raise self.failure

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, address = listener.accept()
        except OSError:  # gone again, or too many files: the next look tries it again
            self.stop() or threading.Event().wait(0.01)
            return
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        is_full = len(self._threads) >= CONNECTIONS and not self._cut_stranger()
        if is_full or len(self._threads) >= 2 * CONNECTIONS:  # those that were cut end in a moment
            log.get().warning("hop_refused", peer=_shown(address), reason=f"{CONNECTIONS} connections are open")
            sock.close()
            return
        thread = threading.Thread(target=self.have, args=(sock, _shown(address)), name="hop", daemon=True)
        self._threads.append(thread)
        thread.start()

    def have(self, sock: socket.socket, address: str) -> None:
        """Serve one connection until it ends."""
        link: Link | None = None
        try:
            sock.settimeout(SECONDS)
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            with self._mutex:
                self._strangers.append(sock)
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            link = Link(sock, address)
            with self._mutex:
                self._links.add(link)
            self._greeted(link)
        except (LinkLost, ProtocolError, OSError) as error:
            log.get().info("hop_ended", peer=address, reason=reason(error))
        except Exception as error:  # noqa: BLE001  whatever a peer has caused ends its own connection, not those of others
            if isinstance(error, TrailError) and is_sync_failure(error):
                self.failure = error
            else:
                log.get().error("hop_failed", peer=address, reason=str(error), exc_info=True)
        except BaseException as error:  # noqa: BLE001  the process says it, and ends
            self.failure = error
        finally:
            self._know(sock)
            if link:
                with self._mutex:
                    self._links.discard(link)
                if not self.stop():
                    link.drain()
                link.close()
            sock.close()

    def _cut_stranger(self) -> bool:
        """End the connection that has been there for longest without saying who it is; return whether there was one."""
        with self._mutex:
            if not self._strangers:
                return False
            with suppress(OSError):  # gone by itself
                socket.socket.shutdown(self._strangers.pop(0), socket.SHUT_RDWR)
        return True

    def _know(self, sock: socket.socket) -> None:
        with self._mutex, suppress(ValueError):
            self._strangers.remove(sock)

    def _greeted(self, link: Link) -> None:
        """Serve a peer that may do what it asks for; tell any other why not."""
        try:
            caller = self._caller(link)
            self._know(link.sock)
            self.serve(caller)
        except Refused as refused:
            log.get().warning("hop_refused", peer=link.peer, code=refused.code, reason=refused.message)
            link.say(Kind.REFUSED, refused.head())

    def _caller(self, link: Link) -> Caller:
        hello = link.receive(SECONDS, self.stop)
        if hello is None or hello.kind != Kind.HELLO:
            raise ProtocolError("the other side has not said who it is")
        names = names_of(link.sock)
        trail, hops = _checked(hello)
        if not any(one.fits(names, trail) for one in self.allowed):
            who = " / ".join(names) or link.peer
            raise Refused(
                "not_allowed",
                f"{who} may not write the trail {trail!r} here",
                "the receiver's or router's file says in [[allow]] who may write what",
            )
        link.trust()
        return Caller(link, names[0] if names else link.peer, trail, hops, hello.head)


def _checked(hello: Message) -> tuple[str, tuple[str, ...]]:
    """Return the trail's name and the hops of a greeting. Raises Refused for another version, ProtocolError for nonsense."""
    version, trail, hops = (hello.head.get(key) for key in ("version", "trail", "hops"))
    if version != VERSION:
        raise Refused("version", f"this side speaks version {VERSION} of the protocol, the other one {version!r}")
    if not isinstance(trail, str) or not is_trail_name(trail):
        raise Refused("name", "that is no name of a trail", "letters, digits, '_', '.' and '-', 63 at most")
    if not isinstance(hops, list) or not all(isinstance(one, str) and len(one) < 200 for one in hops):
        raise ProtocolError("the hops of a greeting are no list of names")
    if len(hops) > HOPS:
        raise Refused(
            "loop", f"the trail came over {len(hops)} hops, {HOPS} are the limit", "look for a circle of routers"
        )
    return trail, tuple(hops)


def _shown(address: Any) -> str:
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)


def refusal(error: AnabranchError, *, is_passing: bool = False) -> Refused:
    return Refused(error.code, error.message, error.hint, is_passing=is_passing)
