"""Rows that differ at the target are repaired while the source goes on: drawn histories on the memory twin, in which anything
may come between what was compared, read, put, captured and applied."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import connectors, failpoints
from anabranch.apply.context import ApplyContext
from anabranch.apply.epoch import Applier
from anabranch.apply.life.repair import TRIES, Repairer
from anabranch.apply.life.reread import Rereader
from anabranch.apply.life.taking_out import let_leave
from anabranch.apply.window import WindowResolver
from anabranch.connectors.memory.database import database, forget
from anabranch.connectors.memory.source.capture import mark
from anabranch.contracts import Enforced, LogOptions, ValueRules
from anabranch.errors import TargetUnavailable
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import LogMark, Position
from anabranch.model.table_facts import Facts, ParkedFor
from anabranch.model.table_life import TableState
from anabranch.rows.chunk import Chunk
from anabranch.rows.conflict import STRICT, ConflictPolicy, OnConflict
from anabranch.trail import repairs, retention
from anabranch.trail.reader import TrailReader
from anabranch.trail.writer import TrailWriter
from rigs.an_applier import an_applier
from rigs.chunks import ITEMS, followed

JOB, RULES = "shop", ValueRules()


def endpoint(name: str) -> Endpoint:
    return Endpoint("memory", "", 0, "", "", name)


class LateMarks:
    """A source whose snapshots have more than they say for sure, as MySQL's: some transactions behind `low`."""

    def __init__(self, connector: Any, behind: int) -> None:
        self.connector, self.behind = connector, behind
        self.order = connector.order

    def snapshot(self, expected: str = "") -> Any:
        snapshot, behind = self.connector.snapshot(expected), self.behind
        open_ = snapshot.open

        def opened(table: Any, lock: str) -> tuple[LogMark, LogMark]:
            _, high = open_(table, lock)
            number = int(high.native)
            return mark(database("repair_source").identity, max(0, number - behind)), high

        snapshot.open = opened
        return snapshot


class Rig:
    def __init__(self, directory: Path, behind: int = 0, policy: ConflictPolicy = STRICT) -> None:
        self.source, self.target = database("repair_source"), database("repair_target")
        self.source.create(ITEMS)
        connector = connectors.source(endpoint("repair_source"))
        self.log = connector.log(LogOptions(1, 1.0))
        self.log.start(mark(self.source.identity, 0), lambda table: ITEMS)
        self.trail = TrailWriter.open(directory / "trail", job=JOB, job_uuid="u", source_identity="s", pack=False)
        self.trail.schema(ITEMS)
        self.reader = TrailReader(directory / "trail")
        self.resolver = WindowResolver(self.reader, connector.order)
        self.policy = policy
        self.applier = self._applier()
        self.late: Any = LateMarks(connector, behind)
        self.repairer = Repairer(Rereader(self.late, self.resolver, RULES, "lock", "", lambda: True))

        self.write(random.Random(0))
        self.capture()  # apply begins where capture has read something
        self.follow()

    def _applier(self) -> Applier:
        target = connectors.target(endpoint("repair_target"))
        store = target.store()
        target.loader(RULES).create_table(ITEMS, followed(ITEMS).table, RULES, False)
        store.create_checkpoint(JOB, Position(0, ""), 0)
        store.save_table(JOB, TableState(ITEMS.id, ITEMS.id, "streaming", schema=ITEMS, facts=Facts(built=True)), None)
        writer = target.writer(RULES, False)
        writer.claim(JOB, "me")
        made = an_applier(JOB, self.reader, writer, store, self._context)
        made.progress.look()
        return made

    def _context(self, states: Any) -> ApplyContext:
        state, low, high = states[ITEMS.id], 0, 0
        if state.state == "parked":
            return ApplyContext({})
        if state.state == "loading":
            low, high = self.resolver.window(state)
        return ApplyContext({ITEMS.id: followed(ITEMS, low=low, high=high, on_conflict=self.policy)})

    def write(self, draw: random.Random) -> None:
        there = {key[0]: row for key, row in self.source.tables[ITEMS.id].rows.items()}
        key = str(draw.randrange(8))
        with self.source.transaction() as open_:
            if key not in there:
                open_.insert(ITEMS.id, {"id": key, "a": str(draw.randrange(99)), "b": "x"})
            elif draw.random() < 0.4:
                open_.delete(ITEMS.id, {"id": key})
            else:
                free = [k for k in map(str, range(8)) if k not in there] or [key]
                values = {"id": draw.choice([key, draw.choice(free)]), "a": str(draw.randrange(99))}
                open_.update(ITEMS.id, {"id": key}, values)

    def damage(self, draw: random.Random) -> None:
        rows = self.target.tables[ITEMS.id]
        key = str(draw.randrange(8))
        with self.target.transaction() as open_:
            if (key,) not in rows.rows:
                open_.insert(ITEMS.id, {"id": key, "a": "-1", "b": "wrong"})
            elif draw.random() < 0.5:
                open_.delete(ITEMS.id, {"id": key})
            else:
                open_.update(ITEMS.id, {"id": key}, {"b": "wrong"})

    def differences(self) -> tuple[list[dict[str, str | None]], list[dict[str, str | None]]]:
        """As `verify` would find them now, those of changes in flight among them."""
        there, here = self.rows(self.source), self.rows(self.target)
        present = [{"id": key} for key in there if here.get(key) != there[key]]
        return present, [{"id": key} for key in here if key not in there]

    @staticmethod
    def rows(database: Any) -> dict[str | None, Any]:
        relation = database.tables[ITEMS.id]
        return {key[0]: relation.texts(row) for key, row in relation.rows.items()}

    def capture(self) -> None:
        while isinstance(chunk := self.log.read(0), Chunk):
            self.trail.append(chunk)
        self.trail.flush()

    def follow(self) -> None:
        self.applier.apply(self.trail.end.position.sequence)

    @property
    def state(self) -> TableState:
        return self.applier.progress.store.tables(JOB)[ITEMS.id]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[Rig] = []

    def rig(**options: Any) -> Rig:
        forget()
        made.append(Rig(tmp_path / str(len(made)), **options))
        return made[-1]

    yield rig
    failpoints.arm({})
    for one in made:
        one.trail.close()
        one.reader.close()
    forget()


