"""`[metrics]` of the job file."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from anabranch.config.section import Section, refuse
from anabranch.errors import Problem


class Address(NamedTuple):
    """An address of this machine, as sockets take it."""

    host: str
    port: int


def _parsed(text: str) -> Address | None:
    host, _, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if (
        not bare
        or (":" in bare) is (bare == host)
        or not port.isascii()
        or not port.isdecimal()
        or not 0 < int(port) < 65536
    ):
        return None
    return Address(bare, int(port))


def _address(text: str) -> str:
    if _parsed(text) is None:
        raise refuse(
            Problem(f"{text!r} is no address to listen at", expected='"HOST:PORT", like "127.0.0.1:9187"')
        ) from None
    return text


class Metrics(Section):
    """Answer a monitoring system that asks the running job ([how](../howto/monitor.md))."""

    listen: Annotated[str, AfterValidator(_address)] | None = None
    """Let `anabranch run` answer `GET /metrics` in Prometheus' text form at this address, `"127.0.0.1:9187"`; an IPv6 one
    stands in brackets. Whoever reaches the address reads names of tables and numbers, no rows; there is no password. Without it
    nothing listens. An address that is taken is a warning in the log."""

    @property
    def address(self) -> Address | None:
        """The address, None where nothing listens."""
        return _parsed(self.listen) if self.listen is not None else None
