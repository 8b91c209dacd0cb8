"""MariaDB: dates and times in the formats of before MySQL 5.6, which tables keep through every upgrade."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from anabranch.contracts import ValueRules
from anabranch.testing.databases import Database, connect
from anabranch.testing.servers import Server

KINDS = {
    "datetime": ("'2024-02-29 12:34:56.789012'", "'9999-12-31 23:59:59.999999'", "'0001-01-01 00:00:00'", "NULL"),
    "time": ("'-838:59:59.999999'", "'838:59:59.999999'", "'00:00:00.000001'", "'-00:00:00.1'"),
    "timestamp": ("'2024-02-29 12:34:56.789012'", "'2038-01-19 03:14:07.999999'", "'1970-01-01 00:00:01'", "NULL"),
}


@pytest.fixture
def old_formats(mariadb: Server) -> Iterator[Server]:
    """https://mariadb.com/kb/en/server-system-variables/#mysql56_temporal_format"""
    with closing(connect(mariadb)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SET GLOBAL mysql56_temporal_format = OFF")
        try:
            yield mariadb
        finally:
            cursor.execute("SET GLOBAL mysql56_temporal_format = ON")


def test_mariadb_live_clocks_of_before_mysql_56(
    old_formats: Server, source_database: Callable[[Server], Database], follow: Callable
) -> None:
    database = source_database(old_formats)
    columns = {f"{kind}{n}": (f"{kind}({n}) NULL", values) for kind, values in KINDS.items() for n in range(7)}
    made = ", ".join(f"{name} {type}" for name, (type, _) in columns.items())
    database.execute(f"CREATE TABLE wide (id int PRIMARY KEY, {made})")
    follower = follow(database, ValueRules(zero_date="null"))
    follower.begin()
    rows = [", ".join(values[row] for _, values in columns.values()) for row in range(4)]
    follower.run(
        "SET time_zone = '+00:00', sql_mode = ''",
        *(f"INSERT INTO wide VALUES ({place}, {row})" for place, row in enumerate(rows)),
        f"INSERT INTO wide VALUES (9, {', '.join(['0'] * len(columns))})",
        "UPDATE wide SET datetime6 = '1969-12-31 23:59:59.5', time1 = NULL WHERE id = 1",
    )
    assert not [barrier for chunk in follower.chunks() for barrier in chunk.barriers]
    assert follower.told("wide") == follower.read("wide")
    assert b"2024-02-29 12:34:56.789010" in b"".join(follower.told("wide"))
