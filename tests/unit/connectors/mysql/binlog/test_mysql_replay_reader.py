"""The reader over a recording that stands in for the connection: what it gives, when, and in which order."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from anabranch.connectors.mysql.source import capture, endings
from anabranch.connectors.mysql.source.capture import BinlogReader
from anabranch.connectors.mysql.source.positions import BinlogOrder, Place, place_of
from anabranch.contracts import LogOptions
from anabranch.errors import SourceUnavailable
from anabranch.model.endpoint import EndLimits, Endpoint
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk, Part
from anabranch.rows.log_items import LogIdle, LogStatement

FAMILIES = ["mariadb", "mysql"]


class Played:
    """A Dump that gives the blocks of a recording."""

    def __init__(self, blocks: list[bytes], pause: float = 0.0) -> None:
        self.blocks, self.pause = blocks, pause

    def receive(self, timeout: float) -> bytes | None:
        time.sleep(self.pause)
        return self.blocks.pop(0) if self.blocks else None

    def close(self) -> None:
        self.blocks = []


@pytest.fixture
def played(recording: Callable, monkeypatch: pytest.MonkeyPatch) -> Callable:
    """A reader of the recording in blocks of a size, with the server's part played."""

    def make(
        name: str, size: int, flush_interval: float = 1.0, pause: float = 0.0, silence: float = 30.0
    ) -> BinlogReader:
        found, end = recording(name), Endpoint("mysql", "", 0, "", "", limits=EndLimits(silence=silence))
        reader = BinlogReader(end, LogOptions(1, flush_interval))
        monkeypatch.setattr(capture, "connect", lambda endpoint: Played([]))
        monkeypatch.setattr(capture, "continued", lambda connection, place: place)
        monkeypatch.setattr(capture, "server_id", lambda connection: 1)
        reader.places = []  # where the log was opened

        def dump(endpoint: Endpoint, server_id: int, place: Place) -> Played:
            reader.places.append(place)
            reader.played = Played(list(found.blocks(size)), pause)
            return reader.played

        monkeypatch.setattr(capture, "Dump", dump)
        reader.start(LogMark("", found.resume), found.tables.get)
        reader.expected = found.expected
        return reader

    return make


def items(reader: BinlogReader, reads: int = 2000) -> list[object]:
    """Read so often, and on until all was played: how much one read takes in depends on the time that it has."""
    found = []
    while reads:
        reads = max(reads - 1, 50 if reader.played.blocks else 0)
        if (item := reader.read(0.0)) is not None:
            found.append(item)
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size, interval", [(50, 0.0), (300, 0.0), (300, 1.0), (1 << 18, 1.0)])
def test_rule_13_no_mark_passes_what_was_not_given(
    played: Callable, told: Callable, monkeypatch: pytest.MonkeyPatch, family: str, size: int, interval: float
) -> None:
    """A mark that only moves on may be kept as a restart's place: everything before it has to be out."""
    monkeypatch.setattr(capture, "IDLE_INTERVAL", 0.0)
    reader = played(f"{family}-transactions", size, interval)
    order, latest = BinlogOrder(), None
    given = items(reader)
    for item in given:
        if isinstance(item, LogIdle | LogStatement):
            mark = item.mark
        else:
            natives = [t["native"] for t in item.transactions.to_pylist()]
            assert latest is None or not any(order.includes(latest, native, None) for native in natives)
            mark = LogMark("", item.resume)
        assert latest is None or order.includes(mark, order.mark(latest.resume).native, None)
        latest = mark
    assert told([item for item in given if not isinstance(item, LogIdle)]) == reader.expected


def test_idle_marks_come_now_and_then(played: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "IDLE_INTERVAL", 3600.0)
    reader = played("mysql-transactions", 20)
    idle = [item for item in items(reader) if isinstance(item, LogIdle)]
    assert len(idle) <= 2


def test_a_silent_line_is_lost(played: Callable) -> None:
    reader = played("mysql-transactions", 1 << 18, pause=0.001, silence=0.05)
    with pytest.raises(SourceUnavailable, match="silent"):
        for _ in range(200):
            reader.read(0.01)


@pytest.mark.parametrize("family", FAMILIES)
def test_reselect_takes_effect_just_after_what_was_given_last(played: Callable, told: Callable, family: str) -> None:
    """Whatever was read ahead by the old selection is read again by the new one."""
    reader = played(f"{family}-transactions", 1 << 18)
    first = reader.read(0.0)
    assert told([first]) == reader.expected[:2] or told([first]) == reader.expected[:1]
    reader.reselect()
    reader._select = lambda table: None
    again = [item for item in items(reader, 50) if not isinstance(item, LogIdle)]
    assert [item.sql for item in again] == [entry for entry in reader.expected if isinstance(entry, str)]


@pytest.mark.parametrize("family", FAMILIES)
def test_rule_15_reselect_before_a_fragment_that_is_ready_reads_it_again(
    played: Callable, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """A table joins behind the transaction that was given last: a fragment of the next one, decoded already, would lack
    its rows."""
    monkeypatch.setattr(endings, "FULL_IMAGES", 2)
    reader = played(f"{family}-types-full", 1 << 18)
    last = given = None
    while not (reader._assembler.ready and reader._assembler.ready[0].part is Part.FRAGMENT) or reader._is_inside:
        given = reader.read(0.0)
        last = given if isinstance(given, Chunk) and given.part is not Part.FRAGMENT else last
    assert given is last and last is not None
    reader.reselect()
    fragment = reader.read(0.0)
    assert reader.places[1:] == [place_of(last.resume)] and isinstance(fragment, Chunk)


@pytest.mark.parametrize("family", FAMILIES)
def test_reselect_inside_a_fragmented_transaction_goes_on_in_it(
    played: Callable, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """A table is parked there: to begin the transaction anew would give its first fragments twice."""
    monkeypatch.setattr(endings, "FULL_IMAGES", 2)
    reader = played(f"{family}-types-full", 1 << 18)
    while not ((given := reader.read(0.0)) and isinstance(given, Chunk) and given.part is Part.FRAGMENT):
        pass
    reader.reselect()
    assert isinstance(reader.read(0.0), Chunk) and len(reader.places) == 1
