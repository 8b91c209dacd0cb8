"""Steps from one definition of a table to the next one, as far as the target's table goes with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from anabranch.apply.column_steps import NotFollowed, Stops, altered_table, refuse_aside
from anabranch.model.column_changes import APPLY_ALL, NOTHING_UNTOLD, Actions, ColumnChange, TableActions, Untold
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.altered import (
    AlteredTable,
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    ColumnRetyped,
    DefaultChanged,
    NullabilityChanged,
    Step,
)
from anabranch.rows.net import TargetTable

INT, WIDE, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.INT64), LogicalType(Kind.TEXT)
ITEM, THERE = TableId("shop", "item"), TableId("there", "item")
FITS = {
    INT: Fit("int", Fidelity.EXACT),
    TEXT: Fit("text", Fidelity.LOSSY, "case is lost"),
    WIDE: Fit("numeric", Fidelity.WIDENED),
}
Defined = tuple[TableSchema, TargetTable]


def defined(*names: str, left_out: Sequence[str] = (), keyless: bool = False) -> Defined:
    """A table of such columns, whose target's are called by capital letters."""
    columns = tuple(Column(name, INT, "int") for name in names)
    key = () if keyless else ("id",)
    kept = [name for name in names if name not in left_out]
    there = tuple(name.upper() for name in kept)
    target = TargetTable(
        ITEM, THERE, there, (INT,) * len(kept), tuple(name.upper() for name in key), source_columns=tuple(kept)
    )
    return TableSchema(ITEM, columns, key), target


def altered(
    former: Defined, now: Defined, actions: Actions = APPLY_ALL.actions, untold: Untold = NOTHING_UNTOLD
) -> AlteredTable:
    return altered_table(former, now, untold, TableActions(actions), FITS.__getitem__)


def test_a_copy_comes_in_only_where_the_job_file_says_so() -> None:
    """It may say otherwise than when capture has read the statement."""
    untold = Untold(swapped=True)
    assert altered(defined("id"), defined("id"), untold=untold).steps == ()
    with pytest.raises(NotFollowed, match="online_swap"):
        altered(defined("id"), defined("id"), {**APPLY_ALL.actions, ColumnChange.SWAP: "park"}, untold)


@pytest.mark.parametrize(
    ("former", "now", "steps"),
    [
        (defined("id", "a"), defined("id", "b", "a"), [ColumnAdded("b")]),
        (defined("id", "a"), defined("id"), [ColumnDropped("a")]),
        (defined("id", "a", "b"), defined("c", "id", "b"), [ColumnDropped("a"), ColumnAdded("c")]),
        (defined("id", "a", left_out="a"), defined("id", "b", left_out="b"), []),
        (defined("id", "a"), defined("id", "a"), []),
    ],
)
def test_what_came_and_went_are_the_steps(former: Defined, now: Defined, steps: list[Step]) -> None:
    assert altered(former, now).steps == tuple(steps)


def test_columns_have_the_targets_names_of_both_sides() -> None:
    found = altered(defined("id", "a"), defined("id", "b"))
    assert (found.former_target("a"), found.target("b")) == ("A", "B")


def test_rows_that_were_there_have_what_the_barrier_says() -> None:
    untold = Untold(filled=(("b", "0"),))
    assert altered(defined("id"), defined("id", "b"), untold=untold).steps == (ColumnAdded("b", "0"),)


def test_a_column_that_is_renamed_has_the_targets_name_of_both_sides() -> None:
    untold = Untold(renamed=(("a", "b"),))
    found = altered(defined("id", "a"), defined("id", "b"), untold=untold)
    assert found.steps == (ColumnRenamed("a", "b"),)
    assert (found.former_target("a"), found.target("b")) == ("A", "B")
    assert altered(defined("id", "a", left_out="a"), defined("id", "b", left_out="b"), untold=untold).steps == ()
    both = altered(defined("id", "a", "c"), defined("d", "id", "b"), untold=untold)
    assert both.steps == (ColumnDropped("c"), ColumnRenamed("a", "b"), ColumnAdded("d"))
    for left_out in ("a", "b"):  # the rules leave it out by one of its names
        with pytest.raises(NotFollowed, match="another table"):
            altered(defined("id", "a", left_out=left_out), defined("id", "b", left_out=left_out), untold=untold)
    with pytest.raises(NotFollowed, match="another table"):  # and another type
        schema, table = defined("id", "b")
        altered(defined("id", "a"), (schema, replace(table, types=(INT, LogicalType(Kind.TEXT)))), untold=untold)


def test_columns_that_are_defined_anew_are_told_by_both_definitions() -> None:
    former = schema, table = defined("id", "a")
    wide, many = LogicalType(Kind.INT64), replace(schema.columns[1], type=LogicalType(Kind.INT64), native="bigint")

    def step_of(column: Column, type: LogicalType = INT, actions: Actions = APPLY_ALL.actions) -> tuple[Step, ...]:
        now = replace(schema, columns=(schema.columns[0], column)), replace(table, types=(INT, type))
        return altered(former, now, actions).steps

    plain = schema.columns[1]
    assert step_of(many, wide) == (ColumnRetyped("a"),)
    assert step_of(replace(plain, nullable=False)) == (NullabilityChanged("a"),)
    given = replace(plain, has_default=True, default="5")
    assert step_of(given) == (DefaultChanged("a"),)
    assert step_of(given, actions={ColumnChange.DEFAULT: "ignore"}) == ()
    assert step_of(replace(plain, comment="new")) == ()
    with pytest.raises(NotFollowed, match="column_default"):
        step_of(given, actions={ColumnChange.DEFAULT: "park"})
    with pytest.raises(NotFollowed, match="another table"):
        step_of(plain, wide)


