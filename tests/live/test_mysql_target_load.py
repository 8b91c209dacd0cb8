"""The initial load's target side on real servers, MySQL and MariaDB: chunks, and what LOAD DATA LOCAL would let pass.

All of it by LOAD DATA LOCAL and, as on a server with local_infile off, by INSERT.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress

import pymysql
import pytest

from anabranch.connectors.mysql.target import copy_in
from anabranch.connectors.mysql.target.load import MysqlLoader
from anabranch.connectors.mysql.target.session import run
from anabranch.contracts import Bounds
from anabranch.errors import RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.testing.servers import Server
from rigs.mysql_load import INSERT, LOCAL, Place, line, place_at

pytestmark = pytest.mark.every_server("fractions")


@pytest.fixture(params=[LOCAL, INSERT])
def place(request: pytest.FixtureRequest, mysql_family: Server) -> Iterator[Place]:
    with place_at(mysql_family, request.node.name, request.param) as found:
        yield found


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
