"""Tables that the source has dropped or renamed: what apply makes of each before its epoch, or why it parks."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from anabranch.apply.conflict import Where
from anabranch.apply.context import ApplyContext, Followed
from anabranch.apply.dropping import Dropping, Going, _Asks, _children_first, _Refused
from anabranch.apply.settings import ApplySettings
from anabranch.apply.work import Work
from anabranch.errors import ConfigError, StoppedByChange, TargetBusy
from anabranch.model.column_changes import ColumnChange, TableActions, Untold
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Column, ForeignKey, TableSchema
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import Life, TableState, create, park, take_over
from anabranch.rows.chunk import Barrier, BarrierKind
from anabranch.rows.conflict import STRICT
from anabranch.rows.dropped import DroppedTable
from anabranch.rows.net import TargetTable
from anabranch.trail.history import Entry, SchemaHistory

A, B = TableId("shop", "a"), TableId("shop", "b")
COLUMN = Column("id", LogicalType(Kind.INT32), "int", nullable=False)
SCHEMA = TableSchema(A, (COLUMN,), ("id",), version=1)
GONE = Barrier(0, 0, BarrierKind.ALTER, A, "DROP TABLE a", schema=SCHEMA.with_version(2), untold=Untold(dropped=True))
MOVED = replace(GONE, statement="RENAME TABLE a TO b", untold=Untold(dropped=True, moved=str(B)))
COMES = replace(MOVED, table=B, schema=replace(SCHEMA, id=B), untold=Untold(created=True))
AT = Where(7, "7@x", 1_795_000_000_000_000)
STREAMS = take_over(None, SCHEMA, TableId("there", "a"))


def _facts(state: TableState, **facts: Any) -> TableState:
    return replace(state, facts=replace(state.facts, **facts))


@dataclass
class Here:
    """Stands for the applier, the job's rules and its target."""

    action: str = "apply"
    state: TableState = STREAMS
    more: tuple[TableState, ...] = ()
    elsewhere: tuple[TableId, ...] = ()  # targets of other jobs
    filter: Any = None
    policy: Any = STRICT
    targets: dict[TableId, TableId] = field(default_factory=dict)
    does_not_fit: str = ""
    job = "shop"
    drops_apart = False

    # --- the applier
    @property
    def settings(self) -> ApplySettings:
        told = dict.fromkeys((ColumnChange.DROP_TABLE, ColumnChange.RENAME_TABLE), self.action)
        return ApplySettings(actions=lambda table: TableActions(told))

    @property
    def states(self) -> dict[TableId, TableState]:
        return {one.source: one for one in (self.state, *self.more)}

    @property
    def context(self) -> ApplyContext:
        return ApplyContext(
            {A: Followed(SCHEMA, self.target_table(SCHEMA), filter=self.filter, on_conflict=self.policy)}
        )

    @property
    def trail(self) -> Any:
        history = SchemaHistory()
        history.add(Entry("schema", 1, schema=SCHEMA))
        return type("Trail", (), {"history": history})

    @property
    def store(self) -> Here:
        return self

    def others(self, job: str) -> Sequence[TableId]:
        return self.elsewhere

    # --- the rules
    def target_table(self, schema: TableSchema) -> TargetTable:
        if self.does_not_fit:
            raise ConfigError(self.does_not_fit)
        target = self.targets.get(schema.id, TableId("there", schema.id.name))
        return TargetTable(schema.id, target, ("id",), (COLUMN.type,), ("id",), ("id",))

    def where(self, schema: TableSchema) -> Any:
        return self.filter

    def on_conflict(self, schema: TableSchema) -> Any:
        return self.policy

    # --- the writer
    def kept_name(self, table: TableId, suffix: str) -> TableId:
        return TableId(table.schema, table.name + suffix)

    def refuse_dropping(self, dropped: Sequence[DroppedTable]) -> None: ...

    def drop_tables(self, now: Any, dropped: Sequence[DroppedTable]) -> None: ...

    def forget_dropped(self, job: str, table: TableId) -> None: ...

    def dropping(self) -> Dropping:
        here: Any = self
        progress = type("Progress", (), {})()
        for name in ("settings", "states", "context", "trail", "job"):
            setattr(progress, name, getattr(self, name))
        progress.store = type("Store", (), {"states": self})()
        return Dropping(progress, here, here)

    def dropped(self) -> Going:
        return self.dropping()._going(GONE, AT)

    def moved(self) -> Going:
        return self.dropping()._moving(MOVED, COMES)


