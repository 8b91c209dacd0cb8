"""The log runs ahead of the engine (K2): a commit that semi-synchronous replication holds up between the two."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.capture import older
from anabranch.capture.begin import begin
from anabranch.capture.older import OlderPatience
from anabranch.contracts import Bounds, LogOptions, ValueRules
from anabranch.errors import SourceError
from anabranch.model.endpoint import Endpoint
from anabranch.model.position import LogMark
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.trail.writer import TrailWriter

# What switches it on, for whoever waits for a replica that is not there; and off, which lets them go.
# https://dev.mysql.com/doc/refman/8.0/en/replication-semisync-installation.html
# https://mariadb.com/kb/en/semisynchronous-replication/
HOLD = {
    "mysql": (
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
        "SET GLOBAL rpl_semi_sync_source_timeout = 600000, GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
        "SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC, GLOBAL rpl_semi_sync_source_enabled = ON",
    ),
    "mariadb": (
        "SET GLOBAL rpl_semi_sync_master_timeout = 600000, GLOBAL rpl_semi_sync_master_wait_no_slave = ON",
        "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC, GLOBAL rpl_semi_sync_master_enabled = ON",
    ),
}
RELEASE = {
    "mysql": ("SET GLOBAL rpl_semi_sync_source_enabled = OFF", "UNINSTALL PLUGIN rpl_semi_sync_source"),
    "mariadb": ("SET GLOBAL rpl_semi_sync_master_enabled = OFF",),
}


@contextmanager
def held_up(database: Database, statement: str) -> Iterator[Callable[[], None]]:
    """`statement` is in the log, and its commit waits until the function is called."""
    name, source = database.server.name, connectors.source(endpoint_of(database))
    with closing(source.catalog()) as catalog:
        before = catalog.mark().native
        database.execute(*HOLD[name])
        session = threading.Thread(target=database.execute, args=(statement,))

        def release() -> None:
            for one in RELEASE[name]:
                database.execute(one)
            session.join()

        session.start()
        try:
            while catalog.mark().native == before:
                time.sleep(0.02)
            yield release
        finally:
            if session.is_alive():
                release()


def endpoint_of(database: Database) -> Endpoint:
    server = database.server
    return Endpoint(server.name, server.host, server.port, server.user, server.password, "", ())


def test_rule_02_a_trail_begins_when_what_is_logged_before_it_is_visible(
    mysql_family: Server, source_database: Callable, follow: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that is taken later has it: neither the stream nor a load would, else."""
    monkeypatch.setattr(older, "ASK_SECONDS", 0.05)
    database = source_database(mysql_family)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source, told = connectors.source(endpoint_of(database)), []
    with held_up(database, "INSERT INTO t VALUES (2)") as release:
        with pytest.raises(SourceError, match="logged before the place") as refused:
            begun(database, tmp_path / "hangs", OlderPatience(0.3, tell=told.append))
        assert "semi-synchronous" in refused.value.hint and len(told) == 1
        assert begun(database, tmp_path / "stopped", OlderPatience(9, stop=lambda: True)) == ""
        releasing = threading.Thread(target=release)

        def let_go(why: str) -> None:
            told.append(why)
            releasing.start()

        start = begun(database, tmp_path / "waits", OlderPatience(240, tell=let_go))
        releasing.join()
    assert len(told) == 2
    with closing(source.snapshot()) as snapshot:
        table = follow(database).definitions().popitem()[1]
        low, _ = snapshot.open(table, "none")
        assert b"".join(snapshot.lines(table, ["id"], Bounds(), ValueRules())) == b"1\n2\n"
    database.execute("INSERT INTO t VALUES (3)")
    follower = follow(database)
    follower.begin(LogMark("", start))
    follower.take()
    (third,) = [t for chunk in follower.chunks() for t in chunk.transactions.to_pylist()]
    assert [image["id"] for image in follower.images("t")] == [3]
    assert not source.order.includes(low, third["native"], third["gtid"])


def begun(database: Database, directory: Path, patience: OlderPatience) -> str:
    """Where a new trail begins; "" where it does not."""
    source = connectors.source(endpoint_of(database))
    reader = source.log(LogOptions(77400, 1.0))
    identity = reader.identity()
    try:
        with TrailWriter.open(directory, job="j", job_uuid="u", source_identity=identity, pack=False) as trail:
            begin(source, reader, trail, lambda table: table.schema == database.name, patience)
            return trail.end.resume
    finally:
        reader.close()
