"""Preflight of a PostgreSQL that is the source: each thing that is wrong, and that its hint mends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from customers import endpoint_of

from anabranch.abc import PreflightContext
from anabranch.connectors.postgresql import source
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.servers import Server


@pytest.fixture
def database(postgresql_source: Server, request: pytest.FixtureRequest) -> Iterator[Database]:
    made = create_database(postgresql_source, request.node.name[:40])
    yield made
    drop_database(made)


def run(endpoint: Endpoint, administrator: Endpoint) -> dict[str, list[CheckResult]]:
    """By check, without what is well. The administrator sees the definitions."""
    with closing(source(administrator).catalog()) as catalog:
        tables = catalog.tables(lambda table: True)
    with closing(source(endpoint).checks()) as checks:
        found = checks.run(PreflightContext("job", {"capture.decoder": "pgoutput"}, tables, {}))
    bad: dict[str, list[CheckResult]] = {}
    for result in found:
        if result.verdict == "failed":
            bad.setdefault(result.check.removeprefix("source."), []).append(result)
    return bad


def test_postgresql_source_preflight_refuses_and_its_hints_mend(database: Database) -> None:
    database.execute(
        "CREATE TABLE item (id int PRIMARY KEY, code int NOT NULL UNIQUE)",
        "CREATE UNLOGGED TABLE quick (id int PRIMARY KEY)",
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE UNLOGGED TABLE parted_1 PARTITION OF parted FOR VALUES FROM (1) TO (9)",
        "CREATE TABLE nothing (id int PRIMARY KEY)",
        "ALTER TABLE nothing REPLICA IDENTITY NOTHING",
        "CREATE TABLE coded (id int PRIMARY KEY, code int NOT NULL)",
        "CREATE UNIQUE INDEX by_code ON coded (code)",
        "ALTER TABLE coded REPLICA IDENTITY USING INDEX by_code",
    )
    role = f"{database.name}_reader"
    database.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'p'")
    whole = endpoint_of(database)
    reader = replace(whole, user=role, password="p")
    try:
        bad = run(reader, whole)
        assert set(bad) == {"replication", "select", "unlogged", "replica_identity"}
        assert len(bad["unlogged"]) == 2
        assert {one.table for one in bad["replica_identity"]} == {"public.nothing", "public.coded"}
        assert "by code, not by the primary key" in " · ".join(one.message for one in bad["replica_identity"])
        for results in bad.values():
            for result in results:
                database.execute(result.hint.partition(", or ")[0].partition(", and ")[0])
        assert run(reader, whole) == {}
    finally:
        database.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_postgresql_source_preflight_without_logical_decoding(postgresql: Server) -> None:
    made = create_database(postgresql, "preflight")
    try:
        endpoint = endpoint_of(made)
        (result,) = run(endpoint, endpoint)["wal_level"]
        assert "wal_level = replica" in result.message and "ALTER SYSTEM SET wal_level = logical" in result.hint
    finally:
        drop_database(made)
