"""Flink CDC 3.5 on Flink 1.20: one SQL statement from a `mysql-cdc` table to an upserting `jdbc` table, in a Flink within one
process, one slot, no checkpoints, all else by default. `Stream.java` is that process. It starts from an offset of the log."""

from __future__ import annotations

from pathlib import Path

from anabranch.testing.databases import Database
from bench.peers.install import java_of
from bench.peers.place import account, ask
from bench.processes import Program
from bench.stand import Stand

VERSIONS = {"flink": "1.20.3", "jdbc": "3.3.0-1.20", "cdc": "3.5.0"}
OPENED = (
    "java.lang",
    "java.lang.reflect",
    "java.net",
    "java.nio",
    "java.text",
    "java.time",
    "java.util",
    "java.util.concurrent",
)
COLUMNS = """(id BIGINT, customer_id INT, status STRING, amount DECIMAL(12, 2), note STRING, created_at TIMESTAMP(6),
  flag {flag}, payload STRING, PRIMARY KEY (id) NOT ENFORCED)"""
STATEMENTS = """\
CREATE TABLE source {tinyint} WITH ('connector' = 'mysql-cdc',
  'hostname' = '{source.server.host}', 'port' = '{source.server.port}',
  'username' = '{user}', 'password' = '{password}', 'database-name' = '{source.name}', 'table-name' = '{table}',
  'server-id' = '7300', 'server-time-zone' = 'UTC', 'scan.startup.mode' = 'specific-offset',
  'scan.startup.specific-offset.file' = '%s', 'scan.startup.specific-offset.pos' = '%s',
  'debezium.database.ssl.mode' = 'disabled', 'jdbc.properties.useSSL' = 'false',
  'jdbc.properties.allowPublicKeyRetrieval' = 'true')
-----
CREATE TABLE target {smallint} WITH ('connector' = 'jdbc', 'table-name' = '{table}', 'username' = '{target.server.user}',
  'password' = '{target.server.password}',
  'url' = 'jdbc:postgresql://{target.server.host}:{target.server.port}/{target.name}')
-----
INSERT INTO target SELECT * FROM source
"""


class Flink:
    name = "flink-cdc"
    _program: Program | None = None

    def missing(self, stand: Stand) -> str:
        if stand.at.kind != "postgresql":
            return "its sink is compared at a PostgreSQL only"
        return "" if stand.name in ("mysql", "mariadb") else "its PostgreSQL source is not compared"

    def start(self, stand: Stand, source: Database, target: Database, table: str) -> None:
        user, password = account(stand.source)
        place = stand.directory / "peers" / f"flink_{source.name}"
        place.mkdir(parents=True, exist_ok=True)
        file = place / "statements.sql"
        file.touch(mode=0o600)
        facts = {"source": source, "target": target, "user": user, "password": password, "table": table}
        columns = {"tinyint": COLUMNS.format(flag="TINYINT"), "smallint": COLUMNS.format(flag="SMALLINT")}
        file.write_text(STATEMENTS.format(**facts, **columns))
        opened = [part for package in OPENED for part in ("--add-opens", f"java.base/{package}=ALL-UNNAMED")]
        logs = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
        program, *options = java_of(self.name, Path(__file__).parent, "Stream", VERSIONS)
        self._program = Program([program, *opened, logs, *options, file], {})
        self._stand, self._offset = stand, stand.log_end()
        self.resume()

    def pause(self) -> None:
        """It stores no place without checkpoints; nothing happens at the source now, so the end of its log is that."""
        ask(self._running, "stop")
        self._offset = self._stand.log_end()

    def resume(self) -> None:
        file, offset = self._offset
        ask(self._running, f"start {file} {offset}")

    def processes(self) -> list[int]:
        return self._running.tree

    def check(self) -> None:
        self._running.check()

    def stop(self) -> None:
        if self._program is not None:
            self._program.kill()
            self._program = None

    @property
    def _running(self) -> Program:
        assert self._program is not None
        return self._program
