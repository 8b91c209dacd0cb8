"""The rule of a verification beside writers, on histories in which source, engine, capture, apply and both reads
interleave at random: never a false difference, and what stays different is found at rest. No server, no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.contracts import ValueRules
from anabranch.model.ids import TableId
from anabranch.model.schema import Action
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import Filter
from anabranch.trail.regroup import rows_after, rows_until
from anabranch.verify.plan import VerifyTable
from anabranch.verify.rule import NOT_SAID, Seen, Window, expected
from anabranch.verify.touched import Parent, Watched, is_touched, parents_of, seen
from rigs.chunks import INT, ITEMS, TEXT, chunk_of, reference, schema

KEYS = 3
CHANGES = st.tuples(st.integers(0, KEYS - 1), st.sampled_from("wwwwpdm"), st.integers(0, KEYS - 1))
"""A key; is it written (whole, or its `a` alone), removed, or does it move; where to."""


def watched(parents: Any = ()) -> Watched:
    names = tuple(column.name for column in ITEMS.columns)
    types = tuple(column.type for column in ITEMS.columns if column.type)
    table = TargetTable(ITEMS.id, TableId("public", "items"), names, types, ("id",), names)
    return Watched(VerifyTable(ITEMS, table), ValueRules(), dict(parents))


@dataclass
class Trail:
    """The members of a TrailReader that are used, over chunks in memory."""

    chunks: list[Chunk] = field(default_factory=list)

    def descriptors(self, after: int, upto: int) -> list[Any]:
        return [
            _Ref(chunk, after, upto)
            for chunk in self.chunks
            if chunk.last_sequence > after and chunk.first_sequence <= upto
        ]

    def load(self, ref: _Ref) -> Chunk:
        return rows_until(rows_after(ref.chunk, ref.after), ref.upto)


@dataclass
class _Ref:
    chunk: Chunk
    after: int
    upto: int

    @property
    def has_barriers(self) -> bool:
        return bool(self.chunk.barriers)

    @property
    def tables(self) -> list[tuple[str, int]]:
        return [(str(rows.table), rows.batch.num_rows) for rows in self.chunk.tables]


def trail(*transactions: Sequence[tuple[Any, ...]], at_once: int = 1, barriers: Sequence[Barrier] = ()) -> Any:
    """A trail with so many transactions in a chunk."""
    found = Trail()
    for start in range(0, len(transactions), at_once):
        some = [b for b in barriers if start <= b.tx < start + at_once]
        inside = [Barrier(b.tx - start, b.ordinal, b.kind, b.table) for b in some]
        found.chunks.append(chunk_of(transactions[start : start + at_once], first=start + 1, barriers=inside))
    return cast(Any, found)


def row(key: int, a: int | None = 1, b: str | None = "x") -> dict[str, Any]:
    return {"id": key, "a": a, "b": b}


def line(values: dict[str, Any]) -> bytes:
    return f"{values['id']}\t{values['a']}\t{values['b']}".encode()


# --- histories --------------------------------------------------------------------------------------------------------


@dataclass
class History:
    """What the source committed, one change a transaction, and the rows after each."""

    states: list[dict[int, dict[str, Any]]] = field(default_factory=lambda: [{}])
    transactions: list[list[tuple[Any, ...]]] = field(default_factory=list)
    emptied: list[int] = field(default_factory=list)  # sequences

    def commit(self, key: int, how: str, to: int) -> None:
        now, number = dict(self.states[-1]), len(self.states)
        before = now.get(key)
        if how in "wp":
            after = row(key, number % 5, before["b"] if how == "p" and before else f"w{number % 2}")
            now[key] = after
            image = {"id": key, "a": after["a"]} if how == "p" else after  # the log leaves out what did not change
            self.transactions.append([("u", before, image) if before else ("i", after)])
        elif how == "d" or to == key or to in now or before is None:
            self.transactions.append([("d", now.pop(key))] if before else [])
        else:
            now[to] = row(to, number % 5, before["b"])
            self.transactions.append([("u", now.pop(key), now[to])])
        self.states.append(now)

    def empty(self) -> None:
        self.transactions.append([])
        self.states.append({})
        self.emptied.append(len(self.states) - 1)

    def trail(self, at_once: int) -> Any:
        barriers = [Barrier(sequence - 1, 0, BarrierKind.TRUNCATE, ITEMS.id) for sequence in self.emptied]
        return trail(*self.transactions, at_once=at_once, barriers=barriers)

    def snapshot(self, low: int, of: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Rows with every transaction up to `low`, and these behind it: of a key what the last of them left."""
        now = dict(self.states[low])
        for sequence in of:
            for key in range(KEYS):
                if self.states[sequence].get(key) != self.states[sequence - 1].get(key):
                    now.pop(key, None)
                    if key in self.states[sequence]:
                        now[key] = self.states[sequence][key]
        return now


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, Any]:
    history = History()
    for what in draw(st.lists(st.one_of(CHANGES, st.none()) if draw(st.booleans()) else CHANGES, max_size=14)):
        history.commit(*what) if what else history.empty()
    return history, history.trail(draw(st.integers(1, 4)))


