"""Loads into real servers, MySQL and MariaDB: ends that go away, loads that come too late, the order in which a load begins,
tables that are not loaded into.

All of it by LOAD DATA LOCAL and, as on a server with local_infile off, by INSERT.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from anabranch.connectors.mysql.target import ledger
from anabranch.connectors.mysql.target.begin import one_begins
from anabranch.connectors.mysql.target.beginning import Beginning
from anabranch.connectors.mysql.target.load import MysqlLoader
from anabranch.connectors.mysql.target.own_source import own_identity
from anabranch.connectors.mysql.target.session import connect
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.contracts import Bounds, NewLoad
from anabranch.errors import Fenced, SourceUnavailable, TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import TableState, prepare
from anabranch.model.table_life import begin as begun
from anabranch.rows.net import TargetTable
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_load import COLUMNS, INSERT, LOCAL, RULES, Place, line, place_at
from rigs.waiting import Doing

pytestmark = pytest.mark.every_server("fractions")
PATIENCE = 240


@pytest.fixture(params=[LOCAL, INSERT])
def place(request: pytest.FixtureRequest, mysql_family: Server) -> Iterator[Place]:
    with place_at(mysql_family, request.node.name, request.param) as found:
        yield found


@pytest.fixture
def loader(place: Place) -> Iterator[MysqlLoader]:
    with closing(place.loader()) as made:
        yield made


# --- ends that go away, loads that come too late ----------------------------------------------------------------------


def test_mysql_load_source_lost_in_the_middle_leaves_nothing(place: Place, loader: MysqlLoader) -> None:
    things = place.things()
    place.begin(loader, things)

    def lines() -> Iterator[bytes]:
        yield line(1)
        raise SourceUnavailable("line lost")

    with pytest.raises(SourceUnavailable):
        place.load(loader, things, lines())
    assert place.load(loader, things, [line(1)]) == 1
    assert place.count() == 1


def test_mysql_load_a_session_that_is_killed_leaves_nothing(place: Place, loader: MysqlLoader) -> None:
    things = place.things()
    place.begin(loader, things)
    session = loader._session().thread_id()

    def lines() -> Iterator[bytes]:
        yield line(1)
        place.database.execute(f"KILL {session}")
        yield from (line(number, word="x" * 10) for number in range(2, 100_000))

    with pytest.raises(TargetUnavailable):
        place.load(loader, things, lines())
    assert loader.chunks(place.job, things.source, 1)[0].rows is None
    assert place.load(loader, things, [line(1)]) == 1
    assert place.count() == 1


def test_rule_29_a_new_generation_of_mysql_waits_for_a_chunk_in_flight(place: Place, loader: MysqlLoader) -> None:
    things = place.things()
    place.begin(loader, things)
    inside, go_on = threading.Event(), threading.Event()

    def lines() -> Iterator[bytes]:
        yield line(1)
        inside.set()
        go_on.wait(PATIENCE)

    with closing(place.loader()) as slow:
        chunk = Doing(lambda: place.load(slow, things, lines()))
        assert inside.wait(PATIENCE)
        later = Doing(lambda: place.begin(loader, things, 2, empty=True))
        time.sleep(0.5)
        assert later.goes_on
        go_on.set()
        chunk.done()
        later.done()
    assert place.count() == 0
    assert loader.chunks(place.job, things.source, 1) == []


# --- the order in which a load begins ---------------------------------------------------------------------------------


@pytest.mark.parametrize("is_emptied", [False, True])
def test_rule_29_who_dies_while_emptying_is_repaired_by_the_next(
    place: Place, loader: MysqlLoader, is_emptied: bool
) -> None:
    """The rows of the older load go, though nobody asks for that any more, and nobody of that load adds any."""
    things = place.things()
    place.begin(loader, things, chunks=2)
    assert place.load(loader, things, [line(1)]) == 1
    died = connect(place.endpoint, "died", autocommit=True, checks_keys=False)
    beginning = Beginning(died, place.endpoint, RULES, place.job)
    with one_begins(died):
        assert beginning._allowed(things, 2, True, False)
        if is_emptied:
            beginning._make_room(things)
    died.close()
    with pytest.raises(Fenced, match="pending"):
        place.load(loader, things, [line(2)], number=1)
    assert loader.chunks(place.job, things.source, 1) == loader.chunks(place.job, things.source, 2) == []
    assert place.count() == (0 if is_emptied else 1)
    place.begin(loader, things, 2)
    assert place.count() == 0
    assert place.load(loader, things, [line(3)], generation=2) == 1


@pytest.mark.parametrize("keep", [False, True])
def test_mysql_load_rows_that_a_first_load_was_to_remove_stay_when_that_is_not_asked_again(
    place: Place, loader: MysqlLoader, keep: bool
) -> None:
    """They are nobody's: who died before they were removed has left a mark, and by then the job keeps or refuses them."""
    things = place.things()
    place.database.execute("INSERT INTO things (id) VALUES (100)")
    died = connect(place.endpoint, "died", autocommit=True, checks_keys=False)
    with one_begins(died):
        assert Beginning(died, place.endpoint, RULES, place.job)._allowed(things, 1, True, False)
    died.close()
    if not keep:
        with pytest.raises(TargetError, match="holds rows"):
            place.begin(loader, things)
        assert place.count() == 1
        return
    loader.begin_generation(place.job, things, 1, [Bounds()], False, True)
    assert place.load(loader, things, [line(1)]) == 1
    assert place.rows("id") == [(1,), (100,)]


