"""Wait for several connections at once, whatever their descriptors' numbers: select(2) takes none above 1,023, which a
receiver of some five hundred connections has.

https://man7.org/linux/man-pages/man2/select.2.html
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence


def ready(reads: Sequence[socket.socket], writes: Sequence[socket.socket], seconds: float) -> list[socket.socket]:
    """Wait until one of `reads` has bytes, or one of `writes` has room, an end or an error among it, or so many seconds.
    Returns those that are ready. Raises ValueError for a socket that is closed."""
    asked = dict.fromkeys((one.fileno() for one in (*reads, *writes)), 0)
    for sockets, event in ((reads, select.POLLIN), (writes, select.POLLOUT)):
        for one in sockets:
            asked[one.fileno()] |= event
    poll = select.poll()
    for descriptor, events in asked.items():
        poll.register(descriptor, events)
    found = {descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1000)}
    return [one for one in dict.fromkeys((*reads, *writes)) if one.fileno() in found]


__all__ = ["ready"]