@pytest.mark.parametrize("seed", range(120))
def test_rows_are_repaired_at_one_place_of_the_stream(make: Any, seed: int) -> None:
    """Whatever was damaged before the last comparison is as at the source once the stream is through."""
    draw = random.Random(seed)
    rig = make(behind=draw.choice([0, 0, 1, 3]), policy=ConflictPolicy(OnConflict.SOURCE_WINS))
    steps = [rig.write] * 5 + [rig.damage] + [lambda _: rig.capture()] * 2 + [lambda _: rig.follow()] * 2
    steps += [lambda _: rig.repairer.look(rig.applier)] * 2 + [lambda _: ask(rig)]
    for _ in range(60):
        draw.choice(steps)(draw)
    ask(rig)
    for _ in range(30):
        draw.choice([step for step in steps if step != rig.damage])(draw)
        if draw.random() < 0.1:
            rig.applier.progress.ask_again()  # as after a restart
    asked = ask(rig)
    rig.late.behind = 0  # nobody writes any more
    for _ in range(10):
        rig.capture()
        rig.repairer.look(rig.applier)
        rig.follow()
    assert rig.rows(rig.target) == rig.rows(rig.source)
    assert (rig.state.state, rig.state.facts.window, rig.state.facts.built) == ("streaming", None, True)
    assert repairs.found(mailbox(rig), ITEMS.id).is_done and asked.id


def mailbox(rig: Rig) -> Path:
    return rig.applier.progress.settings.names.repairs(Path(rig.applier.progress.trail.directory))


def ask(rig: Rig) -> repairs.Repair:
    return repairs.ask(mailbox(rig), ITEMS.id, *rig.differences())


def test_a_crash_before_rows_are_put_leaves_the_request(make: Any) -> None:
    rig = make()
    rig.write(random.Random(1))
    rig.capture()
    rig.follow()
    with rig.target.transaction() as open_:
        open_.insert(ITEMS.id, {"id": "77", "a": "1", "b": "surplus"})
    ask(rig)
    failpoints.arm({failpoints.VARIABLE: "apply.repair=raise"})
    with pytest.raises(failpoints.FailpointReached):
        rig.repairer.look(rig.applier)
    assert "77" in rig.rows(rig.target)
    failpoints.arm({})
    again = Repairer(rig.repairer.reader)
    again.look(rig.applier)
    assert rig.rows(rig.target) == rig.rows(rig.source)
    again.look(rig.applier)
    assert repairs.found(mailbox(rig), ITEMS.id).refused == ()