def test_rule_29_who_dies_while_tables_are_made_is_repaired_by_the_next(place: Place, loader: MysqlLoader) -> None:
    """Make the empty table of a load that died anew, also where its definition has changed since."""
    of, wide = _planned(place, 10), _planned(place, 30)
    died = connect(place.endpoint, "died", autocommit=True, checks_keys=False)
    beginning = Beginning(died, place.endpoint, RULES, place.job)
    with one_begins(died), closing(MysqlTables(place.endpoint, RULES, place.family)) as tables:
        ((load, is_there),) = beginning._planned([of])
        assert beginning._made(tables, load, is_there, frozenset())
    died.close()
    with closing(MysqlStore(place.endpoint)) as store:
        left = store.states.tables(place.job)[of.table.source]
        assert (left.state, left.generation) == ("pending", 0)
        again = _planned(place, 30, left)
    assert loader.begin_new(place.job, [again], RULES, frozenset()) == {wide.table.source}
    assert place.load(loader, wide.table, [b"1\t" + b"w" * 30 + b"\n"]) == 1


def test_mysql_load_tables_that_cannot_be_made_are_as_they_were(place: Place, loader: MysqlLoader) -> None:
    place.database.execute("CREATE TABLE fresh (id INT)", "INSERT INTO fresh VALUES (1)")
    assert loader.begin_new(place.job, [_planned(place, 10)], RULES, frozenset()) == frozenset()
    with closing(MysqlStore(place.endpoint)) as store:
        assert store.states.tables(place.job) == {}
    with closing(loader) as one, one.together():
        assert ledger.marked(one._session(), place.job, TableId("shop", "fresh")) is None


def _planned(place: Place, length: int, before: TableState | None = None) -> NewLoad:
    columns = (
        Column("id", LogicalType(Kind.INT32), "int", nullable=False),
        Column("word", LogicalType(Kind.TEXT, length=length), f"varchar({length})"),
    )
    schema = TableSchema(TableId("shop", "fresh"), columns, ("id",))
    names, types = tuple(c.name for c in columns), tuple(c.type for c in columns if c.type)
    table = TargetTable(schema.id, TableId(place.database.name, "fresh"), names, types, ("id",), names)
    state = begun(prepare(before, schema, table.target), 1)
    return NewLoad(schema, table, state, before, [Bounds()])


def test_mysql_load_empties_without_the_right_to_truncate(place: Place) -> None:
    things, user = place.things(), f"l{place.database.name[-10:]}"
    rights = "SELECT, INSERT, DELETE, UPDATE, ALTER, INDEX, REFERENCES, CREATE"
    place.database.execute(
        f"CREATE USER '{user}'@'%' IDENTIFIED BY 'p'",
        f"GRANT {rights} ON {place.database.name}.* TO '{user}'@'%'",
        f"GRANT ALL ON anabranch.* TO '{user}'@'%'",
        "INSERT INTO things (id) VALUES (1), (2)",
    )
    try:
        with closing(MysqlLoader(endpoint_of(place.database, user, "p"), RULES)) as loader:
            place.begin(loader, things, empty=True)
            assert place.count() == 0
            assert place.load(loader, things, [line(1)]) == 1
    finally:
        place.database.execute(f"DROP USER '{user}'@'%'")


# --- tables that are not loaded into ----------------------------------------------------------------------------------


def test_mysql_load_refuses_a_table_with_rows(place: Place, loader: MysqlLoader) -> None:
    things = place.things()
    place.database.execute("INSERT INTO things (id) VALUES (1)")
    with pytest.raises(TargetError, match="holds rows"):
        place.begin(loader, things)
    assert place.count() == 1
    place.begin(loader, things, empty=True)
    assert place.count() == 0


def test_mysql_load_refuses_an_engine_without_transactions(place: Place, loader: MysqlLoader) -> None:
    things = place.table("things", COLUMNS, engine="MyISAM")
    with pytest.raises(TargetError, match="MyISAM") as refused:
        place.begin(loader, things)
    place.database.execute(refused.value.hint)
    place.begin(loader, things)


def test_mysql_load_refuses_what_is_no_table(place: Place, loader: MysqlLoader) -> None:
    things = place.things()
    place.database.execute("RENAME TABLE things TO others", "CREATE VIEW things AS SELECT * FROM others")
    with pytest.raises(TargetError, match="is a view"):
        place.begin(loader, things)
    place.database.execute("DROP VIEW things")
    with pytest.raises(TargetError, match="does not exist"):
        place.begin(loader, things)


def test_mysql_load_does_not_write_to_what_the_job_reads(place: Place, loader: MysqlLoader) -> None:
    """Source and target are one server: the table would be emptied to load it from itself."""
    things = place.things()
    place.database.execute("INSERT INTO things (id) VALUES (1)")
    itself = TargetTable(things.target, things.target, things.columns, things.types, things.key, things.columns)
    with closing(MysqlStore(place.endpoint)) as store:
        with closing(connect(place.endpoint, "test", autocommit=True)) as session:
            facts = {"uuid": "u", "source_identity": own_identity(session), "definition": "{}"}
        store.jobs.save_job(place.job, facts)
        schema = TableSchema(things.target, (Column("id", LogicalType(Kind.INT32), "int", nullable=False),), ("id",))
        store.states.save_table(place.job, prepare(None, schema, things.target), None)
    with pytest.raises(TargetError, match="the same server"):
        place.begin(loader, itself, empty=True)
    state = TargetTable(things.source, TableId("anabranch", "job"), things.columns, things.types, things.key)
    with pytest.raises(TargetError, match="keep their state"):
        place.begin(loader, state, empty=True)
    assert place.count() == 1
