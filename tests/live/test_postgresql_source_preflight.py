"""Preflight of a PostgreSQL that is the source: each thing that is wrong, and that its hint mends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from customers import endpoint_of

from anabranch.abc import PreflightContext
from anabranch.connectors.postgresql import large_objects as checks_of_objects
from anabranch.connectors.postgresql import source
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
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


def test_postgresql_source_preflight_names_large_objects(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every type that a number may stand in; only where it names an object that is there, unless the user decides."""
    database.execute(
        "CREATE DOMAIN lo AS oid",
        "CREATE DOMAIN picture AS lo",
        "CREATE TYPE page AS (number int, scan oid)",
        "CREATE TABLE image (id int PRIMARY KEY, raster oid, other oid, kind regclass, v text)",
        "CREATE TABLE doc (id int PRIMARY KEY, body lo)",
        "CREATE TABLE album (id int PRIMARY KEY, pictures picture[], pages page[])",
        "CREATE TABLE heir () INHERITS (doc)",
        "CREATE TABLE many (id int PRIMARY KEY, raster oid)",
    )

    def large_objects(choice: str = "stop", dropped: dict[TableId, tuple[str, ...]] | None = None) -> dict[str, str]:
        whole = endpoint_of(database)
        with closing(source(whole).catalog()) as catalog:
            tables = catalog.tables(lambda table: table.name != "heir")
        choices = {"capture.decoder": "pgoutput", "types.large_objects": choice}
        with closing(source(whole).checks()) as checks:
            found = checks.run(PreflightContext("job", choices, tables, {}, dropped or {}))
        mine = [one for one in found if one.check == "source.large_objects"]
        assert all("columns.drop" in one.hint for one in mine if one.verdict != "ok")
        return {f"{one.table.partition('.')[2]} {one.message.split()[1]}": one.verdict for one in mine}

    assert large_objects() == {"doc body": "warning"}, "no object is there; this type is for nothing else"
    database.execute(
        "INSERT INTO image VALUES (1, lo_from_bytea(0, 'a'), 'image'::regclass, 'image', 'v'), (2, NULL, 0, NULL, NULL)",
        "INSERT INTO album VALUES (1, ARRAY[0, lo_from_bytea(0, 'b')]::picture[], NULL)",
        "INSERT INTO heir VALUES (1, lo_from_bytea(0, 'of the heir'))",
        "INSERT INTO many SELECT g, 1 FROM generate_series(1, 20000) g",
        "UPDATE many SET raster = (SELECT min(oid) FROM pg_largeobject_metadata) WHERE id % 2 = 0",
        "ANALYZE many",
    )
    expected = {
        "image raster": "failed", "image other": "warning", "doc body": "warning", "album pictures": "failed",
        "album pages": "warning", "many raster": "failed",
    }  # fmt: skip
    assert large_objects() == expected
    monkeypatch.setattr(checks_of_objects, "SAMPLED_FROM", 10_000)
    monkeypatch.setattr(checks_of_objects, "SAMPLED_ROWS", 10_000)
    assert large_objects() == expected, "by a sample"
    assert large_objects("numbers") == dict.fromkeys(expected, "ok")
    left = {TableId("public", "image"): ("raster", "other"), TableId("public", "many"): ("raster",)}
    assert large_objects(dropped=left) == {k: v for k, v in expected.items() if k.split()[0] not in ("image", "many")}
