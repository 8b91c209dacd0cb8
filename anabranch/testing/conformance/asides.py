"""Conformance of a target where it refuses single rows (K26): what is done alone, what is set aside and kept, what is asked for
it, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import partial

from anabranch.apply.abilities import MergeWriter
from anabranch.contracts import Bounds, Conflict
from anabranch.errors import Fenced
from anabranch.model.ids import TableId
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import TableState
from anabranch.rows.aside import DISCARD, RELEASE, AsideChange
from anabranch.rows.net import DELETE, INSERT, UPDATE, RowChange, TargetTable
from anabranch.testing.conformance.epochs import JOB, RULES, Epochs, Target, make, rows, table
from anabranch.testing.conformance.subject import refuses

FIRST = [("1", None, "a"), ("2", None, "b")]


def insert(of: TargetTable, number: str) -> RowChange:
    return RowChange(of, INSERT, values={"id": number, "parent": None, "word": "x"})


def aside(of: TargetTable, number: str, **options: object) -> AsideChange:
    where = (7, "7@log.1:5", 1_700_000_000_000_001, of.source, of.target)
    made = AsideChange(*where, {"id": number}, INSERT, None, {"id": number, "word": "tab\t\\ nul\0"}, "a check")
    return replace(made, **options)  # type: ignore[arg-type]  # by name


def what_is_done_alone_counts_only_if_it_ends_well(target: Target) -> None:
    """A row that is refused leaves the epoch as it was before it, and the epoch goes on."""
    of = make(target, table("alone"), FIRST)

    def one_epoch(writer: MergeWriter) -> None:
        writer.change(insert(of, "3"))

        def refused() -> None:
            with writer.alone():
                writer.change(insert(of, "4"))
                writer.change(insert(of, "1"))

        refuses(Conflict, refused)
        with writer.alone():
            writer.change(insert(of, "5"))
        writer.change(RowChange(of, DELETE, {"id": "2"}))

    with Epochs(target) as epochs:
        epochs.do(one_epoch)
    assert [row[0] for row in rows(target, of)] == ["1", "3", "5"]


def rule_26_what_is_set_aside_is_kept_with_the_epoch(target: Target) -> None:
    of, other = make(target, table("aside_kept")), make(target, table("aside_other"))
    update = aside(of, "1", operation=UPDATE, before={"id": "1", "word": None}, after={"word": "z"}, keys_off=True)
    changes = [aside(of, "1"), update, aside(other, "9")]

    def breaks(writer: MergeWriter) -> None:
        writer.set_aside(JOB, changes[0])
        raise Conflict(of.source, "made by the suite")

    with Epochs(target) as epochs, closing(target.connector.store()) as store:
        refuses(Conflict, partial(epochs.do, breaks))
        assert store.asides.set_aside(JOB, of.source) == []
        numbers = epochs.do(lambda writer: [writer.set_aside(JOB, change) for change in changes])
        found = store.asides.set_aside(JOB)
        assert found == changes and [one.number for one in found] == numbers == sorted(numbers)  # type: ignore[call-overload]  # numbers are set by then
        assert all(one.set_aside_at > 0 for one in found) and store.asides.set_aside(JOB, other.source) == changes[2:]
        assert store.asides.set_aside("another") == [] == store.asides.set_aside(JOB, discarded=True)
        first, second, _ = (one.number for one in found)
        assert (
            store.asides.wish(JOB, [first, second], RELEASE) == 2
            and store.asides.wish("another", [first], DISCARD) == 0
        )
        assert store.asides.wish(JOB, [first], "", "still a check") == 1
        asked = [replace(changes[0], reason="still a check"), replace(update, wish=RELEASE)]
        assert store.asides.set_aside(JOB, of.source) == asked


def rule_26_what_is_set_aside_is_settled_once(target: Target) -> None:
    of = make(target, table("aside_settled"))
    with Epochs(target) as epochs, closing(target.connector.store()) as store:
        made = epochs.do(lambda writer: [writer.set_aside(JOB, aside(of, str(n))) for n in range(4)])
        numbers = [one.number for one in store.asides.set_aside(JOB, of.source)]
        assert numbers == made
        state = store.states.table(JOB, of.source)
        assert state is not None

        def settle(before: TableState, some: list[int], discarded: bool = False) -> Callable[[], object]:
            return lambda: epochs.do(lambda writer: writer.settle_aside(JOB, before, some, discarded))

        epochs.do(lambda writer: writer.settle_aside(JOB, state, numbers[:1], False))
        assert [one.number for one in store.asides.set_aside(JOB, of.source)] == numbers[1:]
        for before, some in ((state, numbers[:2]), (replace(state, generation=99), numbers[1:2])):
            refuses(Fenced, settle(before, some))
            epochs.writer.rollback()
        epochs.do(lambda writer: writer.settle_aside(JOB, state, numbers[1:3], True))
        assert [one.number for one in store.asides.set_aside(JOB, of.source)] == numbers[3:]
        gone = store.asides.set_aside(JOB, of.source, discarded=True)
        assert [one.number for one in gone] == numbers[1:3] and all(one.is_discarded and not one.wish for one in gone)
        assert store.asides.wish(JOB, numbers, RELEASE) == 1
        refuses(Fenced, settle(state, numbers[1:2]))
        epochs.writer.rollback()


def a_load_or_a_table_that_is_left_out_forgets_what_is_set_aside(target: Target) -> None:
    of, other = make(target, table("aside_loaded")), make(target, table("aside_left_out"))
    tables = (of, other)
    with Epochs(target) as epochs, closing(target.connector.store()) as store:
        states: dict[TableId, TableState] = {}
        for one in tables:
            found = store.states.table(JOB, one.source)
            assert found is not None
            states[one.source] = replace(found, facts=Facts(set_aside=2, built=True, asked=7, decided=("apply", "me")))

        def both(writer: MergeWriter) -> None:
            for one in tables:
                for number in ("1", "2"):
                    writer.set_aside(JOB, aside(one, number))
                writer.save_table(JOB, states[one.source])

        epochs.do(both)
        number = store.asides.set_aside(JOB, of.source)[0].number
        epochs.do(lambda writer: writer.settle_aside(JOB, states[of.source], [number], True))
        with closing(target.connector.loader(RULES)) as loader:
            loader.begin_generation(JOB, of, 1, [Bounds()], True)
            assert len(store.asides.set_aside(JOB, of.source)) == 1  # a load that goes on
            loader.begin_generation(JOB, of, 2, [Bounds()], True)
        assert store.asides.set_aside(JOB, of.source) == [] == store.asides.set_aside(JOB, of.source, discarded=True)
        loaded = store.states.table(JOB, of.source)
        assert loaded is not None and loaded.facts == Facts(built=True)
        store.states.forget_table(JOB, states[other.source])
        assert store.asides.set_aside(JOB, other.source) == []


CHECKS: tuple[Callable[[Target], None], ...] = (
    what_is_done_alone_counts_only_if_it_ends_well,
    rule_26_what_is_set_aside_is_kept_with_the_epoch,
    rule_26_what_is_set_aside_is_settled_once,
    a_load_or_a_table_that_is_left_out_forgets_what_is_set_aside,
)
