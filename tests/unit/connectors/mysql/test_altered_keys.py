"""Unique keys that go or get another name at a MySQL or MariaDB, as far as the statements tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pymysql
import pytest

from anabranch.connectors.mysql.target import altered_indexes
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.structures import ExistingIndex, ExistingTable
from anabranch.contracts import Conflict, ValueRules
from anabranch.errors import TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.index_changes import IndexChanges
from anabranch.model.schema import Index
from anabranch.rows.altered import AlteredTable
from rigs.chunks import INT, followed, schema

ITEM = schema("item", {"id": INT, "n": INT, "m": INT}, ["id"])
PLACE = "ALTER TABLE `shop`.`item` "
UNIQUE = Index("u", ("n",), True)
NOBODY: Any = None


def altered(before: list[Index], behind: list[Index], changes: IndexChanges) -> AlteredTable:
    then, now = (replace(ITEM, indexes=tuple(some)) for some in (before, behind))
    there = replace(followed(ITEM).table, target=TableId("shop", "item"))
    return AlteredTable(then, there, now, there, (), changes)


def standing(*indexes: tuple[str, str, bool]) -> ExistingTable:
    some = [ExistingIndex(name, (over,), (None,), (False,), unique, "BTREE", ()) for name, over, unique in indexes]
    return ExistingTable(TableId("shop", "item"), "BASE TABLE", "InnoDB", "utf8mb4_bin", "Dynamic", 0, indexes=some)


class Server:
    def __init__(self, refusals: Mapping[str, int]) -> None:
        self.refusals, self.asked = refusals, list[str]()

    def run(self, connection: Any, statement: str) -> None:
        self.asked.append(statement.removeprefix(PLACE))
        if number := self.refusals.get(self.asked[-1]):
            raise pymysql.err.OperationalError(number, "said the server")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server({})
    monkeypatch.setattr(altered_indexes, "run", found.run)
    return found


def alter(one: AlteredTable, existing: ExistingTable, release: Release | None = None) -> list[str]:
    return altered_indexes.alter(NOBODY, one, existing, ValueRules(), release or Release.newest("mysql"))


def test_a_key_that_is_not_there_may_still_be_built_by_the_server(server: Server) -> None:
    """For an apply that was killed: the statement that drops it waits for that."""
    going = altered([UNIQUE], [], IndexChanges(dropped=("u",)))
    assert alter(going, standing()) == [] and server.asked == ["DROP KEY `u`"]
    server.refusals = {"DROP KEY `u`": 1091}
    assert alter(going, standing()) == [f"index u is not dropped: {altered_indexes.NOT_THERE}"]
    assert alter(going, standing(("u", "n", True))) == [], "an attempt whose answer was lost has dropped it"
    server.refusals = {"DROP KEY `u`": 1205}
    with pytest.raises((pymysql.err.Error, TargetUnavailable)):
        alter(going, standing())


def test_a_key_of_somebody_else_stays(server: Server) -> None:
    going = altered([UNIQUE], [], IndexChanges(dropped=("u",)))
    alter(going, standing(("u", "m", True)))
    assert "DROP KEY `u`" not in server.asked


def test_a_key_that_a_foreign_key_needs_goes_with_the_index_that_takes_its_place(server: Server) -> None:
    server.refusals = {"DROP KEY `u`": 1553}
    swapped = altered([UNIQUE], [Index("i", ("n",))], IndexChanges(("i",), ("u",)))
    assert alter(swapped, standing(("u", "n", True))) == []
    assert server.asked[-1] == "DROP KEY `u`, ADD KEY `i` (`n`)"
    same = altered([UNIQUE], [Index("u", ("n",))], IndexChanges(("u",), ("u",)))
    assert alter(same, standing(("u", "n", True))) == [] and server.asked[-1] == "DROP KEY `u`, ADD KEY `u` (`n`)"


def test_a_key_that_stays_parks_the_table_if_rows_may_break_it(server: Server) -> None:
    server.refusals = {"DROP KEY `u`": 1553}
    going, there = IndexChanges(dropped=("u",)), standing(("u", "n", True))
    with pytest.raises(Conflict, match=r"unique key u of .* cannot be dropped, and would refuse rows"):
        alter(altered([UNIQUE], [], going), there)
    with pytest.raises(Conflict):
        alter(altered([UNIQUE], [Index("w", ("n", "m"), True)], going), there)
    (said,) = alter(altered([UNIQUE], [Index("w", ("n",), True)], going), there)
    assert said.startswith("index u is not dropped")
    plain = altered([Index("u", ("n",))], [], going)
    assert len(alter(plain, standing(("u", "n", False)))) == 1


def test_a_release_that_renames_no_indexes_drops_and_builds_it_in_one(server: Server) -> None:
    renamed = altered([UNIQUE], [Index("w", ("n",), True)], IndexChanges(renamed=(("u", "w"),)))
    old = replace(Release.newest("mysql"), version=(5, 6, 50))
    assert alter(renamed, standing(("u", "n", True)), old) == []
    assert alter(renamed, standing(("u", "n", True))) == []
    assert server.asked == ["DROP KEY `u`, ADD UNIQUE KEY `w` (`n`)", "RENAME KEY `u` TO `w`"]


def test_the_name_of_a_key_that_goes_is_free_for_the_next_one(server: Server) -> None:
    other = Index("w", ("m",), True)
    changed = altered([UNIQUE, other], [Index("u", ("m",), True)], IndexChanges((), ("u",), (("w", "u"),)))
    assert alter(changed, standing(("u", "n", True), ("w", "m", True))) == []
    assert server.asked == ["DROP KEY `u`", "RENAME KEY `w` TO `u`"]
