"""What `make test-servers` leaves behind: per server and area, how many tests passed and failed, and the date.

docs/generate.py makes docs/reference/servers.md of it. What does not live here: which tests run there (conftest.py).
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
    "decoder": ("live_log", "conformance_reader"),
    "values": ("mysql_values",),
    "load": ("mysql_load", "conformance_snapshot"),
    "definitions": ("mysql_catalog", "scenario_metadata"),
    "preflight": ("mysql_preflight",),
    "load and follow": ("scenario_servers",),
}
_SERVER = re.compile(r"\[(mysql55|mysql56|mysql9)\b")
_MAJOR = {"mysql55": "5.5", "mysql56": "5.6", "mysql9": "9"}


class ServersReport:
    """A plugin of pytest: counts, and writes when the run ends."""

    def __init__(self, file: Path, used: Sequence[str]) -> None:
        self.file, self.used = file, used  # `used`: "mysql 5.5.34", …, filled while the run goes on
        self.found: dict[str, dict[str, list[int]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        server, area = _SERVER.search(report.nodeid), _area(report.nodeid)
        if server is None or not area or (report.when != "call" and report.passed):
            return
        counts = self.found.setdefault(server[1], {}).setdefault(area, [0, 0])
        counts[not report.passed] += 1

    def pytest_sessionfinish(self) -> None:
        result = {"date": datetime.now(UTC).date().isoformat(), "servers": dict(self._servers())}
        text = json.dumps(result, indent=2, ensure_ascii=False)
        self.file.write_text(re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text) + "\n")

    def _servers(self) -> list[tuple[str, Any]]:
        versions = [name.removeprefix("mysql ") for name in self.used if name.startswith("mysql ")]
        return [
            (next((f"MySQL {v}" for v in versions if v.startswith(_MAJOR[key] + ".")), f"MySQL {_MAJOR[key]}"), areas)
            for key, areas in sorted(self.found.items())
        ]


def _area(test: str) -> str:
    file = test.split("::")[0]
    return next((area for area, parts in AREAS.items() if any(part in file for part in parts)), "")
