"""Which releases of PostgreSQL preflight calls tested: those that the test runs have spoken to."""

from __future__ import annotations

import json
from pathlib import Path

from anabranch.connectors.postgresql.source import preflight_server as source_server
from anabranch.connectors.postgresql.target import preflight_server

LAST_RUN = Path(__file__).parents[2] / "servers" / "last_run.json"
EVERY_RUN = 18  # docs/generate.py, IN_EVERY_RUN


def test_sources_that_were_tested() -> None:
    servers = json.loads(LAST_RUN.read_text())["servers"]
    seen = {int(name.split()[1].split(".")[0]) for name in servers if name.startswith("PostgreSQL ")}
    assert set(source_server.TESTED) == seen | {EVERY_RUN}


def test_targets_that_were_tested() -> None:
    assert preflight_server.TESTED == (EVERY_RUN,)