@dataclass
class Look:
    """What a look sees: the window, and rows of both ends. `damaged`: keys that are other rows at the target."""

    window: Window
    source: dict[bytes, list[bytes]]
    target: dict[bytes, list[bytes]]


@st.composite
def looks(draw: st.DrawFn, history: History) -> Look:
    """The source's rows are of a snapshot that has all up to `low` and some behind it, which need not be the first; the
    target is anywhere, and may have emptied the table for the epoch that comes."""
    last = len(history.states) - 1
    low = draw(st.integers(0, last))
    high = draw(st.integers(low, last))
    behind = [sequence for sequence in range(low + 1, high + 1) if draw(st.booleans())]
    end = draw(st.integers(high, last))
    at = draw(st.integers(0, end))
    source = history.snapshot(low, behind)
    if any(sequence <= end for sequence in history.emptied if sequence > low) and draw(st.booleans()):
        source = {}  # an engine whose snapshots do not keep an emptied table
    here = history.states[at]
    if any(at < sequence <= end for sequence in history.emptied) and draw(st.booleans()):
        here = {}
    since = draw(st.integers(0, min(low, at)))
    return Look(Window(low, high, at, end, since), by_key(source), by_key(here))


def by_key(rows: dict[int, dict[str, Any]]) -> dict[bytes, list[bytes]]:
    return {str(key).encode(): [line(values)] for key, values in rows.items()}


WANTED = [str(key).encode() for key in range(KEYS)]


@settings(max_examples=400)
@given(st.data())
def test_rule_25_no_interleaving_makes_a_difference_where_there_is_none(data: st.DataObject) -> None:
    history, found = data.draw(histories())
    look = data.draw(looks(history))
    said = seen(found, watched(), WANTED, look.window)
    for key in WANTED:
        there = expected(said, key, look.source, look.target)
        assert there is None or list(there) == look.target.get(key, []), (key, look, said)


@settings(max_examples=200)
@given(st.data())
def test_rule_25_what_stays_different_is_found_wherever_a_row_is_judged(data: st.DataObject) -> None:
    """A row that is judged is compared with what the source had at the target's place, so that no damage passes."""
    history, found = data.draw(histories())
    look = data.draw(looks(history))
    said = seen(found, watched(), WANTED, look.window)
    for key in WANTED:
        there = expected(said, key, look.source, look.target)
        truth = by_key(history.states[look.window.at]).get(key, [])
        assert there is None or list(there) == truth


@given(st.data())
def test_rule_25_at_rest_everything_is_judged(data: st.DataObject) -> None:
    history, found = data.draw(histories())
    last = len(history.states) - 1
    said = seen(found, watched(), WANTED, Window(last, last, last, last))
    source = by_key(history.states[last])
    assert [expected(said, key, source, {}) for key in WANTED] == [source.get(key, ()) for key in WANTED]


