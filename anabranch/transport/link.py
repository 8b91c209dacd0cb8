"""One connection: messages over a socket that is never waited for without a limit.

One thread has both directions: while it waits for room to write, what comes in is taken. So no two threads share a TLS
connection, and two peers that write at the same time do not wait for each other.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from anabranch.transport.messages import BODY_LIMIT, HEAD_LIMIT, Decoder, Kind, Message, ProtocolError, encode
from anabranch.transport.ready import ready

CHUNK = 256 * 1024
RECORD = 16 * 1024  # bytes of a record of TLS at most: https://www.rfc-editor.org/rfc/rfc8446#section-5.1
HELD_BACK = 4 * (BODY_LIMIT + HEAD_LIMIT)  # bytes that may come in while we write; more is not taken
SILENCE = 30.0  # seconds without a byte from the other side, who says something at least every BEAT
BEAT = 5.0
STOPPING = 2.0  # seconds for the other side to take bytes once we are to stop
KEPT_ALIVE = ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


class LinkLost(Exception):
    """The connection is gone, or the other side says nothing any more."""


def reason(error: Exception) -> str:
    """Return what an error of a connection says, for people."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower().removeprefix("tlsv1 alert ").removeprefix("tlsv13 alert ")
    return str(getattr(error, "strerror", None) or error)


class Link:
    """`sent` and `received` count bytes. `silence`: seconds without a byte after which the other side counts as gone. `stop`:
    whether to give up a message for which there is no room."""

    def __init__(self, sock: socket.socket, peer: str, *, silence: float = SILENCE) -> None:
        sock.setblocking(False)
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEPT_ALIVE:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
        self.sock, self.peer, self.silence = sock, peer, silence
        self.stop: Callable[[], bool] = lambda: False
        self.decoder = Decoder()
        self.sent = self.received = 0
        self.heard = time.monotonic()
        self.said = time.monotonic()
        self._is_ended = False
        self._view = memoryview(bytearray(CHUNK))
        self._end: LinkLost | None = None  # what the last read has met behind the bytes that it brought

    def trust(self) -> None:
        """Allow messages of the usual size: the other side has said who it is."""
        self.decoder.limit = BODY_LIMIT

    def say(self, kind: Kind, head: dict[str, Any] | None = None, body: bytes = b"", *, compress: bool = False) -> int:
        """Send a message; return its bytes. Raises LinkLost."""
        data = encode(kind, head, body, compress=compress)
        self.send(data)
        return len(data)

    def send(self, data: bytes) -> None:
        """Send bytes. Raises LinkLost when the connection is gone, the other side is silent for too long, or takes nothing for
        a moment once `stop` says so."""
        view, wrote = memoryview(data), time.monotonic()
        while view:
            written = self.write_some(view)
            view = view[written:]
            if written:
                wrote = time.monotonic()
            else:
                self.take_some()
                if view and self.decoder.waiting < HELD_BACK:
                    self.wait(0.5, for_writing=True)
                elif view:
                    time.sleep(0.01)
                self.refuse_silence()
                if time.monotonic() - wrote > STOPPING and self.stop():
                    raise LinkLost(f"{self.peer} takes nothing now, and this side ends")

    def write_some(self, view: memoryview) -> int:
        """Write what there is room for, without waiting."""
        try:
            count = self.sock.send(view[:CHUNK])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
            return 0
        except OSError as error:
            raise LinkLost(f"{self.peer}: {reason(error)}") from None
        self.sent += count
        self.said = time.monotonic()
        return count

    def receive(self, timeout: float, stop: Callable[[], bool] = lambda: False) -> Message | None:
        """Return the next message, None after `timeout` seconds or when `stop` says so. Raises LinkLost, ProtocolError."""
        until = time.monotonic() + timeout
        while (found := self.decoder.next()) is None:
            if self.take_some():
                continue
            left = until - time.monotonic()
            if left <= 0 or stop():
                return None
            self.wait(min(left, 0.5))
            self.refuse_silence()
        return found

    def take_some(self) -> int:
        """Take what has come, without waiting. Returns how many bytes. Raises LinkLost at the other side's end."""
        if self.decoder.waiting >= HELD_BACK:
            return 0
        if self._end is not None:
            raise self._end
        count = self._fill()
        if count:
            self.received += count
            self.heard = time.monotonic()
            self.decoder.feed(self._view[:count])
        elif self._end is not None:
            raise self._end
        return count

    def _fill(self) -> int:
        """Read into the buffer while there may be more, and return how many bytes came. A read of TLS gives one record at
        most, so what is done once for each read is done once for many records. An end that is met is kept until what came
        before it was taken."""
        filled = 0
        while filled < CHUNK:
            try:
                count = self.sock.recv_into(self._view[filled:])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                break
            except OSError as error:
                self._end = LinkLost(f"{self.peer}: {reason(error)}")
                break
            if not count:
                self._end = LinkLost(f"{self.peer} has ended the connection")
                break
            filled += count
            if count < RECORD:  # less than there was room for: no more has come yet
                break
        return filled

    def wait(self, seconds: float, *, for_writing: bool = False) -> None:
        """Wait until bytes can be read, or written."""
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.pending():
            return
        reads = [self.sock] if self.decoder.waiting < HELD_BACK else []
        try:
            ready(reads, [self.sock] if for_writing else [], seconds)
        except (OSError, ValueError) as error:  # closed by who has ended us
            raise LinkLost(f"{self.peer}: {error}") from None

    def refuse_silence(self) -> None:
        """Raise LinkLost where nothing has come for too long: half of a connection may live on without the other one."""
        if time.monotonic() - self.heard > self.silence:
            raise LinkLost(f"{self.peer} has not answered for {self.silence:.0f} s")

    def drain(self, seconds: float = 2.0) -> None:
        """Say that nothing more comes, and take what is on its way, so that the other side can read what was said last: a
        connection that is closed with bytes unread is reset."""
        until = time.monotonic() + seconds
        try:
            self.sock.shutdown(socket.SHUT_WR)
            while time.monotonic() < until:
                self.decoder = Decoder()
                if not self.take_some():
                    self.wait(0.1)
        except (OSError, LinkLost):
            return

    def close(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self.sock.close()

    def cut(self) -> None:
        """End the connection from another thread: whoever waits for it gets LinkLost."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


__all__ = ["BEAT", "SILENCE", "Link", "LinkLost", "ProtocolError"]
