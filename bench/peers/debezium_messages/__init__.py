"""Debezium's messages, as text: its engine beside a test, which prints what it would send. No figure comes from it; ours are
compared with what it prints (tests/live/test_messages_as_debezium.py)."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from anabranch.testing.databases import Database
from bench.peers.debezium import CONNECTORS, LOGS, PATIENCE, STREAMING, written
from bench.peers.install import java_of
from bench.peers.place import account
from bench.postgresql import drop_slot
from bench.processes import Program, ProgramFailed, until

Told = tuple[str, str | None, str | None]  # topic, key, value


def command(kind: str) -> list[object]:
    """The program for one kind of source; it is fetched and compiled the first time."""
    one = CONNECTORS[kind]
    versions = {"engine": one.version, "connector": one.artifact}
    return java_of(f"debezium-messages-{kind}", Path(__file__).parent, "Show", versions)


class Shown:
    """The engine for all tables of a database, from the end of its log on. `more`: properties, in place of the defaults."""

    def __init__(self, source: Database, directory: Path, more: Mapping[str, str] | None = None) -> None:
        self._source, kind = source, source.server.name
        self._slot = f"shown_{hashlib.sha256(source.name.encode()).hexdigest()[:12]}"
        self.lines: list[Told] = []
        one, (user, password) = CONNECTORS[kind], account(source.server)
        facts = {"home": directory, "database": source.name, "name": self._slot, "number": 7900}
        properties = {
            "name": "shown",
            "connector.class": one.kind,
            "topic.prefix": "shown",
            "database.hostname": source.server.host,
            "database.port": str(source.server.port),
            "database.user": user,
            "database.password": password,
            "snapshot.mode": "no_data",
            "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
            "poll.interval.ms": "50",
            "converter.schemas.enable": "false",
            **{key: value.format(**facts) for key, value in one.more.items()},
            **(more or {}),
        }
        program, *options = command(kind)
        self._program = Program([program, *LOGS, *options, written(directory / "show", properties)], {})
        until(self._streams, PATIENCE, "Debezium's start", check=self._program.check)

    def _streams(self) -> bool:
        return any(STREAMING in line for _, line in list(self._program.said))

    def upto(self, topic: str) -> Sequence[Told]:
        """Return all messages in front of the first one to a topic whose name ends so."""
        end = time.monotonic() + PATIENCE
        while not self.lines or not self.lines[-1][0].endswith(topic):
            line = self._program.process.stdout.readline() if self._program.process.stdout else ""
            if not line or time.monotonic() > end:
                self._program.check()
                raise ProgramFailed(f"Debezium ended, or told nothing of {topic}: {self._program.said[-5:]}")
            self.lines.append(tuple(json.loads(line)))
        return self.lines[:-1]

    def stop(self) -> None:
        self._program.kill()
        if "plugin.name" in CONNECTORS[self._source.server.name].more:
            drop_slot(self._source, self._slot)
            self._source.execute(f"DROP PUBLICATION IF EXISTS {self._slot}")
