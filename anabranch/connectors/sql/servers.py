"""Several addresses in one URL: in which order a process tries them.

Who was right last is asked first: else each connection would wait for a server that is gone, and a former primary that comes
back would be asked before the one that has taken over. What does not live here: what makes a server the right one (each
database's connection.py).
"""

from __future__ import annotations

from anabranch.model.endpoint import Endpoint

NONE_FITS = "none of its servers can be used now: "

_last: dict[str, str] = {}  # by endpoint, the address that was right last in this process


def in_order(endpoint: Endpoint) -> list[Endpoint]:
    """Return the endpoint once for each of its addresses, in the order in which they are tried."""
    last = _last.get(str(endpoint), "")
    return sorted(endpoint.each, key=lambda one: one.place != last)


def remember(endpoint: Endpoint, one: Endpoint) -> None:
    """Note the address that was right."""
    _last[str(endpoint)] = one.place


def current(endpoint: Endpoint) -> Endpoint:
    """Return the endpoint at the address that was right last, or is tried first."""
    return in_order(endpoint)[0]
