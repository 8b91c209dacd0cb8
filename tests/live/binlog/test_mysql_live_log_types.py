"""Types that the servers store in a form of their own: the log and the load give the same, and what is expected."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from anabranch.model.datatype import Kind
from anabranch.testing.databases import Database
from anabranch.testing.features import knows
from anabranch.testing.servers import Server

Make = Callable[[Server], Database]
POINT = "0101000000000000000000f03f0000000000000040"  # x = 1, y = 2, little-endian WKB
SHAPES = (
    "POINT(1 2)", "LINESTRING(0 0,1 1,2 5)", "POLYGON((0 0,0 4,4 4,4 0,0 0),(1 1,1 2,2 2,2 1,1 1))", "MULTIPOINT(1 2,3 4)",
    "MULTILINESTRING((0 0,1 1),(2 2,3 3))", "MULTIPOLYGON(((0 0,0 1,1 1,1 0,0 0)),((5 5,5 6,6 6,6 5,5 5)))",
    "GEOMETRYCOLLECTION(POINT(1 2),LINESTRING(0 0,1 1))",
)  # fmt: skip


@pytest.mark.every_server("ST_GeomFromText")
def test_pitfall_38_geometry_of_every_kind(mysql_family: Server, source_database: Make, follow: Callable) -> None:
    """As WKB, with its SRID where there is one."""
    database = source_database(mysql_family)
    empty = "GEOMETRYCOLLECTION EMPTY" if mysql_family.name == "mariadb" else "GEOMETRYCOLLECTION()"
    columns = "g geometry, p point, l linestring, a polygon, mp multipoint, ml multilinestring, ma multipolygon"
    database.execute(f"CREATE TABLE t (id int primary key, {columns}, gc geometrycollection, last varchar(5))")
    follower = follow(database)
    follower.begin()
    every = ", ".join(f"ST_GeomFromText('{shape}')" for shape in SHAPES)
    follower.run(
        f"INSERT INTO t VALUES (1, ST_GeomFromText('POINT(1 2)'), {every}, 'end')",
        "INSERT INTO t (id, g, p) VALUES (2, ST_GeomFromText('POINT(1 2)', 3857), ST_GeomFromText('POINT(10 20)', 4326))",
        f"INSERT INTO t (id, g, last) VALUES (3, NULL, 'x'), (4, ST_GeomFromText('{empty}'), ''), (5, NULL, 'y')",
        f"UPDATE t SET g = ST_GeomFromText('LINESTRING({','.join(f'{i} {-i}' for i in range(5000))})') WHERE id = 5",
    )
    assert follower.told("t") == follower.read("t")
    images = follower.images("t")
    assert images[0]["g"].hex() == POINT
    assert images[1]["g"].hex() == "0101000020110f0000" + POINT[10:]
    # MySQL 8 reads latitude first and stores longitude first; the others keep the order in which it was given
    knows_axes = mysql_family.name == "mysql" and knows(mysql_family, "axes")
    x, y = ("3440", "2440") if knows_axes else ("2440", "3440")
    assert images[1]["p"].hex() == f"0101000020e6100000000000000000{x}000000000000{y}"
    assert {column.type.kind for column in follower.schema("t").columns[1:-1]} == {Kind.GEOMETRY}
    assert follower.told("t")[0].split(b"\t")[1].decode() == "\\\\x" + POINT


# Version and first byte of the variant of UUIDs that MariaDB takes, beside 0; it finds others (8 and later, 0 or 80) wrong.
TAKEN = [
    (v, byte)
    for v in range(16)
    for byte in (0xA4, 0x00, 0x5F, 0x60, 0x80, 0x81, 0xBF, 0xC0, 0xFF)
    if v < 8 or byte > 0x80
]


def test_mariadb_live_uuid_and_addresses(mariadb: Server, source_database: Make, follow: Callable) -> None:
    """UUIDs of every version, whose bytes MariaDB orders by version; addresses, also such as can be shortened in ways."""
    database = source_database(mariadb)
    database.execute("CREATE TABLE t (u uuid primary key, four inet4, six inet6, last int)")
    follower = follow(database)
    follower.begin()
    uuids = [
        str(uuid.UUID(int=0)),
        *(f"123e4567-e89b-{version:x}2d3-{variant:02x}56-4266554400{version:x}0" for version, variant in TAKEN),
    ]
    sixes = ["::", "::1", "::ffff:1.2.3.4", "::1.2.3.4", "2001:db8::1:0:0:1", "1:0:2:0:3:0:4:0", "fe80::", "ff02::1:2"]
    fours = ["0.0.0.0", "255.255.255.255", "10.1.0.0", "127.0.0.1"]
    rows = [f"('{u}', '{fours[i % 4]}', '{sixes[i % 8]}', {i})" for i, u in enumerate(uuids)]
    follower.run(
        f"INSERT INTO t VALUES {', '.join(rows)}",
        "INSERT INTO t VALUES (UUID(), NULL, NULL, NULL), ('00112233-4455-1677-8899-000000000000', '1.2.3.0', '1::', 1)",
        "INSERT INTO t VALUES ('12345620-4455-1677-8899-202020202020', '1.2.32.32', '::2020', 2),"
        " ('12345600-4455-7677-8899-202020202020', '32.32.32.32', '2020::', 3), ('12340000-4455-4677-8899-000000000020', NULL,"
        " NULL, 4)",
        f"UPDATE t SET six = 'abcd::', last = NULL WHERE u = '{uuids[3]}'",
        f"DELETE FROM t WHERE u = '{uuids[4]}'",
    )
    assert follower.told("t") == follower.read("t")
    images = follower.images("t")
    assert [image["u"] for image in images[: len(uuids)]] == uuids
    assert [image["four"] for image in images[:4]] == fours
    assert images[2]["six"] == "::ffff:1.2.3.4" and images[1]["six"] == "::1"
    assert [column.type.kind for column in follower.schema("t").columns[:3]] == [Kind.UUID, Kind.INET, Kind.INET]


def test_mariadb_live_compressed_columns(mariadb: Server, source_database: Make, follow: Callable) -> None:
    """Values too short to be compressed, others, and none; with and without zlib's own frame."""
    database = source_database(mariadb)
    database.execute(
        "CREATE TABLE t (id int primary key, v varchar(1000) COMPRESSED, s varchar(60) COMPRESSED CHARACTER SET gbk,"
        " b varbinary(500) COMPRESSED, t text COMPRESSED CHARACTER SET latin1, m mediumtext COMPRESSED, l longblob COMPRESSED,"
        " y tinyblob COMPRESSED, last varchar(5))"
    )
    follower = follow(database)
    follower.begin()
    for wrap, start in (("OFF", 0), ("ON", 10)):
        follower.run(
            f"SET column_compression_zlib_wrap = {wrap}",
            f"INSERT INTO t VALUES ({start + 1}, REPEAT('aé', 400), REPEAT('你', 60), REPEAT(x'00ff', 250), REPEAT('é', 300),"
            " REPEAT('long', 30000), REPEAT(x'0102', 100000), REPEAT('t', 200), 'end')",
            f"INSERT INTO t VALUES ({start + 2}, 'a', '你', x'00', 'é', '', '', '', '')",
            f"INSERT INTO t VALUES ({start + 3}, '', '', '', '', NULL, NULL, NULL, NULL)",
            f"UPDATE t SET v = REPEAT('z', 900), m = NULL WHERE id = {start + 2}",
        )
    assert follower.told("t") == follower.read("t")
    images = follower.images("t")
    assert images[0]["v"] == "aé" * 400 and images[0]["s"] == "你" * 60 and images[0]["t"] == "é" * 300
    assert images[0]["l"] == b"\1\2" * 100000 and images[1]["b"] == b"\0" and images[2]["v"] == ""


