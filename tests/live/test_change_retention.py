"""Old changes leave change tables, at a real PostgreSQL, MySQL and MariaDB: a reader gets an error, and never a gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from anabranch import failpoints
from anabranch.connectors.sql import cleaning
from anabranch.connectors.sql.instances import BEGINS
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from anabranch.view.opened import end_of
from anabranch.view.options import value_rules
from rigs.change_readers import Asked, Reader, changes_between, keep_changes
from rigs.job_here import JobHere
from rigs.scenario import Scenario

WAYS = [
    ("mysql", "postgresql"),
    ("mysql", "mariadb"),
    pytest.param(("mysql", "mysql"), marks=pytest.mark.long),
    pytest.param(("mysql", "mysql56"), marks=pytest.mark.servers),
    pytest.param(("mysql", "mysql9"), marks=pytest.mark.servers),
]
HOURS = 72
REFUSED = "insufficient number of arguments"


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    with changes_between(request.param, request, source_database, tmp_path) as made:
        yield made


def _clean_up(here: JobHere, *elapsed: int) -> None:
    """Clean up as apply does that has run for so long, until nothing is left."""
    job = here.job
    with closing(end_of(job).writer(value_rules(job), False)) as writer:
        writer.claim(job.config.name, unique_name("owner"))
        for seconds in elapsed:
            is_left = writer.clean_up(seconds)  # type: ignore[attr-defined]  # this writer cleans up
            while is_left:
                is_left = writer.clean_up(0)  # type: ignore[attr-defined]  # this writer cleans up


def _count(made: Scenario) -> tuple[int, int]:
    """Return how many changes and places there are."""
    quote = '"{}"' if made.target.server.name == "postgresql" else "`{}`"
    changes = made.target.query(f"SELECT count(*) FROM cdc.{quote.format('public_item_CT')}")[0][0]
    return int(changes), int(made.target.query("SELECT count(*) FROM cdc.lsn_time_mapping")[0][0])


def _refused(ask: Callable[[bytes, bytes], Any], since: bytes, to: bytes) -> None:
    with pytest.raises((psycopg.Error, pymysql.Error), match=REFUSED):
        ask(since, to)


def test_old_changes_go_and_a_reader_gets_no_gap(here: JobHere, monkeypatch: pytest.MonkeyPatch) -> None:
    made, reader = here.made, Reader(here.made)
    monkeypatch.setattr(cleaning, "AT_ONCE", 2)
    here.load()
    begin = reader.one("fn_cdc_get_min_lsn('public_item')")
    made.source.execute(*(f"INSERT INTO item VALUES ({key}, 'old', 0)" for key in range(1, 8)))
    here.stream()
    reader.look()
    _clean_up(here, 600, HOURS * 3600 - 1)
    assert _count(made) == (7, 8), "nothing has been there for so long since a place was noted"
    made.source.execute("UPDATE item SET n = 1 WHERE id = 1", "DELETE FROM item WHERE id = 2")
    here.stream()
    for place, left in (("changes.low_end_moved", (9, 10)), ("changes.removed", (7, 10))):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached):
            _clean_up(here, 1)
        failpoints.arm({})
        assert _count(made)[1] == left[1] and _count(made)[0] >= left[0] - 2
        low = reader.one("fn_cdc_get_min_lsn('public_item')")
        assert begin < low
        _refused(reader.changes, begin, low)
        _refused(reader.net, begin, low)
    _clean_up(here, 0)
    low = reader.one("fn_cdc_get_min_lsn('public_item')")
    assert low == reader.read, "the newest place of then, and what it has, stay"
    assert _count(made) == (4, 3), "the last old change, an update of two rows, a delete"
    reader.look()
    assert len(reader.rows_read) == 6 and reader.rows_read[1] == ("old", 1)
    made.source.execute("INSERT INTO item VALUES (9, 'new', 9)")
    here.stream()
    reader.look()
    assert reader.rows_read[9] == ("new", 9)


def test_what_is_cleaned_up_while_a_statement_reads_is_an_error_or_is_read(here: JobHere) -> None:
    """A procedure has a view of its own for each statement: its range is looked at in the one that reads."""
    made, reader = here.made, Reader(here.made)
    here.load()
    made.source.execute(*(f"INSERT INTO item VALUES ({key}, 'old', 0)" for key in range(1, 8)))
    here.stream()
    begin, end = reader.one("fn_cdc_get_min_lsn('public_item')"), reader.one("fn_cdc_get_max_lsn()")
    _clean_up(here, 1)
    if made.target.server.name == "postgresql":
        asked = f"fn_cdc_get_all_changes_public_item('\\x{begin.hex()}', '\\x{end.hex()}', 'all')"
        with closing(made.target.connect()) as session, session.transaction():
            session.execute(f"DECLARE reading CURSOR FOR SELECT * FROM cdc.{asked}")
            _clean_up(here, HOURS * 3600)
            assert len(session.execute("FETCH ALL FROM reading").fetchall()) == 7
    else:
        asked = "cdc.fn_cdc_refuse_arguments('public_item', 'x', %s, %s, 'all', 'all')"
        gated = f"(SELECT {asked} * GET_LOCK('gate', 240) AS fine LIMIT 1) AS asked"
        rows = (
            f"SELECT c.id FROM {gated} STRAIGHT_JOIN cdc.`public_item_CT` AS c"
            " WHERE asked.fine = 1 AND c.`__$start_lsn` BETWEEN %s AND %s"
        )
        waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'"
        with closing(made.target.connect()) as gate, ThreadPoolExecutor(1) as beside:
            gate.cursor().execute("SELECT GET_LOCK('gate', 240)")
            begun = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
            read = beside.submit(made.target.query, rows, [begin, end, begin, end], init_command=begun)
            until(lambda: made.target.query(waits)[0][0] == 1, "the reader stands in the middle of its statement")
            _clean_up(here, HOURS * 3600)
            gate.cursor().execute("SELECT RELEASE_LOCK('gate')")
            assert len(read.result()) == 7, "one view for the range and the rows"
    assert _count(made) == (1, 1)
    _refused(reader.changes, begin, end)
    assert len(reader.changes(end, end)) == 1


def test_apply_cleans_up_beside_its_epochs(here: JobHere) -> None:
    made, reader = here.made, Reader(here.made)
    here.load()
    made.source.execute("INSERT INTO item VALUES (1, 'old', 0)", "INSERT INTO item VALUES (2, 'newest of then', 0)")
    here.stream()
    then = reader.one("fn_cdc_get_max_lsn()")
    made.target.execute(
        "INSERT INTO cdc.retention_marks SELECT 1, start_lsn FROM cdc.lsn_time_mapping ORDER BY 2 DESC LIMIT 1",
        f"INSERT INTO cdc.retention_marks SELECT {HOURS * 3600 + 1}, start_lsn FROM cdc.retention_marks",
    )
    with here.running():
        made.source.execute("INSERT INTO item VALUES (3, 'new', 0)")
        until(lambda: _count(made) == (2, 2), "what was there before is gone, what has come since is there")
    assert reader.one("fn_cdc_get_min_lsn('public_item')") == then
    assert [row[4] for row in reader.changes(then, reader.one("fn_cdc_get_max_lsn()"))] == [2, 3]


def test_an_instance_that_came_later_begins_where_it_began_until_the_low_end_is_behind_that(here: JobHere) -> None:
    made, asked = here.made, Asked(here.made)

    def lowest(instance: str) -> bytes:
        return bytes(asked.one(f"fn_cdc_get_min_lsn('{instance}')"))

    here.load()
    made.source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    here.stream()
    noted = asked.one("fn_cdc_get_max_lsn()")
    _clean_up(here, 600)
    made.source.execute("INSERT INTO item VALUES (2, 'two', 2)")
    here.stream()
    begun = asked.one("fn_cdc_get_max_lsn()")
    entry = f'[[tables]]\nname = "{made.schema}.item"\n'
    keep_changes(made, entry + 'instances = [{ name = "public_item" }, { name = "later" }]\n')
    here.load()
    _clean_up(here, HOURS * 3600)
    assert (lowest("public_item"), lowest("later")) == (noted, BEGINS), "nothing of it is old"
    made.source.execute("INSERT INTO item VALUES (3, 'three', 3)")
    here.stream()
    _clean_up(here, 600)
    assert (lowest("public_item"), lowest("later")) == (noted, begun)
    last = asked.one("fn_cdc_get_max_lsn()")
    _clean_up(here, HOURS * 3600)
    assert lowest("public_item") == lowest("later") == last
    for instance in ("public_item", "later"):
        assert asked.whole(instance) == [(2, b"\x07", 3, "three", 3)]
