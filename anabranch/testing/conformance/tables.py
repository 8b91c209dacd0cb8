"""Conformance of a target's tables: making them, building what belongs to them, and what its catalogue then says.

Values are text forms. What does not live here: loads and their ledger (`loader.py`), how a database is told (the tests'
grounds).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Protocol

from anabranch.contracts import TargetCatalog, TargetStore, TargetTables, ValueRules
from anabranch.errors import Fenced
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema
from anabranch.model.steps import When
from anabranch.model.table_life import begin, heard_of
from anabranch.rows.keys import EnforcedKey
from anabranch.rows.net import TargetTable
from anabranch.testing.conformance.subject import refuses

RULES = ValueRules()
Texts = Mapping[str, str | None]


class Ground(Protocol):
    """A target of one test, with its state prepared. `schema` is its own; `job` is nobody else's. `has_keys`: the target can
    have foreign keys and counters."""

    job: str
    schema: str
    has_keys: bool

    def tables(self) -> TargetTables: ...

    def catalog(self) -> TargetCatalog: ...

    def store(self) -> TargetStore: ...

    def insert(self, table: TableId, values: Texts) -> None:
        """Write a row as somebody else at the target would."""

    def delete(self, table: TableId, id: str) -> None: ...

    def ids(self, table: TableId) -> list[int]: ...


NUMBER, WORD = LogicalType(Kind.INT32), LogicalType(Kind.TEXT, length=40)
CUSTOMERS = TableSchema(
    TableId("shop", "customers"),
    (
        Column("id", NUMBER, "int", nullable=False, auto_increment=True),
        Column("name", WORD, "varchar(40)", nullable=False),
        Column("town", WORD, "varchar(40)"),
    ),
    ("id",),
    (Index("by_name", ("name",), True), Index("by_town", ("town", "name"))),
)
ORDERS = TableSchema(
    TableId("shop", "orders"),
    (
        Column("id", NUMBER, "int", nullable=False),
        Column("customer", NUMBER, "int"),
        Column("code", WORD, "varchar(40)"),
    ),
    ("id",),
    (Index("by_customer", ("customer",)), Index("by_code", ("code",), True)),
    (ForeignKey("orders_customer", ("customer",), CUSTOMERS.id, ("id",), Action.CASCADE),),
)
ANN = {"id": "1", "name": "Ann", "town": "Ulm"}
ORDER = {"id": "10", "customer": "1", "code": "a"}


def mapped(ground: Ground, schema: TableSchema) -> TargetTable:
    names = tuple(column.name for column in schema.columns)
    types = tuple(column.type for column in schema.columns if column.type)
    target = TableId(ground.schema, schema.id.name)
    return TargetTable(schema.id, target, names, types, schema.primary_key, names)


def create(ground: Ground, *schemas: TableSchema) -> list[TargetTable]:
    made = [mapped(ground, schema) for schema in schemas]
    with closing(ground.tables()) as tables:
        for schema, table in zip(schemas, made, strict=True):
            tables.create_table(schema, table, RULES, False)
    return made


def build(ground: Ground, *schemas: TableSchema) -> list[str]:
    """Build the tables, behind their parents. Returns all problems."""
    by_source = {schema.id: mapped(ground, schema) for schema in schemas}
    with closing(ground.tables()) as tables:
        return [
            problem
            for schema in schemas
            for problem in tables.build(ground.job, schema, by_source[schema.id], by_source.get)
        ]


def unique(ground: Ground, *made: TargetTable) -> dict[str, frozenset[str]]:
    """Return the columns of all unique keys."""
    with closing(ground.catalog()) as catalog:
        found = catalog.unique_keys(made)
    return {table.name: frozenset(name for key in keys for name in key.columns) for table, keys in found.items()}


def not_back(ground: Ground) -> list[str]:
    """Return the statements for keys that were taken off."""
    with closing(ground.store()) as store:
        return list(store.jobs.taken_off(ground.job))


def keys(ground: Ground, *made: TargetTable) -> Sequence[EnforcedKey]:
    with closing(ground.catalog()) as catalog:
        found = catalog.foreign_keys(made)
        assert bool(catalog.guards(made)) == bool(found)
        return found


BUILT = {"customers": frozenset({"name"}), "orders": frozenset({"code"})}


# --- making -----------------------------------------------------------------------------------------------------------


def a_table_that_is_there_is_left(ground: Ground) -> None:
    (customers,) = create(ground, CUSTOMERS)
    ground.insert(customers.target, ANN)
    create(ground, CUSTOMERS)
    assert ground.ids(customers.target) == [1]


def a_table_is_made_anew_when_that_is_asked_for(ground: Ground) -> None:
    (customers,) = create(ground, CUSTOMERS)
    ground.insert(customers.target, ANN)
    with closing(ground.tables()) as tables:
        for _ in range(2):
            tables.create_table(CUSTOMERS, customers, RULES, True, load=(ground.job, 1))
    assert ground.ids(customers.target) == []


def rule_29_who_comes_too_late_drops_no_table(ground: Ground) -> None:
    (customers,) = create(ground, CUSTOMERS)
    ground.insert(customers.target, ANN)
    begun = begin(heard_of(CUSTOMERS.id, customers.target), 3)
    with closing(ground.store()) as store:
        store.states.save_table(ground.job, begun, None)
    with closing(ground.tables()) as tables:
        for late in (2, 3):
            make = partial(tables.create_table, CUSTOMERS, customers, RULES, True, load=(ground.job, late))
            refuses(Fenced, make)
        assert ground.ids(customers.target) == [1]
        tables.create_table(CUSTOMERS, customers, RULES, True, load=(ground.job, 4))
    assert ground.ids(customers.target) == []


def a_table_has_its_rows_before_its_keys(ground: Ground) -> None:
    """Rows of different moments may break them for a while."""
    customers, orders = create(ground, CUSTOMERS, ORDERS)
    assert unique(ground, customers, orders) == {} and not keys(ground, customers, orders)
    ground.insert(orders.target, {**ORDER, "customer": "99"})
    ground.insert(customers.target, ANN)
    ground.insert(customers.target, {**ANN, "id": "2"})
    assert ground.ids(customers.target) == [1, 2]


# --- building ---------------------------------------------------------------------------------------------------------


def what_is_built_is_built_once(ground: Ground) -> None:
    customers, orders = create(ground, CUSTOMERS, ORDERS)
    ground.insert(customers.target, ANN)
    ground.insert(orders.target, ORDER)
    for _ in range(2):
        assert build(ground, CUSTOMERS, ORDERS) == []
        assert unique(ground, customers, orders) == BUILT
        if ground.has_keys:
            (key,) = keys(ground, customers, orders)
            assert (key.name, key.child, key.parent) == ("orders_customer", orders.target, customers.target)
            assert (key.columns, key.parent_columns) == (("customer",), ("id",))
            assert (key.on_delete, key.on_update) == (Action.CASCADE, Action.RESTRICT)
    assert ground.ids(orders.target) == [10]


def indexes_of_cascades_come_first_and_once(ground: Ground) -> None:
    customers, orders = create(ground, CUSTOMERS, ORDERS)
    with closing(ground.tables()) as tables:
        for _ in range(2):
            tables.index_cascades(ORDERS, orders)
    assert unique(ground, customers, orders) == {}
    assert build(ground, CUSTOMERS, ORDERS) == []
    assert unique(ground, customers, orders) == BUILT


def small_tables_are_built_wholly_or_left(ground: Ground) -> None:
    made = create(ground, CUSTOMERS, ORDERS)
    by_source = {table.source: table for table in made}
    pairs = list(zip((CUSTOMERS, ORDERS), made, strict=True))
    with closing(ground.tables()) as tables:
        answered = tables.build_small(ground.job, pairs, by_source.get)
        assert not any(answered.values())
        there = unique(ground, *made)
        assert {name: BUILT[name] for source in answered if (name := source.name)} == there
        for schema, table in pairs:
            if table.source not in answered:
                assert tables.build(ground.job, schema, table, by_source.get) == []
    assert unique(ground, *made) == BUILT


def orphans_are_told_and_the_key_stands(ground: Ground) -> None:
    if not ground.has_keys:
        return
    customers, orders = create(ground, CUSTOMERS, ORDERS)
    ground.insert(orders.target, ORDER)
    ground.insert(orders.target, {"id": "11", "customer": None, "code": "b"})
    for _ in range(2):
        (problem,) = build(ground, CUSTOMERS, ORDERS)
        assert "orders_customer" in problem and "without a parent" in problem, problem
        assert [key.name for key in keys(ground, customers, orders)] == ["orders_customer"]
    ground.insert(customers.target, ANN)
    assert build(ground, CUSTOMERS, ORDERS) == []
    assert [key.name for key in keys(ground, customers, orders)] == ["orders_customer"]
    assert not_back(ground) == []


def a_key_that_rows_break_is_told_and_built_later(ground: Ground) -> None:
    if not ground.has_keys:
        return
    (customers,) = create(ground, CUSTOMERS)
    ground.insert(customers.target, ANN)
    ground.insert(customers.target, {**ANN, "id": "2"})
    (problem,) = build(ground, CUSTOMERS)
    assert "by_name" in problem, problem
    assert unique(ground, customers) == {}
    ground.delete(customers.target, "2")
    assert build(ground, CUSTOMERS) == []
    assert unique(ground, customers) == {"customers": BUILT["customers"]}


def two_tables_have_an_index_of_one_name(ground: Ground) -> None:
    other = replace(CUSTOMERS, id=TableId("shop", "former_customers"))
    made = create(ground, CUSTOMERS, other)
    assert build(ground, CUSTOMERS, other) == []
    assert unique(ground, *made) == dict.fromkeys(("customers", "former_customers"), frozenset({"name"}))


def what_has_no_counterpart_is_named(ground: Ground) -> None:
    if not ground.has_keys:
        return
    strange = replace(CUSTOMERS, indexes=(Index("by_shape", ("town",), kind="rtree"),))
    (customers,) = create(ground, strange)
    (problem,) = build(ground, strange)
    assert "by_shape" in problem and "rtree" in problem, problem
    with closing(ground.tables()) as tables:
        notes = [step.note for step in tables.script([(strange, customers)]) if step.note]
    assert any("by_shape" in note for note in notes), notes


def keys_are_taken_off_and_put_back(ground: Ground) -> None:
    if not ground.has_keys:
        return
    customers, orders = create(ground, CUSTOMERS, ORDERS)
    ground.insert(customers.target, ANN)
    ground.insert(orders.target, ORDER)
    assert build(ground, CUSTOMERS, ORDERS) == []
    with closing(ground.tables()) as tables:
        for _ in range(2):
            tables.take_off_keys(ground.job, customers)
    assert unique(ground, customers, orders) == {"orders": BUILT["orders"]}
    assert not keys(ground, customers, orders)
    off = not_back(ground)
    assert len(off) >= 2 and "by_name" in off[0] and "FOREIGN KEY" in off[-1], off
    ground.delete(customers.target, "1")
    ground.insert(customers.target, {**ANN, "id": "2"})
    ground.insert(customers.target, ANN)
    ground.delete(customers.target, "2")
    assert build(ground, CUSTOMERS, ORDERS) == []
    assert unique(ground, customers, orders) == BUILT
    assert [key.name for key in keys(ground, customers, orders)] == ["orders_customer"]


def pitfall_42_who_writes_next_gets_a_number_of_its_own(ground: Ground) -> None:
    if not ground.has_keys:
        return
    (customers,) = create(ground, CUSTOMERS)
    ground.insert(customers.target, {**ANN, "id": "7"})
    with closing(ground.tables()) as tables:
        for _ in range(2):
            assert tables.raise_sequences([customers]) == []
    ground.insert(customers.target, {"name": "Bob", "town": None})
    assert ground.ids(customers.target) == [7, 8]


# --- telling ----------------------------------------------------------------------------------------------------------


def a_script_tells_all_in_its_order(ground: Ground) -> None:
    made = [mapped(ground, schema) for schema in (CUSTOMERS, ORDERS)]
    with closing(ground.tables()) as tables:
        steps = list(tables.script(list(zip((CUSTOMERS, ORDERS), made, strict=True))))
    assert {step.table for step in steps if step.when is When.BEFORE_LOAD and step.sql} >= {CUSTOMERS.id, ORDERS.id}
    later = [step.when for step in steps]
    assert later == sorted(later, key=list(When).index)
    if ground.has_keys:
        text = "\n".join(step.sql for step in steps)
        assert all(name in text for name in ("by_name", "by_town", "by_customer", "by_code", "orders_customer"))


CHECKS: tuple[Callable[[Ground], None], ...] = (
    a_table_that_is_there_is_left,
    a_table_is_made_anew_when_that_is_asked_for,
    rule_29_who_comes_too_late_drops_no_table,
    a_table_has_its_rows_before_its_keys,
    what_is_built_is_built_once,
    indexes_of_cascades_come_first_and_once,
    small_tables_are_built_wholly_or_left,
    orphans_are_told_and_the_key_stands,
    a_key_that_rows_break_is_told_and_built_later,
    two_tables_have_an_index_of_one_name,
    what_has_no_counterpart_is_named,
    keys_are_taken_off_and_put_back,
    pitfall_42_who_writes_next_gets_a_number_of_its_own,
    a_script_tells_all_in_its_order,
)