def test_pitfall_35_labels_in_another_order_are_not_read_by_the_old_definition(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    """The numbers of an ENUM mean something else after it was altered; the log's own labels tell."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int primary key, e enum('a','b'), s set('x','y'))")
    follower = follow(database)
    follower.begin()
    follower.run("INSERT INTO t VALUES (1, 'b', 'y')", "ALTER TABLE t MODIFY e enum('b','a'), MODIFY s set('y','x')")
    follower.run("INSERT INTO t VALUES (2, 'b', 'y')")
    assert [(image["e"], image["s"]) for image in follower.images("t")] == [("b", "y")]
    (barrier,) = [barrier for chunk in follower.chunks() for barrier in chunk.barriers]
    assert "the log has the label 'b' for 'a'" in barrier.reason
    again = follow(database)
    again.begin(follower.mark)
    again.run("INSERT INTO t VALUES (3, 'a', 'x,y')")
    assert again.read("t")[1:] == [b"2\tb\ty\n", b"3\ta\ty,x\n"]
    assert [(image["e"], image["s"]) for image in again.images("t")][-1] == ("a", "y,x")


def test_torture_seed_6_a_unique_key_may_stand_for_the_primary_one(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    """The log calls the first unique key without NULL the primary one where there is no other: nothing was altered."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (a int, u varchar(9), b int NOT NULL, c int NOT NULL, UNIQUE (u), UNIQUE (c, b))")
    follower = follow(database)
    follower.begin()
    follower.run("INSERT INTO t VALUES (1, 'x', 2, 3), (1, NULL, 3, 3)")
    assert [image["b"] for image in follower.images("t")] == [2, 3]


def test_torture_seed_8_a_uuid_that_is_null_keeps_its_place(
    mariadb: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mariadb)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, u uuid, v int)")
    follower = follow(database)
    follower.begin()
    follower.run("INSERT INTO t VALUES (1, NULL, 2), (2, '123e4567-e89b-12d3-a456-426655440000', NULL)")
    assert follower.read("t") == [b"1\t\\N\t2\n", b"2\t123e4567-e89b-12d3-a456-426655440000\t\\N\n"]
    assert follower.told("t") == follower.read("t")
