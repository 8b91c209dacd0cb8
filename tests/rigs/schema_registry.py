"""A schema registry of a test: a small HTTP server that follows the published interface, as far as a job and its readers ask.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html. It is nobody's product: what it shows is that the
job keeps to the interface. In Avro compatible is what is equal to the former schema, or adds nothing but fields with defaults;
in Protobuf what protobuf_schemas.py says. Its compatibility is BACKWARD unless `levels` says otherwise.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from rigs.protobuf_schemas import compiled, follows, reprinted

USER, PASSWORD = "job", "p:w/d of a registry"


@dataclass
class SchemaRegistry:
    """Keep what clients register: `schemas` by number from 1, `subjects` with their numbers in order, `kinds` of schemas that
    are not Avro's by their numbers. `levels`: the compatibility by subject, "" for all others. `answers`: status and body of
    an error that every request gets, while it is set; `points_to`: the address that such an answer names. `refused`: how
    paths begin that get a status. `asked`: what came, as "POST /subjects/…"."""

    port: int = 0
    schemas: list[str] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    answers: tuple[int, Any] | None = None
    points_to: str = ""
    refused: tuple[str, int] | None = None
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{USER}:${{REGISTRY_PASSWORD}}@127.0.0.1:{self.port}"

    def schema(self, number: int) -> Any:
        return json.loads(self.schemas[number - 1])

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = [unquote(one) for one in path.strip("/").split("/")]
        if self.answers is not None:
            return self.answers
        if self.refused is not None and path.startswith(self.refused[0]):
            return self.refused[1], {"error_code": self.refused[1], "message": "refused"}
        if (method, parts) == ("GET", ["schemas", "types"]):
            return 200, ["JSON", "PROTOBUF", "AVRO"]
        if (method, parts[:2]) == ("GET", ["schemas", "ids"]):  # what readers ask
            return 200, self._told(int(parts[2].partition("?")[0]))
        if (method, parts[0]) == ("GET", "config"):
            return self._config(parts[1:])
        subject, rest = (parts[2], parts[3:]) if parts[0] == "compatibility" else (parts[1], parts[2:])
        if (method, parts[0], rest) == ("POST", "subjects", ["versions"]):
            return self._register(subject, body["schema"], body.get("schemaType", "AVRO"))
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        if (method, parts[0], rest) == ("GET", "subjects", ["versions"]):
            return 200, list(range(1, len(self.subjects[subject]) + 1))
        if rest[:1] == ["versions"] and len(rest) == 2:
            version = len(self.subjects[subject]) if rest[1] == "latest" else int(rest[1])
            number = self.subjects[subject][version - 1]
            if (method, parts[0]) == ("GET", "subjects"):
                return 200, self._told(number) | {"subject": subject, "version": version, "id": number}
            if (method, parts[0]) == ("POST", "compatibility"):
                return 200, {"is_compatible": self._follows(number, body["schema"], body.get("schemaType", "AVRO"))}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _config(self, names: list[str]) -> tuple[int, Any]:
        if names and (name := names[0].partition("?")[0]) in self.levels:
            return 200, {"compatibilityLevel": self.levels[name]}
        if names and "?defaultToGlobal=true" not in names[0]:
            return 404, {"error_code": 40408, "message": "no compatibility of its own"}
        return 200, {"compatibilityLevel": self.levels.get("", "BACKWARD")}

    def _told(self, number: int) -> dict[str, str]:
        text = self.schemas[number - 1]
        kind = self.kinds.get(number)
        return {"schema": text} if kind is None else {"schema": reprinted(text), "schemaType": kind}

    def _register(self, subject: str, schema: str, kind: str) -> tuple[int, Any]:
        if kind == "PROTOBUF":
            try:
                compiled(schema)
            except ValueError:
                return 422, {"error_code": 42201, "message": "Invalid schema"}
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        if kind != "AVRO":
            self.kinds[number] = kind
        numbers = self.subjects.setdefault(subject, [])
        if number not in numbers and not self._fits(subject, schema, kind):
            return 409, {"error_code": 409, "message": f"Schema being registered is incompatible with {subject}"}
        if number not in numbers:
            numbers.append(number)
        return 200, {"id": number}

    def _fits(self, subject: str, schema: str, kind: str) -> bool:
        """Return whether a subject takes a schema by its level."""
        level = self.levels.get(subject, self.levels.get("", "BACKWARD"))
        former = self.subjects[subject] if level.endswith("_TRANSITIVE") else self.subjects[subject][-1:]
        return level == "NONE" or all(self._follows(one, schema, kind) for one in former)

    def _follows(self, number: int, schema: str, kind: str) -> bool:
        if kind != self.kinds.get(number, "AVRO"):
            return False
        if kind == "PROTOBUF":
            return follows(self.schemas[number - 1], schema)
        latest, new = self.schema(number), json.loads(schema)
        return bool(latest == new or (latest.get("name") == new.get("name") and _adds_alone(latest, new)))


def _adds_alone(latest: Any, new: Any) -> bool:
    before = {one["name"]: one["type"] for one in latest["fields"]}
    after = {one["name"]: one for one in new["fields"]}
    kept = all(name in after and after[name]["type"] == kind for name, kind in before.items())
    return kept and all("default" in one for name, one in after.items() if name not in before)


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """A registry that asks for USER and PASSWORD, on a free port."""
    made = SchemaRegistry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(registry: SchemaRegistry) -> type[BaseHTTPRequestHandler]:
    allowed = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            registry.asked.append(f"{self.command} {self.path}")
            if self.headers.get("Authorization") != allowed:
                status, told = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                status, told = registry.answer(self.command, self.path, body)
            text = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            if registry.points_to:
                self.send_header("Location", registry.points_to)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: object) -> None: ...

    return Handler
