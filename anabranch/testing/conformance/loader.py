"""Conformance of a target's Loader: chunks and the ledger, rows that are refused, and loads that come too late.

What does not live here: the target's other roles, and the tables that all of them use (`writer.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from anabranch.contracts import Bounds, NewLoad
from anabranch.errors import Fenced, RowRefused, StateError, TargetError
from anabranch.model.table_life import TableState, begin, hand_over, heard_of, prepare, stream, take_out
from anabranch.rows.aside import AsideChange
from anabranch.rows.lines import escaped_line
from anabranch.rows.net import INSERT, TargetTable
from anabranch.testing.conformance.epochs import JOB, RULES, Target, create, make, rows, schema, table, three
from anabranch.testing.conformance.subject import refuses

GOOD = b"1\t\\N\tone\n"


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


def a_chunk_that_is_done_is_not_read_again(target: Target) -> None:
    of = table("a")
    create(target, of)

    def never() -> Iterator[bytes]:
        raise AssertionError("the rows of a chunk that is done were asked for")
        yield b""

    with closing(target.connector.loader(RULES)) as loader:
        loader.begin_generation(JOB, of, 1, [Bounds()], False)
        assert loader.load_chunk(JOB, of, 1, 0, ("", ""), [GOOD]) == 1
    with closing(target.connector.loader(RULES)) as loader:
        assert loader.load_chunk(JOB, of, 1, 0, ("", ""), never()) == 1
        loader.begin_generation(JOB, of, 1, [Bounds(), Bounds()], True)
        assert [chunk.rows for chunk in loader.chunks(JOB, of.source, 1)] == [1]
    assert rows(target, of) == [("1", None, "one")]


def a_chunk_may_be_empty_and_come_in_any_blocks(target: Target) -> None:
    of = table("a")
    create(target, of)
    with closing(target.connector.loader(RULES)) as loader:
        loader.begin_generation(JOB, of, 1, [Bounds(None, ("1",)), Bounds(("1",), ("2",)), Bounds(("2",), None)], False)
        assert loader.load_chunk(JOB, of, 1, 1, ("", ""), []) == 0
        assert loader.load_chunk(JOB, of, 1, 0, ("", ""), [GOOD, b"", b"2\t\\N\t\n3\t1\t\\N\n", b"4\t\\N\t\n"]) == 4
        assert [chunk.rows for chunk in loader.chunks(JOB, of.source, 1)] == [4, 0, None]
        found = loader.ledgers(JOB, {of.source: 1, table("b").source: 1})
        assert [len(chunks) for chunks in found.values()] == [3, 0]
        assert loader.ledgers(JOB, {of.source: 2}) == {of.source: []}
    assert rows(target, of) == [("1", None, "one"), ("2", None, ""), ("3", "1", None), ("4", None, "")]


def text_arrives_as_it_was_sent(target: Target) -> None:
    """Whatever has a meaning in a line, a literal, or a statement, also as COPY escapes it."""
    of = make(target, table("a"))
    texts = [
        "\t",
        "a\nb",
        "\r\n",
        "\\",
        "\\N",
        "\\\\N",
        "\\n",
        "\\f",
        "\\\\v",
        "'",
        "'\\''",
        "'\\N'",
        '"',
        "%",
        "%s",
        "%b",
    ]
    texts += ["\x1a", "\b\f\v", " padded  ", "ünï😀", "\x7f", ",", "),('", "\\\n\\\t", "--", "\\Z\\0", "NULL", "\\x41"]
    lines = [escaped_line((str(number), None, text)) for number, text in enumerate(texts)]
    lines.append(b"100\t\\N\t\\b\\f\\v\\\\f\\\\\\f\n")
    with closing(target.connector.loader(RULES)) as loader:
        loader.begin_generation(JOB, of, 2, [Bounds()], False)
        assert loader.load_chunk(JOB, of, 2, 0, ("", ""), [b"".join(lines)]) == len(lines)
    found = {int(id or 0): word for id, _, word in rows(target, of)}
    assert found == {**dict(enumerate(texts)), 100: "\b\f\v\\f\\\f"}


def a_key_that_is_there_is_refused_by_name(target: Target) -> None:
    """In the chunk itself, or in one before it: no row is skipped, none takes another one's place."""
    of = table("a")
    create(target, of)
    many = b"".join(b"%d\t\\N\tw\n" % number for number in range(100, 300))
    with closing(target.connector.loader(RULES)) as loader:
        loader.begin_generation(JOB, of, 1, [Bounds(None, ("9",)), Bounds(("9",), None)], False)
        error = refuses(RowRefused, lambda: loader.load_chunk(JOB, of, 1, 0, ("", ""), [many, GOOD, many[:9], GOOD]))
        assert "100" in str(error) and "one" not in str(error)
        assert loader.load_chunk(JOB, of, 1, 0, ("", ""), [GOOD]) == 1
        error = refuses(RowRefused, lambda: loader.load_chunk(JOB, of, 1, 1, ("", ""), [many, GOOD]))
        assert "1" in str(error)
        assert [chunk.rows for chunk in loader.chunks(JOB, of.source, 1)] == [1, None]
    assert rows(target, of) == [("1", None, "one")]


