"""Wait for bytes on a connection, whatever its descriptor's number: select(2) takes none above 1,023.

https://man7.org/linux/man-pages/man2/select.2.html
"""

from __future__ import annotations

import select


def is_readable(descriptor: int, seconds: float) -> bool:
    """Wait until something can be read, an end or an error among it, or so many seconds. Returns whether it can."""
    return _waited(descriptor, select.POLLIN, seconds)


def is_writable(descriptor: int, seconds: float) -> bool:
    """Wait until there is room for bytes, an end or an error among it, or so many seconds. Returns whether there is."""
    return _waited(descriptor, select.POLLOUT, seconds)


def _waited(descriptor: int, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, seconds) * 1000))
