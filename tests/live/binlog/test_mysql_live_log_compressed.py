"""Logs whose content is compressed: read as if it were not, in memory that does not grow with what is inside."""

from __future__ import annotations

import resource
from collections.abc import Callable
from contextlib import closing

import pytest

from anabranch.connectors.mysql.source import endings
from anabranch.rows.chunk import Chunk, Part
from anabranch.rows.log_items import LogStatement
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server

pytestmark = pytest.mark.every_server("compressed transactions")
Make = Callable[[Server], Database]
SWITCH = {"mariadb": "SET GLOBAL log_bin_compress = {}", "mysql": "SET SESSION binlog_transaction_compression = {}"}
KINDS = {"mariadb": {165, 166, 167, 168}, "mysql": {40}}


def kinds_in_log(database: Database, file: str, offset: int) -> set[int]:
    """Types of the events from a place on, as the server names them."""
    names = {
        "Query_compressed": 165, "Write_rows_compressed_v1": 166, "Update_rows_compressed_v1": 167,
        "Delete_rows_compressed_v1": 168, "Transaction_payload": 40,
    }  # fmt: skip
    rows = database.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {offset}")
    return {names[row[2]] for row in rows if row[2] in names}


def test_pitfall_8_compressed_rows_and_transactions_are_read(
    mysql_family: Server, source_database: Make, follow: Callable
) -> None:
    """Inserts, updates and deletes of many forms, statements between them, a table that is not followed, in one log with
    plain ones; what comes of it is what a SELECT gives."""
    database, switch = source_database(mysql_family), SWITCH[mysql_family.name]
    for name in ("ours", "other"):
        database.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, doc mediumtext, n int, KEY (n))")
    follower = follow(database)
    follower.tables = {k: v for k, v in follower.definitions().items() if k.name == "ours"}
    start = database.query("SHOW BINARY LOGS")[-1]
    follower.begin()
    wide = ", ".join(f"({n}, repeat('x', {n * 7}), {n})" for n in range(100, 400))
    try:
        with closing(database.connect()) as connection, closing(connection.cursor()) as cursor:
            for statement in (
                "INSERT INTO ours VALUES (1, repeat('p', 500), 1)",
                switch.format("ON"),
                "INSERT INTO ours VALUES (2, repeat('q', 900), 2), (3, NULL, NULL)",
                "INSERT INTO other VALUES (1, repeat('x', 2000), 1)",
                f"INSERT INTO ours VALUES {wide}",
                f"ALTER TABLE ours COMMENT '{'long ' * 100}'",
                "UPDATE ours SET doc = repeat(doc, 2) WHERE n > 200",
                "UPDATE ours SET id = id + 1000 WHERE n < 150",
                "DELETE FROM ours WHERE n BETWEEN 300 AND 350",
                "BEGIN", "UPDATE ours SET n = 7", "INSERT INTO other VALUES (2, repeat('y', 3000), 1)",
                "INSERT INTO ours VALUES (5, repeat('z', 70000), 5)", "COMMIT",
                switch.format("OFF"),
                "INSERT INTO ours VALUES (4, repeat('s', 500), 4)",
            ):  # fmt: skip
                cursor.execute(statement)
    finally:
        if mysql_family.name == "mariadb":
            database.execute(switch.format("OFF"))
    follower.take()
    assert kinds_in_log(database, start[0], start[1]) == KINDS[mysql_family.name]
    told = follower.told("ours")
    assert told == follower.read("ours") and len(told) > 250 and follower.images("other") == []
    (statement,) = (item for item in follower.items if isinstance(item, LogStatement))
    assert statement.sql.startswith("ALTER TABLE ours") and statement.schema == database.name
    transactions = [t for chunk in follower.chunks() for t in chunk.transactions.to_pylist()]
    assert [t["rows"] for t in transactions][-2:] == [2 * (len(told) - 2) + 1, 1]
    assert transactions[-1]["native"] == follower.end.native
    places = [int(t["native"].rpartition(":")[2]) for t in transactions]
    assert places == sorted(set(places)) and all(t["gtid"] for t in transactions)
    for item in (*follower.chunks(), None):
        again = follow(database)
        again.tables = follower.tables
        again.begin(type(follower.end)("", item.resume) if item else follower.end)
        again.take()
        left = again.images("ours")
        assert left == follower.images("ours")[len(follower.images("ours")) - len(left) :]
        again.stop()


@pytest.mark.one_case("native-mysql", "python-mariadb")
def test_pitfall_14_a_large_compressed_transaction_comes_in_fragments_in_flat_memory(
    mysql_family: Server, source_database: Make, follow: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a chunk, more than a packet (MySQL's payload holds the whole transaction), one event larger than both."""
    monkeypatch.setattr(endings, "FULL_BYTES", 1 << 20)
    database, switch = source_database(mysql_family), SWITCH[mysql_family.name]
    database.execute("CREATE TABLE big (id int PRIMARY KEY, note longblob)")
    follower = follow(database)
    follower.begin()
    noisy = 17_000 if mysql_family.name == "mysql" else 2_000  # KiB that do not get smaller
    packet = database.query("SELECT @@GLOBAL.max_allowed_packet")[0][0]
    database.execute("SET GLOBAL max_allowed_packet = 134217728")
    recursion = "cte_max_recursion_depth" if mysql_family.name == "mysql" else "max_recursive_iterations"
    numbers = "WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {})"
    try:
        with closing(database.connect(autocommit=False)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"SET SESSION {recursion} = 1000000")
            cursor.execute(switch.format("ON"))
            cursor.execute("SET SESSION binlog_row_image = 'MINIMAL'")
            noise = "concat(" + ", ".join(f"unhex(sha2(concat(n, '{i}'), 512))" for i in range(16)) + ")"
            cursor.execute(f"INSERT INTO big {numbers.format(noisy)} SELECT n, {noise} FROM s")
            cursor.execute("INSERT INTO big VALUES (0, repeat('huge', 5000000))")
            cursor.execute(f"INSERT INTO big {numbers.format(8000)} SELECT n + 50000, repeat('x', 1000) FROM s")
            connection.commit()
    finally:
        database.execute(f"SET GLOBAL max_allowed_packet = {packet}")
        if mysql_family.name == "mariadb":
            database.execute(switch.format("OFF"))
    database.execute("INSERT INTO big VALUES (-1, 'end')")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    parts, count, largest = [], 0, 0
    end = follower.reader.end()
    while not parts or parts[-1] is not Part.WHOLE:
        item = follower.reader.read(0.5)
        if isinstance(item, Chunk):
            parts.append(item.part)
            count += item.row_count
            largest = max(largest, item.row_count)
            (rows,) = item.tables
            for id, note in zip(rows.batch["id"].to_pylist(), rows.batch["note"].to_pylist(), strict=True):
                assert len(note) == (20_000_000 if id == 0 else 3 if id < 0 else 1024 if id <= noisy else 1000)
    assert parts == [Part.FRAGMENT] * (len(parts) - 2) + [Part.LAST, Part.WHOLE] and len(parts) > 8
    assert count == noisy + 8_002 and item.transactions["native"][0].as_py() == end.native
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 160, f"{grown:.0f} MiB more"
