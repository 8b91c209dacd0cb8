"""The listener of `run` for Prometheus: answers `GET /metrics` with the job's metrics of now.

Nothing here may stop a pipeline: an address that cannot be used is a warning in the log, and what goes wrong with an answer is
one of its own. What does not live here: the metrics (`measuring.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.errors import AnabranchError
from anabranch.job.measuring import metrics_text
from anabranch.model.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from anabranch.config.sections.metrics import Address
    from anabranch.view.job_view import JobView

PATH = "/metrics"
SECONDS = 10  # for a request to come, and its answer to go


class _Answer(BaseHTTPRequestHandler):
    """One request. `told`: returns the text, set by `_Listener`."""

    timeout = SECONDS
    server: _Listener

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != PATH:
            self._answer(404, f"only {PATH} is here\n")
            return
        try:
            text = self.server.told()
        except AnabranchError as error:
            self._answer(503, f"{error}\n")
            return
        self._answer(200, text, CONTENT_TYPE)

    def _answer(self, code: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep requests out of the log: one comes every few seconds."""


class _Listener(ThreadingHTTPServer):
    """Answers each request in a thread of its own, and one after the other: each asks both ends."""

    daemon_threads = True

    def __init__(self, address: Address, told: Callable[[], str]) -> None:
        self.address_family = AF_INET6 if ":" in address.host else AF_INET
        self._told, self._alone = told, threading.Lock()
        super().__init__(address, _Answer)

    def told(self) -> str:
        with self._alone:
            return self._told()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log what a request has ended with: whoever asked went away, or a bug."""
        log.get().warning("metrics_not_told", client=str(client_address), exc_info=True)


@contextmanager
def listening(job: JobView) -> Iterator[None]:
    """Answer requests while the block runs, where the job file has `[metrics] listen`."""
    address = job.config.metrics.address
    server = _opened(job, address) if address is not None else None
    if server is None:
        yield
        return
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    log.get(job=job.config.name).info("metrics_listen", address=job.config.metrics.listen)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def _opened(job: JobView, address: Address) -> _Listener | None:
    try:
        return _Listener(address, lambda: metrics_text(job))
    except OSError as error:
        log.get(job=job.config.name).warning(
            "metrics_not_listening", address=job.config.metrics.listen, error=error.strerror or str(error)
        )
        return None
