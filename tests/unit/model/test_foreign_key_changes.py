"""Foreign keys that come and go: what was said of one goes with it, whatever its name at the target is."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.connectors.mysql.target import building
from anabranch.connectors.mysql.target import names as mysql_names
from anabranch.connectors.postgresql.target import constraints, ddl
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.foreign_key_changes import foreign_key_changes
from anabranch.model.ids import TableId
from anabranch.model.schema import ForeignKey, TableSchema
from anabranch.model.table_life import Life, TableState, alter, note_built
from anabranch.rows.net import TargetTable

ITEM, OTHER = TableId("shop", "item"), TableId("shop", "other")
INT = LogicalType(Kind.INT32)
LONG = "ø" * 64  # 128 bytes, which no PostgreSQL takes
TABLES = {table: TargetTable(table, table, ("id", "v"), (INT, INT), ("id",)) for table in (ITEM, OTHER)}


def item(*names: str) -> TableSchema:
    """A table with keys of these names."""
    keys = tuple(ForeignKey(name, ("v",), OTHER, ("id",)) for name in names)
    return TableSchema(ITEM, (), ("id",), foreign_keys=keys)


def left_behind(lines: list[str], gone: str, stays: str) -> tuple[str, ...]:
    """Return what is left of what was said, once a key has gone."""
    before, behind = item(gone, stays), item(stays)
    state = note_built(TableState(ITEM, ITEM, Life.STREAMING, schema=before), lines)
    return alter(state, behind, keys=foreign_key_changes(before, behind)).facts.not_built


@pytest.mark.parametrize("gone", ["k", LONG])
def test_what_a_postgresql_said_of_a_key_goes_with_it(gone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the connector's own words for a key that the server refuses."""
    said: list[str] = []

    def refuse(connection: Any, statement: str, what: str) -> list[str]:
        said.append(what)
        return [f"{what} could not be built: refused"]

    monkeypatch.setattr(constraints, "attempt", refuse)
    monkeypatch.setattr(constraints, "read_table", lambda *_: None)
    monkeypatch.setattr(constraints, "may_bypass_constraints", lambda connection: True)
    no_server: Any = None
    lines = constraints.build_foreign_keys(no_server, item(gone, "k2"), TABLES[ITEM], TABLES.get)
    assert said == [f"foreign key {ddl.shortened(gone)} of shop.item", "foreign key k2 of shop.item"]
    assert left_behind(lines, gone, "k2") == ("foreign key k2 of shop.item could not be built: refused",)
    if gone == LONG:
        assert lines[0].endswith(f"; there its name is {ddl.shortened(LONG)}"), "people look for it by that one"


@pytest.mark.parametrize("is_used", [False, True])
@pytest.mark.parametrize("gone", ["k", "x" * 65])
def test_what_a_mysql_said_of_a_key_goes_with_it(gone: str, is_used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another table has its name: names of keys are one list per database."""
    monkeypatch.setattr(building, "add_key", lambda *arguments: [f"{arguments[-1]} could not be built: refused"])
    monkeypatch.setattr(building.Building, "_is_used", lambda *_: is_used)
    monkeypatch.setattr(building.Building, "_existing", lambda *_: None)
    monkeypatch.setattr(building, "without_parent", lambda *_: [])
    anything: Any = None
    built = building.Building(anything, anything, item(gone, "k2"), TABLES[ITEM], anything)
    lines = built.foreign_keys(TABLES.get)
    own = mysql_names.shortened(gone)
    own = mysql_names.with_digest(own, f"shop.item.{own}") if is_used else own
    assert own == gone or lines[0].endswith(f"; there its name is {own}")
    assert left_behind(lines, gone, "k2") == tuple(lines[1:])