def rows_that_are_set_aside_come_with_their_chunk(target: Target) -> None:
    of = table("a")
    create(target, of)
    aside = AsideChange(
        0, "", 0, of.source, of.target, {"id": "7"}, INSERT, None, {"id": "7"}, "why", unconverted={"word": "?"}
    )
    with closing(target.connector.loader(RULES)) as loader, closing(target.connector.store()) as store:
        loader.begin_generation(JOB, of, 1, [Bounds()], False)
        bad = [GOOD, b"77\toops\tb\n"]
        refuses(RowRefused, lambda: loader.load_chunk(JOB, of, 1, 0, ("", ""), bad, lambda: [aside]))
        assert store.asides.set_aside(JOB) == []
        assert loader.load_chunk(JOB, of, 1, 0, ("", ""), [GOOD], lambda: [aside]) == 1
        (found,) = store.asides.set_aside(JOB)
        assert (found.key, found.after, found.unconverted) == ({"id": "7"}, {"id": "7"}, {"word": "?"})
        loader.begin_generation(JOB, of, 2, [Bounds()], True)
        assert store.asides.set_aside(JOB) == []


def chunks_of_a_table_are_loaded_side_by_side(target: Target) -> None:
    of = table("a")
    create(target, of)
    with closing(target.connector.loader(RULES)) as one, closing(target.connector.loader(RULES)) as other:
        one.begin_generation(JOB, of, 1, [Bounds(None, ("1",)), Bounds(("1",), None)], False)

        def lines() -> Iterator[bytes]:
            yield GOOD
            assert other.load_chunk(JOB, of, 1, 1, ("", ""), [b"2\t\\N\ttwo\n"]) == 1

        assert one.load_chunk(JOB, of, 1, 0, ("", ""), lines()) == 1
    assert rows(target, of) == [("1", None, "one"), ("2", None, "two")]


def new_tables_are_begun_at_once(target: Target) -> None:
    made, new, heard = make(target, table("a"), [("1", None, "one")]), table("b"), table("c")
    with closing(target.connector.store()) as store, closing(target.connector.loader(RULES)) as loader:
        store.states.save_table(JOB, known := heard_of(heard.source, heard.target), None)
        loads = [_new(made, None), _new(new, None), _new(heard, known)]
        beside = frozenset(load.table.target for load in loads)
        states = store.states.tables(JOB)
        assert loader.begin_new(JOB, [_new(heard, None)], RULES, beside) == frozenset()
        assert store.states.tables(JOB) == states
        assert loader.begin_new(JOB, loads, RULES, beside) == {new.source, heard.source}
        assert loader.begin_new(JOB, loads, RULES, beside) == frozenset()
        begun = store.states.tables(JOB)
        assert {(state.state, state.generation) for state in begun.values()} == {("loading", 1)}
        assert begun[new.source].schema == schema(new) and begun[made.source] == states[made.source]
        ledgers = loader.ledgers(JOB, dict.fromkeys(begun, 1))
        assert {table: len(chunks) for table, chunks in ledgers.items()} == {
            made.source: 1,
            new.source: 2,
            heard.source: 2,
        }
        for of in (new, heard):
            assert loader.load_chunk(JOB, of, 1, 1, ("", ""), [GOOD]) == 1
    assert rows(target, made) == rows(target, new) == rows(target, heard) == [("1", None, "one")]


def _new(of: TargetTable, before: TableState | None) -> NewLoad:
    state = begin(prepare(before, schema(of), of.target), 1)
    return NewLoad(schema(of), of, state, before, [Bounds(None, ("5",)), Bounds(("5",), None)])


def a_table_that_another_job_writes_to_is_not_emptied(target: Target) -> None:
    of = three(target)
    with closing(target.connector.store()) as store, closing(target.connector.loader(RULES)) as loader:
        store.states.save_table("another", heard_of(of.source, of.target), None)
        refuses(TargetError, lambda: loader.begin_generation(JOB, of, 2, [Bounds()], True))
        assert (len(rows(target, of)), store.states.tables(JOB)[of.source].generation) == (3, 1)


def rows_that_are_there_are_kept_if_asked(target: Target) -> None:
    of = three(target)
    with closing(target.connector.loader(RULES)) as loader:
        loader.begin_generation(JOB, of, 2, [Bounds()], False, keep=True)
        assert loader.load_chunk(JOB, of, 2, 0, ("", ""), [b"9\t\\N\tnine\n"]) == 1
    assert len(rows(target, of)) == 4


CHECKS: tuple[Callable[[Target], None], ...] = (
    rule_29_a_chunk_is_loaded_once,
    a_chunk_that_breaks_leaves_nothing,
    a_chunk_that_is_done_is_not_read_again,
    a_chunk_may_be_empty_and_come_in_any_blocks,
    text_arrives_as_it_was_sent,
    a_key_that_is_there_is_refused_by_name,
    rows_that_are_set_aside_come_with_their_chunk,
    chunks_of_a_table_are_loaded_side_by_side,
    chunks_that_are_loaded_together_come_together,
    new_tables_are_begun_at_once,
    a_table_that_another_job_writes_to_is_not_emptied,
    rows_that_are_there_are_kept_if_asked,
    rule_29_a_later_load_fences_the_earlier,
    rule_29_a_load_empties_no_table_that_streams,
    rule_29_a_load_that_comes_too_late_drops_no_table,
    rule_29_a_state_changes_for_who_has_seen_it,
)
