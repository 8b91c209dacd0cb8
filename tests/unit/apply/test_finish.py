"""What is built beside the stream: in which order, and for whom its results count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.apply.life.finish import Finisher, _deepest_first, _left
from anabranch.errors import TargetBusy, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.schema import Action, Index, TableSchema
from anabranch.model.table_life import TableState, catch_up
from rigs.chunks import INT, reference, schema

A = TableId("shop", "a")
NOBODY: Any = None


def state(table: TableSchema) -> TableState:
    return TableState(table.id, table.id, "streaming", 1, schema=table)


def test_a_table_whose_rows_go_with_another_s_gets_its_keys_first() -> None:
    """A key that removes rows by itself would leave what hangs on them, where the next key does not stand."""
    columns = {"id": INT, "p": INT}
    tree = schema("tree", columns, ["id"], [reference(["p"], "tree", Action.CASCADE)])
    nest = schema("nest", columns, ["id"], [reference(["p"], "tree", Action.CASCADE)])
    egg = schema("egg", columns, ["id"], [reference(["p"], "nest", Action.CASCADE)])
    note = schema("note", columns, ["id"], [reference(["p"], "tree", Action.SET_NULL)])
    todo = {one.id: state(one) for one in (tree, nest, note, egg)}
    assert [table.name for table in _deepest_first(todo)] == ["note", "egg", "nest", "tree"]


def test_what_was_built_before_a_table_was_loaded_again_is_not_told_of_the_new_one() -> None:
    finisher = Finisher("shop", NOBODY, NOBODY, NOBODY)
    for generation, told in ((1, []), (2, [(A, {"built": "yes"})])):
        finisher._results = {A: ((generation, 0), {"built": "yes"})}
        assert list(finisher.take_results({A: TableState(A, A, "streaming", 2)})) == told


def test_what_was_built_before_a_table_was_altered_says_nothing_of_an_index_that_has_come_since() -> None:
    """Else a table that caught up meanwhile would be noted as built, and its index never come."""

    class Target:
        def tables(self, rules: Any) -> Target:
            return self

        def target_table(self, schema: TableSchema) -> None: ...

        def build_small(self, job: str, some: Any, resolve: Any) -> dict[TableId, list[str]]:
            return {schema.id: [] for schema, _ in some}

        def close(self) -> None: ...

    target: Any = Target()
    table = schema("a", {"id": INT}, ["id"])
    first = state(replace(table, version=1))
    second = catch_up(replace(first, state="loading"), 7, replace(table, version=2))
    finisher = Finisher("shop", target, NOBODY, target)
    for now, told in ((first, [(A, [])]), (replace(second, state="streaming"), [])):
        finisher._build({A: first}, {A: first})
        assert list(finisher.take_results({A: now})) == told


def test_it_tells_which_tables_are_being_built_and_that_it_is_over() -> None:
    """Small tables together first, then each that is left; also where the target goes away."""

    class Target:
        def tables(self, rules: Any) -> Target:
            return self

        def target_table(self, schema: TableSchema) -> None: ...

        def build_small(self, job: str, some: Any, resolve: Any) -> dict[TableId, list[str]]:
            return {}

        def build(self, job: str, table: TableSchema, target: Any, resolve: Any) -> list[str]:
            raise TargetUnavailable("gone")

        def close(self) -> None: ...

    target: Any = Target()
    both = {one.source: one for one in (state(schema(name, {"id": INT}, ["id"])) for name in ("b", "c"))}
    told: list[list[str]] = []
    Finisher("shop", target, NOBODY, target, lambda tables: told.append(list(tables)))._build(both, both)
    b, c = (str(table) for table in both)
    assert told[0] == [b, c] and told[1] in ([b], [c]) and told[2:] == [[]]


def test_a_table_that_is_to_be_loaded_again_is_left_alone() -> None:
    """Also while another one is worked at; the one that is being worked at is waited for."""
    first, second = (state(schema(name, {"id": INT}, ["id"])) for name in ("first", "second"))
    finisher = Finisher("shop", NOBODY, NOBODY, NOBODY)
    worked_at = finisher._some({first.source: first, second.source: second})
    assert next(worked_at)[0] == first.source
    assert not finisher.lets_go(first.source) and finisher.lets_go(second.source)
    assert list(worked_at) == [] and finisher.lets_go(first.source)


def test_what_was_built_of_a_table_that_goes_is_not_told_of_the_next_one_of_its_name() -> None:
    """Both were made by statements of the log: each is of the first generation."""
    finisher = Finisher("shop", NOBODY, NOBODY, NOBODY)
    finisher._results = {A: ((1, 0), [])}
    assert finisher.lets_go(A) and list(finisher.take_results({A: TableState(A, A, "streaming", 1)})) == []

    class Target:
        """Here the table goes while the next one is built."""

        def tables(self, rules: Any) -> Target:
            return self

        def target_table(self, schema: TableSchema) -> None: ...

        def build_small(self, job: str, some: Any, resolve: Any) -> dict[TableId, list[str]]:
            finisher._at = frozenset()
            assert finisher.lets_go(A)
            return {schema.id: [] for schema, _ in some}

        def close(self) -> None: ...

    target: Any = Target()
    finisher.target = finisher.tables = target
    todo = {one.id: state(one) for one in (schema(name, {"id": INT}, ["id"]) for name in ("a", "b"))}
    finisher._build(todo, todo)
    assert [table.name for table, _ in finisher.take_results(todo)] == ["b"]


def test_who_was_refused_a_row_waits_for_the_keys_of_its_table_and_hears_of_them_once() -> None:
    first, second = (state(schema(name, {"id": INT}, ["id"])) for name in ("first", "second"))
    finisher, looks = Finisher("shop", NOBODY, NOBODY, NOBODY), iter([False, False])
    worked_at = finisher._some({first.source: first, second.source: second})
    assert not finisher.settle(first.source, lambda: False), "nothing was built yet"

    def stop() -> bool:
        """While the table is waited for, the thread comes to the next one."""
        if next(looks, True):
            next(worked_at, None)
        return False

    next(worked_at)
    assert finisher.settle(first.source, stop)
    assert next(looks, None) is None, "it was waited for"
    assert not finisher.settle(first.source, stop) and not finisher.settle(second.source, lambda: True)
    assert list(worked_at) == [] and finisher.settle(second.source, lambda: False)


def test_an_index_that_came_and_is_not_followed_is_not_built_with_the_others_either() -> None:
    """The table's keys may not be built yet as it comes, and are looked at again where the target refused one of them."""
    table = replace(schema("a", {"id": INT, "n": INT}, ["id"]), indexes=(Index("i", ("n",)), Index("u", ("n",), True)))
    before = state(table)
    for built, adding, wanted in ((False, (), ["i"]), (True, ("i",), ["i"]), (True, (), [])):
        facts = replace(before.facts, built=built, adding=adding, passed=("u",))
        found = _left(replace(before, facts=facts)).schema
        assert found is not None and [index.name for index in found.indexes] == wanted


def test_a_table_that_is_altered_waits_for_its_keys_unless_it_may_go_on_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key that goes would be built behind the statement that takes it off, and nobody would take it off again."""
    monkeypatch.setattr("anabranch.apply.life.finish.SETTLE_SECONDS", 0.0)
    one = state(schema("a", {"id": INT}, ["id"]))
    finisher = Finisher("shop", NOBODY, NOBODY, NOBODY)
    worked_at = finisher._some({one.source: one})
    next(worked_at)
    finisher.make_way(one.source, lambda: False, False)
    with pytest.raises(TargetBusy):
        finisher.make_way(one.source, lambda: False, True)
    assert list(worked_at) == []
    finisher.make_way(one.source, lambda: False, True)
