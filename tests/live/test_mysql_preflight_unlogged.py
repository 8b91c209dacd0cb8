"""MySQL and MariaDB: a server that leaves something out of its log, and what preflight says of it (K33)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server, start_mariadb, start_mysql

HINT = "take binlog_do_db and binlog_ignore_db out of the configuration and restart the server"
# start, the options that leave `unlogged` and the state of jobs out, and not `logged`, the setting of replicas, the statement
# that makes it one
KINDS = {
    "mariadb": (
        start_mariadb,
        ("--binlog-ignore-db=unlogged", "--binlog-ignore-db=anabranch"),
        "--log-slave-updates=OFF",
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = 9, MASTER_USER = 'nobody'",
    ),
    "mysql": (
        start_mysql,
        ("--binlog-do-db=logged",),
        "--log-replica-updates=OFF",
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = 9, SOURCE_USER = 'nobody'",
    ),
}


@pytest.fixture(scope="module", params=KINDS)
def leaving_out(request: pytest.FixtureRequest, servers_directory: Path) -> Iterator[Server]:
    start, filter_options, replica_option, _ = KINDS[request.param]
    directory = servers_directory / unique_name(f"leaving-out-{request.param}")
    with start(directory, options=[*filter_options, replica_option, "--replicate-ignore-db=anabranch"]) as server:
        for name in ("logged", "unlogged"):
            database = Database(server, "mysql")
            database.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id int PRIMARY KEY)")
        yield server


def checked(server: Server, check: str, *schemas: str, leave_out: frozenset[str] = frozenset()) -> CheckResult:
    source = connectors.source(Endpoint(server.name, server.host, server.port, server.user, server.password))
    with closing(source.catalog()) as catalog, closing(source.checks()) as checks:
        tables = catalog.tables(lambda table: table.schema in schemas)
        context = PreflightContext("job", {}, tables, {}, leave_out=leave_out)
        (result,) = (r for r in checks.run(context) if r.check == f"source.{check}")
    return result


def test_rule_33_databases_that_are_left_out_of_the_log(leaving_out: Server) -> None:
    refused = checked(leaving_out, "binlog_filters", "logged", "unlogged")
    assert (refused.verdict, refused.hint) == ("failed", HINT)
    assert refused.message == "changes of unlogged are left out of the log"
    warned = checked(leaving_out, "binlog_filters", "logged")
    assert warned.message == "changes of some databases are left out of the log, none of this job's"
    assert (warned.verdict, warned.hint) == ("warning", HINT)


def test_rule_21_the_state_of_jobs_is_left_out_of_the_log(leaving_out: Server) -> None:
    """Only a job that leaves another one out needs it."""
    refused = checked(leaving_out, "binlog_filters", "logged", leave_out=frozenset(("anabranch:back",)))
    assert (refused.verdict, refused.hint) == ("failed", HINT)
    assert refused.message.startswith("rows of the database anabranch are left out of the log")
    assert checked(leaving_out, "binlog_filters", "logged", leave_out=frozenset(("77",))).verdict == "warning"


def test_rule_33_a_replica_that_does_not_log_what_it_applies(leaving_out: Server) -> None:
    alone = checked(leaving_out, "log_slave_updates", "logged")
    assert (alone.verdict, alone.message) == ("ok", "the server is no replica")
    Database(leaving_out, "logged").execute(KINDS[leaving_out.name][3])
    replica = checked(leaving_out, "log_slave_updates", "logged")
    assert replica.verdict == "failed"
    assert replica.message == "this server is a replica that does not log what it applies"
    assert (
        replica.hint == "set log_slave_updates = ON in the configuration and restart, or use the replica's own source"
    )
    hides = checked(leaving_out, "replica_filters", "logged", leave_out=frozenset(("anabranch:back",)))
    assert hides.verdict == "warning"
    assert hides.message.startswith("this replica leaves out anabranch.checkpoint, anabranch.load_chunk: ")
