"""Applying to real MySQL and MariaDB: what a server does by itself or does not say, and is kept from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.connectors.mysql.target.session import run
from anabranch.contracts import Conflict, Emptying
from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.net import INSERT, UPDATE, RowChange, TableNet
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from rigs.mysql_writer import INT, MANY, TEXT, Applying, applying_at, bag, rows, updates

FLOAT = LogicalType(Kind.FLOAT32)
MOMENT, BYTES = LogicalType(Kind.TIMESTAMP, fraction=6), LogicalType(Kind.BINARY, length=4)
SINCE_56, SINCE_57, SINCE_80 = (
    pytest.mark.every_server(what) for what in ("row images", "generated columns", "row metadata")
)
SIZES = pytest.mark.parametrize("many", [1, MANY], ids=["few", "many"])


@pytest.fixture
def applying(mysql_family: Server, request: pytest.FixtureRequest) -> Iterator[Applying]:
    with applying_at(mysql_family, request.node.name) as made:
        yield made


def numbered(count: int, *rest: Any) -> list[tuple[Any, ...]]:
    return [(number, *rest) for number in range(1, count + 1)]


# --- what the server would do by itself -------------------------------------------------------------------------------


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_50_times_that_move_by_themselves_stay(applying: Applying, many: int) -> None:
    """Whether an update sets them or not, alone or staged; in rows that leave and come back, too."""
    now = "TIMESTAMP(6) NOT NULL DEFAULT '2001-02-03 04:05:06' ON UPDATE CURRENT_TIMESTAMP(6)"
    of = applying.create("t", f"id INT PRIMARY KEY, u INT UNIQUE, at {now}", {"id": INT, "u": INT})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((n, n) for n in range(1, many + 2)))))
    applying.merge(
        TableNet(of, updates=(updates(of, range(1, many + 1), ("u",), *((n + 9000,) for n in range(many))),))
    )
    swap = updates(of, (1, many + 1), ("u",), (many + 1,), (9000,), contends=True)
    applying.merge(TableNet(of, updates=(swap,)))
    applying.change(RowChange(of, UPDATE, {"id": "1"}, {"u": "77"}))
    again = rows(of, ("id", "u"), *((n, n + 20_000) for n in range(1, many + 1)))
    applying.merge(TableNet(of, inserts=again, checked=False))
    assert applying.rows("SELECT DISTINCT CAST(at AS CHAR) FROM t") == [("2001-02-03 04:05:06.000000",)]


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_49_zero_in_an_auto_increment_column_stays_zero(applying: Applying, many: int) -> None:
    """Beside columns that take their values as they are, and beside one that is SET by an expression in LOAD DATA."""
    of = applying.create("t", "id INT AUTO_INCREMENT PRIMARY KEY, v INT", {"id": INT, "v": INT})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), *((number, 7) for number in range(many)))))
    assert applying.rows("SELECT MIN(id), MAX(id), COUNT(*) FROM t") == [(0, many - 1, many)]
    of = applying.create("b", "id INT AUTO_INCREMENT PRIMARY KEY, v BINARY(4)", {"id": INT, "v": BYTES})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), *((number, b"abcd") for number in range(many)))))
    assert applying.rows("SELECT MIN(id), MAX(id), COUNT(*) FROM b") == [(0, many - 1, many)]


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_50_an_explicit_null_in_a_timestamp_is_null_or_refused(applying: Applying, many: int) -> None:
    of = applying.create(
        "t", "id INT PRIMARY KEY, a TIMESTAMP(6) NULL, b TIMESTAMP(6) NOT NULL DEFAULT '2001-01-01 00:00:00'",
        {"id": INT, "a": MOMENT, "b": MOMENT},
    )  # fmt: skip
    applying.merge(TableNet(of, inserts=rows(of, ("id", "a"), *numbered(many, None))))
    assert applying.rows("SELECT COUNT(*), COUNT(a) FROM t") == [(many, 0)]
    nulls = updates(of, range(1, many + 1), ("b",), *([(None,)] * many))
    for net in (
        TableNet(of, updates=(nulls,)),
        TableNet(of, inserts=rows(of, ("id", "b"), *((n + MANY * 2, None) for n in range(many)))),
    ):
        with pytest.raises(Conflict):
            applying.merge(net)
    with pytest.raises(Conflict):
        applying.change(RowChange(of, UPDATE, {"id": "1"}, {"b": None}))


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_50_a_null_is_not_made_the_time_of_day_where_rows_contend_or_a_key_is_float(
    applying: Applying, many: int
) -> None:
    moment = "TIMESTAMP(6) NOT NULL DEFAULT '2001-01-01 00:00:00'"
    of = applying.create(
        "t", f"id FLOAT PRIMARY KEY, u INT UNIQUE, b {moment}", {"id": FLOAT, "u": INT, "b": MOMENT}
    )  # fmt: skip
    count, ids = many + 1, [n + 0.1 for n in range(many + 1)]
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((id, n) for n, id in enumerate(ids)))))
    turned = (((n + 1) % count, None) for n in range(count))
    with pytest.raises(Conflict):
        applying.merge(TableNet(of, updates=(updates(of, ids, ("u", "b"), *turned, contends=True),)))
    with pytest.raises(Conflict) as refused:
        applying.change(RowChange(of, UPDATE, {"id": "0.1"}, {"b": None}))
    assert refused.value.key == {"id": "0.1"}
    assert applying.rows("SELECT COUNT(*), SUM(b = '2001-01-01') FROM t") == [(count, count)]


@SINCE_56
@SIZES
@SINCE_57
def test_pitfall_40_computed_and_invisible_columns(applying: Applying, many: int) -> None:
    """Rows that leave and come back name all columns but the computed ones; what is the target's own stays."""
    hidden = "own INT DEFAULT 5" + (
        " INVISIBLE" if applying.database.server.name == "mariadb" else " /*!80023 INVISIBLE */"
    )
    of = applying.create(
        "t", f"id INT PRIMARY KEY, u INT, twice INT AS (u * 2) STORED, {hidden}, UNIQUE (u)", {"id": INT, "u": INT}
    )
    count = many + 1
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((n, n) for n in range(count)))))
    applying.database.execute("UPDATE t SET own = 8")
    turned = updates(of, range(count), ("u",), *(((n + 1) % count,) for n in range(count)), contends=True)
    applying.merge(TableNet(of, updates=(turned,)))
    assert applying.rows(
        "SELECT COUNT(*), SUM(twice = u * 2), SUM(own = 8), SUM(u = (id + 1) % " + f"{count}) FROM t"
    ) == [(count, count, count, count)]


