"""Conformance of the state that a target keeps of jobs: jobs, checkpoints, states of tables, what is noted.

What an epoch writes there is seen by the suites of the Writer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from anabranch.contracts import TargetStore
from anabranch.errors import Fenced, StateError, TargetBusy
from anabranch.model.cutover import CutoverNote, Phase, Step
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Column, TableSchema
from anabranch.model.state import Skipped
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import Life, TableState, begin, heard_of, park
from anabranch.model.verified import Verified, VerifiedBy, VerifiedPlace
from anabranch.testing.conformance.subject import refuses
from anabranch.testing.in_time import until

Stores = Callable[[], TargetStore]
"""Opens the state of one empty target, each time as another process would."""

JOB, OTHER = "shop", "stock"
ODD = TableId("shop", 'odd "orders".x')
AT_ONCE = 6


def schema(of: TableId, *names: str) -> TableSchema:
    number = LogicalType(Kind.INT32)
    columns = [Column(name, number, "int", False) for name in ("id", *names)]
    return TableSchema(of, tuple(columns), ("id",))


def heard(name: str, **facts: object) -> TableState:
    state = heard_of(TableId("shop", name), TableId("public", name.lower().strip()))
    return replace(state, **facts)  # type: ignore[arg-type]  # by name


def prepared(stores: Stores) -> TargetStore:
    store = stores()
    store.prepare()
    return store


def saved(store: TargetStore, *states: TableState) -> None:
    store.states.save_tables(JOB, [(state, None) for state in states])


# --- the whole --------------------------------------------------------------------------------------------------------


def nothing_is_there_before_it_is_prepared(stores: Stores) -> None:
    with closing(stores()) as store:
        assert not store.exists()
        assert store.jobs.job(JOB) is None and store.jobs.checkpoint(JOB) is None
        assert store.states.tables(JOB) == {}
        assert (
            store.journal.conflicts(JOB) == [] and store.journal.skipped(JOB) == [] and store.journal.trace(JOB) == []
        )
        assert store.journal.ddl_changes(JOB) == []
        assert store.cutovers.cutover_notes(JOB) == [] and store.verifications.verified(JOB) == []
        assert store.journal.forget_conflicts(JOB, 9) == 0 and not store.journal.add_trace(JOB, [], "")
        assert store.asides.set_aside(JOB) == [] and store.asides.count_aside(JOB) == {} and not store.asides.asked(JOB)
        store.jobs.drop(JOB)
        assert not store.exists()
        store.prepare()
        assert store.exists()


def rule_31_it_is_made_once_by_many(stores: Stores) -> None:
    failures: list[BaseException] = []

    def prepare() -> None:
        try:
            with closing(stores()) as one:
                until(partial(_prepared, one))
                one.prepare()
        except BaseException as error:  # noqa: BLE001 - reported by the assertion below
            failures.append(error)

    _at_once([prepare] * AT_ONCE)
    assert failures == []
    with closing(stores()) as store:
        assert store.exists()


def _prepared(store: TargetStore) -> bool:
    """One that waits for the others for too long is to try again."""
    try:
        store.prepare()
    except TargetBusy:
        return False
    return True


def a_dropped_job_leaves_the_others_alone(stores: Stores) -> None:
    with closing(prepared(stores)) as store:
        for job in (JOB, OTHER):
            store.jobs.save_job(job, {"uuid": job})
            store.jobs.create_checkpoint(job, Position(1, "here"), 0)
            store.states.save_table(job, heard("orders"), None)
            store.journal.skip(job, Skipped(5, "there", 1, {}))
            assert store.journal.add_trace(job, [entry(1)], "")
        store.jobs.drop(JOB)
        assert store.jobs.job(JOB) is None and store.jobs.checkpoint(JOB) is None and store.states.tables(JOB) == {}
        assert store.journal.skipped(JOB) == [] and store.journal.trace(JOB) == []
        assert store.jobs.job(OTHER) == {"uuid": OTHER} and len(store.states.tables(OTHER)) == 1
        assert len(store.journal.skipped(OTHER)) == 1 and len(store.journal.trace(OTHER)) == 1


def the_last_job_takes_the_state_with_it(stores: Stores) -> None:
    with closing(prepared(stores)) as store, closing(stores()) as another:
        store.jobs.save_job(JOB, {"uuid": "u"})
        assert another.jobs.job(JOB) == {"uuid": "u"} and another.states.tables(JOB) == {}
        store.jobs.drop(JOB)
        assert not store.exists() and not another.exists()
        assert another.jobs.job(JOB) is None and another.states.tables(JOB) == {}
        another.prepare()
        another.jobs.save_job(JOB, {"uuid": "v"})
        assert store.jobs.job(JOB) == {"uuid": "v"}


# --- jobs -------------------------------------------------------------------------------------------------------------


def a_job_reads_back_as_it_was_saved(stores: Stores) -> None:
    definition = json.dumps({"b": 1, "a": [1.0, "ä\\n"], "c": 'it\'s "quoted" 😀 %s'}, indent=1, ensure_ascii=False)
    facts = {"uuid": "u", "source_identity": "s 😀", "definition": definition, "note": "back\\slash ' \" ` %s"}
    with closing(prepared(stores)) as store:
        store.jobs.save_job(JOB, facts)
        assert store.jobs.job(JOB) == facts
        store.jobs.save_job(JOB, {"uuid": "u2"})
        assert store.jobs.job(JOB) == {"uuid": "u2"}
        assert store.jobs.job(OTHER) is None


def names_differ_to_the_letter(stores: Stores) -> None:
    """A server whose texts do not tell `Shop` from `shop`, or `a` from `a `, keeps both all the same."""
    jobs = ("Shop", "shop", "SHOP")
    tables = [
        heard(name, generation=number) for number, name in enumerate(("é", "e", "E", "e ", " e", "e\t", "\uff45"))
    ]
    with closing(prepared(stores)) as store:
        for job in jobs:
            store.jobs.save_job(job, {"uuid": job})
        assert [store.jobs.job(job) for job in jobs] == [{"uuid": job} for job in jobs]
        saved(store, *tables)
        assert store.states.tables(JOB) == {state.source: state for state in tables}
        for state in tables:
            assert store.states.table(JOB, state.source) == state


def another_target_of_the_job_is_refused(stores: Stores) -> None:
    with closing(prepared(stores)) as store:
        store.jobs.save_job(JOB, {"uuid": "u", "target": "north"})
        refuses(StateError, lambda: store.jobs.save_job(JOB, {"uuid": "u", "target": "south"}))
        refuses(StateError, lambda: store.jobs.save_job(JOB, {"uuid": "u"}))
        store.jobs.save_job(JOB, {"uuid": "v", "target": "north"})
        assert store.jobs.job(JOB) == {"uuid": "v", "target": "north"}


def the_first_checkpoint_stays(stores: Stores) -> None:
    native = "0-1-5,2-7-9:" + "x" * 70_000  # a set of GTIDs may be long
    with closing(prepared(stores)) as store:
        store.jobs.create_checkpoint(JOB, Position(7, native), 1_700_000_000_000_001)
        store.jobs.create_checkpoint(JOB, Position(9, "bin.1:9"), 456)
        found = store.jobs.checkpoint(JOB)
        assert found is not None
        assert (found.owner, found.epoch, found.position) == ("", 0, Position(7, native))
        assert found.commit_time == 1_700_000_000_000_001
        assert store.jobs.checkpoint(OTHER) is None


# --- states of tables -------------------------------------------------------------------------------------------------


def states_read_back(stores: Stores) -> None:
    facts = Facts(loaded=True, reread=({"id": "1", "word": None},), others={"a": "b"})
    orders = TableId("public", "orders")
    state = TableState(ODD, orders, Life.LOADING, 3, '["l"]', "h", "why: it's 😀\\", 10, 1 << 40, schema(ODD), facts)
    with closing(prepared(stores)) as store:
        store.states.save_table(JOB, state, None)
        assert store.states.tables(JOB) == {ODD: state} and store.states.table(JOB, ODD) == state
        (quick,) = store.states.tables(JOB, whole=False).values()
        assert replace(quick, schema=state.schema) == state
        later = TableState(ODD, orders, Life.STREAMING, 3)
        store.states.save_table(JOB, later, state)
        found = store.states.tables(JOB)[ODD]
        assert (found.state, found.low, found.reason, found.facts) == (Life.STREAMING, "", "", Facts())
        assert store.states.tables(OTHER) == {} and store.states.table(OTHER, ODD) is None


def a_state_without_a_definition_keeps_the_one_there(stores: Stores) -> None:
    first = heard("orders", schema=schema(ODD, "a"))
    with closing(prepared(stores)) as store, closing(stores()) as another:
        saved(store, first)
        assert another.states.tables(JOB)[first.source].schema == first.schema
        store.states.save_table(JOB, begin(replace(first, schema=None), 1), first)
        kept = another.states.tables(JOB)[first.source]
        assert (kept.state, kept.schema) == (Life.LOADING, first.schema)
        changed = replace(kept, schema=schema(ODD, "a", "b"))
        store.states.save_table(JOB, changed, kept)
        assert another.states.tables(JOB)[first.source] == changed, "who asks again and again sees a new definition"
        assert another.states.tables(JOB)[first.source] == changed


def who_comes_second_changes_no_state(stores: Stores) -> None:
    """Two loads at once, because one stood still: the state that it had read is not the one that is there."""
    pending = heard("orders")
    loading = begin(pending, 1)
    with closing(prepared(stores)) as store:
        store.states.save_table(JOB, pending, None)
        store.states.save_table(JOB, loading, pending)
        other_facts = replace(loading, facts=Facts(joins=True))
        for before in (None, pending, replace(loading, generation=2), other_facts):
            stale = replace(pending, reason="stale")
            refuses(Fenced, partial(store.states.save_table, JOB, stale, before))
            refuses(Fenced, partial(store.states.save_tables, JOB, [(stale, before)]))
            if before is not None:
                refuses(Fenced, partial(store.states.forget_table, JOB, before))
        refuses(Fenced, lambda: store.states.save_table(OTHER, loading, pending))
        assert store.states.tables(JOB) == {loading.source: loading} and store.states.tables(OTHER) == {}


def several_states_change_together_or_not_at_all(stores: Stores) -> None:
    one, two, new = heard("one"), heard("two"), heard("new")
    began = [begin(state, 1) for state in (one, two)]
    with closing(prepared(stores)) as store:
        saved(store, one, two)
        moved = park(two, "somebody was quicker")
        store.states.save_table(JOB, moved, two)
        refuses(Fenced, lambda: store.states.save_tables(JOB, [(new, None), *zip(began, (one, two), strict=True)]))
        assert store.states.tables(JOB) == {one.source: one, two.source: moved}
        refuses(Fenced, lambda: store.states.save_tables(JOB, [(began[0], one), (two, None)]))
        assert store.states.tables(JOB) == {one.source: one, two.source: moved}
        store.states.save_tables(JOB, [(new, None), (began[0], one), (one_more := begin(moved, 2), moved)])
        assert store.states.tables(JOB) == {state.source: state for state in (new, began[0], one_more)}
        store.states.save_tables(JOB, [])


def of_many_at_once_one_moves_the_table(stores: Stores) -> None:
    pending = heard("orders")
    won: list[int] = []
    lost: list[int] = []
    failures: list[BaseException] = []

    def move(number: int, before: TableState | None) -> None:
        state = replace(pending, reason=f"by {number}") if before is None else begin(before, number)
        try:
            with closing(stores()) as store:
                store.states.save_table(JOB, state, before)
            won.append(number)
        except Fenced:
            lost.append(number)
        except BaseException as error:  # noqa: BLE001 - reported by the assertion below
            failures.append(error)

    with closing(prepared(stores)) as store:
        _at_once([partial(move, number, None) for number in range(1, AT_ONCE)])
        assert failures == [] and len(won) == 1 and len(lost) == AT_ONCE - 2
        (found,) = store.states.tables(JOB).values()
        assert found.reason == f"by {won.pop()}"
        lost.clear()
        _at_once([partial(move, number, found) for number in range(1, AT_ONCE)])
        assert failures == [] and len(won) == 1 and len(lost) == AT_ONCE - 2
        assert store.states.tables(JOB)[found.source].generation == won[0]


def thousands_of_tables_are_one_change(stores: Stores) -> None:
    names = [f"t{number:04}" for number in range(1_500)]
    more = "name", "note"
    states = [heard(name, schema=schema(TableId("shop", name), *more)) for name in names]
    with closing(prepared(stores)) as store:
        saved(store, *states)
        found = store.states.tables(JOB)
        assert found == {state.source: state for state in states}
        began = [begin(state, 1) for state in states]
        store.states.save_tables(JOB, list(zip(began, states, strict=True)))
        assert store.states.tables(JOB) == {state.source: state for state in began}


def a_forgotten_table_begins_anew(stores: Stores) -> None:
    state = begin(heard("orders", schema=schema(ODD)), 4)
    with closing(prepared(stores)) as store:
        saved(store, heard("kept"))
        store.states.save_table(JOB, state, None)
        store.states.forget_table(JOB, state)
        assert store.states.table(JOB, state.source) is None and len(store.states.tables(JOB)) == 1
        refuses(Fenced, lambda: store.states.forget_table(JOB, state))
        store.states.save_table(JOB, heard("orders"), None)
        assert store.states.table(JOB, state.source) == heard("orders")


def tables_of_other_jobs_are_told(stores: Stores) -> None:
    with closing(prepared(stores)) as store:
        for job, name in ((JOB, "mine"), (OTHER, "theirs"), ("third", "theirs")):
            store.states.save_table(job, heard(name), None)
        assert store.states.others(JOB) == {TableId("public", "theirs")}
        assert store.states.others("fourth") == {TableId("public", "mine"), TableId("public", "theirs")}


# --- what is noted ----------------------------------------------------------------------------------------------------


def skipped_transactions_are_kept_in_their_order(stores: Stores) -> None:
    later = Skipped(1 << 40, "bin.2:4", 1_700_000_000_000_001, {str(ODD): 3, "shop.é": 1})
    first = Skipped(7, "bin.1:4", 5, {})
    with closing(prepared(stores)) as store:
        for one in (later, first, replace(first, position="elsewhere")):
            store.journal.skip(JOB, one)
        found = store.journal.skipped(JOB)
        assert [replace(one, asked_at=0) for one in found] == [first, later]
        assert all(one.asked_at > 1_600_000_000_000_000 for one in found)
        assert store.journal.skipped(OTHER) == []
        assert store.journal.unskip(JOB, 7) and not store.journal.unskip(JOB, 7)
        assert [one.sequence for one in store.journal.skipped(JOB)] == [1 << 40]


def of_two_that_note_a_step_of_a_cut_over_one_is_fenced(stores: Stores) -> None:
    began = CutoverNote(1, Step.BEGIN, Phase.BEGINS, 1_700_000_000_000_001, {"user": "Ann 😀", "tables": ["shop.é"]})
    with closing(prepared(stores)) as store, closing(stores()) as other:
        assert store.cutovers.cutover_notes(JOB) == []
        store.cutovers.note_cutover(JOB, began)
        other.cutovers.note_cutover(JOB, CutoverNote(2, Step.FENCE, Phase.DONE, 5, {"before": {"x": None}}))
        assert refuses(Fenced, lambda: store.cutovers.note_cutover(JOB, replace(began, number=2)))
        found = store.cutovers.cutover_notes(JOB)
        assert found[0] == began and [(one.number, one.step, one.phase) for one in found[1:]] == [(2, "fence", "done")]
        assert store.cutovers.cutover_notes(OTHER) == []
        store.jobs.drop(JOB)
        store.prepare()
        assert store.cutovers.cutover_notes(JOB) == []


def a_result_of_a_verification_replaces_the_one_that_was_known(stores: Stores) -> None:
    first = Verified(
        TableId("shop", "Ärzte "), 5, 3, "pending", 1, ("1@a", "2@b"), 1 << 40, 0, 7, False, "späte 😀 \\ 'x'"
    )
    by = VerifiedBy(7, "d", "srv 'é'", 3, True, 1 << 40, 2, ("blake2b:é", "blake2b:e"))
    with closing(prepared(stores)) as store, closing(stores()) as other:
        assert store.verifications.verified(JOB) == []
        assert store.verifications.note_verified(JOB, first)
        later, other_table = (
            replace(first, at=9, result="identical", why="", place=VerifiedPlace("1@ä", "u", "d", 3), by=by),
            replace(first, source=TableId("shop", "b")),
        )
        assert other.verifications.note_verified(JOB, later, first.at)
        assert other.verifications.note_verified(JOB, other_table)
        for before in (0, first.at, 10):
            assert not store.verifications.note_verified(JOB, replace(first, at=11), before), "another one is there"
        assert sorted(store.verifications.verified(JOB), key=lambda one: one.at) == [other_table, later]
        assert store.verifications.verified(OTHER) == []
        for _ in range(2):
            store.verifications.forget_verified(JOB, other_table.source)
        assert not store.verifications.note_verified(JOB, replace(other_table, at=12), other_table.at), (
            "it is forgotten"
        )
        assert store.verifications.verified(JOB) == [later]
        store.jobs.drop(JOB)
        assert store.verifications.verified(JOB) == []
        store.prepare()
        assert store.verifications.verified(JOB) == []


def entry(number: int, **more: object) -> dict[str, object]:
    usual = {"level": "info", "event": "began", "task": "apply", "host": "here", "pid": 7}
    return {"id": f"{number:020d}-7-1", "at": f"2026-01-02T03:04:05.{number:06d}Z", **usual, **more}


def a_trace_is_added_to_once_and_ends_where_it_is_told(stores: Stores) -> None:
    told = entry(2, message="it's 😀 \\ %s", facts={"a": [1, "ä"], "b": {"c": 2.5}}, code="c", side="target", state="s")
    with closing(prepared(stores)) as store:
        assert not store.journal.add_trace(JOB, [entry(1)], "")
        store.jobs.save_job(JOB, {"uuid": "u"})
        assert store.journal.add_trace(JOB, [told, entry(1)], "")
        assert store.journal.trace(JOB) == [entry(1), told]
        assert store.journal.add_trace(JOB, [entry(2, message="another"), entry(3), entry(3)], str(told["id"]))
        assert store.journal.trace(JOB) == [told, entry(3)]
        assert store.journal.trace(JOB, str(entry(3)["id"])) == [entry(3)] and store.journal.trace(OTHER) == []


def nothing_waits_before_it_is_set_aside(stores: Stores) -> None:
    with closing(prepared(stores)) as store:
        saved(store, heard("orders"))
        assert store.asides.wish(JOB, [1, 2], "release") == 0 and store.asides.wish(JOB, [], "release") == 0
        assert not store.asides.asked(JOB) and store.asides.count_aside(JOB) == {}
        store.asides.forget_aside(JOB, heard("orders").source)
        assert store.states.tables(JOB) == {heard("orders").source: heard("orders")}
        assert store.journal.conflicts(JOB) == [] and store.journal.forget_conflicts(JOB, 1 << 40) == 0


def _at_once(work: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=one) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


CHECKS = (
    nothing_is_there_before_it_is_prepared,
    rule_31_it_is_made_once_by_many,
    a_dropped_job_leaves_the_others_alone,
    the_last_job_takes_the_state_with_it,
    a_job_reads_back_as_it_was_saved,
    names_differ_to_the_letter,
    another_target_of_the_job_is_refused,
    the_first_checkpoint_stays,
    states_read_back,
    a_state_without_a_definition_keeps_the_one_there,
    who_comes_second_changes_no_state,
    several_states_change_together_or_not_at_all,
    of_many_at_once_one_moves_the_table,
    thousands_of_tables_are_one_change,
    a_forgotten_table_begins_anew,
    tables_of_other_jobs_are_told,
    skipped_transactions_are_kept_in_their_order,
    of_two_that_note_a_step_of_a_cut_over_one_is_fenced,
    a_result_of_a_verification_replaces_the_one_that_was_known,
    a_trace_is_added_to_once_and_ends_where_it_is_told,
    nothing_waits_before_it_is_set_aside,
)
