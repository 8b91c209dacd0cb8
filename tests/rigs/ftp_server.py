"""An FTP server as a process (pyftpdlib), with TLS or without."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from anabranch.testing.processes import Daemon, Surroundings, give_away
from anabranch.testing.servers import free_port
from anabranch.transport.tls import Certificates

USER, PASSWORD = "carrier", "hush/p:w d@ftp"
EVERYTHING, READING = "elradfmwMT", "elr"


@dataclass
class FtpServer:
    """A running server. `url(directory)`: of a trail in a directory of this machine."""

    port: int
    daemon: Daemon
    authority: str

    def url(self, directory: Path, port: int = 0) -> str:
        kind, query = ("ftps", f"?ssl_ca={self.authority}") if self.authority else ("ftp", "")
        login = f"{USER}:{quote(PASSWORD, safe='')}"
        return f"trail+{kind}://{login}@127.0.0.1:{port or self.port}{directory}{query}"


@contextmanager
def ftp_server(directory: Path, *, tls: Certificates | None = None, rights: str = EVERYTHING) -> Iterator[FtpServer]:
    """Run a server. `rights`: of its user, by the letters of pyftpdlib."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    certificate = ""
    if tls is not None:
        both = directory / "both.pem"
        both.write_bytes(Path(tls.cert).read_bytes() + Path(tls.key).read_bytes())
        certificate = str(both)
    give_away(directory)
    port, tests = free_port(), Path(__file__).parents[1]
    surroundings = Surroundings(
        directory=directory,
        log=directory / "server.log",
        environment={"PYTHONPATH": str(tests), "HOME": str(directory), "PYTHONDONTWRITEBYTECODE": "1"},
        reads=(tests, Path(sys.executable)),
    )
    command = [sys.executable, "-m", "rigs.ftp_process", str(port), USER, PASSWORD, rights, certificate]
    daemon = Daemon(surroundings, list(command), lambda pid: _answers(port))
    daemon.start()
    try:
        yield FtpServer(port, daemon, str(tls.ca) if tls else "")
    finally:
        daemon.stop(immediate=True)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