# --- what it does not say ----------------------------------------------------------------------------------------------


@SINCE_56
@SIZES
@SINCE_56
def test_rows_are_counted_as_found_not_as_changed(applying: Applying, many: int) -> None:
    of = applying.create("t", "id INT PRIMARY KEY, v INT", {"id": INT, "v": INT})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), *numbered(many, 1))))
    same = updates(of, range(1, many + 1), ("v",), *([(1,)] * many))
    assert applying.merge(TableNet(of, updates=(same,))) == []
    assert applying.change(RowChange(of, UPDATE, {"id": "1"}, {"v": "1"}))


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_63_errors_that_load_data_turns_into_warnings_are_conflicts(applying: Applying, many: int) -> None:
    """A value too long, one out of range, digits that would be cut, a key that is there: nothing of it is stored."""
    number = LogicalType(Kind.DECIMAL, precision=10, scale=4)
    of = applying.create(
        "t",
        "id INT PRIMARY KEY, v VARCHAR(3), n TINYINT, d DECIMAL(10,2)",
        {"id": INT, "v": TEXT, "n": INT, "d": number},
    )
    applying.merge(TableNet(of, inserts=rows(of, ("id",), (0,))))
    for name, value in (("v", "long"), ("n", 300), ("d", "1.2345")):
        good = rows(of, ("id", name), *numbered(many, None), (many + 1, value))
        with pytest.raises(Conflict):
            applying.merge(TableNet(of, inserts=good))
        changed = updates(of, (0,), (name,), (value,))
        with pytest.raises(Conflict):
            applying.merge(TableNet(of, updates=(changed,)))
    with pytest.raises(Conflict):
        applying.merge(TableNet(of, inserts=rows(of, ("id",), *numbered(many), (0,))))
    assert applying.rows("SELECT COUNT(*), COUNT(v), COUNT(n), COUNT(d) FROM t") == [(1, 0, 0, 0)]


