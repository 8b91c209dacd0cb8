"""A server that speaks S3's protocol, as a process (moto), and a line to it that fails on purpose.

What does not live here: a store that fails without any server (`faulty_store.py`).
"""

from __future__ import annotations

import http.client
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

import boto3

from anabranch.testing.processes import Daemon, Surroundings, give_away
from anabranch.testing.servers import free_port
from anabranch.transport.tls import Certificates

REGION = "eu-north-1"
KEYS = {"access_key_id": "AKIATEST", "secret_access_key": "hush/hush+hush="}
Fault = Literal["slow_down", "cut", "lost", "twice", "half_answer", "full", "denied", "conflict", "unknown"]
_ANSWERS = {
    "slow_down": (503, "SlowDown"),
    "full": (507, "XMinioStorageFull"),
    "denied": (403, "AccessDenied"),
    "conflict": (409, "ConditionalRequestConflict"),
    "unknown": (501, "NotImplemented"),
}


@dataclass
class S3Server:
    """A running server. `bucket(name)` makes an empty bucket."""

    port: int
    daemon: Daemon
    authority: str = ""

    @property
    def endpoint(self) -> str:
        return f"{'https' if self.authority else 'http'}://127.0.0.1:{self.port}"

    def client(self) -> Any:
        keys = {f"aws_{name}": value for name, value in KEYS.items()}
        return boto3.client("s3", region_name=REGION, endpoint_url=self.endpoint, verify=self.authority or None, **keys)  # type: ignore[call-overload]  # of keys

    def bucket(self, name: str) -> str:
        """Make a bucket, and return its name."""
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})
        return name

    def url(self, bucket: str, name: str = "shop", port: int = 0) -> str:
        """Return the URL of a trail in a bucket; `port`: that of a line to the server."""
        query = "&".join(f"{key}={value.replace('/', '%2F')}" for key, value in KEYS.items())
        endpoint = self.endpoint.replace(str(self.port), str(port or self.port))
        query += f"&ssl_ca={self.authority}" * bool(self.authority)
        return f"trail+s3://{bucket}/trails/{name}?region={REGION}&endpoint_url={endpoint}&{query}"


@contextmanager
def s3_server(
    directory: Path, *, ignores_conditions: bool = False, tls: Certificates | None = None
) -> Iterator[S3Server]:
    """Run a server, whose objects are in its memory. `ignores_conditions`: it overwrites, as servers do that do not know
    conditional puts. `tls`: its certificate."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    give_away(directory)
    port = free_port()
    tests = Path(__file__).parents[1]
    surroundings = Surroundings(
        directory=directory,
        log=directory / "server.log",
        environment={"PYTHONPATH": str(tests), "HOME": str(directory), "PYTHONDONTWRITEBYTECODE": "1"},
        reads=(tests, Path(sys.executable)),
    )
    files = [str(tls.cert), str(tls.key)] if tls else ["", ""]
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "rigs.s3_process",
        str(port),
        str(int(ignores_conditions)),
        *files,
    ]
    daemon = Daemon(surroundings, command, lambda pid: _answers(port))
    daemon.start()
    try:
        yield S3Server(port, daemon, str(tls.ca) if tls else "")
    finally:
        daemon.stop(immediate=True)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Line:
    """An HTTP proxy in front of a server. Each planned fault is for the next request of its method whose path has its words.

    `slow_down`, `full`, `denied`, `conflict`, `unknown`: the proxy answers by itself · `cut`: half of the body arrives, then
    the line is cut · `lost`: the server has done it, and the line is cut before the answer · `twice`: it is sent to the server
    twice, and the second answer comes back, as routers do that try again · `half_answer`: the line is cut in the body of the
    answer.
    `always`: a fault of every request, while it is set."""

    target: int
    port: int = 0
    always: Fault | None = None
    asked: list[str] = field(default_factory=list)
    _planned: list[tuple[Fault, str, str]] = field(default_factory=list)

    def plan(self, fault: Fault, method: str, words: str = "") -> None:
        self._planned.append((fault, method, words))

    @property
    def is_through(self) -> bool:
        """Return whether every planned fault has been made."""
        return not self._planned

    def next(self, method: str, path: str) -> Fault | None:
        self.asked.append(f"{method} {path}")
        for planned in self._planned:
            if self.always is None and planned[1] == method and planned[2] in path:
                self._planned.remove(planned)
                return planned[0]
        return self.always


@contextmanager
def line_to(server: S3Server) -> Iterator[Line]:
    """Put a line in front of a server."""
    line = Line(server.port)
    served = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"line": line}))
    line.port = served.server_address[1]
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield line
    finally:
        served.shutdown()
        served.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    line: Line
    protocol_version = "HTTP/1.1"

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.line.next(self.command, self.path)
        if fault in _ANSWERS:
            self._refuse(*_ANSWERS[fault])
            return
        if fault == "cut":
            self._send_half(body)
            self.close_connection = True
            return
        answers = [self._forward(body) for _ in range(2 if fault == "twice" else 1)]
        if fault == "lost":
            self.close_connection = True
            return
        status, headers, content = answers[-1]
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        told = {name.lower(): value for name, value in headers}.get("content-length", "0")  # of HEAD there is no body
        self.send_header("Content-Length", told if self.command == "HEAD" else str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fault == "half_answer" else content)
        self.close_connection = fault == "half_answer"

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass

    def _refuse(self, status: int, code: str) -> None:
        body = f"<Error><Code>{code}</Code><Message>{KEYS['secret_access_key']}</Message></Error>".encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        server = http.client.HTTPConnection("127.0.0.1", self.line.target)
        try:
            server.request(self.command, self.path, body or None, dict(self.headers.items()))
            answer = server.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            server.close()

    def _send_half(self, body: bytes) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        with socket.create_connection(("127.0.0.1", self.line.target)) as server:
            server.sendall(f"{self.command} {self.path} HTTP/1.1\r\n{head}\r\n".encode() + body[: len(body) // 2])
            server.shutdown(socket.SHUT_WR)
            while server.recv(65536):
                pass

    def log_message(self, format: str, *args: Any) -> None:
        return None
