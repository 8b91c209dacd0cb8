"""Conformance of LogReader, LogOrder and Dialect."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import count

from anabranch.contracts import LogOptions, LogReader, Select
from anabranch.errors import LogLost
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, Chunk, Op, Part
from anabranch.rows.lines import texts
from anabranch.rows.log_items import LogDecided, LogIdle, LogItem, LogPrepared, LogStatement
from anabranch.rows.uncommitted import LogChanges, LogEnded
from anabranch.testing.conformance.subject import FULL, Source, Undone, refuses, row
from anabranch.testing.in_time import NotInTime, in_time

PATIENCE = 240.0
OPTIONS = LogOptions(reader_id=4_000_001, flush_interval=0.05, name="conformance")
LARGE = 21_000  # images of a transaction that no reader gives in one chunk

Image = tuple[TableId, Op, dict[str, str | None]]


# --- reading ----------------------------------------------------------------------------------------------------------


def definitions(source: Source) -> dict[TableId, TableSchema]:
    with closing(source.connector.catalog()) as catalog:
        return catalog.tables(lambda table: True)


@contextmanager
def following(source: Source, after: LogMark, select: Select | None = None) -> Iterator[LogReader]:
    with closing(source.connector.log(source.options)) as reader:
        reader.start(after, select or definitions(source).get)
        yield reader


def end(source: Source) -> LogMark:
    with closing(source.connector.log(source.options)) as reader:
        return reader.end()


def items(reader: LogReader, source: Source, until: LogMark) -> Iterator[LogItem]:
    """Everything up to a place that was the log's end."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        found = reader.read(0.1)
        if found is None:
            continue
        yield found
        resume = found.resume if isinstance(found, Chunk) else found.mark.resume
        here = source.connector.order.mark(resume)
        if source.connector.order.includes(here, until.native, None):
            return
    raise NotInTime("the reader did not come to the log's end")


def images(chunk: Chunk, tables: Mapping[TableId, TableSchema]) -> list[tuple[int, int, Image]]:
    """The row images of a chunk with their transaction and ordinal."""
    found: list[tuple[int, int, Image]] = []
    for rows in chunk.tables:
        names = [column.name for column in tables[rows.table].columns]
        types = [column.type for column in tables[rows.table].columns]
        columns = [
            texts(type, rows.batch.column(META + place)).to_pylist()
            for place, type in enumerate(types)
            if type is not None
        ]
        ops, txs, ordinals = (rows.batch.column(place).to_pylist() for place in range(3))
        for op, tx, ordinal, values in zip(ops, txs, ordinals, zip(*columns, strict=True), strict=True):
            found.append((tx, ordinal, (rows.table, Op(op), dict(zip(names, values, strict=True)))))
    return sorted(found, key=lambda one: one[:2])


def transactions(source: Source, after: LogMark, until: LogMark, select: Select | None = None) -> list[list[Image]]:
    """Committed transactions between two marks, fragments put together."""
    tables, found = definitions(source), []
    held: list[Image] = []
    with following(source, after, select) as reader:
        for item in items(reader, source, until):
            if not isinstance(item, Chunk):
                continue
            whole: dict[int, list[Image]] = {}
            for tx, _, image in images(item, tables):
                whole.setdefault(tx, []).append(image)
            for tx in range(item.transactions.num_rows):
                held += whole.get(tx, [])
                if item.part is not Part.FRAGMENT:
                    found.append(held)
                    held = []
    return found


# --- checks -----------------------------------------------------------------------------------------------------------


def whole_transactions_come_in_commit_order(source: Source) -> None:
    a, b = source.create("a"), source.create("b", has_key=False)
    start = end(source)
    with source.transaction() as t:
        t.insert(a, row(1))
        t.insert(b, row(2))
        t.insert(a, row(3))
    with source.transaction() as t:
        t.delete(a, {"id": "1"})
    assert transactions(source, start, end(source)) == [
        [(a, Op.INSERT, row(1)), (b, Op.INSERT, row(2)), (a, Op.INSERT, row(3))],
        [(a, Op.DELETE, row(1))],
    ]


def an_update_is_its_image_before_and_after(source: Source) -> None:
    a = source.create("a")
    with source.transaction() as t:
        t.insert(a, FULL)
    start = end(source)
    with source.transaction() as t:
        t.update(a, {"id": "1"}, {"id": "7", "word": None})
    (found,) = transactions(source, start, end(source))
    assert found == [(a, Op.BEFORE, dict(FULL)), (a, Op.AFTER, {**FULL, "id": "7", "word": None})]


def what_was_rolled_back_never_comes(source: Source) -> None:
    a = source.create("a")
    start = end(source)
    with suppress(Undone), source.transaction() as t:
        t.insert(a, row(1))
        raise Undone
    with source.transaction() as t:
        t.insert(a, row(2))
    assert transactions(source, start, end(source)) == [[(a, Op.INSERT, row(2))]]


def tables_that_are_not_selected_are_left_out(source: Source) -> None:
    a, b = source.create("a"), source.create("b")
    start = end(source)
    for number in range(3):
        with source.transaction() as t:
            t.insert(b, row(number))
            if number == 1:
                t.insert(a, row(number))
    only_a = {a: definitions(source)[a]}
    assert transactions(source, start, end(source), only_a.get) == [[(a, Op.INSERT, row(1))]]


