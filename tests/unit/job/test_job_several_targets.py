"""What the load of one of several targets does beside the others: what it holds, what it asks for, what it refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.capture.definitions import GONE
from anabranch.config import load_job
from anabranch.connectors.memory.database import database, forget
from anabranch.errors import ConfigError, JobChanged, SchemaError, StateError, TablesParked
from anabranch.job import Job
from anabranch.job.watching import LoadWatcher
from anabranch.lifecycle.beginning import begin_trail_if_none, open_trail, prepare_target
from anabranch.lifecycle.copying import _replaced
from anabranch.lifecycle.joining import Joining
from anabranch.lifecycle.loading import Loading
from anabranch.lifecycle.planning import left_out
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import TableState
from anabranch.state.store import StateStore
from anabranch.trail import retention
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from anabranch.view.identity import followed_identity, trail_uuid
from anabranch.view.opened import source_of, target_of
from anabranch.view.refusals import refuse_changed_job

A, B = TableId("shop", "a"), TableId("shop", "b")
NUMBER = Column("id", LogicalType(Kind.INT64), "bigint", nullable=False)
TABLE, OTHER = (TableSchema(table, (NUMBER,), ("id",)) for table in (A, B))
WIDER = TableSchema(A, (NUMBER, Column("v", LogicalType(Kind.INT64), "bigint")), ("id",))


def job_of(directory: Path, *names: str, more: str = "") -> Job:
    file = directory / "job.toml"
    targets = "".join(f'[[targets]]\nname = "{name}"\nurl = "memory:///{name}"\n' for name in names)
    rules = '[[rules]]\ninclude = ["shop.*"]\n'
    file.write_text(f'name = "shop"\n[source]\nurl = "memory:///several"\n{targets}{rules}{more}')
    return Job(load_job(file, {"ANABRANCH_HOME": str(directory)}), file)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    made = job_of(tmp_path, "north", "south")
    for schema in (TABLE, OTHER):
        database("several").create(schema)
    begin_trail_if_none(made.on("north"))
    yield made
    forget()


def loading(job: Job) -> Loading:
    return Loading(job, None, lambda: False, LoadWatcher(StateStore(job.target_home)))  # type: ignore[arg-type]  # nothing is copied


def stream_all(job: Job) -> None:
    """As if the load had been through."""
    store = target_of(job).store()
    prepare_target(job, store)
    for table, schema in ((A, TABLE), (B, OTHER)):
        store.save_table("shop", TableState(table, table, "streaming", 1, schema=schema), None)


def write_trail(job: Job) -> TrailWriter:
    return open_trail(job, followed_identity(job) or "", trail_uuid(job) or "")


def test_rule_12_a_load_that_ends_hands_what_it_held_to_its_apply(job: Job) -> None:
    """Between the two another target's apply would let it go."""
    north, south = job.targets()
    for one in (north, south):
        stream_all(one)
    loading(north).all_tables()
    assert set(retention.readers(job.trail)) == {"apply@north"}
    retention.advance(job.trail, "apply@north", 7)
    loading(south).all_tables()
    held = retention.readers(job.trail)
    assert set(held) == {"apply@north", "apply@south"} and held["apply@south"].sequence == 0
    loading(north).all_tables()
    assert retention.readers(job.trail)["apply@north"].sequence == 7  # it goes on where it is


def test_a_table_that_was_parked_before_a_target_came_is_parked_there(job: Job) -> None:
    south = job.on("south")
    stream_all(south)
    store = target_of(south).store()
    store.forget_table("shop", store.tables("shop")[B])
    with write_trail(job) as trail:
        trail.park(B, "altered", "ALTER TABLE b")
        trail.flush()
    loading(south).all_tables()
    with pytest.raises(TablesParked, match=r"1 tables are parked: shop\.b"):
        loading(south).tell_parked()
    state = store.tables("shop")[B]
    assert state.state == "parked" and state.reason.startswith("altered")


def test_a_table_that_the_source_dropped_before_a_target_had_it_is_forgotten_there(job: Job) -> None:
    """What that target has of it stays, as dropped."""
    south = job.on("south")
    stream_all(south)
    store = target_of(south).store()
    new, begun, extra = (TableId("shop", name) for name in ("new", "begun", "extra"))
    store.save_table("shop", TableState(new, new, "pending"), None)
    store.save_table("shop", TableState(begun, begun, "loading", 1, schema=WIDER), None)
    retention.hold(job.trail, south.names.table(new), 0)
    with write_trail(job) as trail:
        for table in (new, begun, extra):
            trail.park(table, GONE)
        trail.flush()
    loading(south).all_tables()
    with pytest.raises(TablesParked, match=r"1 tables are parked: shop\.begun"):
        loading(south).tell_parked()
    states = store.tables("shop")
    assert states.keys() == {A, B, begun} and states[begun].is_dropped
    assert set(retention.readers(job.trail)) == {"apply@south"}


def test_a_table_that_was_altered_and_brought_in_again_while_it_was_loaded_is_parked(job: Job) -> None:
    """By the load of another target: nobody has it parked in the trail any more, and nobody could load it to its end."""
    south = job.on("south")
    stream_all(south)
    store = target_of(south).store()
    before = store.tables("shop")[A]
    store.save_table("shop", TableState(A, A, "loading", 2, schema=TABLE), before)
    with write_trail(job) as trail:
        trail.park(A, "altered", "")
        trail.schema(WIDER.with_version(2), joined=True)
        trail.flush()
    loading(south).all_tables()
    with pytest.raises(TablesParked, match=r"1 tables are parked: shop\.a"):
        loading(south).tell_parked()
    assert "altered while it was being loaded" in store.tables("shop")[A].reason
    assert set(retention.readers(job.trail)) == {"apply@south"}