def test_the_job_file_says_what_becomes_of_a_step() -> None:
    former, now = defined("id", "a"), defined("id")
    assert altered(former, now, {ColumnChange.DROP: "keep"}).steps == (ColumnDropped("a", keeps=True),)
    actions: list[Actions] = [{ColumnChange.DROP: "park"}, {ColumnChange.ADD: "apply"}, {}]
    for parked in actions:
        with pytest.raises(NotFollowed, match=r"drop_column = \"park\""):
            altered(former, now, parked)


def test_a_job_file_stops_the_job_in_front_of_a_step() -> None:
    """Before what else parks the table; where the job leaves the column out there is nothing to stop for."""
    former, now = defined("id", "a"), defined("id", "b")
    with pytest.raises(Stops, match=r"\[ddl\] add_column = \"stop\""):
        altered(former, now, {ColumnChange.ADD: "stop", ColumnChange.DROP: "park"})
    assert not altered(former, defined("id", "a", "b", left_out="b"), {ColumnChange.ADD: "stop"}).steps


@pytest.mark.parametrize(
    ("type", "why"), [(INT, ""), (WIDE, "b is numeric there, widened"), (TEXT, "lossy: case is lost")]
)
def test_a_type_that_the_target_does_not_have_exactly_parks(type: LogicalType, why: str) -> None:
    former, (schema, table) = defined("id"), defined("id", "b")
    now = schema, replace(table, types=(INT, type))
    actions: Actions = {ColumnChange.ADD: "apply_if_exact"}
    if not why:
        assert altered(former, now, actions).steps == (ColumnAdded("b"),)
        return
    with pytest.raises(NotFollowed, match=why):
        altered(former, now, actions)


def test_a_kept_column_would_tell_rows_without_a_key_apart() -> None:
    former, now = defined("id", "a", keyless=True), defined("id", keyless=True)
    assert altered(former, now).steps == (ColumnDropped("a"),)
    with pytest.raises(NotFollowed, match="no key"):
        altered(former, now, {ColumnChange.DROP: "keep"})


def test_changes_that_are_set_aside_have_values_for_columns_as_they_were() -> None:
    for former, now, number, is_followed in (
        (defined("id"), defined("id", "a"), 2, True),
        (defined("id", "a"), defined("id"), 0, True),
        (defined("id", "a"), defined("id"), 2, False),
    ):
        try:
            refuse_aside(altered(former, now), number)
        except NotFollowed as why:
            assert not is_followed and "2 changes of it are set aside" in str(why)
        else:
            assert is_followed


def test_anything_else_that_the_rules_make_of_it_is_not_followed() -> None:
    former, (schema, table) = defined("id", "a"), defined("id", "a", "b")
    others = [
        replace(table, target=TableId("there", "other")),
        replace(table, key=("A",)),
        replace(table, columns=("ID", "X", "B")),
        replace(table, types=(INT, LogicalType(Kind.TEXT), INT)),
        replace(table, computed=(("c", "C"),)),
    ]
    for other in others:
        with pytest.raises(NotFollowed, match="another table"):
            altered(former, (schema, other))


def test_a_decimal_of_another_scale_parks_where_the_job_has_made_it_a_text() -> None:
    """Rows that are there would keep their digits, and the source prints others."""
    was, now = (LogicalType(Kind.DECIMAL, precision=precision, scale=scale) for precision, scale in ((10, 2), (12, 4)))
    for chosen in ("", "text"):
        pair = []
        for type in (was, now):
            columns = (Column("id", INT, "int"), Column("d", type, f"decimal({type.precision},{type.scale})"))
            types = (INT, replace(type, target=chosen))
            there = TargetTable(ITEM, THERE, ("ID", "D"), types, ("ID",), source_columns=("id", "d"))
            pair.append((TableSchema(ITEM, columns, ("id",)), there))
        if chosen:
            with pytest.raises(NotFollowed, match="digits behind the point"):
                altered(pair[0], pair[1])
        else:
            assert altered(pair[0], pair[1]).steps == (ColumnRetyped("d"),)


def test_labels_that_the_job_file_names_in_a_type_of_its_own_choice_park() -> None:
    """The type of now has others, so that another line of the file is for it, or none."""

    def labelled(*labels: str, target: str = "") -> Defined:
        schema, table = defined("id", "e")
        type, native = LogicalType(Kind.ENUM, values=labels), f"enum({','.join(map(repr, labels))})"
        schema = replace(schema, columns=(schema.columns[0], Column("e", type, native)))
        return schema, replace(table, types=(INT, replace(type, target=target)))

    found = altered(labelled("a"), labelled("a", "b"))
    assert found.steps == (ColumnRetyped("e"),)
    assert altered(labelled("a", target="text"), labelled("a", "b", target="text")).steps == (ColumnRetyped("e"),)
    with pytest.raises(NotFollowed, match="another type of e now"):
        altered(labelled("a", target="text"), labelled("a", "b"))
