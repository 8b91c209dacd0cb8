"""Where a database is and how to enter it; its text never shows the password."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a job. `database` may be "" for a source (rules name schemas). `options` come from the URL's query,
    e.g. `ssl_ca`, `ssl_mode`, `unix_socket`."""

    scheme: str
    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str = ""
    options: tuple[tuple[str, str], ...] = ()

    def option(self, name: str, default: str = "") -> str:
        return dict(self.options).get(name, default)

    @property
    def place(self) -> str:
        """`db1:3306`, `[::1]:3306`, or the path of a socket."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.option("unix_socket") or f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.user}@{self.place}/{self.database}"
