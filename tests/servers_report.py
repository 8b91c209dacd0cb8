"""What `make test-servers` leaves behind: per server and area, how many tests passed and failed, the date, and how many tests
had run: a run may be broken off.

PostgreSQL 15 has three rows: by its own decoder, and by two others. docs/generate.py makes docs/reference/servers.md of it.
What does not live here: which tests run there (conftest.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

# Area -> part of the test's file name; the first that fits.
AREAS = {
    "decoder": ("live_log", "conformance_reader", "postgresql_changes", "postgresql_decoders", "postgresql_releases"),
    "values": ("mysql_values", "postgresql_values"),
    "load": ("mysql_load", "conformance_snapshot", "postgresql_snapshot"),
    "definitions": ("mysql_catalog", "scenario_metadata", "postgresql_source_structures"),
    "preflight": ("mysql_preflight", "postgresql_source_preflight"),
    "as a target": (
        "mysql_target",
        "conformance_writer",
        "conformance_store",
        "conformance_tables",
        "conformance_loader",
    ),
    "load and follow": ("scenario_servers", "scenario_postgresql"),
}
# How tests name a server among their parameters -> its name and release. The decoders are two more of a PostgreSQL 15.
SERVERS = {
    "mysql55": ("MySQL", "5.5"),
    "mysql56": ("MySQL", "5.6"),
    "mysql9": ("MySQL", "9"),
    "group": ("MySQL", "8.0"),
    "galera": ("MariaDB", "10.11"),
    "postgresql11": ("PostgreSQL", "11"),
    "postgresql12": ("PostgreSQL", "12"),
    "postgresql15": ("PostgreSQL", "15"),
    "wal2json": ("PostgreSQL", "15"),
    "decoderbufs": ("PostgreSQL", "15"),
    "postgresql17": ("PostgreSQL", "17"),
}
# What stands behind the release of those that have a second row.
BESIDE = {
    "wal2json": "wal2json",
    "decoderbufs": "decoderbufs",
    "group": "Group Replication",
    "galera": "Galera",
}
ALONE = {"test_postgresql_decoders.py": "postgresql15"}  # files whose tests speak to one server, and do not say so


class ServersReport:
    """A plugin of pytest: counts, and writes when the run ends."""

    def __init__(self, file: Path, used: Sequence[str]) -> None:
        self.file, self.used = file, used  # `used`: "mysql 5.5.34", …, filled while the run goes on
        self.found: dict[str, dict[str, list[int]]] = {}
        self.ended: set[str] = set()
        self.collected = 0  # by workers

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            self.ended.add(report.nodeid)
        server, area = _server(report.nodeid), _area(report.nodeid)
        if not server or not area or (report.when != "call" and report.passed):
            return
        counts = self.found.setdefault(server, {}).setdefault(area, [0, 0])
        counts[not report.passed] += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self.collected = len(ids)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        ran = [len(self.ended), self.collected or session.testscollected]
        result = {"date": datetime.now(UTC).date().isoformat(), "ran": ran, "servers": dict(self._servers())}
        text = json.dumps(result, indent=2, ensure_ascii=False)
        self.file.write_text(re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text) + "\n")

    def _servers(self) -> list[tuple[str, Any]]:
        return [(self._named(key), self.found[key]) for key in SERVERS if key in self.found]

    def _named(self, key: str) -> str:
        """As it said of itself: "PostgreSQL 15.20, wal2json"."""
        name, release = SERVERS[key]
        versions = (one.partition(" ")[2] for one in self.used if one.startswith(f"{name.lower()} {release}."))
        return f"{name} {next(versions, release)}" + (f", {BESIDE[key]}" if key in BESIDE else "")


def _server(test: str) -> str:
    """The last that its parameters name: of `postgresql15-wal2json` the decoder."""
    file, _, rest = test.partition("::")
    named = [one for one in re.split(r"[\[\]-]", rest) if one in SERVERS]
    return named[-1] if named else ALONE.get(Path(file).name, "")


def _area(test: str) -> str:
    file = test.split("::")[0]
    return next((area for area, parts in AREAS.items() if any(part in file for part in parts)), "")
