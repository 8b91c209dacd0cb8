"""The torture kit's model: what InnoDB makes of rows, unique keys and foreign keys."""

from __future__ import annotations

import pytest

from anabranch.testing.torture.history import Choice, Condition, Plus, Statement
from anabranch.testing.torture.model import Disagreement, Model, Refused
from anabranch.testing.torture.tables import CASCADE, RESTRICT, SET_NULL, Column, ForeignKey, Schema, Table
from rigs.torture_tables import delete, family, insert, update


def model(on_delete: str = CASCADE, on_update: str = CASCADE, *statements: Statement) -> Model:
    made = Model(family(on_delete, on_update), "mysql")
    for statement in (
        insert("parent", ("1", "10", "100"), ("2", "20", "200"), ("3", "30", None)),
        insert("child", ("1", "1"), ("2", "1"), ("3", "2"), ("4", None)),
        insert("grandchild", ("1", "1"), ("2", "3")),
        *statements,
    ):
        made.execute(statement)
    return made


def shown(made: Model, table: str) -> list[str]:
    return [line.decode().replace("\t", " ") for line in made.lines(table)]


def test_a_cascade_runs_over_levels() -> None:
    made = model(CASCADE, CASCADE, delete("parent", "1"))
    assert shown(made, "child") == ["3 2", "4 \\N"]
    assert shown(made, "grandchild") == ["1 \\N", "2 3"]


def test_set_null_and_restrict() -> None:
    made = model(SET_NULL, RESTRICT, delete("parent", "1"))
    assert shown(made, "child") == ["1 \\N", "2 \\N", "3 2", "4 \\N"]
    with pytest.raises(Refused, match="rows of child refer to parent"):
        made.execute(update("parent", "2", id="9"))
    assert shown(made, "parent") == ["2 20 200", "3 30 \\N"]
    made.execute(update("parent", "3", id="9"))


def test_children_follow_their_parent_s_key() -> None:
    made = model(RESTRICT, CASCADE, update("parent", "1", id="7"))
    assert shown(made, "child") == ["1 7", "2 7", "3 2", "4 \\N"]


def test_a_tree_loses_its_branches_and_keeps_its_keys() -> None:
    made = model(CASCADE, CASCADE, insert("tree", ("1", None), ("2", "1"), ("3", "2"), ("4", "4"), ("5", None)))
    with pytest.raises(Refused, match="comes back"):
        made.execute(update("tree", "2", id="9"))
    made.execute(update("tree", "3", id="9"))
    assert (rows := made.execute(delete("tree", "1", "2", "4"))).low == 1 and rows.high == 3
    assert shown(made, "tree") == ["5 \\N"]
    with pytest.raises(Refused):
        made.execute(insert("tree", ("6", "7")))
    assert made.execute(insert("tree", ("6", "7"), ("8", "8"), do="ignore")).high == 1


def test_foreign_keys_that_are_off_do_nothing() -> None:
    made = model()
    made.execute(delete("parent", "1"), checks=False)
    made.execute(insert("child", ("9", "77")), checks=False)
    assert shown(made, "child") == ["1 1", "2 1", "3 2", "4 \\N", "9 77"]


def test_seed_716_what_a_replaced_row_clears_is_not_in_the_way_any_more() -> None:
    key, pair = Column("id", "int", nullable=False), ("p", "u")
    own = ForeignKey("t_f", ("p",), "t", ("id",), SET_NULL, CASCADE)
    made = Model(
        Schema((Table("t", (key, Column("p", "int"), Column("u", "int")), ("id",), (pair,), (own,)),)), "mariadb"
    )

    def rows(do: str, *rows: tuple[str | None, ...]) -> Statement:
        return Statement(do, "t", ("id", "p", "u"), rows)

    made.execute(rows("insert", ("66", None, "67"), ("12", "66", "96")))
    assert made.execute(rows("replace", ("66", "66", "96"))).high == 2
    assert shown(made, "t") == ["12 \\N 96", "66 66 96"]


def test_unique_keys_are_looked_at_in_the_server_s_order() -> None:
    made = model(CASCADE, CASCADE, insert("parent", ("2", "99", "100"), do="upsert", v="5"))
    assert shown(made, "parent") == ["1 10 100", "2 5 200", "3 30 \\N"]
    rows = made.execute(insert("parent", ("2", "6", "100"), do="replace"))
    assert rows.high == 3 and shown(made, "parent") == ["2 6 100", "3 30 \\N"]
    assert made.execute(insert("parent", ("3", "0", None), ("4", "0", "100"), ("5", "0", None), do="ignore")).high == 1
    with pytest.raises(Refused, match="is there"):
        made.execute(insert("parent", ("8", "0", None), ("9", "0", "100")))
    assert len(shown(made, "parent")) == 3
    made.execute(insert("loose", ("1", "'a'")))
    with pytest.raises(Refused):
        made.execute(insert("loose", ("2", "'A'")))


def test_rows_in_order_and_in_number() -> None:
    made = model()
    where = (Condition("id", "between", ("1", "3")),)
    move = Statement("update", "parent", assigned=(("id", Plus(1)),), where=where, order="id DESC")
    assert made.execute(move).high == 3
    assert shown(made, "parent") == ["2 10 100", "3 20 200", "4 30 \\N"]
    turn = Choice("id", (("2", "200"), ("3", "100")))
    where = (Condition("id", "in", ("2", "3")),)
    made.execute(Statement("update", "parent", assigned=(("u", turn),), where=where))
    assert shown(made, "parent")[0] == "2 10 200"
    made.execute(insert("loose", ("5", None), ("5", None), ("5", None)))
    where = (Condition("g", "<=>", ("5",)), Condition("t", "<=>", (None,)))
    assert made.execute(Statement("delete", "loose", where=where, limit=2)).high == 2
    assert shown(made, "loose") == ["5 \\N"]


def test_two_tables_in_one_statement() -> None:
    made = model()
    both = Statement("both", parts=(delete("parent", "1"), delete("child", "1")))
    assert (rows := made.execute(both)).low == 1 and rows.high == 2
    assert made.execute(both).high == 0
    both = Statement("both", parts=(update("parent", "2", v="1"), update("child", "3", p="3")))
    assert made.execute(both).high == 2
    assert shown(made, "child") == ["3 3", "4 \\N"]


def test_savepoints_and_what_the_source_met() -> None:
    made = model()
    inside = insert("parent", ("7", "7", "7"))
    back = [(Statement("savepoint", name="s"), 0), (inside, 1), (Statement("back", name="s"), 0)]
    made.replay([*back, (inside, 1), *back[:1], (delete("parent", "7"), 1), *back[2:]])
    assert len(shown(made, "parent")) == 4
    with pytest.raises(Disagreement, match="the source affected 2 rows, the model 1"):
        made.replay([(delete("parent", "7"), 2)])
    with pytest.raises(Disagreement, match="the source took what the model refuses"):
        made.replay([(insert("parent", ("1", "7", "7")), 1)])
