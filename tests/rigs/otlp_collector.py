"""A collector of OpenTelemetry of a test: it reads what OTLP over HTTP brings, by the published protobuf, and keeps the spans.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-request
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class Kept:
    """A span that came. `parent`: the id of the one around it, b"" of none; `facts`: without the prefix of their names."""

    name: str
    id: bytes
    parent: bytes
    facts: dict[str, Any]
    resource: dict[str, Any]
    began: int
    ended: int
    error: str


@dataclass
class Collector:
    """Keep `spans` in the order in which they come. `code`: what it answers; `asked`: requests; `headers`: of the last one."""

    port: int = 0
    code: int = 200
    asked: int = 0
    spans: list[Kept] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/traces"

    def named(self, name: str) -> list[Kept]:
        return [one for one in list(self.spans) if one.name == name]

    def below(self, parent: Kept) -> list[str]:
        """Return the names of the spans inside another one."""
        return [one.name for one in list(self.spans) if one.parent == parent.id]

    def take(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        self.raw += body
        for whole in request.resource_spans:
            resource = _facts(whole.resource.attributes)
            for scope in whole.scope_spans:
                for one in scope.spans:
                    error = one.status.message if one.status.code == 2 else ""
                    times = one.start_time_unix_nano, one.end_time_unix_nano
                    facts = _facts(one.attributes)
                    self.spans.append(Kept(one.name, one.span_id, one.parent_span_id, facts, resource, *times, error))


def _facts(attributes: Any) -> dict[str, Any]:
    found = {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in attributes}
    return {name.removeprefix("anabranch."): value for name, value in found.items()}


@contextmanager
def collector() -> Iterator[Collector]:
    """Run one at a free port of this machine."""
    made = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.asked, made.headers = made.asked + 1, dict(self.headers)
            if made.code == 200:
                made.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(made.code)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