@SINCE_56
@SIZES
@SINCE_56
def test_warnings_that_the_server_counts_and_does_not_keep_are_conflicts(applying: Applying, many: int) -> None:
    """A server may keep the text of none; what it does not tell may be that digits were cut."""
    number = LogicalType(Kind.DECIMAL, precision=10, scale=4)
    of = applying.create("t", "id INT PRIMARY KEY, d DECIMAL(10,2)", {"id": INT, "d": number})
    applying.merge(TableNet(of, inserts=rows(of, ("id",), *((n + MANY * 2,) for n in range(many)))))
    run(applying.writer._session(), "SET SESSION max_error_count = 0")
    cut = [("1.2345",)] * many
    with pytest.raises(Conflict):
        applying.merge(TableNet(of, inserts=rows(of, ("id", "d"), *((n, *d) for n, d in enumerate(cut)))))
    with pytest.raises(Conflict):
        applying.merge(TableNet(of, updates=(updates(of, range(MANY * 2, MANY * 2 + many), ("d",), *cut),)))
    with pytest.raises(Conflict):
        applying.change(RowChange(of, UPDATE, {"id": str(MANY * 2)}, {"d": "1.2345"}))
    assert applying.rows("SELECT COUNT(*), COUNT(d) FROM t") == [(many, 0)]


@SINCE_56
def test_a_row_longer_than_a_packet_is_refused_with_its_key(applying: Applying) -> None:
    """It is never sent: the server would end the connection, and each try would look like a lost line."""
    of = applying.create("t", "id INT PRIMARY KEY, v LONGTEXT", {"id": INT, "v": TEXT})
    applying.merge(TableNet(of, inserts=rows(of, ("id",), (1,))))
    session = applying.writer._session()
    long = "x" * session.packet
    with pytest.raises(Conflict, match="max_allowed_packet"):
        applying.merge(TableNet(of, updates=(updates(of, (1,), ("v",), (long,)),)))
    for operation, old, number in ((INSERT, {}, "2"), (UPDATE, {"id": "1"}, "1")):
        with pytest.raises(Conflict, match="max_allowed_packet") as refused:
            applying.change(RowChange(of, operation, dict(old), {"id": number, "v": long}))
        assert refused.value.key == {"id": number}
    assert applying.writer._session() is session
    assert applying.rows("SELECT id, v FROM t") == [(1, None)]


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_11_an_insert_never_takes_the_place_of_another_row(applying: Applying, many: int) -> None:
    """In a load's window an insert replaces the row that has its key; one that has its unique value is another row."""
    of = applying.create("t", "id INT PRIMARY KEY, u INT UNIQUE, v INT", {"id": INT, "u": INT, "v": INT})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u", "v"), *((n, n, 1) for n in range(1, many + 1)))))
    replaced = rows(of, ("id", "u", "v"), *((n, n, 2) for n in range(1, many + 3)))
    applying.merge(TableNet(of, inserts=replaced, checked=False))
    for checked in (True, False):
        with pytest.raises(Conflict):
            applying.merge(TableNet(of, inserts=rows(of, ("id", "u", "v"), (9999, 1, 3)), checked=checked))
    assert applying.rows("SELECT COUNT(*), SUM(v = 2) FROM t") == [(many + 2, many + 2)]


