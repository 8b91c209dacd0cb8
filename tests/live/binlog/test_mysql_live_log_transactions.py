"""Transactions as the log has them: whole, in order, without what was rolled back; what cannot be followed stops."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from anabranch.rows.chunk import BarrierKind, Chunk, Op, Part
from anabranch.rows.log_items import LogIdle, LogStatement
from anabranch.testing.databases import Database
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import Server

pytestmark = pytest.mark.every_server
Make = Callable[[Server], Database]


@contextmanager
def setting(database: Database, name: str, value: str) -> Iterator[None]:
    """A global variable set for the time being."""
    ((old,),) = database.query(f"SELECT @@GLOBAL.{name}")
    database.execute(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        database.execute(f"SET GLOBAL {name} = " + (f"'{old}'" if isinstance(old, str) else str(old)))


def table(database: Database, name: str = "t") -> None:
    database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20), u int UNIQUE)")


def seen(follower, name: str = "t") -> list[tuple]:
    return [(i["_op"].name, i["id"]) for i in follower.images(name)]


@pytest.mark.every_server("GTIDs")
def test_pitfall_13_15_commit_order_not_start_order(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    table(database)
    follower = follow(database)
    follower.begin()
    with closing(database.connect(autocommit=False)) as long, closing(database.connect(autocommit=False)) as short:
        long.cursor().execute("INSERT INTO t VALUES (1, 'long', 1)")
        short.cursor().execute("INSERT INTO t VALUES (2, 'short', 2)")
        short.commit()
        long.cursor().execute("INSERT INTO t VALUES (3, 'long', 3)")
        long.commit()
    follower.take()
    assert seen(follower) == [("INSERT", 2), ("INSERT", 1), ("INSERT", 3)]
    transactions = [t for chunk in follower.chunks() for t in chunk.transactions.to_pylist()]
    assert [t["rows"] for t in transactions] == [1, 2]
    assert transactions[-1]["native"] == follower.end.native
    assert transactions[0]["commit_time"] > 1_600_000_000_000_000
    assert all(t["gtid"] for t in transactions)


def test_pitfall_18_19_rolled_back_work_is_not_delivered(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    table(database)
    follower = follow(database)
    follower.begin()
    with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("INSERT INTO t VALUES (1, 'kept', 1)")
        cursor.execute("SAVEPOINT one")
        cursor.execute("INSERT INTO t VALUES (2, 'undone', 2)")
        cursor.execute("ROLLBACK TO SAVEPOINT one")
        cursor.execute("INSERT INTO t VALUES (3, 'kept', 3)")
        with pytest.raises(Exception, match="Duplicate"):
            cursor.execute("INSERT INTO t VALUES (4, 'undone', 4), (5, 'double', 1)")
        connection.commit()
        cursor.execute("INSERT INTO t VALUES (6, 'undone', 6)")
        connection.rollback()
    follower.take()
    assert seen(follower) == [("INSERT", 1), ("INSERT", 3)]


def test_pitfall_9_12_updates_are_pairs_in_order(mysql_family: Server, source_database: Make, follow: Callable) -> None:
    database = source_database(mysql_family)
    table(database)
    database.execute("INSERT INTO t VALUES (1, 'a', NULL), (2, 'b', NULL)")
    follower = follow(database)
    follower.begin()
    follower.run(
        "UPDATE t SET id = id + 10 ORDER BY id", "DELETE FROM t WHERE id = 11", "INSERT INTO t VALUES (11, '', 0)"
    )
    assert seen(follower) == [
        ("BEFORE", 1), ("AFTER", 11), ("BEFORE", 2), ("AFTER", 12), ("DELETE", 11), ("INSERT", 11),
    ]  # fmt: skip
    ordinals = [n for chunk in follower.chunks() for rows in chunk.tables for n in rows.batch["_ordinal"].to_pylist()]
    assert ordinals == [0, 1, 2, 3, 0, 0]


@pytest.mark.every_server("row images")
def test_mysql_live_partitioned_tables_and_statement_texts(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    """MySQL adds the partition to row events; statement texts may be logged before them."""
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v varchar(20)) PARTITION BY HASH (id) PARTITIONS 4")
    follower = follow(database)
    follower.begin()
    told = "binlog_rows_query_log_events" if mysql_family.name == "mysql" else "binlog_annotate_row_events"
    follower.run(
        f"SET SESSION {told} = ON",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (8, 'd')",
        "UPDATE t SET id = id + 1 ORDER BY id DESC",
        "DELETE FROM t WHERE id < 4",
    )
    assert follower.told("t") == follower.read("t") == [b"4\tc\n", b"9\td\n"]


@pytest.mark.every_server("row images")
def test_pitfall_7_partial_images_tell_absent_from_null(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a int, n int NOT NULL DEFAULT 7, d varchar(9) DEFAULT 'x''y', b blob,"
        " s decimal(5,2) DEFAULT 1.5, m timestamp NULL DEFAULT '2020-01-01 00:00:00', e enum('p','q') DEFAULT 'q')"
    )
    follower = follow(database)
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        follower.begin()
        cursor.execute("SET binlog_row_image = 'MINIMAL'")
        cursor.execute("INSERT INTO t (id, a) VALUES (1, 5)")
        cursor.execute("UPDATE t SET a = NULL")
        cursor.execute("SET binlog_row_image = 'NOBLOB'")
        cursor.execute("UPDATE t SET a = 6")
        cursor.execute("SET binlog_row_image = 'FULL'")
        cursor.execute("DELETE FROM t")
    follower.take()
    insert, before, after, noblob_before, noblob_after, delete = follower.images("t")
    assert insert.pop("m").timestamp() == 1577836800
    assert str(insert.pop("s")) == "1.50"
    assert insert == {"_op": Op.INSERT, "id": 1, "a": 5, "n": 7, "d": "x'y", "b": None, "e": "q"}
    assert (before, after) == ({"_op": Op.BEFORE, "id": 1}, {"_op": Op.AFTER, "a": None})
    assert "b" not in noblob_before and "b" not in noblob_after and noblob_after["a"] == 6
    assert len(delete) == 9


def test_rule_01_rows_of_a_session_with_foreign_keys_off_say_so(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    table(database)
    database.execute("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    follower = follow(database)
    follower.begin()
    with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("DELETE FROM t WHERE id = 1")
        cursor.execute("SET foreign_key_checks = 0")
        cursor.execute("UPDATE t SET id = 20 WHERE id = 2")
        cursor.execute("DELETE FROM t WHERE id = 3")
        cursor.execute("SET foreign_key_checks = 1")
        cursor.execute("INSERT INTO t VALUES (4, 'd', 4)")
        connection.commit()
    follower.take()
    (rows,) = [rows for chunk in follower.chunks() for rows in chunk.tables]
    told = [rows.shapes[shape].keys_off for shape in rows.batch["_shape"].to_pylist()]
    kinds = [Op(op).name for op in rows.batch["_op"].to_pylist()]
    assert list(zip(kinds, told, strict=True)) == [
        ("DELETE", False), ("BEFORE", True), ("AFTER", True), ("DELETE", True), ("INSERT", False),
    ]  # fmt: skip


@pytest.mark.every_server("expression defaults")
def test_rule_20_inserts_without_a_known_value_park(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY, a varchar(40) DEFAULT (uuid()))")
    table(database, "other")
    follower = follow(database)
    follower.begin()
    follower.run(
        "SET binlog_row_image = 'MINIMAL'",
        "INSERT INTO t VALUES (1, 'known')",
        "INSERT INTO other (id) VALUES (1)",
        "SET sql_mode = ''",
        "INSERT INTO t (id) VALUES (2)",
        "INSERT INTO t VALUES (3, 'left out')",
        "INSERT INTO other (id) VALUES (2)",
    )
    assert seen(follower, "other") == [("INSERT", 1), ("INSERT", 2)]
    assert seen(follower) in ([("INSERT", 1)], [("INSERT", n) for n in (1, 2, 3)])
    barriers = [barrier for chunk in follower.chunks() for barrier in chunk.barriers]
    if len(seen(follower)) == 1:  # the server left the value out
        assert [b.kind for b in barriers] == [BarrierKind.PARK] and "expression" in barriers[0].reason


@pytest.mark.every_server("row metadata")
def test_rule_19_a_contradicting_table_map_parks(mysql_family: Server, source_database: Make, follow: Callable) -> None:
    database = source_database(mysql_family)
    changes = {
        "count": "ADD COLUMN extra int",
        "type": "MODIFY v int",
        "length": "MODIFY v varchar(21)",
        "sign": "MODIFY u int unsigned",
        "name": "CHANGE u w int",
        "label": "MODIFY e enum('a','c')",
        "pk": "MODIFY u int NOT NULL, DROP PRIMARY KEY, ADD PRIMARY KEY (id, u)",
    }
    for name in changes:
        table(database, name)
    database.execute("ALTER TABLE label ADD e enum('a','b') CHARACTER SET latin1")
    table(database, "same")
    follower = follow(database)
    follower.begin()
    follower.run(*(f"INSERT INTO {name} (id) VALUES (1)" for name in changes if name != "pk"))
    database.execute(*(f"ALTER TABLE {name} {change}" for name, change in changes.items()))
    database.execute(
        *(f"INSERT INTO {name} VALUES (2, 1, 1{', 1' * (name in ('count', 'label'))})" for name in changes)
    )
    database.execute("INSERT INTO same VALUES (1, 'x', 1)")
    follower.take()
    parked = {b.table.name: b.reason for chunk in follower.chunks() for b in chunk.barriers}
    assert set(parked) == set(changes), parked
    for name in changes:
        assert all(image["id"] == 1 for image in follower.images(name))
    assert seen(follower, "same") == [("INSERT", 1)]
    follower.tables = follower.definitions()
    follower.reader._select = follower.tables.get
    follower.begin(follower.mark)
    follower.run("INSERT INTO count VALUES (3, 'x', 9, 1)")
    assert seen(follower, "count")[-1] == ("INSERT", 3)


@pytest.mark.every_server("CREATE TABLE … SELECT")
def test_mysql_live_statements_come_alone_and_in_place(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    table(database)
    follower = follow(database)
    follower.begin()
    follower.run(
        "INSERT INTO t VALUES (1, 'a', 1)",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (1, 'b', 1)",
        "ALTER TABLE t COMMENT 'naïve 😀'",
        "CREATE TABLE copy AS SELECT * FROM t",
        "INSERT INTO t VALUES (2, 'c', 2)",
    )
    kinds = [item.sql if isinstance(item, LogStatement) else item.row_count for item in follower.items]
    assert kinds[:4] == [1, "TRUNCATE TABLE t", 1, "ALTER TABLE t COMMENT 'naïve 😀'"]
    assert "CREATE TABLE `copy`" in kinds[4] and kinds[5:] == [1]
    for item in follower.items:
        if isinstance(item, LogStatement):
            assert item.schema == database.name
    for place, item in enumerate(follower.items):
        again = follow(database)
        again.tables = follower.tables
        again.begin(item.mark if isinstance(item, LogStatement) else type(follower.mark)("", item.resume))
        again.take()
        rest = [i.sql if isinstance(i, LogStatement) else i.row_count for i in again.items]
        assert rest in (kinds[place + 1 :], kinds[place:]), "a statement inside a transaction is told again"
        again.stop()


@pytest.mark.one_case("python-mysql", "native-mariadb")
def test_mysql_live_resume_from_every_mark(mysql_family: Server, source_database: Make, follow: Callable) -> None:
    database = source_database(mysql_family)
    table(database)
    follower = follow(database)
    marks = [follower.begin()]
    counts = [0]
    for number in range(12):
        values = ", ".join(f"({number * 100 + i}, 'v', NULL)" for i in range(number + 1))
        follower.run(f"INSERT INTO t VALUES {values}", *(["FLUSH BINARY LOGS"] * (number % 5 == 4)))
        marks.append(follower.mark)
        counts.append(len(follower.images("t")))
    everything = seen(follower)
    for mark, count in zip(marks, counts, strict=True):
        again = follow(database)
        again.begin(mark)
        again.take()
        assert seen(again) == everything[count:]
        again.stop()


@pytest.mark.one_case("native-mysql", "python-mariadb")
def test_mysql_live_heartbeats_and_foreign_transactions_move_the_mark(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    table(database)
    table(database, "foreign_table")
    follower = follow(database)
    follower.tables = {k: v for k, v in follower.definitions().items() if k.name == "t"}
    first = follower.begin()
    database.execute(*(f"INSERT INTO foreign_table VALUES ({n}, '', {n})" for n in range(50)))
    assert follower.take() == []
    assert follower.mark.native != first.native
    assert isinstance(follower.mark, type(first)) and follower.mark.native == follower.end.native
    quiet = [follower.reader.read(0.3) for _ in range(6)]
    assert all(item is None or isinstance(item, LogIdle) for item in quiet)
    assert sum(item is not None for item in quiet) <= 1


def test_mysql_live_latency_of_a_lone_transaction(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    table(database)
    follower = follow(database)
    follower.begin()
    follower.run("INSERT INTO t VALUES (0, '', 0)")
    waits = []
    with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
        for number in range(1, 30):
            cursor.execute(f"INSERT INTO t VALUES ({number}, '', {number})")
            begun = time.monotonic()
            while not isinstance(item := follower.reader.read(1.0), Chunk):
                assert item is None or isinstance(item, LogIdle)
            waits.append(time.monotonic() - begun)
    assert sorted(waits)[len(waits) // 2] < 0.5  # half of the time after which a reader gives what it has


@pytest.mark.every_server("recursive queries")
@pytest.mark.one_case("native-mysql", "python-mariadb")
def test_pitfall_14_large_transactions_come_in_fragments_in_flat_memory(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE big (id int PRIMARY KEY, a bigint, note varchar(200))")
    table(database)
    follower = follow(database)
    follower.begin()
    with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("INSERT INTO t VALUES (1, 'before', 1)")
        connection.commit()
        recursion = "cte_max_recursion_depth" if mysql_family.name == "mysql" else "max_recursive_iterations"
        cursor.execute(f"SET SESSION {recursion} = 1000000")
        cursor.execute(
            "INSERT INTO big WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 200000)"
            " SELECT n, n * 10, repeat('x', 100) FROM s"
        )
        cursor.execute("INSERT INTO t VALUES (2, 'with', 2)")
        connection.commit()
        cursor.execute("INSERT INTO t VALUES (3, 'after', 3)")
        connection.commit()
    until, chunks, peak = time.monotonic() + 600, [], 0
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    images = 0
    while not (chunks and chunks[-1][0] is Part.WHOLE and images > 200_000):
        in_time(until, f"{images} images came")
        item = follower.reader.read(0.5)
        if isinstance(item, Chunk):
            chunks.append((item.part, item.row_count, item.transactions.to_pylist(), item.resume))
            images += item.row_count
            peak = max(peak, item.row_count)
    parts = [part for part, *_ in chunks]
    assert parts[0] is Part.WHOLE and parts[-1] is Part.WHOLE and parts.count(Part.LAST) == 1
    fragments = [chunk for chunk in chunks if chunk[0] is Part.FRAGMENT]
    assert len(fragments) >= 9 and parts == [Part.WHOLE, *[Part.FRAGMENT] * len(fragments), Part.LAST, Part.WHOLE]
    assert all(chunk[2][0]["native"] == "" and chunk[3] == chunks[0][3] for chunk in fragments)
    assert images == 200_003 and peak < 25_000
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start
    assert grown < 120_000, f"{grown} KiB more"


@pytest.mark.one_case("python-mysql", "native-mariadb")
def test_mysql_live_events_of_more_than_one_packet(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    database = source_database(mysql_family)
    database.execute("CREATE TABLE huge (id int PRIMARY KEY, doc longblob)")
    follower = follow(database)
    follower.begin()
    sizes = [16 * 1024 * 1024 - 200, (1 << 24) + 5, 40_000_000, 3]
    with setting(database, "max_allowed_packet", "134217728"):
        database.execute(*(f"INSERT INTO huge VALUES ({n}, repeat('z', {size}))" for n, size in enumerate(sizes)))
        follower.take(60)
    images = follower.images("huge")
    assert [len(image["doc"]) for image in images] == sizes
    assert all(set(image["doc"][-100:]) == {ord("z")} for image in images)
