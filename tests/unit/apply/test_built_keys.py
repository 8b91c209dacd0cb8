"""Checks which tables go on behind a foreign key that a job has built at the source while rows stream, and which park (K1)."""

from __future__ import annotations

from dataclasses import replace

from anabranch.apply.built_keys import keys_that_come, why_not_together
from anabranch.model.schema import Action, TableSchema
from anabranch.model.table_life import TableState, create, park
from anabranch.rows.altered import AlteredTable
from rigs.chunks import INT, context, reference, schema

PARENT = schema("parent", {"id": INT}, ["id"])
CHILD = schema("child", {"id": INT, "up": INT}, ["id"])
KEY = reference(["up"], "parent", Action.CASCADE)
KEYED = replace(CHILD, foreign_keys=(KEY,), version=2)
HERE = context([PARENT, CHILD])


def altered(then: TableSchema, now: TableSchema) -> AlteredTable:
    table = HERE.tables[CHILD.id].table
    return AlteredTable(then, table, now, table, ())


def streaming(*schemas: TableSchema) -> dict[object, TableState]:
    return {one.id: create(None, one, one.id) for one in schemas}


def why(states: dict[object, TableState], now: TableSchema = KEYED, logs_cascades: bool = False) -> str:
    return why_not_together(altered(CHILD, now), states, HERE, logs_cascades)  # type: ignore[arg-type]  # by table


def test_rule_01_both_tables_of_a_key_that_comes_have_to_be_at_one_place() -> None:
    states = streaming(PARENT, CHILD)
    assert why(states) == ""
    parked = {**states, PARENT.id: park(states[PARENT.id], "somebody has altered it")}
    assert "refers to shop.parent, which is parked" in why(parked)
    assert "which is parked" in why(streaming(CHILD)), "it resumes, without its parent"
    assert why(parked, logs_cascades=True) == "", "the log has what the key does"
    assert why(parked, replace(KEYED, foreign_keys=(reference(["up"], "parent", Action.RESTRICT),))) == ""


def test_rule_01_a_key_over_a_column_that_the_job_leaves_out_is_refused() -> None:
    left_out = replace(KEYED, foreign_keys=(replace(KEY, columns=("nobody",)),))
    assert "the job does not write its columns" in why(streaming(PARENT, CHILD), left_out)


def test_rule_01_a_key_that_goes_or_stays_does_not_come() -> None:
    assert keys_that_come(altered(KEYED, CHILD)) == keys_that_come(altered(KEYED, KEYED)) == []
    assert keys_that_come(altered(CHILD, KEYED)) == [KEY]
