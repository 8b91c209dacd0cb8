"""Groups of tables that have to be loaded together: their order, and the command that names them all."""

from __future__ import annotations

import shlex

import pytest

from anabranch.model.ids import TableId
from anabranch.model.load_groups import group_of, load_command, parents_first, with_linked
from anabranch.model.schema import Action, ForeignKey, TableSchema

# grand <- parent <- child, twin (of parent, too), and one that a key only refuses rows of
PARENTS = {"grand": "", "parent": "grand", "child": "parent", "twin": "parent", "firm": ""}
NAMES = {name: TableId("s", name) for name in PARENTS}


def schema(name: str, parent: str, action: Action = Action.CASCADE) -> TableSchema:
    keys = (ForeignKey("k", ("p",), NAMES[parent], ("id",), action, Action.RESTRICT),) if parent else ()
    return TableSchema(NAMES[name], (), (), foreign_keys=keys)


SCHEMAS = {NAMES[name]: schema(name, parent) for name, parent in PARENTS.items()} | {
    NAMES["firm"]: schema("firm", "grand", Action.RESTRICT)
}


@pytest.mark.parametrize(
    ("table", "away", "group"),
    [
        ("grand", PARENTS, "grand"),
        ("parent", PARENTS, "grand parent"),
        ("child", PARENTS, "grand parent child"),
        ("child", ["child"], "child"),  # its parents stream
        ("parent", ["parent"], "parent child twin"),  # those that stream would miss what happens meanwhile
        ("child", ["child", "grand"], "grand parent child twin"),
        ("firm", PARENTS, "firm"),
    ],
)
def test_what_is_loaded_with_a_table(table: str, away: list[str], group: str) -> None:
    assert group_of(NAMES[table], SCHEMAS, [NAMES[one] for one in away]) == [NAMES[one] for one in group.split()]


def test_parents_come_first_whatever_order_they_are_named_in() -> None:
    named = [NAMES[one] for one in ("twin", "child", "grand", "parent", "child")]
    assert parents_first(named, SCHEMAS) == [NAMES[one] for one in ("grand", "parent", "child", "twin")]


def test_the_command_can_be_entered_as_it_stands() -> None:
    odd = TableId("s", "a b")
    named = f"--table s.grand --table {shlex.quote(str(odd))}"
    assert load_command([NAMES["grand"], odd], True) == f"anabranch load JOB {named} --recreate"
    assert load_command([NAMES["grand"]], with_children=True) == "anabranch load JOB --table s.grand --with-children"
    assert with_linked(NAMES["child"], SCHEMAS, True) == "s.child"


@pytest.mark.parametrize("table", ["grand", "parent", "child", "twin"])
def test_a_text_that_stays_names_all_that_hangs_together(table: str) -> None:
    assert with_linked(NAMES[table], SCHEMAS, False) == "s.grand --table s.parent --table s.child --table s.twin"
    assert with_linked(NAMES["firm"], SCHEMAS, False) == "s.firm"
