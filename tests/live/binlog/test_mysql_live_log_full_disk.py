"""A disk that is full just where a chunk was appended: it is in the trail once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from anabranch import failpoints
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.mysql_capture import Captured


def test_torture_seed_291_what_was_appended_and_not_flushed_is_not_read_again(
    mariadb: Server, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    database = source_database(mariadb)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    captured = Captured(database, tmp_path / "trail")
    captured.run()
    database.execute("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    log = tmp_path / "log"
    # the first is where the trail is opened, the second where what was read is published
    failpoints.arm({failpoints.VARIABLE: "trail.publish=full:0.2@2", failpoints.LOG_VARIABLE: str(log)})
    try:
        captured.run()
    finally:
        failpoints.arm({})
    assert "trail.publish=full" in log.read_text() and any("disk full" in why for why in captured.waited)
    assert captured.transactions() == [[1], [2]]