def test_what_the_job_file_says_is_done() -> None:
    table = Here().target_table(SCHEMA)
    assert Here().dropped() == Going(DroppedTable(table))
    assert Here("keep").dropped() == Going()
    assert Here("rename").dropped() == Going(DroppedTable(table, TableId("there", "a__dropped_20261118_110640")))
    found = Here().moved()
    assert found.change == DroppedTable(table, TableId("there", "b"), goes_on=True)
    assert found.state and (found.state.source, found.state.schema, found.state.is_streaming) == (B, COMES.schema, True)
    same = Here(targets={B: TableId("there", "a")}).moved()
    assert same.change is None and same.state and same.state.target == TableId("there", "a")


PARKED = {
    "the job file parks it": (Here("park"), "[ddl]"),
    "it is parked": (Here(state=park(STREAMS, "refused", resumes=3)), "was parked"),
    "it is loaded": (Here(state=replace(STREAMS, state=Life.LOADING)), "its load was not through"),
    "it is not built": (Here(state=_facts(STREAMS, built=False)), "not built yet"),
    "rows are set aside": (Here(state=_facts(STREAMS, set_aside=2)), "2 changes of it are set aside"),
    "another table": (Here(more=(replace(STREAMS, source=TableId("shop", "c")),)), "shop.c goes into the same table"),
    "another job": (Here(elsewhere=(TableId("there", "a"),)), "another job"),
}
OTHERS_ROWS = {
    "rows were there": (Here(state=_facts(STREAMS, kept=True)), "had rows before its load"),
    "some rows": (Here(filter="v > 1"), "some of its rows alone"),
    "others write": (Here(policy="newest"), "as on_conflict says"),
    "another name": (Here(targets={A: TableId("there", "z")}), "call it there.z by now"),
}
NOT_RENAMED = {
    "a filter": (Here(filter="v > 1"), "settings make another table"),
    "another schema": (Here(targets={B: TableId("away", "b")}), "another schema at the target"),
    "the name is known": (
        Here(more=(replace(STREAMS, source=B, target=TableId("there", "x")),)),
        "knows a table shop.b",
    ),
    "the target is taken": (
        Here(more=(replace(STREAMS, source=TableId("shop", "c"), target=TableId("there", "b")),)),
        "target of shop.c already",
    ),
}


@pytest.mark.parametrize(("here", "why"), [*PARKED.values(), *OTHERS_ROWS.values()], ids=[*PARKED, *OTHERS_ROWS])
def test_a_table_that_may_not_be_dropped_parks_with_the_reason(here: Here, why: str) -> None:
    with pytest.raises(_Refused, match=why.replace("[", r"\[")) as refused:
        here.dropped()
    assert refused.value.tables == (A,)


@pytest.mark.parametrize(("here", "why"), [*PARKED.values(), *NOT_RENAMED.values()], ids=[*PARKED, *NOT_RENAMED])
def test_a_table_that_may_not_be_renamed_parks_with_the_reason(here: Here, why: str) -> None:
    with pytest.raises(_Refused, match=why.replace("[", r"\[")):
        here.moved()


def test_a_table_that_stays_needs_only_to_stream() -> None:
    for here, _ in OTHERS_ROWS.values():
        assert replace(here, action="keep").dropped() == Going()


def test_a_table_that_a_statement_made_need_not_be_built() -> None:
    made = Here(state=create(None, SCHEMA, TableId("there", "a")))
    with pytest.raises(_Refused):
        made.dropped()
    dropping = made.dropping()
    dropping.progress.trail.history.add(Entry("schema", 2, schema=SCHEMA, altered=True, created=True))
    assert dropping._going(GONE, AT).change is not None
    dropping.progress.trail.history.add(Entry("schema", 3, schema=SCHEMA.with_version(2), joined=True))  # later
    assert dropping._going(GONE, AT).change is not None


KEY = ForeignKey("k", ("id",), B, ("id",))
PARENT = take_over(None, replace(SCHEMA, id=B), TableId("there", "b"))


@pytest.mark.parametrize("action", ["keep", "rename", "ask"])
def test_a_table_does_not_stay_with_foreign_keys_to_tables_that_go_on(action: str) -> None:
    child = take_over(None, replace(SCHEMA, foreign_keys=(KEY,)), TableId("there", "a"))
    with pytest.raises(_Refused, match=r"foreign keys connect it with shop\.b"):
        Here(action, child, (PARENT,)).dropped()
    own = take_over(None, replace(SCHEMA, foreign_keys=(replace(KEY, parent=A),)), TableId("there", "a"))
    for free in (Here(action, child), Here(action, own, (PARENT,))):  # of no table of the job, and of itself
        with contextlib.suppress(_Asks):
            free.dropped()
    assert Here("apply", child, (PARENT,)).dropped().change is not None


def test_a_table_that_others_refer_to_does_not_wait() -> None:
    child = take_over(None, replace(SCHEMA, id=B, foreign_keys=(replace(KEY, parent=A),)), TableId("there", "b"))
    with pytest.raises(_Refused, match=r"foreign keys connect it with shop\.b"):
        Here("ask", more=(child,)).dropped()