def every_resume_goes_on_exactly_there(source: Source) -> None:
    a = source.create("a")
    start = end(source)
    for number in range(12):
        with source.transaction() as t:
            t.insert(a, row(number))
    until, here, seen = end(source), start, []
    while not source.connector.order.includes(here, until.native, None):
        with following(source, here) as reader:
            item = next(iter(items_once(reader)))
        if isinstance(item, Chunk):
            seen += [image[2]["id"] for _, _, image in images(item, definitions(source))]
        here = source.connector.order.mark(item.resume if isinstance(item, Chunk) else item.mark.resume)
    assert seen == [str(number) for number in range(12)]


def items_once(reader: LogReader) -> Iterator[LogItem]:
    """The next item."""
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        found = reader.read(0.1)
        if found is not None:
            yield found
            return
    raise NotInTime("the reader gave nothing")


def a_large_transaction_comes_in_fragments(source: Source) -> None:
    """Expect the end in the last fragment, or apart where the transaction came while it was open."""
    a = source.create("a")
    start = end(source)
    with source.transaction() as t:
        for number in range(LARGE):
            t.insert(a, row(number))
    until = end(source)
    with following(source, start) as reader:
        given = [item for item in items(reader, source, until) if isinstance(item, (Chunk, LogChanges, LogEnded))]
    ended = next((item for item in given[-1:] if isinstance(item, LogEnded)), None)
    chunks = [item.chunk if isinstance(item, LogChanges) else item for item in given if not isinstance(item, LogEnded)]
    parts = [chunk.part for chunk in chunks]
    assert len(given) - (ended is not None) == len(chunks) > 1
    assert parts == [Part.FRAGMENT] * (len(parts) - 1) + [Part.FRAGMENT if ended else Part.LAST]
    found = [one for chunk in chunks for one in images(chunk, definitions(source))]
    assert [ordinal for _, ordinal, _ in found] == list(range(LARGE))
    assert [image[2]["id"] for _, _, image in found] == [str(number) for number in range(LARGE)]
    if ended:
        assert ended.is_committed and {item.xid for item in given if isinstance(item, LogChanges)} == {ended.xid}
        native, commit_time = ended.mark.native, ended.mark.commit_time
    else:
        last = chunks[-1].transactions
        native, commit_time = last.column("native")[0].as_py(), last.column("commit_time")[0].as_py()
    assert native and commit_time


def marks_say_what_they_include(source: Source) -> None:
    a, order = source.create("a"), source.connector.order
    before = end(source)
    with source.transaction() as t:
        t.insert(a, row(1))
    after = end(source)
    assert order.includes(after, before.native, None) and order.includes(after, after.native, None)
    assert not order.includes(before, after.native, None)
    again = order.mark(after.resume)
    assert (again.native, again.resume) == (after.native, after.resume)
    assert (order.bytes_between(before.native, after) or 1) > 0


def a_transaction_has_native_position_and_time(source: Source) -> None:
    a, order = source.create("a"), source.connector.order
    start, began = end(source), time.time()
    with source.transaction() as t:
        t.insert(a, row(1))
    with following(source, start) as reader:
        chunk = next(item for item in items(reader, source, end(source)) if isinstance(item, Chunk))
    native, gtid, commit_time, rows, origin = (column[0].as_py() for column in chunk.transactions.columns)
    assert origin is None and rows == 1 and abs(commit_time / 1e6 - began) < PATIENCE
    assert order.includes(order.mark(chunk.resume), native, gtid) and not order.includes(start, native, gtid)


def rule_21_where_a_transaction_was_made_comes_with_it(source: Source) -> None:
    """Expect each transaction's origin with it, and none with the next one that has none."""
    if not source.origins:
        return
    a, numbers = source.create("a"), count()
    start = end(source)
    north, south = source.origins
    made = [None, north, None, south, south, None]
    for origin in made:
        with source.from_origin(origin) if origin else source.transaction() as t:
            for _ in range(2):
                t.insert(a, row(next(numbers)))
    with following(source, start) as reader:
        chunks = [item for item in items(reader, source, end(source)) if isinstance(item, Chunk)]
    told = [origin for chunk in chunks for origin in chunk.transactions.column("origin").to_pylist()]
    assert told == made


def rule_21_transactions_of_origins_that_are_named_are_left_out(source: Source) -> None:
    """Expect transactions of other origins and of this server, and a place that moves past the others."""
    if not source.origins:
        return
    a = source.create("a")
    north, south = source.origins
    start = end(source)
    for number, origin in enumerate((north, None, north, south, None, north)):
        with source.from_origin(origin) if origin else source.transaction() as t:
            t.insert(a, row(number))
            t.update(a, {"id": str(number)}, {"word": "other"})
    with closing(source.connector.log(replace(source.options, leave_out=frozenset((north,))))) as reader:
        reader.start(start, definitions(source).get)
        found = list(items(reader, source, end(source)))
    chunks = [item for item in found if isinstance(item, Chunk)]
    told = [origin for chunk in chunks for origin in chunk.transactions.column("origin").to_pylist()]
    ids = {image[2]["id"] for chunk in chunks for *_, image in images(chunk, definitions(source))}
    assert told == [None, south, None] and ids == {"1", "3", "4"}


