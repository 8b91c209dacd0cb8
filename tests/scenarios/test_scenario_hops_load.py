"""The load of a way in two jobs: the one that applies loads tables while the other one's load goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import unquote

import pytest

from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from rigs.hops import Hops, hops
from rigs.scenario import Scenario, wait_until

Make = Callable[..., Scenario]
STALLED = "trail.load.manifest=delay:3600@3"  # of the third table, for as long as the test wants


@pytest.mark.quick
def test_tables_are_loaded_while_the_load_at_the_source_goes_on(
    mariadb: Server, scenario: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables are through at the source's site, which is held then: they come to the target. Both sites are killed."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    way = hops(made)
    monkeypatch.setenv("ANABRANCH_FAILPOINTS", STALLED)
    run = way.here.start("run")
    monkeypatch.delenv("ANABRANCH_FAILPOINTS")
    applied = way.there.start("run")
    with Writer(made.source, seed=7, rate=20):
        two = wait_until(lambda: len(found := manifests(way)) == 2 and found, 120, "two manifests", run.tail, run)
        wait_until(lambda: loaded(way, two), 120, "their rows at the target", applied.tail, applied)
        assert not (way.trail / "load" / "complete.json").exists()
        wait_until(lambda: "2 tables of it are here" in way.there.cli("status").stdout, 60, "what it waits for")
        run.kill()
        applied.kill()
        run, applied = way.start()
        way.there.wait_streaming(applied, seconds=200)
    way.there.sync(applied, seconds=120)
    made.assert_identical()
    assert run.stop().code == applied.stop().code == 0


def manifests(way: Hops) -> dict[str, int]:
    """Return the rows of tables that are in the trail as a whole, by name."""
    found = {}
    for file in (way.trail / "load").glob("*/manifest.json"):
        rows = sum(chunk["rows"] for chunk in json.loads(file.read_text())["chunks"])
        found[unquote(file.parent.name).partition(".")[2]] = rows
    return found


def loaded(way: Hops, tables: dict[str, int]) -> bool:
    """Return whether the job that applies has handed these tables over with so many rows."""
    query = "SELECT source_table, rows_loaded FROM anabranch.table_state WHERE job = %s AND high <> ''"
    if not way.there.states():
        return False
    there = {table.partition(".")[2]: rows for table, rows in way.there.target.query(query, [way.there.name])}
    return all(there.get(table) == rows for table, rows in tables.items())
