"""A user who writes between the look at rows of a pair and the merge over them, which are two statements: the row that the
user made newer stays, at both sites (K23)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.mysql.target import merge_rows as in_mysql
from anabranch.connectors.postgresql.target import merge_rows as in_postgresql
from anabranch.testing.databases import Database, create_database, drop_database
from rigs.both_ways import End, rest, settle
from rigs.two_sites import ROWS, WINS, Sites

SITES = {
    "postgresql and mariadb": ("logical_postgresql", "mariadb"),
    "mysql and postgresql": ("mysql", "logical_postgresql"),
}


@pytest.fixture(params=SITES)
def sites(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sites]:
    made: list[Database] = []
    for fixture in SITES[request.param]:
        made.append(create_database(request.getfixturevalue(fixture), "site"))
    both = Sites(*map(End, made), tmp_path)
    yield both
    both.drop()
    for database in made:
        drop_database(database)


def _row(table: str, version: int, text: str) -> str:
    return f"INSERT INTO {table} VALUES (1, '{text}', '{_time(version)}', {version})"


def _time(version: int) -> str:
    return f"2026-01-01 00:00:00.{version:06}"


def _behind_the_look(monkeypatch: pytest.MonkeyPatch, end: End, write: Callable[[], None]) -> list[str]:
    """Have a user write at this end once a job has looked at its rows, and not yet written. Returns what has been done."""
    module: Any = in_postgresql if end.is_postgresql else in_mysql
    look, done = module.refuse_newer, list[str]()

    def looks(*arguments: Any) -> None:
        try:
            look(*arguments)
        finally:
            if not done:
                done.append("written")
                write()

    monkeypatch.setattr(module, "refuse_newer", looks)
    return done


def _ends_equal(sites: Sites, table: str) -> list[tuple[Any, ...]]:
    for _ in range(2):
        settle(*sites.ways)
        rest(*sites.ways, rounds=6)
    here, there = (way.source.rows(table) for way in sites.ways)
    assert here == there
    return here


@pytest.mark.parametrize("at", [0, 1], ids=["at one", "at the other"])
def test_rule_23_a_row_inserted_behind_the_look_is_not_written_over(
    sites: Sites, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    here, there = sites.ways[at].source, sites.ways[1 - at].source
    here.database.execute(_row(ROWS, 1, "first"))
    settle(*sites.ways)
    here.database.execute(f"DELETE FROM {ROWS} WHERE id = 1")
    there.database.execute(f"UPDATE {ROWS} SET v = 'there', changed = '{_time(2)}' WHERE id = 1")
    done = _behind_the_look(monkeypatch, here, lambda: here.database.execute(_row(ROWS, 8, "again")))
    sites.ways[1 - at].here.stream()
    assert done and [row[1] for row in here.rows(ROWS)] == ["again"]
    assert [row[1] for row in _ends_equal(sites, ROWS)] == ["again"]


def test_rule_23_a_row_that_comes_back_behind_the_look_is_not_deleted_by_an_older_delete(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written over, the row would have the older version, which the delete that follows takes for its own."""
    one, other = (way.source for way in sites.ways)
    other.database.execute(_row(WINS, 7, "other"))
    settle(*sites.ways)
    one.database.execute(f"DELETE FROM {WINS} WHERE id = 1")
    other.database.execute(f"UPDATE {WINS} SET v = 'other again', changed = '{_time(8)}' WHERE id = 1")
    done = _behind_the_look(monkeypatch, one, lambda: one.database.execute(_row(WINS, 18, "one")))
    sites.ways[1].here.stream()
    assert done and [row[1] for row in one.rows(WINS)] == ["one"]
    other.database.execute(f"DELETE FROM {WINS} WHERE id = 1")
    _ends_equal(sites, WINS)