def test_rule_25_a_row_that_never_rests_is_judged_by_the_log() -> None:
    """Whole images say what it is at the target's place, however often it changed since the source was read."""
    history = History()
    for _ in range(9):
        history.commit(1, "w", 1)
    said = seen(history.trail(2), watched(), WANTED, Window(2, 3, 7, 9, 0))
    shown = {b"1": [line(history.states[2][1])]}
    assert expected(said, b"1", shown, {}) == (line(history.states[7][1]),)
    # what the log does not have for it contradicts the log, or is older: nobody can tell
    assert expected(said, b"1", {b"1": [b"1\t99\tother"]}, {}) is expected(said, b"1", {}, {}) is None
    short = seen(history.trail(2), watched(), WANTED, Window(2, 2, 7, 9))
    assert expected(short, b"1", shown, {}) is None
    assert seen(history.trail(2), watched(), WANTED, Window(2, 3, 7, 9), lambda: True).is_all


# --- what the trail says ----------------------------------------------------------------------------------------------


def test_an_image_that_leaves_columns_out_does_not_say_the_row() -> None:
    found = trail([("i", row(1))], [("u", row(1), {"a": 7})], [("u", row(2), {"id": 1, "a": 8})])
    assert seen(found, watched(), WANTED, Window(0, 0, 2, 2)).values == {b"1": NOT_SAID}
    assert seen(found, watched(), WANTED, Window(2, 2, 3, 3)).values == {b"1": NOT_SAID, b"2": None}


def test_an_image_without_the_key_concerns_all_rows() -> None:
    assert seen(trail([("items", "u", {"id": 1, "a": 2}, {"a": 3})]), watched(), [b"2"], Window(0, 0, 1, 1)) == Seen()
    found = trail([("i", row(1))])
    object.__setattr__(found.chunks[0].tables[0].shapes[0], "present", (False, True, True))
    assert seen(found, watched(), [b"2"], Window(0, 0, 1, 1)).is_all


def test_another_definition_and_a_barrier_concern_all_rows() -> None:
    found = trail([("i", row(1))])
    object.__setattr__(found.chunks[0].tables[0], "version", 2)
    assert seen(found, watched(), [b"2"], Window(0, 0, 1, 1)).is_all
    parked = trail([("i", row(1))], [], barriers=[Barrier(1, 0, BarrierKind.PARK, ITEMS.id)])
    assert not seen(parked, watched(), [b"2"], Window(0, 0, 1, 1)).is_all
    assert seen(parked, watched(), [b"2"], Window(0, 0, 1, 2)).is_all
    assert not is_touched(parked, watched(), 2, 2) and is_touched(parked, watched(), 1, 2)


def test_words_in_keys_are_found_as_lines_have_them() -> None:
    of = schema("words", {"id": INT, "word": TEXT}, ["word", "id"])
    table = TargetTable(of.id, of.id, ("id", "word"), (INT, TEXT), ("word", "id"), ("id", "word"))
    chunk = chunk_of([[("words", "i", {"id": 5, "word": "a\tb\\c\n"})]], [of])
    said = seen(
        cast(Any, Trail([chunk])),
        Watched(VerifyTable(of, table), ValueRules()),
        [b"a\\tb\\\\c\\n\t5"],
        Window(0, 0, 1, 1),
    )
    assert said.values == {b"a\\tb\\\\c\\n\t5": b"5\ta\\tb\\\\c\\n"}


