"""A family of tables and its ledger, small enough to write rows by hand."""

from __future__ import annotations

from anabranch.testing.torture.history import Condition, Statement
from anabranch.testing.torture.tables import CASCADE, RESTRICT, SET_NULL, Column, ForeignKey, Schema, Table
from anabranch.testing.torture.values import Literal


def family(on_delete: str = CASCADE, on_update: str = CASCADE) -> Schema:
    """parent <- child <- grandchild; a tree that refers to itself; loose rows without a key."""
    key = Column("id", "int", nullable=False)
    return Schema((
        Table("parent", (key, Column("v", "int"), Column("u", "int")), ("id",), (("u",),)),
        Table("child", (key, Column("p", "int")), ("id",), (),
              (ForeignKey("child_f", ("p",), "parent", ("id",), on_delete, on_update),)),
        Table("grandchild", (key, Column("p", "int")), ("id",), (),
              (ForeignKey("grandchild_f", ("p",), "child", ("id",), SET_NULL, RESTRICT),)),
        Table("tree", (key, Column("p", "int")), ("id",), (),
              (ForeignKey("tree_f", ("p",), "tree", ("id",), CASCADE, CASCADE),)),
        Table("loose", (Column("g", "int"), Column("t", "caseless text")), (), (("t",),)),
    ))  # fmt: skip


def insert(table: str, *rows: tuple[Literal, ...], do: str = "insert", **assigned: Literal) -> Statement:
    names = tuple(column.name for column in family()[table].columns)
    return Statement(do, table, names, rows, assigned=tuple(assigned.items()))


def update(table: str, key: str, /, **assigned: Literal) -> Statement:
    return Statement("update", table, assigned=tuple(assigned.items()), where=(Condition("id", "<=>", (key,)),))


def delete(table: str, *ids: str) -> Statement:
    return Statement("delete", table, where=(Condition("id", "in", ids),))
