"""Rows that a change meets at a real MySQL and MariaDB, as policies for conflicts look at them, and what is noted with the
epoch; row changes that are set aside with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pymysql
import pytest

from anabranch.connectors.mysql.target.conditions import holds_any
from anabranch.connectors.mysql.target.session import ask, connect, table_name
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.connectors.mysql.target.terms import constant
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import Age, FoundRow, NotedConflict, OnConflict
from anabranch.rows.net import DELETE, UPDATE, TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.mysql_epoch import Epoch, epoch_at

pytestmark = pytest.mark.every_server("fractions")
LOCKED = 1205  # https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
COLUMNS = {
    "id": LogicalType(Kind.INT64),
    "age": LogicalType(Kind.TIMESTAMP),
    "word": LogicalType(Kind.TEXT, 20),
    "raw": LogicalType(Kind.BINARY, 20),
    "price": LogicalType(Kind.DECIMAL, precision=30, scale=10),
    "day": LogicalType(Kind.DATE),
}
ROW = {
    "id": "9007199254740993",
    "age": "2020-01-01 10:00:00.000001",
    "word": "it's \\ 100%s",
    "raw": "\\x00ff27",
    "price": "12345678901234567890.0123456789",
    "day": "2020-02-29",
}


@pytest.fixture
def at(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Epoch]:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (id bigint, age datetime(6), word varchar(20), raw varbinary(20), price decimal(30,10), day date,"
        " PRIMARY KEY (id, word))",
        "INSERT INTO t VALUES (9007199254740993, '2020-01-01 10:00:00.000001', 'it''s \\\\ 100%s', X'00ff27',"
        " 12345678901234567890.0123456789, '2020-02-29'), (9007199254740992, NULL, 'next', '', 1, '2000-01-01')",
    )
    with epoch_at(database) as made:
        yield made


def table(at: Epoch) -> TargetTable:
    names = tuple(COLUMNS)
    key = ("id", "word")
    return TargetTable(TableId("shop", "t"), TableId(at.database.name, "t"), names, tuple(COLUMNS.values()), key, names)


KEY = {"id": ROW["id"], "word": ROW["word"]}


def test_rule_28_the_row_that_is_there_is_told_as_the_target_has_it(at: Epoch) -> None:
    assert at.writer.row(table(at), KEY, None) == FoundRow(ROW)
    assert at.writer.row(table(at), {**KEY, "id": "9007199254740994"}, None) is None
    found = at.writer.row(table(at), {"id": "9007199254740992", "word": "NEXT"}, None)
    assert found is not None and found.values["word"] == "next" and found.values["age"] is None


def test_rule_28_a_row_is_newer_by_a_later_value_or_where_the_change_has_none(at: Epoch) -> None:
    ages = {"2020-01-01 10:00:00.000000": True, ROW["age"]: False, "2020-01-01 10:00:00.000002": False, None: True}
    for age, newer in ages.items():
        assert at.writer.row(table(at), KEY, Age("age", age)) == FoundRow(ROW, newer), age
    for age in (ROW["age"], None):
        found = at.writer.row(table(at), {"id": "9007199254740992", "word": "next"}, Age("age", age))
        assert found is not None and not found.is_newer
    assert at.writer.row(table(at), KEY, Age("price", "12345678901234567890.0123456788")) == FoundRow(ROW, True)


def test_rule_28_nobody_else_changes_the_row_meanwhile(at: Epoch) -> None:
    at.writer.row(table(at), KEY, None)
    with closing(at.database.connect()) as other, closing(other.cursor()) as cursor:
        cursor.execute("SET innodb_lock_wait_timeout = 1")
        with pytest.raises(pymysql.err.OperationalError) as locked:
            cursor.execute("UPDATE t SET day = '2021-01-01' WHERE id = 9007199254740993")
        assert locked.value.args[0] == LOCKED
        at.again()
        cursor.execute("UPDATE t SET day = '2021-01-01' WHERE id = 9007199254740993")


def test_rule_28_rows_are_found_by_a_float(at: Epoch) -> None:
    """0.1 is not the FLOAT 0.1; a column that is a DOUBLE at the target holds 0.1. Of these, 0.3 is greater as a FLOAT, 0.7
    smaller; the last two are values that a FLOAT does not get from their digits read as a DOUBLE."""
    singles = ("0.1", "-0.3", "0.7", "16777215", "0", "1.17549e-38", "3.4028235e+38", "-7.038531e-26")
    type = LogicalType(Kind.FLOAT32)
    for declared in ("FLOAT", "DOUBLE"):
        of = TargetTable(
            TableId("shop", declared), TableId(at.database.name, declared), ("id", "age"), (type, type), ("id",)
        )
        values = ", ".join(f"({constant(type, one)}, {constant(type, one)})" for one in singles)
        at.database.execute(
            f"CREATE TABLE `{declared}` (id {declared} PRIMARY KEY, age {declared})",
            f"INSERT INTO `{declared}` VALUES {values}",
        )
        for one in singles:
            for age in (one, str(float(one) - max(abs(float(one)) / 1e6, 1e-40))):
                found = at.writer.row(of, {"id": one}, Age("age", age))
                assert found is not None and found.is_newer is (age != one), (declared, one, age)
        with closing(connect(at.endpoint, "anabranch-test")) as session:
            for names in (("id",), ("id", "age")):
                where = holds_any(session, of, names, [(one,) * len(names) for one in singles])
                found_rows = ask(session, f"SELECT COUNT(*) FROM {table_name(of.target)} WHERE {where}")
                assert found_rows == [(len(singles),)], (declared, names)


def test_what_is_noted_comes_with_the_epoch(at: Epoch) -> None:
    """Note a conflict as it was told, with any characters in it; a rollback takes the note back."""
    of = table(at)
    where = (5, "log.1:4", 1_600_000_000_000_000, of.source, of.target)
    odd = {"word": "a\0'\"\\%s\n😀", "age": None}
    one = NotedConflict(*where, KEY, UPDATE, "newer", OnConflict.NEWEST, "target", {}, odd, ROW)
    none = NotedConflict(*where, {}, DELETE, "missing", OnConflict.SOURCE_WINS, "ignored")
    with closing(MysqlStore(at.endpoint)) as store:
        at.writer.note(at.job, one)
        at.again()
        assert store.journal.conflicts(at.job) == []
        at.run(lambda writer: [writer.note(at.job, each) for each in (one, none)])
        found = store.journal.conflicts(at.job)
        assert found == [one, none] and all(each.noted_at > 0 for each in found)
        assert found[0].number < found[1].number


def test_rule_26_rows_are_set_aside_and_settled_with_the_epoch(at: Epoch) -> None:
    of = table(at)
    where = (5, "log.1:4", 1, of.source, of.target)
    odd = {"word": "a\0'\"\\%s\n😀", "age": None}
    one = AsideChange(*where, KEY, UPDATE, ROW, odd, "a\0 reason, it's 100%s", True, unconverted={"day": "0000-00-00"})
    two = AsideChange(*where, KEY, DELETE, None, None, "still")
    with closing(MysqlStore(at.endpoint)) as store:
        numbers = at.run(lambda writer: [writer.set_aside(at.job, each) for each in (one, two)])
        found = store.asides.set_aside(at.job)
        assert found == [one, two] and [each.number for each in found] == numbers == sorted(numbers)
