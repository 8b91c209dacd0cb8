"""Change tables whose source is idle: readers learn up to when they have all changes, at a real PostgreSQL and MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.connectors.sql.change_tables import utc
from anabranch.contracts import ClockCatalog
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from anabranch.view.opened import source_of
from rigs.change_readers import Reader, changes_between
from rigs.job_here import JobHere
from rigs.scenario import Scenario

WAYS = [("mysql", "postgresql"), ("logical_postgresql", "mariadb")]


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    with changes_between(
        request.param, request, source_database, tmp_path, "[target.options]\nheartbeat_s = 1\n"
    ) as made:
        yield made


def _now(here: JobHere) -> datetime:
    """Return the time by the source's clock."""
    with closing(source_of(here.job).catalog()) as catalog:
        assert isinstance(catalog, ClockCatalog)
        return utc(catalog.clock())


def _places(made: Scenario) -> list[tuple[bytes, datetime, str]]:
    found = made.target.query("SELECT start_lsn, tran_end_time, position FROM cdc.lsn_time_mapping ORDER BY start_lsn")
    return [(bytes(lsn), when, position) for lsn, when, position in found]


def _has_read(reader: Reader, row: int) -> bool:
    reader.look()
    return row in reader.rows_read


def test_time_goes_on_while_the_source_is_idle(here: JobHere) -> None:
    made, reader = here.made, Reader(here.made)
    here.load()
    made.source.execute("INSERT INTO item VALUES (1, 'first', 0)")
    here.stream()
    reader.look()
    first, before = reader.read, _places(made)
    failpoints.arm({failpoints.VARIABLE: "changes.idle_noted=raise"})
    with pytest.raises(failpoints.FailpointReached), here.running() as (_, applied):
        until(lambda: applied.part.done(), "apply has died at its note")
    failpoints.arm({})
    assert _places(made) == before, "a note comes with its checkpoint or not at all"
    with here.running():
        then = _now(here)
        ask = "fn_cdc_map_time_to_lsn('smallest greater than or equal', %s)"
        until(lambda: reader.one(ask, then) is not None, "there is a place for what is now")
        until(lambda: len(_places(made)) >= len(before) + 3, "and for what comes")
        reader.look()
        assert reader.read > first and list(reader.rows_read) == [1]
        made.source.execute("INSERT INTO item VALUES (2, 'later', 0)")
        until(lambda: _has_read(reader, 2), "the change is read from behind the last note")
    places = _places(made)
    lsns, times, positions = zip(*places, strict=True)
    assert list(times) == sorted(times) and len(set(lsns)) == len(lsns)
    change, _, _ = reader.seen[-1]
    assert change[-3:] == b"\x00\x00\x01" and change[:7] > first[:7], "a transaction has the first of its places"
    notes = [place for place in places if place[0][:7] == first[:7]]
    assert [int(lsn[-1]) for lsn, _, _ in notes] == list(range(1, len(notes) + 1)) and len(notes) >= 4
    assert all(lsn < change for lsn, _, _ in notes)
    assert reader.one("fn_cdc_map_lsn_to_time(%s)", notes[-1][0]) == notes[-1][1]
    assert len(set(positions)) < len(positions), "the place of a note is where the target is"
