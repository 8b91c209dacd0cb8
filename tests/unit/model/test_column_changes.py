"""Compare columns, and tell which later changes of a table may be passed over because the log tells of them at their place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.model.column_changes import (
    APPLY_ALL,
    IGNORE,
    Altered,
    ColumnChange,
    TableActions,
    Untold,
    changed_names,
    differences,
    ignored,
    kinds_between,
    leaving_out,
    left_out_now,
    with_those,
)
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ddl_changes import digest_of
from anabranch.model.ids import TableId
from anabranch.model.key_changes import may_become
from anabranch.model.schema import Column, TableSchema
from anabranch.model.term import Term

INT, LONG = LogicalType(Kind.INT32), LogicalType(Kind.INT64)
ID, A = Column("id", INT, "int", nullable=False), Column("a", INT, "int", has_default=True)
THEN = TableSchema(TableId("shop", "item"), (ID, A), ("id",))
B = replace(A, name="b")


@pytest.mark.parametrize(
    ("columns", "kinds"),
    [
        ((ID, A), set()),
        ((B, ID, A), {ColumnChange.ADD}),
        ((ID,), {ColumnChange.DROP}),
        ((ID, B), {ColumnChange.RENAME}),
        ((ID, replace(A, nullable=False, has_default=False)), {ColumnChange.NULLABILITY}),
        ((ID, replace(A, default="5")), {ColumnChange.DEFAULT}),
        ((ID, replace(A, type=LONG, native="bigint")), {ColumnChange.TYPE}),
        ((B, ID, replace(A, default="5")), {ColumnChange.ADD, ColumnChange.DEFAULT}),
    ],
)
def test_what_later_statements_do_is_theirs(columns: tuple[Column, ...], kinds: set[ColumnChange]) -> None:
    now = replace(THEN, columns=columns)
    assert may_become(THEN, now, frozenset(kinds)) and may_become(THEN, now, frozenset(ColumnChange))
    for kind in kinds:
        assert not may_become(THEN, now, frozenset(kinds - {kind}))


def test_what_no_such_statement_does_is_another_definition() -> None:
    others = [
        replace(THEN, primary_key=()),
        replace(THEN, columns=(A, ID)),
        replace(THEN, columns=(ID, replace(A, charset="latin1"))),
        replace(THEN, columns=(ID, replace(A, generated=True))),
    ]
    assert not any(may_become(THEN, other, frozenset(ColumnChange)) for other in others)


def test_the_kinds_between_two_definitions_are_those_of_the_job_file() -> None:
    def kinds(*columns: Column, **renamed: str) -> list[str]:
        return [str(kind) for kind in kinds_between(THEN, replace(THEN, columns=columns), renamed)]

    assert kinds(ID, A) == []
    assert kinds(ID, B) == ["add_column", "drop_column"]
    assert kinds(ID, B, a="b") == ["rename_column"]
    assert kinds(replace(A, default="5"), replace(B, default="6"), ID) == ["add_column", "column_default"]
    assert kinds(ID, replace(B, type=LONG), a="b") == ["change_type", "rename_column"]


def test_a_default_of_null_comes_and_goes_with_null() -> None:
    assert differences(A, replace(A, nullable=False, has_default=False)) == {ColumnChange.NULLABILITY}
    assert differences(A, replace(A, has_default=False)) == {ColumnChange.DEFAULT}
    assert differences(A, replace(A, name="b", comment="other")) == set()


def test_a_default_that_is_not_followed_leaves_nothing_of_it() -> None:
    """What it means goes with it: a target asks for that first."""
    former = Column("m", LogicalType(Kind.INSTANT), "timestamptz", has_default=True, default="2024-01-01 00:00:00+00")
    computed = {"default": "now()", "default_is_expression": True, "default_term": Term("now", text="6")}
    column = replace(former, name="n", **computed)
    for kind in (ColumnChange.DEFAULT, ColumnChange.TYPE):
        undone = with_those(column, former, frozenset({kind}))
        assert (undone.default, undone.default_is_expression, undone.default_term) == (former.default, False, None)
        again = with_those(former, column, frozenset({kind}))
        assert (again.default, again.default_term) == ("now()", column.default_term)
    assert with_those(column, former, frozenset({ColumnChange.NULLABILITY})).default_term == column.default_term


def test_what_came_and_went_is_told_by_name() -> None:
    behind = Altered(replace(THEN, columns=(B, ID)), frozenset(), Untold(renamed=(("a", "b"),)))
    assert changed_names(THEN, behind) == {"renamed": ["a to b"]}
    assert changed_names(THEN, replace(behind, untold=Untold())) == {"added": ["b"], "dropped": ["a"]}


@pytest.mark.parametrize(
    "untold", [Untold(), Untold((("a", "b"),)), Untold(swapped=True), Untold(filled=(("n", "0"), ("m", "")))]
)
def test_what_definitions_do_not_tell_is_kept(untold: Untold) -> None:
    assert Untold.from_json(untold.to_json()) == untold


def test_a_target_stays_without_columns_that_it_has_left_out() -> None:
    """Whatever they are called later; what comes behind is decided by itself. No digest tells of it."""
    c, ignores = replace(A, name="c"), TableActions({ColumnChange.ADD: IGNORE})
    two = leaving_out(THEN, replace(THEN, columns=(ID, A, B)), Untold(), ignores)
    assert (two.left_out, ignored(THEN, two, Untold())) == (("b",), ("b",))
    assert TableSchema.from_json(two.to_json()).left_out == ("b",) and two.same_definition(two.leaving_out(()))
    assert digest_of(two) == digest_of(replace(THEN, columns=(ID, A, B)))
    to_c = Untold(renamed=(("b", "c"),))
    three = leaving_out(two, replace(THEN, columns=(ID, A, c, B)), to_c, APPLY_ALL)
    assert (three.left_out, ignored(two, three, to_c)) == (("c",), ())
    assert leaving_out(two, THEN, Untold(), APPLY_ALL).left_out == ()
    taken = Untold(renamed=(("a", "b"),))  # the left out one is gone, another has its name
    assert leaving_out(two, replace(THEN, columns=(ID, B)), taken, APPLY_ALL).left_out == ()
    both = leaving_out(two, replace(THEN, columns=(ID, A, B, c)), Untold(), ignores)
    assert (both.left_out, ignored(two, both, Untold())) == (("b", "c"), ("c",))


def test_what_a_target_is_without_is_found_in_the_definition_of_now_or_not_certain() -> None:
    c, without_b = replace(A, name="c"), replace(THEN, columns=(ID, A, B)).leaving_out(["b"])
    now = replace(THEN, columns=(ID, A, B))
    assert (same := left_out_now(without_b, now)) is not None and same.left_out == ("b",)
    for columns in ((ID, B), (ID, A), (ID, A, B, c), (ID, B, A)):  # the first: b is gone, and a has its name
        assert left_out_now(without_b, replace(THEN, columns=columns)) is None
    assert left_out_now(THEN, replace(THEN, columns=(ID, B))) is not None  # a target that has all of them
    id_, a, b = (replace(one, number=number) for number, one in enumerate((ID, A, B), 1))
    numbered = replace(THEN, columns=(id_, a, b)).leaving_out(["b"])
    gone = left_out_now(numbered, replace(THEN, columns=(id_, replace(b, number=2))))
    assert gone is not None and gone.left_out == ()
    renamed = left_out_now(numbered, replace(THEN, columns=(id_, a, replace(c, number=3))))
    assert renamed is not None and renamed.left_out == ("c",)
