"""Carry out what foreign keys of any shape do and the source's log does not show, with a real server as the judge (K1): its own
keys carry out a history in one database, apply carries out the history's log in another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest

from anabranch.connectors.mysql.target import merge_rows
from anabranch.errors import RowRefused
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs import foreign_keys_mysql as keys
from rigs.foreign_keys import History, replayed
from rigs.foreign_keys_drawn import drawn
from rigs.mysql_epoch import epoch_at

MANY = 15


@pytest.mark.parametrize("part", range(2))
@pytest.mark.one_case("mysql-0", "mariadb-1")
def test_rule_01_any_history_of_any_foreign_keys_ends_as_the_server_ends_it(
    mysql_family: Server, source_database: Callable[[Server], Database], part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows alone, and by staging tables."""
    monkeypatch.setattr(merge_rows, "FEW", {action: part * few for action, few in merge_rows.FEW.items()})
    seen = set_wise = 0
    for seed in range(part * MANY, (part + 1) * MANY):
        history = replayed(*drawn(seed))
        if history is None or not history.changes:
            continue
        source, target = source_database(mysql_family), source_database(mysql_family)
        if not at_the_server(history, source):
            continue
        expected = keys.rows(source, history.schemas)
        keys.create(target, history.schemas, with_keys=False)
        keys.fill(target, history.start)
        with epoch_at(target) as at:
            set_wise += keys.apply(at, history.schemas, history.changes) > 0
        assert keys.rows(target, history.schemas) == expected, f"drawn({seed})"
        seen += 1
    assert seen > MANY / 2 and set_wise > MANY / 3


@pytest.mark.one_case("mariadb")
def test_rule_07_any_history_of_any_foreign_keys_that_act(
    mysql_family: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    """By the whole of apply, at a target with the same keys."""
    seen = 0
    for seed in range(MANY):
        history = replayed(*drawn(seed))
        if history is None or not history.changes:
            continue
        source, target = source_database(mysql_family), source_database(mysql_family)
        if not at_the_server(history, source):
            continue
        expected = keys.rows(source, history.schemas)
        keys.create(target, history.schemas, with_keys=True)
        start = [(name, "i", row) for name, rows in history.start.items() for row in rows]
        try:
            keys.apply_where_keys_act(target, history.schemas, start, history.changes, tmp_path / str(seed))
        except RowRefused as refused:
            assert "by two foreign keys" in str(refused), f"drawn({seed})"
            continue
        assert keys.rows(target, history.schemas) == expected, f"drawn({seed})"
        seen += 1
    assert seen > MANY / 2


def at_the_server(history: History, source: Database) -> bool:
    """Let the server's own keys carry out a history; False where this one refuses it, or its keys."""
    try:
        keys.create(source, history.schemas, with_keys=True)
    except pymysql.err.MySQLError:
        return False
    keys.fill(source, history.start)
    return keys.do(source, history.changes)
