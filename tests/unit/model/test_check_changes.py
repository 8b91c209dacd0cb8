"""Checks that come and go between two definitions, and those that a target is without."""

from __future__ import annotations

from dataclasses import replace

from anabranch.model.check_changes import (
    NO_CHECKS,
    NOT_ENFORCED,
    CheckChanges,
    as_at_source,
    check_changes,
    leaving_checks_out,
    redefined_unseen,
)
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ddl_changes import digest_of
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, TableSchema
from anabranch.model.table_life import Life, TableState, alter, build_again, note_built
from anabranch.model.term import Term

ITEM = TableId("shop", "item")
POSITIVE, SMALL = Check("c", "(`id` > 0)", Term("is null", (Term("column", text="id"),))), Check("d", "(`id` < 9)")


def table(*checks: Check) -> TableSchema:
    return TableSchema(ITEM, (Column("id", LogicalType(Kind.INT32), "int", False),), ("id",), checks=checks)


def test_checks_come_go_and_are_others_under_their_name() -> None:
    then, other = table(POSITIVE), replace(POSITIVE, text="(`id` > 1)")
    assert check_changes(then, table(POSITIVE, SMALL)) == CheckChanges(("d",))
    assert check_changes(then, table(other)) == CheckChanges(("c",), ("c",))
    assert check_changes(then, table(replace(POSITIVE, term=None, refusal=NOT_ENFORCED))) == CheckChanges((), ("c",))
    assert check_changes(then, then) == check_changes(replace(then, numbers=1), table()) == NO_CHECKS


def test_a_target_is_without_those_that_it_ignores_until_they_go() -> None:
    ignoring = leaving_checks_out(table(POSITIVE), table(POSITIVE, SMALL), ignores=True)
    assert [check.left_out for check in ignoring.checks] == [False, True]
    assert TableSchema.from_json(ignoring.to_json()).checks == ignoring.checks
    assert digest_of(ignoring) == digest_of(table(POSITIVE, SMALL)) and as_at_source(ignoring).checks[1] == SMALL
    later = leaving_checks_out(ignoring, table(POSITIVE, SMALL), ignores=False)
    assert later.checks[1].left_out, "it did not come by this statement"
    assert check_changes(ignoring, later) == check_changes(ignoring, table(POSITIVE)) == NO_CHECKS
    anew = leaving_checks_out(ignoring, table(POSITIVE, replace(SMALL, text="(`id` < 8)")), ignores=False)
    assert check_changes(ignoring, anew) == CheckChanges(("d",))


def test_another_check_under_the_name_of_one_that_stands_is_seen_where_checks_are_ignored() -> None:
    then, other = table(POSITIVE, SMALL), replace(POSITIVE, text="(`id` > 1)")
    assert redefined_unseen(then, leaving_checks_out(then, table(other, SMALL), ignores=True)) == "c"
    assert redefined_unseen(then, leaving_checks_out(then, table(other), ignores=False)) == ""
    ignoring = leaving_checks_out(table(), table(POSITIVE), ignores=True)
    assert redefined_unseen(ignoring, leaving_checks_out(ignoring, table(other), ignores=True)) == ""


def test_checks_that_come_are_built_until_they_go() -> None:
    then, now = table(POSITIVE), table(POSITIVE, SMALL)
    state = note_built(TableState(ITEM, ITEM, Life.STREAMING, schema=then), ["check c of shop.item is not built: …"])
    came = alter(state, now, checks=check_changes(then, now))
    assert came.facts.checking == ("d",) and not came.is_built and note_built(came).is_built
    assert type(came.facts).read(came.facts.stored()) == came.facts and build_again(came).facts.checking == ()
    gone = alter(came, table(), checks=check_changes(now, table()))
    assert gone.facts.checking == () and gone.facts.not_built == () and gone.is_built