def test_one_row_that_the_target_refuses_is_said_and_the_others_are_put(make: Any) -> None:
    rig = make()
    with rig.source.transaction() as open_:
        for number in range(6):
            open_.insert(ITEMS.id, {"id": str(number), "a": str(number), "b": "x"})
    rig.capture()
    rig.follow()
    rig.target.tables[ITEMS.id].unique.append(("b", "a"))
    with rig.target.transaction() as open_:
        for number in (1, 2, 3):
            open_.delete(ITEMS.id, {"id": str(number)})
        open_.insert(ITEMS.id, {"id": "99", "a": "2", "b": "x"})
    present, extra = rig.differences()
    asked = repairs.ask(mailbox(rig), ITEMS.id, present, [])  # the row that is in the way is not named
    assert extra == [{"id": "99"}]
    for _ in range(2 * TRIES + 6):
        rig.repairer.look(rig.applier)
    found = repairs.found(mailbox(rig), ITEMS.id)
    assert found is not None and (found.id, found.is_done) == (asked.id, True)
    assert [key for key, _ in found.refused] == [{"id": "2"}]
    assert rig.rows(rig.target).keys() == {"0", "1", "3", "4", "5", "6", "99"} and rig.state.state == "streaming"


def test_a_table_that_is_to_be_loaded_again_is_taken_out_once(make: Any) -> None:
    rig = make()
    taken: list[TableState] = []
    take_off = taken.append
    rig.applier.progress.save(
        TableState(ITEMS.id, ITEMS.id, "streaming", schema=ITEMS, facts=Facts(built=True, resumes=3))
    )
    directory = rig.applier.progress.trail.directory
    name = retention.Names().leave(ITEMS.id)
    retention.hold(directory, name, 0)
    failpoints.arm({failpoints.VARIABLE: "apply.left=raise"})
    with pytest.raises(failpoints.FailpointReached):
        let_leave(rig.applier.progress, take_off)
    failpoints.arm({})
    assert rig.state.state == "parked" and "load JOB --table" in rig.state.reason and not taken
    assert (
        rig.state.is_taken_out
        and rig.state.facts == Facts(parked_for=ParkedFor.LOAD)
        and name in retention.readers(directory)
    )
    rig.applier.progress.ask_again()
    rig.applier.progress.writer.enforced = lambda: Enforced(keys=True, triggers=True)

    def fail(state: TableState) -> None:
        raise TargetUnavailable("a lock was not given")

    with pytest.raises(TargetUnavailable):
        let_leave(rig.applier.progress, fail)
    assert name in retention.readers(directory)
    let_leave(rig.applier.progress, take_off)  # what the attempts before had not come to
    assert [state.source for state in taken] == [ITEMS.id]
    assert not retention.readers(directory) and rig.applier.progress.context.tables == {}


def test_torture_seed_434_keys_of_a_table_that_leaves_hold_no_parents(make: Any) -> None:
    """Between the moment in which it is taken out and its load, the source removes a child and its parent: the target's key
    refused the parent's removal. Where keys are switched off they stay."""
    for bypasses in (True, False):
        rig = make()
        rig.applier.progress.save(TableState(ITEMS.id, ITEMS.id, "streaming", schema=ITEMS, facts=Facts(built=True)))
        rig.applier.progress.writer.enforced = lambda acts=not bypasses: Enforced(acts, acts)
        directory, name = rig.applier.progress.trail.directory, retention.Names().leave(ITEMS.id)
        retention.hold(directory, name, 0)
        taken: list[str] = []

        def take_off(state: TableState, rig: Any = rig, name: str = name, into: list[str] = taken) -> None:
            """The load, which waits for it to be let go, does not begin before."""
            assert rig.state.state == "parked" and name in retention.readers(rig.applier.progress.trail.directory)
            into.append(str(state.source))

        let_leave(rig.applier.progress, take_off)
        assert taken == ([] if bypasses else [str(ITEMS.id)]) and not retention.readers(directory)
