"""A target that is the server which the job reads, at a real MySQL and MariaDB: seen by a lock before the job begins, by the
identity that it has noted afterwards; and who writes to a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from anabranch.connectors.mysql.connection import connect as plain
from anabranch.connectors.mysql.identity import is_certain
from anabranch.connectors.mysql.registered import writers
from anabranch.connectors.mysql.source import connector as source
from anabranch.connectors.mysql.target.own_source import (
    OwnSource,
    followed,
    own_identity,
    read_by_the_job,
    reads_here,
    sees,
)
from anabranch.connectors.mysql.target.session import Connection, connect, run
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.errors import TargetError
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.model.writers import SourceWriter
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.mysql_epoch import state_at


@pytest.fixture
def end(mysql_family: Server, source_database: Callable[[Server], Database]) -> Endpoint:
    return endpoint_of(source_database(mysql_family))


@pytest.fixture
def session(end: Endpoint) -> Iterator[Connection]:
    with closing(connect(end, "anabranch-test", autocommit=True)) as made:
        yield made


def test_a_target_sees_whether_it_is_the_source(
    end: Endpoint, session: Connection, mysql: Server, mariadb: Server, mysql_family: Server
) -> None:
    other = mariadb if mysql_family is mysql else mysql
    elsewhere = Endpoint(other.name, other.host, other.port, other.user, other.password, "")
    """A lock is gone a moment after the connection that held it: the server has to notice its end."""
    with source(end).witness() as key:
        assert sees(session, key) and not sees(session, "") and not sees(session, str(int(key) + 1))
        with closing(connect(elsewhere, "anabranch-test")) as there:
            assert not sees(there, key)
    until(lambda: not sees(session, key), "the lock of who is gone is still there")


def noted(store: MysqlStore, job: str, identity: str, *pairs: tuple[TableId, TableId]) -> None:
    """The job has begun: it notes its source, and its tables."""
    store.jobs.save_job(job, {"uuid": job, "source_identity": identity, "definition": "{}"})
    for read, written in pairs:
        store.states.save_table(job, TableState(read, written, "pending"), None)


def test_a_job_that_has_begun_writes_to_no_table_that_it_reads(end: Endpoint, session: Connection) -> None:
    job, mine = end.database, own_identity(session)
    orders, copy = TableId(job, "orders"), TableId(job, "copy")
    assert is_certain(mine) and not is_certain("mariadb-1") and not is_certain("")
    with state_at(end, job) as store:
        noted(store, job, mine, (orders, copy))
        OwnSource().refuse(session, job)
        OwnSource().refuse(session, job, [copy])
        assert followed(session, job) == {orders}
        with pytest.raises(TargetError, match=r"same server, and .*orders is a table that the job reads"):
            OwnSource().refuse(session, job, [orders])
        noted(store, job, mine, (copy, orders))
        with pytest.raises(TargetError, match="is a table that the job reads"):
            OwnSource().refuse(session, job)
        with pytest.raises(TargetError, match="in which jobs keep their state"):
            OwnSource().refuse(session, job, [TableId("anabranch", "job")])
        for identity in ("", "another", "mariadb-1"):
            noted(store, job, identity)
            OwnSource().refuse(session, job, [orders])
            assert followed(session, job) == set()
    assert read_by_the_job(session, [orders], [copy]) == {}


def test_who_writes_to_a_source_is_known_with_what_it_reads(end: Endpoint, session: Connection) -> None:
    """By the state that jobs keep there: also which server each of them reads."""
    job, mine = end.database, own_identity(session)
    read, written = TableId(job, "a"), TableId(job, "b")
    with state_at(end, job) as store, closing(plain(end)) as at_source, closing(source(end).catalog()) as catalog:
        noted(store, job, mine, (read, written))
        found = [one for one in writers(at_source) if one.key == job]
        assert found == [SourceWriter(f"the job {job}", job, ((read, written),), source=mine)]
        assert found == [one for one in catalog.writers() if one.key == job]
        assert reads_here(session, found[0]) and not reads_here(session, SourceWriter("the job x", "x", ()))
    assert [one for one in writers(session) if one.key == job] == []


def test_a_user_who_may_not_read_the_state_of_jobs_does_not_see_all_who_write(
    end: Endpoint, session: Connection
) -> None:
    """Whether there is any state or none: a server tells that only to who might read it."""
    user = f"{end.database[:24]}_blind"
    blind = replace(end, user=user, password="blind")
    run(session, f"CREATE USER {user}@'%' IDENTIFIED BY 'blind'")
    run(session, f"GRANT SELECT ON {end.database}.* TO {user}@'%'")
    try:
        assert _sees(end) and not _sees(blind)
        with state_at(end, end.database):
            assert _sees(end) and not _sees(blind)
            run(session, f"GRANT SELECT ON anabranch.job TO {user}@'%'")
            assert not _sees(blind), "its tables are not told"
            run(session, f"GRANT SELECT ON anabranch.table_state TO {user}@'%'")
            assert _sees(blind)
    finally:
        run(session, f"DROP USER {user}@'%'")


def _sees(end: Endpoint) -> bool:
    with closing(source(end).catalog()) as catalog:
        return catalog.sees_writers()