def test_the_job_stops_where_its_file_says_so() -> None:
    with pytest.raises(StoppedByChange, match=r'\[ddl\] drop_table = "stop": DROP TABLE a'):
        Here("stop").dropped()
    with pytest.raises(_Refused):
        Here("stop", park(STREAMS, "refused")).dropped()  # nothing of it comes any more


def test_a_table_that_was_loaded_behind_the_statement_is_another_one() -> None:
    assert Here().dropping()._is_here(GONE)
    assert not Here(state=replace(STREAMS, schema=SCHEMA.with_version(3))).dropping()._is_here(GONE)
    assert not Here().dropping()._is_here(replace(GONE, table=B))


def test_the_next_name_of_a_renamed_table_that_is_not_here_parks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its name was loaded behind RENAME TABLE, or the target has none: rows of the next name would go nowhere."""
    monkeypatch.setattr("anabranch.apply.dropping.altering_at", lambda trail, sequence: [MOVED, COMES])
    later = replace(STREAMS, schema=SCHEMA.with_version(3))
    for here in (Here(state=later), Here(state=replace(STREAMS, source=TableId("shop", "c")))):
        here.close = here.rollback = here.look = here.ask_again = lambda: None  # type: ignore[attr-defined]
        dropping = here.dropping()
        progress: Any = dropping.progress
        work = Work(progress.context, dict(progress.states), lambda table: TableId("there", table.name))
        progress.where, progress.then, progress.begin = lambda at: AT, lambda *then: None, lambda then: None
        progress.work, progress.commit, progress.look = lambda work=work: work, lambda then, work: None, lambda: None
        progress.ask_again = lambda: None
        dropping.carry_out(7)
        assert work.states[B].is_parked and "shop.a was renamed to it" in work.states[B].reason
        assert {t: s for t, s in work.states.items() if t != B} == progress.states


@pytest.mark.parametrize("action", ["keep", "ask", "park"])
def test_what_another_setting_had_begun_is_not_said_to_be_kept(action: str) -> None:
    with pytest.raises(_Refused, match="an attempt by another setting had begun"):
        Here(action, _facts(STREAMS, altering=7)).dropped()
    assert Here("rename", _facts(STREAMS, altering=7)).dropped().change is not None


def test_keys_that_are_being_built_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.apply.dropping.BUILDING_SECONDS", 0.0)
    monkeypatch.setattr("anabranch.apply.dropping.PAUSE", 0.0)
    dropping, answers = Here().dropping(), iter([False, True])
    with pytest.raises(TargetBusy):
        replace(dropping, lets_go=lambda table: False)._let_go([A])
    monkeypatch.setattr("anabranch.apply.dropping.BUILDING_SECONDS", 9.0)
    replace(dropping, lets_go=lambda table: next(answers))._let_go([A])
    assert next(answers, None) is None


def test_a_table_that_is_made_while_it_waits_is_parked_in_the_epoch_of_the_decision() -> None:
    """Its rows would go nowhere behind a kill."""
    dropping, let_go = Here("ask").dropping(), list[TableId]()
    dropping = replace(dropping, lets_go=lambda table: not let_go.append(table))
    progress: Any = dropping.progress
    work = Work(progress.context, dict(progress.states), lambda table: table)
    progress.checkpoint = Checkpoint("me", 3, Position(9, "9@x"), 0)
    progress.target_of = lambda table: TableId("there", table.name)
    progress.here, progress.begin, progress.work = lambda: progress.checkpoint, lambda then: None, lambda: work
    progress.commit = lambda then, work: None
    history = progress.trail.history
    history.add(Entry("schema", 7, schema=SCHEMA.with_version(2), altered=True, dropped=True))
    progress.trail.history = history
    dropping._decided_behind(7, GONE, STREAMS, ("skip", "me"))
    assert A not in work.states and let_go == [A]
    history.add(Entry("schema", 8, schema=SCHEMA.with_version(3), altered=True, created=True))
    work.states[A] = STREAMS
    dropping._decided_behind(7, GONE, STREAMS, ("skip", "me"))
    again = work.states[A]
    assert again.is_parked and again.schema is None and again.reason.startswith("created at the source, and not at")


def test_children_go_before_their_parents() -> None:
    key = ForeignKey("k", ("id",), A, ("id",))
    c = TableId("shop", "c")
    schemas = {A: SCHEMA, B: replace(SCHEMA, id=B, foreign_keys=(key,)), c: replace(SCHEMA, id=c)}
    found = _children_first([A, B, c], schemas)
    assert found.index(B) < found.index(A) and set(found) == {A, B, c}
    circle = {A: replace(SCHEMA, foreign_keys=(replace(key, parent=B),)), B: schemas[B]}
    assert set(_children_first([A, B], circle)) == {A, B}