def rule_06_prepared_transactions_come_where_they_are_prepared_and_decided(source: Source) -> None:
    a = source.create("a")
    start = end(source)
    opened = source.prepare("one")
    if opened is None:
        return
    with opened as t:
        t.insert(a, row(1))
    with source.transaction() as t:
        t.insert(a, row(2))
    with closing(source.connector.catalog()) as catalog:
        open_now = catalog.transactions.prepared()
    source.decide("one", commit=True)
    opened = source.prepare("two")
    assert opened is not None
    with opened as t:
        t.insert(a, row(3))
    source.decide("two", commit=False)
    with following(source, start) as reader:
        found = [item for item in items(reader, source, end(source)) if not isinstance(item, LogIdle)]
    first, between, committed, second, rolled_back = found
    assert isinstance(first, LogPrepared) and isinstance(second, LogPrepared) and isinstance(between, Chunk)
    assert isinstance(committed, LogDecided) and isinstance(rolled_back, LogDecided)
    assert first.xid == committed.xid != second.xid == rolled_back.xid and first.xid in (open_now or ())
    assert committed.is_committed and not rolled_back.is_committed and first.left_out == ()
    ids = [[image[2]["id"] for *_, image in images(item.chunk, definitions(source))] for item in (first, second)]
    assert ids == [["1"], ["3"]] and first.chunk.part is Part.LAST
    with following(source, first.mark) as reader:
        again = [item for item in items(reader, source, end(source)) if not isinstance(item, LogIdle)]
    assert [type(item) for item in again] == [type(item) for item in found[1:]]


def a_truncate_comes_between_the_rows(source: Source) -> None:
    a = source.create("a")
    start = end(source)
    with source.transaction() as t:
        t.insert(a, row(1))
    source.truncate(a)
    with source.transaction() as t:
        t.insert(a, row(2))
    seen: list[object] = []
    with following(source, start) as reader:
        for item in items(reader, source, end(source)):
            if isinstance(item, LogStatement):
                facts = source.connector.dialect.facts(item.sql, item.schema)
                seen += [(facts.kind, table) for table in facts.tables]
            elif isinstance(item, Chunk):
                rows = [(tx, ordinal, image[2]["id"]) for tx, ordinal, image in images(item, definitions(source))]
                barriers = [(b.tx, b.ordinal, (b.kind.value, b.table)) for b in item.barriers]
                seen += [what for *_, what in sorted([*rows, *barriers], key=lambda one: one[:2])]
    assert seen == ["1", ("truncate", a), "2"]


def pitfall_26_a_purged_log_is_refused(source: Source) -> None:
    a = source.create("a")
    mark = end(source)
    with source.transaction() as t:
        t.insert(a, row(1))
    source.purge()
    with closing(source.connector.log(source.options)) as reader:
        refuses(LogLost, lambda: _start_and_read(reader, mark))


def _start_and_read(reader: LogReader, mark: LogMark) -> None:
    reader.start(mark, lambda table: None)
    reader.read(1.0)


def nothing_new_is_none_after_the_timeout(source: Source) -> None:
    source.create("a")
    with following(source, end(source)) as reader:
        give_up = time.monotonic() + PATIENCE
        while True:  # what a server writes for itself may move the place at any time
            began = time.monotonic()
            in_time(give_up, "something new comes again and again")
            item = reader.read(0.2)
            if item is None:
                assert time.monotonic() - began < PATIENCE / 2
                return
            assert isinstance(item, LogIdle)


def names_are_those_of_tables(source: Source) -> None:
    source.create("a")
    source.create("b")
    with closing(source.connector.catalog()) as catalog:
        found = catalog.names()
        assert found.keys() == catalog.tables(lambda table: True).keys() and len(found) >= 2
        assert set(found.values()) == {""}
        there = next(iter(found))
        gone = {TableId(there.schema, "never_made"), TableId("never_made", there.name)}
        assert catalog.gone([*found, *gone]) == dict.fromkeys(gone, "") and catalog.gone([there]) == {}


CHECKS: tuple[Callable[[Source], None], ...] = (
    whole_transactions_come_in_commit_order,
    an_update_is_its_image_before_and_after,
    what_was_rolled_back_never_comes,
    tables_that_are_not_selected_are_left_out,
    every_resume_goes_on_exactly_there,
    a_large_transaction_comes_in_fragments,
    marks_say_what_they_include,
    a_transaction_has_native_position_and_time,
    rule_21_where_a_transaction_was_made_comes_with_it,
    rule_21_transactions_of_origins_that_are_named_are_left_out,
    rule_06_prepared_transactions_come_where_they_are_prepared_and_decided,
    a_truncate_comes_between_the_rows,
    pitfall_26_a_purged_log_is_refused,
    nothing_new_is_none_after_the_timeout,
    names_are_those_of_tables,
)
