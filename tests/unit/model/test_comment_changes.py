"""Comments that are others behind a change of a definition."""

from __future__ import annotations

from dataclasses import replace

from anabranch.model.column_changes import ColumnChange, kinds_between
from anabranch.model.comment_changes import NO_COMMENTS, CommentChanges, comment_changes
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

INT = LogicalType(Kind.INT32)
ID, V = Column("id", INT, "int", nullable=False), Column("v", INT, "int", comment="before")
THEN = TableSchema(TableId("shop", "item"), (ID, V), ("id",), comment="items")


def test_comments_of_the_table_and_of_columns_that_stay_are_told() -> None:
    new = Column("new", INT, "int", comment="of a column that comes")
    now = replace(THEN, columns=(ID, replace(V, name="w", comment=""), new), comment="")
    found = comment_changes(THEN, now, {"v": "w"})
    assert found == CommentChanges(True, ("w",)) and str(found) == "comment of the table, comment of w"
    assert found.of(("id", "new")) == CommentChanges(True)
    assert ColumnChange.COMMENTS in kinds_between(THEN, now, {"v": "w"})
    assert comment_changes(THEN, now, {}) == CommentChanges(True), "v is gone, and w has come"


def test_equal_comments_and_those_of_a_source_without_statements_are_none() -> None:
    assert comment_changes(THEN, replace(THEN, columns=(V, ID)), {}) == NO_COMMENTS and not NO_COMMENTS
    assert comment_changes(THEN, replace(THEN, comment="later", numbers=2), {}) == NO_COMMENTS
