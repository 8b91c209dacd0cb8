"""What the report of `make test-servers` makes of the names of tests."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servers_report import ServersReport

USED = ["mysql 9.7.4", "postgresql 18.4", "postgresql 15.20", "postgresql 11.22"]


def counted(test: str, when: str = "call", passed: bool = True) -> dict[str, Any]:
    report = ServersReport(Path("unused"), USED)
    said: Any = SimpleNamespace(nodeid=test, when=when, passed=passed)
    report.pytest_runtest_logreport(said)
    return dict(report._servers())


@pytest.mark.parametrize(
    ("test", "server", "area"),
    [
        ("tests/conformance/test_conformance_reader.py::test_reader[mysql9-rows]", "MySQL 9.7.4", "decoder"),
        ("tests/conformance/test_conformance_snapshot.py::test_snapshot[wal2json-x]", "PostgreSQL 15.20, wal2json", "load"),
        ("tests/live/test_postgresql_changes.py::test_a[rows-postgresql11-pgoutput]", "PostgreSQL 11.22", "decoder"),
        ("tests/live/test_postgresql_changes.py::a[a-postgresql15-decoderbufs]", "PostgreSQL 15.20, decoderbufs", "decoder"),
        ("tests/live/test_postgresql_decoders.py::test_pitfall_22_truncates", "PostgreSQL 15.20", "decoder"),
        ("tests/scenarios/test_scenario_postgresql_values.py::test_a[postgresql17]", "PostgreSQL 17", "values"),
        ("tests/live/test_mysql_catalog.py::test_a[mysql55]", "MySQL 5.5", "definitions"),
        ("tests/live/test_mysql_target_clusters.py::test_a[galera]", "MariaDB 10.11, Galera", "as a target"),
    ],
)  # fmt: skip
def test_a_test_counts_for_its_server_and_area(test: str, server: str, area: str) -> None:
    assert counted(test) == {server: {area: [1, 0]}}
    assert counted(test, when="setup") == {}
    assert counted(test, when="setup", passed=False) == {server: {area: [0, 1]}}


@pytest.mark.parametrize("test", ["tests/live/test_mysql_connections.py::test_tls", "tests/live/test_a.py::test_a[18]"])
def test_what_names_no_server_or_area_is_not_counted(test: str) -> None:
    assert counted(test) == {}
