"""Debezium: its engine, embedded, and its JDBC sink, in one process without Kafka. `Follow.java` is that process.

Defaults, but for: no snapshot of rows (`no_data`), no tombstones, no TLS; the sink upserts with its reduction buffer on and
changes no schema, and at a MySQL or MariaDB its driver sends rows together. `poll_ms` is the engine's `poll.interval.ms`, 500
by default."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch.testing.databases import Database
from bench.peers.install import java_of
from bench.peers.place import account, ask
from bench.postgresql import PostgresStand, drop_slot
from bench.processes import Program, until
from bench.stand import Stand

SINK = "3.5.0.Final"
POLL_MS = 500
# Of the target: no TLS; and the batches of a sink are one statement each.
SINK_OPTIONS = {
    "postgresql": "",
    "mysql": "?sslMode=DISABLED&allowPublicKeyRetrieval=true&rewriteBatchedStatements=true",
    "mariadb": "?sslMode=disable&useBulkStmts=true",
}
PATIENCE = 180.0
STREAMING = "Starting streaming"
LOGS = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.log.io.debezium.pipeline=info")


@dataclass(frozen=True)
class Connector:
    """Of one kind of source."""

    artifact: str
    version: str
    kind: str
    more: Mapping[str, str]


_HISTORY = {
    "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
    "schema.history.internal.file.filename": "{home}/history",
    "database.server.id": "{number}",
    "database.include.list": "{database}",
    "include.schema.changes": "false",
}
_SLOT = {
    "plugin.name": "pgoutput",
    "slot.name": "{name}",
    "publication.name": "{name}",
    "publication.autocreate.mode": "filtered",
    "database.dbname": "{database}",
    "message.prefix.exclude.list": "anabranch.*",  # ours, which its sink could not write anywhere
}
CONNECTORS = {
    "mariadb": Connector(
        "debezium-connector-mariadb",
        "3.5.0.Final",
        "io.debezium.connector.mariadb.MariaDbConnector",
        {**_HISTORY, "database.ssl.mode": "disable"},
    ),
    "mysql": Connector(
        "debezium-connector-mysql",
        "3.6.1.Final",
        "io.debezium.connector.mysql.MySqlConnector",
        {**_HISTORY, "database.ssl.mode": "disabled"},
    ),
    "postgresql": Connector(
        "debezium-connector-postgres",
        "3.6.1.Final",
        "io.debezium.connector.postgresql.PostgresConnector",
        {**_SLOT, "database.sslmode": "disable"},
    ),
}


class Engine:
    """The process, for one table; it follows from `start` to `end`."""

    def __init__(self, name: str, stand: Stand, source: Database, table: str, poll_ms: int) -> None:
        self._source, self.has_slot = source, isinstance(stand, PostgresStand)
        self.slot = f"{name}_{source.name}".lower()
        self.home = stand.directory / "peers" / f"{self.slot}_{table}"
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        connector = CONNECTORS[stand.name]
        user, password = account(stand.source)
        facts = {
            "home": self.home,
            "database": source.name,
            "name": self.slot,
            "number": 7000 + source.server.port % 1000,
        }
        more = {key: value.format(**facts) for key, value in connector.more.items()}
        self.properties = {
            "name": name,
            "connector.class": connector.kind,
            "topic.prefix": name,
            "database.hostname": source.server.host,
            "database.port": str(source.server.port),
            "database.user": user,
            "database.password": password,
            "table.include.list": f"{stand.schema or source.name}.{table}",
            "snapshot.mode": "no_data",
            "tombstones.on.delete": "false",
            "poll.interval.ms": str(poll_ms),
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": f"{self.home}/offsets",
            **more,
        }
        versions = {"engine": connector.version, "connector": connector.artifact, "sink": SINK}
        self._command = java_of(f"debezium-{stand.name}", Path(__file__).parent, "Follow", versions)
        self.program: Program | None = None

    def run(self, sink: Mapping[str, str] | None = None) -> None:
        files = [written(self.home / "engine", self.properties)]
        files += [] if sink is None else [written(self.home / "sink", sink)]
        program, *options = self._command
        self.program = Program([program, *LOGS, *options, *files], {})

    def start(self) -> None:
        """From its stored place, or from here where it has none; it reads the log when this returns."""
        program, before = self.running, self._streams()
        ask(program, "start")
        until(lambda: self._streams() > before, PATIENCE, "Debezium's start", check=program.check)

    def _streams(self) -> int:
        return sum(STREAMING in line for _, line in list(self.running.said))

    def end(self) -> None:
        """Its place is stored."""
        ask(self.running, "stop")

    @property
    def running(self) -> Program:
        assert self.program is not None
        return self.program

    def stop(self) -> None:
        if self.program is not None:
            self.program.kill()
        if self.has_slot:
            drop_slot(self._source, self.slot)
            self._source.execute(f"DROP PUBLICATION IF EXISTS {self.slot}")


class Debezium:
    """Engine and sink."""

    def __init__(self, poll_ms: int = POLL_MS) -> None:
        self.name = "debezium" if poll_ms == POLL_MS else f"debezium-{poll_ms}ms"
        self._poll_ms = poll_ms
        self._engine: Engine | None = None

    def missing(self, stand: Stand) -> str:
        return "" if stand.name in CONNECTORS else f"no connector for {stand.name}"

    def start(self, stand: Stand, source: Database, target: Database, table: str) -> None:
        self._engine = engine = Engine(f"follow_{self._poll_ms}", stand, source, table, self._poll_ms)
        server, (user, password) = target.server, account(target.server)
        sink = {
            "connection.url": f"jdbc:{server.name}://{server.host}:{server.port}/{target.name}{SINK_OPTIONS[server.name]}",
            "connection.username": user,
            "connection.password": password,
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "schema.evolution": "none",
            "collection.name.format": table,
            "use.reduction.buffer": "true",
        }
        engine.run(sink)
        engine.start()

    def pause(self) -> None:
        self._running.end()

    def resume(self) -> None:
        self._running.start()

    def processes(self) -> list[int]:
        return self._running.running.tree

    def check(self) -> None:
        self._running.running.check()

    def stop(self) -> None:
        if self._engine is not None:
            self._engine.stop()
            self._engine = None

    @property
    def _running(self) -> Engine:
        assert self._engine is not None
        return self._engine


def written(file: Path, properties: Mapping[str, str]) -> Path:
    """It has a password in it."""
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return file
