"""Conformance of a target's Loader: chunks and the ledger, and loads that come too late.

What does not live here: the target's other roles, and the tables that all of them use (`writer.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from anabranch.contracts import Bounds
from anabranch.errors import Fenced, RowRefused, StateError, TargetError
from anabranch.model.table_life import begin, hand_over, stream, take_out
from anabranch.testing.conformance.subject import refuses
from anabranch.testing.conformance.writer import JOB, RULES, Target, create, make, rows, schema, table, three


def rule_29_a_chunk_is_loaded_once(target: Target) -> None:
    of = table("a")
    create(target, of)
    with closing(target.connector.loader(RULES)) as loader:
        loader.begin_generation(JOB, of, 1, [Bounds(None, ("5",)), Bounds(("5",), None)], False)
        for _ in range(2):
            assert loader.load_chunk(JOB, of, 1, 0, ("low", "high"), [b"1\t\\N\tone\n2\t1\ttwo\n"]) == 2
        done, open_ = loader.chunks(JOB, of.source, 1)
    assert (done.rows, done.low, done.high, done.bounds.upper) == (2, "low", "high", ("5",))
    assert (open_.rows, open_.low, open_.bounds) == (None, "", Bounds(("5",), None))
    assert rows(target, of) == [("1", None, "one"), ("2", "1", "two")]
    with closing(target.connector.store()) as store:
        state = store.states.tables(JOB)[of.source]
    assert (state.state, state.generation) == ("loading", 1)


def a_chunk_that_breaks_leaves_nothing(target: Target) -> None:
    of = table("a")

    def broken() -> Iterator[bytes]:
        yield b"1\t\\N\tone\n"
        raise ConnectionResetError("the source went away")

    create(target, of)
    with closing(target.connector.loader(RULES)) as loader:
        loader.begin_generation(JOB, of, 1, [Bounds()], False)
        refuses(Exception, lambda: loader.load_chunk(JOB, of, 1, 0, ("", ""), broken()))
    with closing(target.connector.loader(RULES)) as loader:
        assert loader.chunks(JOB, of.source, 1)[0].rows is None
        error = refuses(RowRefused, lambda: loader.load_chunk(JOB, of, 1, 0, ("", ""), [b"1\t\\N\ta\n77\toops\tb\n"]))
        assert "77" in str(error)
        assert loader.load_chunk(JOB, of, 1, 0, ("", ""), [b"1\t\\N\tone\n"]) == 1
    assert rows(target, of) == [("1", None, "one")]


def chunks_that_are_loaded_together_come_together(target: Target) -> None:
    one, other = table("a"), table("b")
    good, bad = [b"1\t\\N\tone\n"], [b"1\t\\N\tone\n77\toops\tb\n"]
    create(target, one, other)
    with closing(target.connector.loader(RULES)) as loader:
        for of in (one, other):
            loader.begin_generation(JOB, of, 1, [Bounds()], False)

    def both(last: list[bytes]) -> None:
        with closing(target.connector.loader(RULES)) as loader, loader.together():
            assert loader.load_chunk(JOB, one, 1, 0, ("at", "at"), good) == 1
            loader.load_chunk(JOB, other, 1, 0, ("at", "at"), last)

    refuses(RowRefused, lambda: both(bad))
    assert (rows(target, one), rows(target, other)) == ([], [])
    both(good)
    both(good)
    assert rows(target, one) == rows(target, other) == [("1", None, "one")]
    with closing(target.connector.loader(RULES)) as loader:
        assert [loader.chunks(JOB, of.source, 1)[0].low for of in (one, other)] == ["at", "at"]


def rule_29_a_later_load_fences_the_earlier(target: Target) -> None:
    of = three(target)
    with closing(target.connector.loader(RULES)) as loader:
        refuses(TargetError, lambda: loader.begin_generation(JOB, of, 2, [Bounds()], False))
        loader.begin_generation(JOB, of, 2, [Bounds()], True)
        assert rows(target, of) == []
        refuses(Fenced, lambda: loader.load_chunk(JOB, of, 1, 0, ("", ""), [b"9\t\\N\tzombie\n"]))
        refuses(Fenced, lambda: loader.begin_generation(JOB, of, 1, [Bounds()], True))
    assert rows(target, of) == []


def rule_29_a_load_empties_no_table_that_streams(target: Target) -> None:
    """Apply has to let go of it first: it would go on with what is gone."""
    of = three(target)
    with closing(target.connector.store()) as store, closing(target.connector.loader(RULES)) as loader:
        loading = store.states.tables(JOB)[of.source]
        streaming = stream(hand_over(loading, "[]", "[]", 3))
        store.states.save_table(JOB, streaming, loading)
        refuses(StateError, lambda: loader.begin_generation(JOB, of, 2, [Bounds()], True))
        assert len(rows(target, of)) == 3 and store.states.table(JOB, of.source) == streaming
        store.states.save_table(JOB, taken_out := take_out(streaming), streaming)
        loader.begin_generation(JOB, of, 2, [Bounds()], True)
        found = store.states.table(JOB, of.source)
        assert rows(target, of) == [] and found == begin(taken_out, 2)


def rule_29_a_load_that_comes_too_late_drops_no_table(target: Target) -> None:
    """Two that make a table anew, of which one stood still: what the other has loaded since stays."""
    of = three(target)
    with closing(target.connector.tables(RULES)) as tables:
        for late in ((JOB, 1), (JOB, 0)):
            refuses(Fenced, partial(tables.create_table, schema(of), of, RULES, True, load=late))
        assert len(rows(target, of)) == 3
        tables.create_table(schema(of), of, RULES, True, load=(JOB, 2))
    assert rows(target, of) == []


def rule_29_a_state_changes_for_who_has_seen_it(target: Target) -> None:
    of = make(target, table("seen"))
    with closing(target.connector.store()) as store:
        loading = store.states.tables(JOB)[of.source]
        noted = hand_over(loading, "[]", "[]", 3)
        store.states.save_table(JOB, noted, loading)
        refuses(Fenced, lambda: store.states.save_table(JOB, replace(loading, reason="stale"), loading))
        assert store.states.tables(JOB)[of.source].is_loaded


CHECKS: tuple[Callable[[Target], None], ...] = (
    rule_29_a_chunk_is_loaded_once,
    a_chunk_that_breaks_leaves_nothing,
    chunks_that_are_loaded_together_come_together,
    rule_29_a_later_load_fences_the_earlier,
    rule_29_a_load_empties_no_table_that_streams,
    rule_29_a_load_that_comes_too_late_drops_no_table,
    rule_29_a_state_changes_for_who_has_seen_it,
)
