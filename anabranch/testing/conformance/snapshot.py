"""Conformance of SnapshotReader: every row once, from one moment, in the encoding of the log."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import closing

from anabranch.contracts import Bounds, KeepingReader, SharingReader, SnapshotReader, ValueRules
from anabranch.errors import SourceError
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk, Op
from anabranch.rows.lines import parse_line
from anabranch.testing.conformance.reader import definitions, end, following, items, transactions
from anabranch.testing.conformance.subject import COLUMNS, FULL, Source, refuses, row
from anabranch.testing.in_time import until

RULES = ValueRules()


def rows_of(
    source: Source, reader: SnapshotReader, table: TableId, bounds: Bounds | None = None
) -> list[dict[str, str | None]]:
    schema = definitions(source)[table]
    blocks = reader.lines(schema, COLUMNS, bounds or Bounds(), RULES)
    lines = [line for block in blocks for line in block.split(b"\n")[:-1]]
    return [dict(zip(COLUMNS, parse_line(line), strict=True)) for line in lines]


def places(source: Source, start: LogMark) -> list[tuple[str, str | None]]:
    """Native position and GTID of every transaction of our tables since `start`."""
    found: list[tuple[str, str | None]] = []
    with following(source, start) as reader:
        for item in items(reader, source, end(source)):
            if isinstance(item, Chunk):
                natives, gtids = (item.transactions.column(name).to_pylist() for name in ("native", "gtid"))
                found += zip(natives, gtids, strict=True)
    return found


def fill(source: Source, table: TableId, numbers: range) -> None:
    with source.transaction() as t:
        for number in numbers:
            t.insert(table, row(number))


def chunks_hold_every_row_once(source: Source) -> None:
    a = source.create("a")
    fill(source, a, range(-20, 480, 3))
    schema = definitions(source)[a]
    with closing(source.connector.snapshot()) as reader:
        bounds = reader.bounds(schema, 50)
        reader.open(schema, "none")
        assert len(bounds) > 2 and bounds[0].lower is None and bounds[-1].upper is None
        found = [rows_of(source, reader, a, one) for one in bounds]
    assert all(len(rows) <= 100 for rows in found)
    seen = sorted(int(one["id"] or 0) for rows in found for one in rows)
    assert seen == list(range(-20, 480, 3))


def small_empty_and_keyless_tables_are_one_piece(source: Source) -> None:
    a, b = source.create("a"), source.create("b", has_key=False)
    fill(source, b, range(300))
    tables = definitions(source)
    with closing(source.connector.snapshot()) as reader:
        assert reader.bounds(tables[a], 50) == [Bounds()] == reader.bounds(tables[b], 50)
        reader.open(tables[b], "none")
        assert len(rows_of(source, reader, b)) == 300
        assert rows_of(source, reader, a) == []


def places_are_the_table_in_a_shared_snapshot(source: Source) -> None:
    """Read places of one table in a shared snapshot: in separate ones rows would be missing or there twice."""
    a = source.create("a", has_key=False)
    fill(source, a, range(1, 2001))
    schema = definitions(source)[a]
    with closing(source.connector.snapshot()) as sharer:
        if not isinstance(sharer, SharingReader):
            assert sharer.bounds(schema, 50) == [Bounds()] and not source.cuts_places
            return
        shared, found = sharer.share([schema]), list[int]()
        bounds = sharer.places(schema, 50)
        assert (len(bounds) > 2) is source.cuts_places and bounds[0].lower is None and bounds[-1].upper is None
        for number, one in enumerate(bounds):
            with closing(source.connector.snapshot()) as reader:
                assert isinstance(reader, SharingReader) and reader.open_shared(schema, shared) is not None
                found += [int(row["id"] or 0) for row in rows_of(source, reader, a, one)]
            with source.transaction() as t:
                t.update(a, {"id": str(number + 1)}, {"id": str(9000 + number)})
                t.delete(a, {"id": str(1500 + number)})
    assert sorted(found) == list(range(1, 2001))


def the_snapshot_stays_as_it_was_opened(source: Source) -> None:
    a = source.create("a")
    fill(source, a, range(10))
    schema = definitions(source)[a]
    with closing(source.connector.snapshot()) as reader:
        reader.open(schema, "none")
        with source.transaction() as t:
            t.delete(a, {"id": "3"})
            t.insert(a, row(99))
        assert [one["id"] for one in rows_of(source, reader, a)] == [str(number) for number in range(10)]


def rule_25_a_kept_snapshot_is_at_its_place_and_holds_nobody_up(source: Source) -> None:
    """It has the transactions up to its place and none behind it, in all tables, and whoever removes a table's rows does not
    wait for it, once the table was let go."""
    a, b, order = source.create("a"), source.create("b"), source.connector.order
    start = end(source)
    fill(source, a, range(3))
    fill(source, b, range(2))
    schemas = definitions(source)
    with closing(source.connector.snapshot()) as reader:
        if not isinstance(reader, KeepingReader):
            return
        found = list[LogMark | str]()

        def has_a_place() -> bool:
            found[:] = [reader.keep("global", 30.0)]
            return not isinstance(found[0], str)

        until(has_a_place, "a snapshot has a place")
        (place,) = found
        assert not isinstance(place, str) and all(reader.keeps(schema) for schema in schemas.values())
        before = places(source, start)
        fill(source, b, range(5, 9))
        inside = [order.includes(place, native, gtid) for native, gtid in places(source, start)]
        assert sum(inside) == len(before) == inside.index(False), "a snapshot has what was before it, and no more"
        for table, count in ((a, 3), (b, 2), (a, 3)):
            assert len(rows_of(source, reader, table)) == count
            reader.release()
        source.truncate(b)
        assert len(rows_of(source, reader, a)) == 3


def low_is_inside_and_high_is_not_behind(source: Source) -> None:
    a, order = source.create("a"), source.connector.order
    start = end(source)
    fill(source, a, range(3))
    with closing(source.connector.snapshot()) as reader:
        low, high = reader.open(definitions(source)[a], "none")
        fill(source, a, range(3, 5))
        assert len(rows_of(source, reader, a)) == 3
    before, after = places(source, start)
    assert order.includes(low, *before), "what was committed long before is in `low`"
    assert order.includes(high, *before)
    assert not order.includes(high, *after), "what came after is not in `high`"
    assert not order.includes(low, *after)


def a_lock_makes_the_snapshot_exact(source: Source) -> None:
    a = source.create("a", has_key=False)
    fill(source, a, range(3))
    with closing(source.connector.snapshot()) as reader:
        low, high = reader.open(definitions(source)[a], "table")
        fill(source, a, range(3, 5))  # the lock is only for the moment of opening
        assert low == high and len(rows_of(source, reader, a)) == 3


def rule_34_lines_are_what_the_log_gives(source: Source) -> None:
    a = source.create("a")
    start = end(source)
    with source.transaction() as t:
        t.insert(a, FULL)
        t.insert(a, row(2, word="", number=None, amount="0.00", data="\\x", moment="1000-01-01 00:00:00.000000"))
    (streamed,) = transactions(source, start, end(source))
    with closing(source.connector.snapshot()) as reader:
        reader.open(definitions(source)[a], "none")
        loaded = rows_of(source, reader, a)
    assert [(a, Op.INSERT, one) for one in loaded] == streamed
    assert loaded[0] == FULL


def rows_are_found_by_their_keys(source: Source) -> None:
    a = source.create("a")
    fill(source, a, range(20))
    schema = definitions(source)[a]
    with closing(source.connector.snapshot()) as reader:
        reader.open(schema, "none")
        keys = [{"id": "5"}, {"id": "17"}, {"id": "404"}]
        lines = b"".join(reader.lines_of(schema, ("id", "word"), keys, RULES)).split(b"\n")[:-1]
        assert sorted(map(tuple, map(parse_line, lines))) == [("17", "w17"), ("5", "w5")]
        assert list(reader.lines_of(schema, ("id",), [], RULES)) == []
        many = [{"id": str(number)} for number in range(2_500)]  # more than fit into a statement
        lines = b"".join(reader.lines_of(schema, ("id",), many, RULES)).split(b"\n")[:-1]
        assert sorted(map(int, lines)) == list(range(20))


def columns_come_in_the_order_asked_for(source: Source) -> None:
    a = source.create("a")
    fill(source, a, range(1, 2))
    schema = definitions(source)[a]
    with closing(source.connector.snapshot()) as reader:
        reader.open(schema, "none")
        assert b"".join(reader.lines(schema, ("amount", "id"), Bounds(), RULES)) == b"1.50\t1\n"


def rule_29_another_server_is_refused(source: Source) -> None:
    a = source.create("a")
    schema = definitions(source)[a]
    with closing(source.connector.snapshot("somebody else")) as reader:
        refuses(SourceError, lambda: reader.open(schema, "none"))


def a_reader_travels_to_a_task(source: Source) -> None:
    a = source.create("a")
    fill(source, a, range(3))
    with closing(pickle.loads(pickle.dumps(source.connector.snapshot()))) as reader:
        reader.open(definitions(source)[a], "none")
        assert len(rows_of(source, reader, a)) == 3


CHECKS: tuple[Callable[[Source], None], ...] = (
    chunks_hold_every_row_once,
    small_empty_and_keyless_tables_are_one_piece,
    places_are_the_table_in_a_shared_snapshot,
    the_snapshot_stays_as_it_was_opened,
    rule_25_a_kept_snapshot_is_at_its_place_and_holds_nobody_up,
    low_is_inside_and_high_is_not_behind,
    a_lock_makes_the_snapshot_exact,
    rule_34_lines_are_what_the_log_gives,
    rows_are_found_by_their_keys,
    columns_come_in_the_order_asked_for,
    rule_29_another_server_is_refused,
    a_reader_travels_to_a_task,
)