@SINCE_80
def test_a_staging_table_made_inside_an_epoch_does_not_commit_it(applying: Applying) -> None:
    of = applying.create("t", "id INT PRIMARY KEY, v INT", {"id": INT, "v": INT})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), *numbered(MANY, 1))))
    before = applying.rows("SELECT epoch FROM anabranch.checkpoint ORDER BY job")
    writer = applying.begin()
    writer.merge(TableNet(of, updates=(updates(of, range(1, MANY + 1), ("v",), *([(2,)] * MANY)),)))
    assert applying.rows("SELECT DISTINCT v FROM t") == [(1,)]
    writer.rollback()
    assert applying.rows("SELECT DISTINCT v FROM t") == [(1,)]
    assert applying.rows("SELECT epoch FROM anabranch.checkpoint ORDER BY job") == before


@SINCE_56
def test_rule_16_a_truncate_is_a_delete_that_is_rolled_back(applying: Applying) -> None:
    of = applying.create("t", "id INT PRIMARY KEY", {"id": INT})
    applying.merge(TableNet(of, inserts=rows(of, ("id",), *numbered(3))))
    for how in Emptying:
        writer = applying.begin()
        writer.truncate([of], how)
        writer.rollback()
        assert applying.rows("SELECT COUNT(*) FROM t") == [(3,)]
    applying.do(lambda writer: writer.truncate([of], Emptying.DELETE))
    assert applying.rows("SELECT COUNT(*) FROM t") == [(0,)]


@SINCE_56
def test_a_table_that_was_altered_is_staged_by_its_new_types(applying: Applying) -> None:
    """A staging table with the old ones would round, and nobody would say so."""
    number = LogicalType(Kind.DECIMAL, precision=12, scale=4)
    of = applying.create("t", "id INT PRIMARY KEY, v DECIMAL(10,2)", {"id": INT, "v": number})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "v"), *numbered(MANY, None))))
    every = range(1, MANY + 1)
    applying.merge(TableNet(of, updates=(updates(of, every, ("v",), *([("1.5000",)] * MANY)),)))
    applying.database.execute("ALTER TABLE t MODIFY v DECIMAL(12,4)")
    applying.merge(TableNet(of, updates=(updates(of, every, ("v",), *([("1.2345",)] * MANY)),)))
    assert [str(v) for (v,) in applying.rows("SELECT DISTINCT v FROM t")] == ["1.2345"]


@SINCE_56
def test_digits_cut_in_a_row_that_moves_are_a_conflict(applying: Applying) -> None:
    """Find the statement of a packet that was warned of by carrying them out again, although its row has moved by then."""
    number = LogicalType(Kind.DECIMAL, precision=10, scale=4)
    of = applying.create("t", "id INT PRIMARY KEY, d DECIMAL(10,2)", {"id": INT, "d": number})
    applying.merge(TableNet(of, inserts=rows(of, ("id", "d"), (1, "1.0000"), (2, "2.0000"))))
    moved = updates(of, (1, 2), ("id", "d"), (11, "1.2345"), (12, "2.0000"), moves=True)
    with pytest.raises(Conflict):
        applying.merge(TableNet(of, updates=(moved,)))
    assert [str(d) for (d,) in applying.rows("SELECT d FROM t WHERE id < 3 ORDER BY id")] == ["1.00", "2.00"]


