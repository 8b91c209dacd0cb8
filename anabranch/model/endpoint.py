"""Endpoint: the place of a database and how to enter it; its text never shows the password."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class EndLimits:
    """Time limits towards one end, in seconds, and when to try again or give up; infinity: never."""

    connect: float = 10.0  # opening a connection
    statement: float = math.inf  # one statement that neither copies rows nor prepares or builds something
    silence: float = 30.0  # without an answer, also to a second connection: then the line is cut
    interval: float = 10.0  # the longest pause between two tries
    away: float = 300.0  # without success, then an end that is away is an error
    tries: float = math.inf  # without success, then it is one, too
    least: int = 10  # tries that there have to be: one alone may take longer than `away`
    lock: float = 300.0  # the same as `away` where others at the end are in the way


USUAL = EndLimits()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of one end of a job. `database` may be "" for a source (rules name schemas). `options` come from the
    URL's query, e.g. `ssl_ca`, `ssl_mode`, `unix_socket`. `host` has several addresses where the
    URL has: `db1:5432,db2:5432`. `variables`: what `${…}` in options of the job file is looked up in,
    None for the environment of the process.
    """

    scheme: str
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str = ""
    options: tuple[tuple[str, str], ...] = ()
    limits: EndLimits = field(default=USUAL, compare=False, repr=False)
    variables: Mapping[str, str] | None = field(default=None, compare=False, repr=False)

    def option(self, name: str, default: str = "") -> str:
        return dict(self.options).get(name, default)

    @property
    def each(self) -> tuple[Endpoint, ...]:
        """Return the endpoint once for each address that the URL names, in its order."""
        if "," not in self.host:
            return (self,)
        places = (_address(one, self.port) for one in self.host.split(",") if one)
        return tuple(replace(self, host=host, port=port) for host, port in places)

    @property
    def place(self) -> str:
        """`db1:3306`, `[::1]:3306`, several of them as the URL has them, or the path of a socket."""
        if "," in self.host:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.option("unix_socket") or f"{host}:{self.port}"

    def __str__(self) -> str:
        if not (self.host or self.user or self.options):  # no server: the path of a trail
            return f"{self.scheme}://{self.database}"
        login = f"{self.user}@" if self.user else ""
        return f"{self.scheme}://{login}{self.place}/{self.database}"


def _address(text: str, port: int) -> tuple[str, int]:
    """Split `db1:3306`, `[::1]:3306`, or a host alone, which has the usual port."""
    host, _, number = text.rpartition(":")
    if text.endswith("]") or not number.isdigit() or (":" in host and not host.startswith("[")):
        host, number = text, str(port)
    return host.strip("[]"), int(number)