def test_rule_15_a_table_that_the_trail_has_is_not_asked_for_again(job: Job) -> None:
    """Brought in once more it would get another version, also for those that stream it."""
    joining = Joining(job.on("south"), source_of(job), target_of(job.on("south")), lambda: False)
    assert joining._in_force(TABLE) == TABLE
    with pytest.raises(SchemaError, match="capture has not come to that yet"):
        joining._in_force(WIDER)
    with write_trail(job) as trail:
        trail.park(A, "altered", "")
        trail.flush()
    assert joining._in_force(TABLE) is None


def test_rule_19_fields_of_a_composite_are_those_by_which_capture_notices_another(job: Job) -> None:
    """A definition of a release before has none, nor the states of types: with the source's fields of now nobody would notice
    when they change."""
    joining = Joining(job.on("south"), source_of(job), target_of(job.on("south")), lambda: False)

    def pair(*fields: tuple[str, str]) -> TableSchema:
        type = LogicalType(Kind.NATIVE, native="pair", fields=fields)
        return replace(TABLE, columns=(NUMBER, Column("p", type, "pair")))

    one, other = pair(("x", "integer")), pair(("x", "integer"), ("y", "text"))
    for version, then in ((2, pair()), (3, one)):
        with write_trail(job) as trail:
            trail.schema(replace(then, version=version))
            trail.flush()
        found = joining._in_force(one)
        assert found is not None and found.column("p").type.fields == then.column("p").type.fields
    with pytest.raises(SchemaError, match="capture has not come to that yet"):
        joining._in_force(other)


def test_with_one_target_a_table_is_asked_for_each_time(job: Job, tmp_path: Path) -> None:
    alone = job_of(tmp_path, "north")
    joining = Joining(alone, source_of(alone), target_of(alone), lambda: False)
    assert joining._in_force(TABLE) is None


def test_rule_31_a_database_is_one_target_of_a_job(job: Job, tmp_path: Path) -> None:
    """Also where two addresses lead to it, which no file shows."""
    prepare_target(job.on("north"), target_of(job.on("north")).store())
    other = job_of(tmp_path, "west", "south")
    with pytest.raises(StateError, match="another target of the job"):
        target_of(job.on("north")).store().save_job("shop", {"uuid": "u", "target": "west"})
    moved = Job(other.config.model_copy(update={"targets": [_renamed(job, "north", "west")]}), other.path)
    with pytest.raises(StateError, match="this database is the target 'north' of the job, not 'west'"):
        refuse_changed_job(moved)


def test_rule_31_a_second_name_of_a_target_drops_nothing_of_it(job: Job, tmp_path: Path) -> None:
    north = job.on("north")
    stream_all(north)
    other = job_of(tmp_path, "west", "south")
    moved = Job(
        other.config.model_copy(update={"targets": [_renamed(job, "north", "west"), job.config.targets[1]]}), other.path
    )
    with pytest.raises(StateError, match="this database is the target 'north' of the job, not 'west'"):
        moved.on("west").drop(execute=True)
    assert len(target_of(north).store().tables("shop")) == 2


def test_rule_19_a_table_that_was_altered_for_another_target_meanwhile_is_not_handed_over(job: Job) -> None:
    north = job.on("north")
    with write_trail(north) as trail:
        trail.schema(replace(WIDER, version=2))
        trail.flush()
    with TrailReader(job.trail) as reader:
        assert "altered while it was being loaded" in _replaced(reader, TABLE)
        assert _replaced(reader, replace(WIDER, version=2)) == "" == _replaced(reader, OTHER)


def _renamed(job: Job, name: str, to: str) -> object:
    return next(one for one in job.config.targets if one.name == name).model_copy(update={"name": to})


def test_rule_32_a_target_that_is_left_out_lets_go_by_a_word_only(job: Job, tmp_path: Path) -> None:
    for name in ("load@south shop.a", "apply@south", "apply@north"):
        retention.register(job.trail, name, 0)
    now = job_of(tmp_path, "north")
    with pytest.raises(JobChanged, match="the trail is held for south"):
        refuse_changed_job(now)
    assert left_out(now, execute=False) == ["south"] and len(retention.readers(job.trail)) == 3
    assert left_out(now, execute=True) == ["south"]
    assert set(retention.readers(job.trail)) == {"apply@north"} and left_out(now, execute=True) == []
    refuse_changed_job(now)


def test_rows_that_stay_are_never_loaded_twice_without_a_word(job: Job, tmp_path: Path) -> None:
    keeps = loading(job_of(tmp_path, "north", "south", more='[load]\nexisting = "keep"\n').on("north"))
    pending, parked = (TableState(A, A, state, 1, facts=Facts(kept=True)) for state in ("pending", "parked"))
    assert keeps._keeps(A, None, 1) and keeps._keeps(A, pending, 2)  # the word was given for what did not begin
    with pytest.raises(ConfigError, match="nobody can say which rows of its target are this job's"):
        keeps._keeps(A, parked, 2)
    plain = loading(job.on("north"))
    assert not plain._keeps(A, None, 1) and plain._keeps(A, pending, 2)
    with pytest.raises(ConfigError, match="nobody can say which rows"):  # also where the setting was taken out since
        plain._keeps(A, parked, 2)