@SINCE_56
@SIZES
@SINCE_56
def test_blanks_that_a_merge_would_cut_are_conflicts(applying: Applying, many: int) -> None:
    """A long column is staged in one without a length: what is cut is cut by the statement that merges, with a note."""
    names, long = {"id": INT, "u": INT, "v": TEXT}, f"{'x' * 1999}{' ' * 3}"
    of = applying.create("t", "id INT PRIMARY KEY, u INT UNIQUE, v VARCHAR(2000)", names)
    bags = applying.create("k", "id INT, v VARCHAR(2000)", {"id": INT, "v": TEXT}, key=())
    by_float = applying.create("f", "id FLOAT PRIMARY KEY, v VARCHAR(2000)", {"id": FLOAT, "v": TEXT})
    count = many + 1
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((n, n) for n in range(count)))))
    applying.merge(TableNet(by_float, inserts=rows(by_float, ("id",), *((n + 0.1,) for n in range(count)))))
    turned = (((n + 1) % count, long) for n in range(count))
    nets = [
        TableNet(of, updates=(updates(of, range(count), ("v",), *[(long,)] * count),)),
        TableNet(of, inserts=rows(of, ("id", "u", "v"), *((n, n, long) for n in range(count))), checked=False),
        TableNet(of, updates=(updates(of, range(count), ("u", "v"), *turned, contends=True),)),
        bag(bags, *((n, long, 1) for n in range(count))),
        TableNet(by_float, updates=(updates(by_float, [n + 0.1 for n in range(count)], ("v",), *[(long,)] * count),)),
    ]
    for net in nets:
        with pytest.raises(Conflict, match="otherwise than they were given"):
            applying.merge(net)
    with pytest.raises(Conflict, match="otherwise than they were given"):
        applying.change(RowChange(by_float, UPDATE, {"id": "0.1"}, {"v": long}))
    assert applying.rows("SELECT COUNT(*), COUNT(v) FROM t") == [(count, 0)]
    assert applying.rows("SELECT COUNT(v) FROM f UNION ALL SELECT COUNT(*) FROM k") == [(0,), (0,)]


@SINCE_56
@SIZES
@SINCE_56
def test_pitfall_43_values_of_a_column_that_came_at_the_target_stay(applying: Applying, many: int) -> None:
    """In rows that leave and come back, while the writer knows the table as it was. The first that comes is invisible where
    there are such columns: `*` does not tell of it."""
    of = applying.create("t", "id INT PRIMARY KEY, u INT UNIQUE", {"id": INT, "u": INT})
    bags = applying.create("k", "n INT", {"n": INT}, key=())
    count, some = many + 1, min(many, 20)
    applying.merge(TableNet(of, inserts=rows(of, ("id", "u"), *((n, n) for n in range(count)))))
    applying.merge(bag(bags, *((n, 4) for n in range(some))))
    turned = updates(of, range(count), ("u",), *(((n + 1) % count,) for n in range(count)), contends=True)
    applying.merge(TableNet(of, updates=(turned,)))
    applying.merge(bag(bags, *((n, -1) for n in range(some))))
    back = updates(of, range(count), ("u",), *((n,) for n in range(count)), contends=True)
    hidden = "INVISIBLE" if knows(applying.database.server, "invisible columns") else ""
    for own, net, form in (("hid", back, hidden), ("own", turned, "")):
        for name in "tk":
            applying.database.execute(f"ALTER TABLE {name} ADD {own} INT {form}", f"UPDATE {name} SET {own} = 8")
        applying.merge(TableNet(of, updates=(net,)))
        applying.merge(bag(bags, *((n, -1) for n in range(some))))
    found = "SELECT COUNT(*), SUM(u = (id + 1) % {}), SUM(own = 8), SUM(hid = 8) FROM t"
    assert applying.rows(found.format(count)) == [(count, count, count, count)]
    assert applying.rows("SELECT COUNT(*), SUM(own = 8), SUM(hid = 8) FROM k") == [(some, some, some)]


@SINCE_56
def test_an_invisible_column_that_came_is_one_that_rows_lack(applying: Applying) -> None:
    """Rows of a pair that are written without it get its default, while the writer knows the table as it was."""
    of = applying.create("t", "id INT PRIMARY KEY", {"id": INT})
    hidden = "INVISIBLE" if knows(applying.database.server, "invisible columns") else ""
    for expected in ([], ["hid"]):
        applying.merge(TableNet(of, inserts=rows(of, ("id",), (len(expected),))))
        writer = applying.begin()
        assert list(writer.coming().beside(of)) == expected
        writer.rollback()
        if not expected:
            applying.database.execute(f"ALTER TABLE t ADD hid INT {hidden} DEFAULT 5")
