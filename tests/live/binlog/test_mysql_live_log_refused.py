"""Values that have no place at the target: what the log and the load say of each kind has table, column, key of the row, and
the key of the job file that decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.errors import ValueRefused
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

Make = Callable[[Server], Database]
ZERO, LEAVE_OUT, NUL = "[types] zero_date", "[[tables]] columns.drop", "[types] nul"
# name -> type of the column, the value in SQL, the key of the job file
KINDS = {
    "zero_date": ("date", "'0000-00-00'", ZERO),
    "half_date": ("date", "'2024-00-15'", ZERO),
    "no_day": ("date", "'2023-02-31'", ZERO),
    "zero_datetime": ("datetime(3)", "'0000-00-00'", ZERO),
    "half_datetime": ("datetime", "'2024-05-00 10:00:00'", ZERO),
    "zero_timestamp": ("timestamp NULL", "0", ZERO),
    "gbk": ("varchar(9) CHARACTER SET gbk", "_gbk x'61a161'", LEAVE_OUT),
    "big5": ("varchar(9) CHARACTER SET big5", "_big5 x'a15a'", LEAVE_OUT),
    "cp1250": ("varchar(9) CHARACTER SET cp1250", "_cp1250 x'6181'", LEAVE_OUT),
    "ucs2": ("varchar(9) CHARACTER SET ucs2", "_ucs2 x'd83dde00'", LEAVE_OUT),
}  # fmt: skip
# key columns, their values in SQL, as the message has them
KEYS = (
    ("k decimal(9,2)", "1.50", "k=1.50"),
    ("k date, n int", "'2024-02-29', 7", "k=2024-02-29, n=7"),
    ("k varchar(9) CHARACTER SET latin1", "'é'", "k=é"),
    ("k varbinary(3)", "x'00ff'", r"k=\x00ff"),
    ("k bigint unsigned", "18446744073709551615", "k=18446744073709551615"),
    ("k enum('a','b')", "'b'", "k=b"),
)


@pytest.mark.one_case("python-mysql", "native-mariadb")
def test_pitfall_36_every_kind_of_value_is_refused_by_name(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    keys = [KEYS[number % len(KEYS)] for number in range(len(KINDS))]
    for (kind, (type, _, _)), (key, _, _) in zip(KINDS.items(), keys, strict=True):
        names = ", ".join(part.split()[0] for part in key.split(", "))
        database.execute(f"CREATE TABLE {kind} ({key}, v {type}, PRIMARY KEY ({names}))")
    for (kind, (_, value, setting)), (_, stored, told) in zip(KINDS.items(), keys, strict=True):
        follower = follow(database)
        follower.begin()
        database.execute("SET sql_mode = 'ALLOW_INVALID_DATES'", f"INSERT INTO {kind} VALUES ({stored}, {value})")
        for read in (follower.take, lambda kind=kind, follower=follower: follower.read(kind)):
            with pytest.raises(ValueRefused) as refused:
                read()
            assert refused.value.table == f"{database.name}.{kind}"
            text = str(refused.value)
            assert f"column v of the row with {told} holds " in text, text
            assert setting in refused.value.hint and "\n" not in text, text
        follower.stop()


def test_pitfall_36_a_key_that_is_refused_itself_is_named(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE by_date (k date, n int, PRIMARY KEY (k, n))",
        "CREATE TABLE by_text (k varchar(9) CHARACTER SET gbk, n int, PRIMARY KEY (k, n))",
    )
    for table, value, setting in (("by_date", "'2024-00-15'", ZERO), ("by_text", "_gbk x'61a161'", LEAVE_OUT)):
        follower = follow(database)
        follower.begin()
        database.execute("SET sql_mode = ''", f"INSERT INTO {table} VALUES ({value}, 7)")
        for read in (follower.take, lambda table=table, follower=follower: follower.read(table)):
            with pytest.raises(ValueRefused, match=r"column k of the row with k=.*, n=7 holds ") as refused:
                read()
            assert setting in refused.value.hint and "object" not in str(refused.value)
        follower.stop()


def test_pitfall_36_what_is_no_geometry_is_refused_by_name(
    mariadb: Server, source_database: Make, follow: Callable
) -> None:
    """A NOT NULL column that was added has no geometry in the rows that were there."""
    database = source_database(mariadb)
    database.execute("CREATE TABLE place (k int PRIMARY KEY, v int)", "INSERT INTO place VALUES (6, 1), (7, 1)")
    database.execute(
        "SET sql_mode = ''", "ALTER TABLE place ADD g POINT NOT NULL", "UPDATE place SET g = POINT(1, 2) WHERE k = 6"
    )
    print(database.query("SELECT k, HEX(g) FROM place"))
    follower = follow(database)
    follower.begin()
    database.execute("UPDATE place SET v = 2")
    for read in (follower.take, lambda: follower.read("place")):
        with pytest.raises(ValueRefused, match="column g of the row with k=7 holds a geometry of 0 bytes") as refused:
            read()
        assert LEAVE_OUT in refused.value.hint
    follower.stop()
