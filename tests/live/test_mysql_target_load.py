"""The initial load's target side on real servers, MySQL and MariaDB: chunks, and what LOAD DATA LOCAL would let pass.

All of it by LOAD DATA LOCAL and, as on a server with local_infile off, by INSERT.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pymysql
import pytest

from anabranch.connectors.mysql.target import copy_in, ledger
from anabranch.connectors.mysql.target.begin import one_begins
from anabranch.connectors.mysql.target.beginning import Beginning
from anabranch.connectors.mysql.target.load import MysqlLoader
from anabranch.connectors.mysql.target.own_source import own_identity
from anabranch.connectors.mysql.target.session import connect, run
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.contracts import Bounds, NewLoad
from anabranch.errors import Fenced, RowRefused, SourceUnavailable, TargetError, TargetUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.table_life import TableState, prepare
from anabranch.model.table_life import begin as begun
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import create_database, drop_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_load import COLUMNS, RULES, Place, line
from rigs.waiting import Doing

pytestmark = pytest.mark.every_server("fractions")
LOCAL, INSERT = "LOAD DATA LOCAL", "INSERT"
PATIENCE = 240


@pytest.fixture(params=[LOCAL, INSERT])
def place(request: pytest.FixtureRequest, mysql_family: Server) -> Iterator[Place]:
    made = create_database(mysql_family, request.node.name)
    ((before,),) = made.query("SELECT @@GLOBAL.local_infile")
    made.execute(f"SET GLOBAL local_infile = {int(request.param == LOCAL)}")
    found = Place(made, endpoint_of(made))
    with closing(MysqlStore(found.endpoint)) as store:
        store.prepare()
        yield found
        store.jobs.drop(found.job)
    made.execute(f"SET GLOBAL local_infile = {before}")
    drop_database(made)


@pytest.fixture
def loader(place: Place) -> Iterator[MysqlLoader]:
    with closing(place.loader()) as made:
        yield made


def test_mysql_load_chunk_commits_rows_with_its_ledger_row(place: Place, loader: MysqlLoader) -> None:
    things = place.things()
    place.begin(loader, things, chunks=2)
    first = line(1, word="Ann", small="-128", born="2000-01-02", data="\\\\x00ff5c0a", price="-1.50")
    assert place.load(loader, things, [first + line(2), line(3, word="", data="\\\\x")]) == 3
    assert [[str(value) for value in row[:4]] for row in place.rows()] == [
        ["1", "Ann", "-128", "2000-01-02"],
        ["2", "None", "None", "None"],
        ["3", "", "None", "None"],
    ]
    assert place.rows("id, HEX(data), price + 0") == [
        (1, "00FF5C0A", pytest.approx(-1.5)),
        (2, None, None),
        (3, "", None),
    ]
    one, two = loader.chunks(place.job, things.source, 1)
    assert (one.rows, one.low, one.high, one.bounds) == (3, "low", "high", Bounds(("0",), ("1",)))
    assert (two.rows, two.bounds) == (None, Bounds())


# --- what the server would let pass with LOCAL ------------------------------------------------------------------------


CUT = [  # a row, and the column of it that the refusal names
    (line(7, word="x" * 11), "word"),
    (line(7, word="x" * 10 + " "), "word"),
    (line(7, small="128"), "small"),
    (line(7, small="secret"), "small"),
    (line(7, born="2001-02-33"), "born"),
    (line(7, born=""), "born"),
    (line(7, price="1.005"), "price"),
    (line(7, price="10000.00"), "price"),
    (b"7\ta\xff\t\\N\t\\N\t\\N\t\\N\n", ""),
    (b"7\tx\n", ""),  # another number of fields
    (b"7\tx\t1\t\\N\t\\N\t\\N\tmore\n", ""),
]


def test_pitfall_63_mysql_load_a_value_that_would_be_cut_is_refused(place: Place, loader: MysqlLoader) -> None:
    things = place.things()
    place.begin(loader, things)
    good = b"".join(line(number, word=f"ok{number}") for number in range(100, 200))
    for bad, says in CUT:
        with pytest.raises(RowRefused, match="key id=7") as caught:
            place.load(loader, things, [good, line(1) + bad + line(2)])
        assert says in caught.value.message
        assert "secret" not in str(caught.value) and "xxx" not in str(caught.value)
        assert (caught.value.table, caught.value.job) == ("shop.things", place.job)
        assert place.count() == 0
    assert place.load(loader, things, [good]) == 100


def test_mysql_load_a_duplicate_key_is_not_skipped(place: Place, loader: MysqlLoader) -> None:
    things = place.things()
    place.begin(loader, things, chunks=2)
    with pytest.raises(RowRefused, match=r"(?s)Duplicate entry.*key id=7"):
        place.load(loader, things, [line(7, word="one") + line(8), line(9) + line(7, word="two")])
    assert place.load(loader, things, [line(7, word="one")]) == 1
    with pytest.raises(RowRefused, match="key id=7"):
        place.load(loader, things, [line(8) + line(7, word="two") + line(9)], number=1)
    assert place.rows("id, word") == [(7, "one")]
    assert [chunk.rows for chunk in loader.chunks(place.job, things.source, 1)] == [1, None]


def test_mysql_load_a_unique_key_of_the_target_is_not_skipped(place: Place, loader: MysqlLoader) -> None:
    things = place.things(word=("VARCHAR(10) COLLATE utf8mb4_general_ci", LogicalType(Kind.TEXT, length=10)))
    place.begin(loader, things)
    place.database.execute("CREATE UNIQUE INDEX one_word ON things (word)")
    with pytest.raises(RowRefused, match=r"one_word.*key id=2.*collation"):
        place.load(loader, things, [line(1, word="a") + line(2, word="A")])
    assert place.count() == 0


def test_mysql_load_a_null_where_there_is_none_is_refused(place: Place, loader: MysqlLoader) -> None:
    things = place.things(word=("VARCHAR(10) NOT NULL", LogicalType(Kind.TEXT, length=10)))
    place.begin(loader, things)
    with pytest.raises(RowRefused, match=r"word.*key id=2"):
        place.load(loader, things, [line(1, word="a") + line(2)])
    assert place.count() == 0


def test_pitfall_49_mysql_load_zero_is_a_number_in_an_auto_increment_column(place: Place, loader: MysqlLoader) -> None:
    things = place.things(id=("INT NOT NULL AUTO_INCREMENT PRIMARY KEY", LogicalType(Kind.INT32)))
    place.begin(loader, things)
    assert place.load(loader, things, [line(0) + line(-5) + line(7)]) == 3
    assert place.rows("id") == [(-5,), (0,), (7,)]


def test_pitfall_49_mysql_load_a_null_in_an_auto_increment_column_is_no_next_number(
    place: Place, loader: MysqlLoader
) -> None:
    things = place.things(small=("INT NOT NULL AUTO_INCREMENT, KEY (small)", LogicalType(Kind.INT32)))
    place.begin(loader, things)
    with pytest.raises(RowRefused, match="key id=2"):
        place.load(loader, things, [line(1, small="0") + line(2)])
    assert place.load(loader, things, [line(1, small="0") + line(2, small="9")]) == 2
    assert place.rows("id, small") == [(1, 0), (2, 9)]


@pytest.mark.parametrize("explicit", [0, 1])
def test_pitfall_50_mysql_load_an_explicit_null_in_a_timestamp_is_not_the_time_of_day(
    place: Place, loader: MysqlLoader, explicit: int
) -> None:
    things = place.things(born=("TIMESTAMP(6) NOT NULL", LogicalType(Kind.TIMESTAMP, fraction=6)))
    place.begin(loader, things)
    session = loader._session()
    with suppress(pymysql.err.OperationalError):  # MySQL 5.6 has it as it was started with
        run(session, f"SET SESSION explicit_defaults_for_timestamp = {explicit}")
    with pytest.raises(RowRefused, match="key id=2"):
        place.load(loader, things, [line(1, born="2001-02-03 04:05:06.000007") + line(2)])
    assert place.load(loader, things, [line(1, born="2001-02-03 04:05:06.000007")]) == 1
    assert place.rows("id, CONCAT(born)") == [(1, "2001-02-03 04:05:06.000007")]


def test_mysql_load_a_null_in_a_column_whose_name_differs_by_case_is_no_other_value(
    place: Place, loader: MysqlLoader
) -> None:
    """The table was there: the server has the name as its maker wrote it, and one name whatever its case."""
    things = place.things(
        small=("INT NOT NULL AUTO_INCREMENT, KEY (small)", LogicalType(Kind.INT32)),
        born=("TIMESTAMP(6) NOT NULL", LogicalType(Kind.TIMESTAMP, fraction=6)),
    )
    moment = "2001-02-03 04:05:06.000007"
    place.database.execute(
        "ALTER TABLE things CHANGE small SMALL INT NOT NULL AUTO_INCREMENT, CHANGE born Born TIMESTAMP(6) NOT NULL"
    )
    place.begin(loader, things)
    for bad in (line(2, born=moment), line(2, small="9")):
        with pytest.raises(RowRefused, match="key id=2"):
            place.load(loader, things, [line(1, small="0", born=moment) + bad])
    assert place.load(loader, things, [line(1, small="0", born=moment)]) == 1
    assert place.rows("id, small, CONCAT(born)") == [(1, 0, moment)]


def test_pitfall_50_mysql_load_columns_that_set_themselves_stand_as_given(place: Place, loader: MysqlLoader) -> None:
    how = "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP"
    things = place.things(born=(how, LogicalType(Kind.TIMESTAMP)))
    place.begin(loader, things)
    assert place.load(loader, things, [line(1) + line(2, born="2001-02-03 04:05:06.000000")]) == 2
    assert place.rows("id, CONCAT(born)") == [(1, None), (2, "2001-02-03 04:05:06")]


# --- values -----------------------------------------------------------------------------------------------------------


def test_pitfall_57_mysql_load_bytes_with_a_meaning_arrive_as_they_are(place: Place, loader: MysqlLoader) -> None:
    texts = [
        "\0",
        "a\0b",
        "\x1a",
        "\\",
        "\\\\",
        "\\N",
        "\\Z",
        "\\0",
        "\t",
        "\n",
        "\r",
        "\b\f\v",
        "'",
        "\\'",
        "%s",
        "€😀",
    ]
    escaped = [("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"), ("\b", "\\b"), ("\f", "\\f"), ("\v", "\\v")]
    things = place.things()
    place.begin(loader, things)

    def in_a_line(text: str) -> str:
        for raw, pair in escaped:
            text = text.replace(raw, pair)
        return text

    lines = [line(number, word=in_a_line(text)) for number, text in enumerate(texts)]
    lines += [line(100 + number, data="\\\\x" + text.encode().hex()) for number, text in enumerate(texts)]
    assert place.load(loader, things, lines) == len(lines)
    assert [word for (_, word, *_) in place.rows()][: len(texts)] == texts
    assert [data for (*_, data, _) in place.rows()][len(texts) :] == [text.encode() for text in texts]


def test_mysql_load_lines_of_one_field(place: Place, loader: MysqlLoader) -> None:
    """An empty line is a row, too."""
    words = place.table("words", {"word": ("VARCHAR(10)", LogicalType(Kind.TEXT, length=10))})
    place.begin(loader, words)
    assert place.load(loader, words, [b"\nx\n\\N\n\n", b"\n"]) == 5
    assert sorted(place.rows(name="words"), key=str) == [("",), ("",), ("",), ("x",), (None,)]


def test_mysql_load_a_row_that_is_larger_than_a_packet(place: Place) -> None:
    """LOAD DATA takes it, an INSERT does not."""
    ((before,),) = place.database.query("SELECT @@GLOBAL.max_allowed_packet")
    things = place.things(word=("LONGTEXT", LogicalType(Kind.TEXT)))
    try:
        place.database.execute(f"SET GLOBAL max_allowed_packet = {1 << 20}")
        with closing(place.loader()) as loader:
            place.begin(loader, things, chunks=3)
            takes_files = loader._session().takes_files
            assert (
                place.load(loader, things, [line(1, word="w" * 400_000), line(2, data="\\\\x" + "ab" * 200_000)]) == 2
            )
            large = [line(3, word="w" * 3_000_000), line(7, data="\\\\x" + "ab" * 1_200_000)]
            if takes_files:
                assert place.load(loader, things, large, number=1) == 2
            else:
                for one in large:
                    with pytest.raises(RowRefused, match=r"max_allowed_packet.*key id=[37]"):
                        place.load(loader, things, [line(5) + one], number=1)
            assert place.load(loader, things, [line(9)], number=2) == 1
    finally:
        place.database.execute(f"SET GLOBAL max_allowed_packet = {before}")
    found = {id: size for id, *size in place.rows("id, LENGTH(word), LENGTH(data)")}
    assert found[2] == [None, 200_000]
    assert not takes_files or (found[3], found[7]) == ([3_000_000, None], [None, 1_200_000])


def test_mysql_load_finds_the_key_in_one_of_many_statements(
    place: Place, loader: MysqlLoader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind what other statements of the chunk have loaded."""
    monkeypatch.setattr(copy_in, "HELD_BYTES", 10_000)
    things = place.things()
    place.begin(loader, things)
    blocks = [b"".join(line(n, word="w" * 10) for n in range(start, start + 50)) for start in range(0, 3000, 50)]
    with pytest.raises(RowRefused, match="key id=1234"):
        place.load(loader, things, [*blocks, line(5000) + line(1234) + line(5001)])
    assert place.count() == 0
    assert place.load(loader, things, blocks) == place.count() == 3000


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
