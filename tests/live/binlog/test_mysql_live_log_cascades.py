"""MySQL 9: its log has what foreign keys do, unless InnoDB is told to do it as before (K1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.rows.chunk import Op
from anabranch.testing.databases import create_database, unique_name
from anabranch.testing.servers import Server, start_mysql


@pytest.fixture(params=["OFF", "ON"])
def newest(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[tuple[Server, bool]]:
    """https://dev.mysql.com/doc/refman/9.7/en/replication-features-foreign-keys.html"""
    directory = servers_directory / unique_name(f"native-keys-{request.param}")
    options = [f"--innodb-native-foreign-keys={request.param}"]
    with start_mysql(directory, release="9", options=options) as server:
        yield server, request.param == "OFF"


@pytest.mark.servers
def test_rule_01_mysql_9_logs_what_foreign_keys_do(newest: tuple[Server, bool], follow: Callable) -> None:
    server, logs_it = newest
    database = create_database(server, "cascades")
    database.execute(
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO child VALUES (10, 1), (11, 1)",
    )
    follower = follow(database)
    follower.begin()
    follower.run("DELETE FROM parent")
    gone = [image["id"] for image in follower.images("child") if image["_op"] is Op.DELETE]
    assert gone == ([10, 11] if logs_it else [])
    with closing(connectors.source(follower.endpoint).catalog()) as catalog:
        assert catalog.logs_cascades() is logs_it
    follower.stop()
