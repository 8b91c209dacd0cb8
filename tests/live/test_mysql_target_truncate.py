"""`[apply] truncate = "truncate"` at a real MySQL and MariaDB, where TRUNCATE commits by itself: the epoch is cut before and
behind it, and whoever dies in between does it again (K16, K17)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.connectors.mysql.target import emptying
from anabranch.connectors.mysql.target.apply import MysqlWriter
from anabranch.contracts import Emptying, ValueRules
from anabranch.errors import Fenced, TargetUnavailable
from anabranch.failpoints import FailpointReached
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.chunks import ITEMS, schema
from rigs.mysql_applier import Carried, leave
from rigs.mysql_writer import INT

OTHERS = schema("others", {"id": INT}, ["id"])
TABLES = (
    "CREATE TABLE items (id bigint AUTO_INCREMENT PRIMARY KEY, a bigint, b text)",
    "CREATE TABLE others (id bigint PRIMARY KEY)",
)


@pytest.fixture
def carried(
    request: pytest.FixtureRequest,
    mysql_family: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> Iterator[Carried]:
    database = source_database(mysql_family)
    database.execute(*TABLES)
    options = {"truncate": Emptying.TRUNCATE, "per_transaction": getattr(request, "param", False)}
    with closing(Carried(database, tmp_path / "trail", [ITEMS, OTHERS], options=options)) as made:
        yield made
    failpoints.arm({})


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """TRUNCATEs that were sent."""
    found: list[str] = []
    run = emptying.run

    def noted(connection: Any, sql: str, *values: object) -> int:
        found.extend([sql] if sql.startswith("TRUNCATE") else [])
        return run(connection, sql, *values)

    monkeypatch.setattr(emptying, "run", noted)
    return found


def item(number: int) -> tuple[Any, ...]:
    return ("items", "i", {"id": number, "a": number, "b": "x"})


def other(number: int) -> tuple[Any, ...]:
    return ("others", "i", {"id": number})


def ids(carried: Carried, table: str) -> list[int]:
    return [number for (number,) in carried.database.query(f"SELECT id FROM {table} ORDER BY id")]


@pytest.mark.parametrize("carried", [False, True], ids=["epoch", "transaction"], indirect=True)
def test_rule_16_the_epoch_is_cut_around_a_truncate(carried: Carried, statements: list[str]) -> None:
    """What is truncated together, is; the next number begins anew, as at the source."""
    carried.apply(
        [item(1), other(1)], [item(2)], [], [item(3), other(3)], [item(4)], [], [item(5), other(5)],
        truncates=[(2, "items"), (5, "items"), (5, "others")],
    )  # fmt: skip
    assert ids(carried, "items") == [5] and ids(carried, "others") == [5]
    assert len(statements) == 3 and carried.checkpoint == 7
    carried.apply([], truncates=[(0, "items")])
    carried.database.execute("INSERT INTO items (a) VALUES (0)")
    assert ids(carried, "items") == [1]


def test_rule_16_a_process_that_dies_behind_the_truncate_does_it_again(carried: Carried, statements: list[str]) -> None:
    carried.apply([item(1), other(1)], [item(2)])
    upto = carried.append([[other(2)], [], [item(3), other(3)]], [(1, "items")])
    failpoints.arm({failpoints.VARIABLE: "apply.emptied=raise"})
    with pytest.raises(FailpointReached):
        carried.applier.apply(upto)
    leave(carried.applier)
    assert (ids(carried, "items"), ids(carried, "others"), carried.checkpoint) == ([], [1, 2], 3)
    carried.applier = carried.begin("another")
    carried.applier.apply(upto)
    assert (ids(carried, "items"), ids(carried, "others"), carried.checkpoint) == ([3], [1, 2, 3], 5)
    assert len(statements) == 2


def test_rule_09_an_owner_that_was_replaced_empties_nothing(carried: Carried) -> None:
    carried.apply([item(1)])
    now = carried.applier.progress.checkpoint
    tables = [carried.applier.progress.context.tables[ITEMS.id].table]
    with closing(MysqlWriter(carried.endpoint, ValueRules(), True)) as taking:
        found = taking.claim(carried.job, "another")
        with pytest.raises((Fenced, TargetUnavailable)):
            carried.applier.progress.writer.empty_apart(now, tables)  # type: ignore[attr-defined]  # an ability
        with pytest.raises(Fenced):
            carried.applier.progress.writer.empty_apart(now, tables)  # type: ignore[attr-defined]  # over a new line
        assert ids(carried, "items") == [1]
        taking.empty_apart(replace(found, epoch=found.epoch + 1), tables)  # where the checkpoint is not
        assert ids(carried, "items") == [1]
        taking.empty_apart(found, tables)
        assert ids(carried, "items") == []


def test_rule_09_who_takes_over_meanwhile_waits_or_ends_it(carried: Carried, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint stays where it is while tables are emptied: a claim in that moment ends the session that does it."""
    carried.apply([item(1)])
    now = carried.applier.progress.checkpoint
    tables = [carried.applier.progress.context.tables[ITEMS.id].table]
    run, claimed = emptying.run, list[Any]()
    taking = MysqlWriter(carried.endpoint, ValueRules(), True)
    claims = threading.Thread(target=lambda: claimed.append(taking.claim(carried.job, "another")))

    def taken_over(connection: Any, sql: str, *values: object) -> int:
        if sql.startswith("TRUNCATE"):
            claims.start()
            claims.join(240)
        return run(connection, sql, *values)

    monkeypatch.setattr(emptying, "run", taken_over)
    with closing(taking):
        with pytest.raises(TargetUnavailable):
            carried.applier.progress.writer.empty_apart(now, tables)  # type: ignore[attr-defined]  # an ability
        assert claimed and claimed[0].owner == "another" and ids(carried, "items") == [1]


def test_rule_16_what_more_than_the_rows_depends_on_is_emptied_by_delete(
    carried: Carried, statements: list[str]
) -> None:
    """A table with a trigger, one that others refer to, and one that is truncated in a transaction with rows."""
    carried.database.execute(
        "CREATE TRIGGER seen BEFORE DELETE ON items FOR EACH ROW SET @seen = 1",
        "CREATE TABLE child (id bigint, FOREIGN KEY (id) REFERENCES others (id))",
    )
    carried.apply([item(1), other(1)], [], [item(2), other(2)], truncates=[(1, "items"), (1, "others")])
    carried.database.execute("DROP TRIGGER seen")
    carried.apply([], [item(3)], truncates=[(0, "others")])
    carried.database.execute("DROP TABLE child")
    carried.apply([other(4)], [other(5), item(5)], [other(6)], truncates=[(1, "others")])
    assert (ids(carried, "items"), ids(carried, "others")) == ([2, 3, 5], [6])
    assert statements == []
    carried.apply([], truncates=[(0, "others")])
    assert len(statements) == 1
