"""Targets that are replicas of their source: a standby and a logical replica are refused by name, a copy of the source's files
that runs by itself is another server."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.target import connector as target
from anabranch.contracts import LogOptions, PreflightContext
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.writers import SourceWriter
from anabranch.rows.net import TargetTable
from anabranch.testing import packages
from anabranch.testing.databases import Database, create_database, unique_name
from anabranch.testing.recipes import give_away
from anabranch.testing.servers import Server, start_postgresql
from rigs.endpoints import endpoint_of
from rigs.postgresql_sessions import drop_slots

ORDERS = TableId("public", "orders")
INT = LogicalType(Kind.INT32)
TABLE = TargetTable(ORDERS, ORDERS, ("id",), (INT,), ("id",))
SCHEMA = TableSchema(ORDERS, (Column("id", INT, "int", nullable=False),), ("id",))
MADE = "CREATE TABLE orders (id int PRIMARY KEY)"


@pytest.fixture(scope="module")
def primary(servers_directory: Path) -> Iterator[Server]:
    server = start_postgresql(servers_directory / unique_name("replicas-primary"), options=("--wal-level=logical",))
    yield server
    server.stop(immediate=True)


def copied(primary: Server, directory: Path, *signal: str) -> Server:
    """A copy of its files, begun with the same password; with `standby.signal` one that follows."""
    directory.mkdir()
    shutil.copy(primary.datadir.parent / "server.json", directory)
    line = f"host={primary.host} port={primary.port} user={primary.user} password={primary.password}"
    program = packages.find_postgresql().program("pg_basebackup")
    subprocess.run([program, "-d", line, "-D", str(directory / "data"), "-c", "fast"], check=True, capture_output=True)
    for name in signal:
        (directory / "data" / name).touch()
    for path in (directory / "data", *(directory / "data").rglob("*")):
        give_away(path)
    return start_postgresql(directory, options=(f"--primary-conninfo={line}", "--wal-level=logical"))


def findings(from_: Database, to: Database, existing: str = "empty", **more: object) -> dict[str, str]:
    """What the target's checks refuse or warn of, seen together with the source."""
    with source(endpoint_of(from_)).witness() as key, closing(target(endpoint_of(to)).checks()) as checks:
        identity = source(endpoint_of(from_)).log(LogOptions(1, 1.0)).identity()
        context = PreflightContext(
            *("shop", {"load.existing": existing}, {ORDERS: SCHEMA}, {ORDERS: TABLE}),
            source_identity=identity,
            witness=key,
            **more,  # type: ignore[arg-type]  # fields of the context
        )
        return {r.check.removeprefix("target."): f"{r.verdict}: {r.message}" for r in checks.run(context)}


def test_postgresql_a_standby_is_refused_and_a_copy_that_runs_by_itself_is_not_the_source(
    primary: Server, servers_directory: Path
) -> None:
    database = create_database(primary)
    database.execute(MADE, "INSERT INTO orders VALUES (1), (2)")
    with copied(primary, servers_directory / unique_name("replicas-standby"), "standby.signal") as standby:
        found = findings(database, Database(standby, database.name))
        assert found["writable"] == "failed: the target is a standby of the source: nothing can be written to it"
        assert "own_source" not in found
    with copied(primary, servers_directory / unique_name("replicas-copy")) as copy:
        twin = Database(copy, database.name)
        query = "SELECT system_identifier, timeline_id FROM pg_control_system(), pg_control_checkpoint()"
        assert twin.query(query) == database.query(query)
        assert not {"own_source", "writable"} & findings(database, twin).keys()
        assert "own_source" in findings(database, database)
    assert database.query("SELECT count(*) FROM orders") == [(2,)]


def test_postgresql_a_logical_replica_is_refused_and_one_that_comes_back_is_a_loop(
    primary: Server, postgresql: Server
) -> None:
    there, here = create_database(primary), create_database(postgresql)
    for one in (there, here):
        one.execute(MADE)
    subscribe(there, here)
    try:
        assert findings(there, here)["subscription"] == (
            "failed: the subscription replica writes to public.orders, too: the target is a logical replica"
        )
        assert findings(there, here, existing="keep")["subscription"].startswith("warning: ")
        with closing(source(endpoint_of(here)).catalog()) as catalog:  # the job that would lead back
            writers = catalog.writers()
        assert writers == [SourceWriter("the subscription replica", there.name, ((ORDERS, ORDERS),))]
        assert findings(here, there, writers=tuple(writers))["loop"] == (
            "failed: the subscription replica brings back what is written here to public.orders, which this job reads"
        )
        here.execute("ALTER SUBSCRIPTION replica DISABLE")
        assert "subscription" not in findings(there, here)
    finally:
        here.execute("ALTER SUBSCRIPTION replica DISABLE", "ALTER SUBSCRIPTION replica SET (slot_name = NONE)")
        here.execute("DROP SUBSCRIPTION replica")
        drop_slots(there)


def subscribe(there: Database, here: Database) -> None:
    server = there.server
    line = f"host={server.host} port={server.port} user={server.user} password={server.password} dbname={there.name}"
    there.execute(
        "CREATE PUBLICATION all_of_it FOR ALL TABLES",
        f"SELECT pg_create_logical_replication_slot('{there.name}', 'pgoutput')",
    )
    here.execute(
        f"CREATE SUBSCRIPTION replica CONNECTION '{line}' PUBLICATION all_of_it"
        f" WITH (create_slot = false, slot_name = '{there.name}', copy_data = false)"
    )
