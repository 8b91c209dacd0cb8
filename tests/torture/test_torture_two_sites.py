"""A slice of the histories of two active sites, with kills, cut lines and servers that start again, between one pair of
servers. `make torture-sites SEEDS=1..250` runs so many of them, between each pair, and keeps what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from anabranch.testing.databases import create_database, unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.servers import Server, start_mariadb, start_mysql, start_postgresql
from rigs.both_ways import End
from rigs.postgresql_source import SOURCE_OPTIONS
from rigs.two_sites import History, Sites
from rigs.two_sites_kept import Ran, keep

SLICE = "2..4"
STARTS: dict[str, Callable[[Path], Server]] = {
    "postgresql": partial(start_postgresql, options=(*SOURCE_OPTIONS, "--fsync=off")),
    "mysql": partial(start_mysql, options=("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0")),
    "mariadb": partial(start_mariadb, options=("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0")),
}
ENDS = {
    "postgresql and mariadb": ("postgresql", "mariadb"),
    "mysql and postgresql": ("mysql", "postgresql"),
    "postgresql and postgresql": ("postgresql", "postgresql"),
    "mariadb and mysql": ("mariadb", "mysql"),
}
ASKED = os.environ.get("TWO_SITES", "")
"""Seeds as FIRST..LAST, between all ENDS, or between those that TWO_SITES_ENDS names. TWO_SITES_KEEP names a file for what came
of it."""
PAIRS = [os.environ["TWO_SITES_ENDS"]] if "TWO_SITES_ENDS" in os.environ else list(ENDS) if ASKED else list(ENDS)[:1]


@pytest.fixture
def ends(request: pytest.FixtureRequest, quick_directory: Path) -> Iterator[tuple[End, End]]:
    """Start two servers for these histories alone, since they are started again, and a line to each, since lines are cut."""
    with ExitStack() as stack:
        made = []
        for kind in ENDS[request.param]:
            server = stack.enter_context(STARTS[kind](quick_directory / unique_name("site")))
            line = stack.enter_context(Proxy(server.host, server.port))
            made.append(End(create_database(server, "site"), line))
        yield made[0], made[1]


@pytest.mark.timeout(4 * 3600 if ASKED else 900)
@pytest.mark.parametrize("ends", PAIRS, indirect=True)
def test_rule_23_pitfall_69_histories_of_two_sites_with_faults(
    ends: tuple[End, End], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    first, _, last = (ASKED or SLICE).partition("..")
    sites, begun = Sites(*ends, tmp_path), time.monotonic()
    ran = Ran([f"{end.database.server.name} {end.database.server.version}" for end in ends])
    try:
        for seed in range(int(first), int(last) + 1):
            ran.add(sites.run(History.drawn(seed)))
    finally:
        sites.drop()
    ran.seconds = round(time.monotonic() - begun)
    print(ran)
    assert ran.transactions
    assert ASKED or all(ran.faults.get(kind) for kind in ("kill", "cut", "restart")), ran
    if ASKED and (file := os.environ.get("TWO_SITES_KEEP")):
        keep(Path(file), (int(first), int(last)), request.node.callspec.params["ends"], ran)