def test_rule_01_what_a_parent_does_unseen_concerns_all_children() -> None:
    """A removal, and another value in what is referenced; not any other change of it."""
    middle = schema("middle", {"id": INT, "a": INT}, ["id"], [reference(["a"], "top", Action.CASCADE)])
    top = schema("top", {"id": INT, "c": INT}, ["id"])
    child = schema("items", {"id": INT, "a": INT, "b": TEXT}, ["id"], [reference(["a"], "middle", Action.SET_NULL)])
    own = schema("own", {"id": INT, "a": INT}, ["id"], [reference(["a"], "own", Action.CASCADE)])
    schemas = {one.id: one for one in (middle, top, child, own)}
    parents = parents_of(child.id, schemas)
    assert parents == {middle.id: Parent(middle, frozenset({"id"})), top.id: Parent(top, frozenset({"id"}))}
    assert set(parents_of(own.id, schemas)) == {own.id} and parents_of(top.id, schemas) == {}

    def acts(*change: Any) -> bool:
        found = cast(Any, Trail([chunk_of([[("top", *change)]], [top, ITEMS])]))
        assert (
            is_touched(found, watched(parents), 0, 1)
            == seen(found, watched(parents), WANTED, Window(0, 0, 1, 1)).is_all
        )
        return is_touched(found, watched(parents), 0, 1)

    assert acts("d", {"id": 1, "c": 1}) and acts("u", {"id": 1, "c": 1}, {"id": 2, "c": 1})
    assert not acts("i", {"id": 1, "c": 1}) and not acts("u", {"id": 1, "c": 1}, {"id": 1, "c": 2})
    assert not acts("u", {"id": 1}, {"c": 2}) and acts("u", {"c": 1}, {"id": 2})


def test_rule_27_what_the_log_says_of_a_row_that_does_not_pass_the_filter_is_that_it_is_gone() -> None:
    """The filter sees the columns that only it names; the row is compared without them."""
    of = schema("items", {"id": INT, "a": INT, "b": TEXT}, ["id"])
    table = TargetTable(of.id, of.id, ("id", "b"), (INT, TEXT), ("id",), ("id", "b"))
    asked: list[bytes] = []

    def passing(one: VerifyTable, rows: Sequence[bytes]) -> list[bytes | None]:
        asked.extend(rows)
        return [None if row.endswith(b"\t0") else row.rsplit(b"\t", 1)[0] for row in rows]

    found = trail([("i", row(1, a=0)), ("i", row(2, a=5)), ("u", row(0), {"id": 0, "b": "y"})])
    by = Watched(VerifyTable(of, table, Filter("a > 0", ("a",))), ValueRules(), {}, passing)
    assert seen(found, by, WANTED, Window(0, 0, 1, 1)).values == {b"0": NOT_SAID, b"1": None, b"2": b"2\tx"}
    assert asked == [b"1\tx\t0", b"2\tx\t5"]  # all at once


def test_rule_01_a_parent_of_one_step_concerns_the_rows_that_refer_to_what_changed() -> None:
    """At either end, or by the log: where whole numbers refer, and images say to what."""
    child = schema("items", {"id": INT, "a": INT, "b": TEXT}, ["id"], [reference(["a"], "top", Action.CASCADE)])
    top = schema("top", {"id": INT, "c": INT}, ["id"])
    parents = parents_of(child.id, {one.id: one for one in (child, top)})
    assert parents == {top.id: Parent(top, frozenset({"id"}), ((("a",), ("id",)),))}
    changes = ("top", "d", {"id": 7, "c": 1}), ("top", "u", {"id": 8, "c": 1}, {"id": 9, "c": 1})
    found = cast(Any, Trail([chunk_of([changes], [top, ITEMS])]))
    said = seen(found, watched(parents), WANTED, Window(0, 0, 1, 1))
    assert said.reached == {(1,): {b"7", b"8", b"9"}} and not said.is_all
    here = {b"0": [b"0\t7\tx"], b"1": [b"1\t6\tx"], b"2": [b"2\t\\N\tx"]}
    assert expected(said, b"0", here, {}) is expected(said, b"0", {}, here) is None
    assert expected(said, b"1", here, {}) == [b"1\t6\tx"] and expected(said, b"2", here, {}) == [b"2\t\\N\tx"]
    said.values[b"1"] = b"1\t8\tx"
    assert expected(said, b"1", here, {}) is None
    lacking = cast(Any, Trail([chunk_of([[("top", "u", {"c": 1}, {"id": 9})]], [top, ITEMS])]))
    assert seen(lacking, watched(parents), WANTED, Window(0, 0, 1, 1)).is_all
    words = schema("items", {"id": INT, "a": INT, "b": TEXT}, ["id"], [reference(["b"], "named", Action.CASCADE)])
    named = schema("named", {"id": TEXT}, ["id"])
    assert not parents_of(words.id, {one.id: one for one in (words, named)})[named.id].links
