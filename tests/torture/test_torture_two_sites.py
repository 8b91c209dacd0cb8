"""A slice of the histories of two active sites, with kills. `TWO_SITES=1..300` runs so many of them instead, by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing.databases import Database, create_database, drop_database
from rigs.both_ways import End
from rigs.two_sites import History, Sites

SLICE = "1..2"
ENDS = {
    "postgresql and mariadb": ("logical_postgresql", "mariadb"),
    "mysql and postgresql": ("mysql", "logical_postgresql"),
    "postgresql and postgresql": ("logical_postgresql", "logical_postgresql"),
    "mariadb and mysql": ("mariadb", "mysql"),
}
ASKED = os.environ.get("TWO_SITES", "")
"""Seeds as FIRST..LAST; TWO_SITES_ENDS names a pair of ENDS."""


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Iterator[Callable[[str], End]]:
    made: list[Database] = []

    def make(fixture: str) -> End:
        made.append(create_database(request.getfixturevalue(fixture), "site"))
        return End(made[-1])

    yield make
    for database in made:
        drop_database(database)


@pytest.mark.timeout(7200 if ASKED else 900)
def test_rule_23_pitfall_69_histories_of_two_sites_with_kills(site: Callable[[str], End], tmp_path: Path) -> None:
    one, other = ENDS[os.environ.get("TWO_SITES_ENDS", next(iter(ENDS)))]
    first, _, last = (ASKED or SLICE).partition("..")
    sites, commits = Sites(site(one), site(other), tmp_path), 0
    try:
        for seed in range(int(first), int(last) + 1):
            commits += sites.run(History.drawn(seed)).commits
    finally:
        sites.drop()
    print(f"{int(last) - int(first) + 1} histories, {commits} transactions of writers")
    assert commits
