"""Preflight of a PostgreSQL that is the source: each thing that is wrong, and that its hint mends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from anabranch import Job
from anabranch.connectors.postgresql.connection import connect
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source import large_objects as checks_of_objects
from anabranch.connectors.postgresql.source import preflight_server as source_server
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target import preflight_server
from anabranch.contracts import LogOptions, PreflightContext
from anabranch.errors import SourceError, TargetError
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.preflight_postgresql import results_of


@pytest.fixture
def database(postgresql_source: Server, request: pytest.FixtureRequest) -> Iterator[Database]:
    made = create_database(postgresql_source, request.node.name[:40])
    yield made
    drop_database(made)


def run(endpoint: Endpoint, administrator: Endpoint) -> dict[str, list[CheckResult]]:
    """By check, without what is well."""
    bad: dict[str, list[CheckResult]] = {}
    for result in results_of(endpoint, administrator):
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
        with closing(source(whole, PostgresSourceOptions(large_objects=choice)).checks()) as checks:
            found = checks.run(PreflightContext("job", {}, tables, {}, dropped or {}))
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
    monkeypatch.setattr(checks_of_objects, "SAMPLED_ROWS", 0)
    assert large_objects() == expected, "by all rows: a rare one is in no sample"
    monkeypatch.setattr(checks_of_objects, "WHOLE_MS", 1)
    database.execute("UPDATE many SET raster = 1", "INSERT INTO many SELECT g, 1 FROM generate_series(20001, 300000) g")
    assert large_objects() == expected | {"many raster": "warning"}, "all rows take longer than that"
    assert large_objects("numbers") == dict.fromkeys(expected, "ok")
    left = {TableId("public", "image"): ("raster", "other"), TableId("public", "many"): ("raster",)}
    assert large_objects(dropped=left) == {k: v for k, v in expected.items() if k.split()[0] not in ("image", "many")}


def test_postgresql_source_preflight_without_the_right_to_a_schema(database: Database) -> None:
    """To ask by a name in a schema that is closed is an error at the server: nothing of preflight or setup may do that."""
    database.execute(
        "CREATE SCHEMA vault",
        "CREATE TABLE vault.hidden (id int PRIMARY KEY, raster oid)",
        "CREATE TABLE vault.coded (id int, code int)",
        "CREATE TABLE vault.parted (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE open (id int PRIMARY KEY, raster oid)",
    )
    role, whole = f"{database.name}_reader", endpoint_of(database)
    database.execute(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD 'p'", f"GRANT SELECT ON vault.coded TO {role}")
    reader = replace(whole, user=role, password="p")
    try:
        for decoder in ("pgoutput", "wal2json", "decoderbufs"):
            found = {one.check: one for one in results_of(reader, whole, decoder=decoder)}
            assert found["source.schemas"].hint == f'GRANT USAGE ON SCHEMA "vault" TO "{role}"'
            assert "public.open, vault.hidden" in found["source.select"].message
            assert found["source.replica_identity"].table == "vault.coded", (
                "what the catalogue says is checked all the same"
            )
        with closing(source(whole).catalog()) as catalog:
            tables = catalog.tables(lambda table: True)
        steps = [step.sql for step in source(reader).steps(LogOptions(1, 1.0, name="anabranch_job"), tables, True)]
        assert steps[:2] == [found["source.schemas"].hint, found["source.select"].hint], steps
        database.execute(*steps[:2])
        bad = run(reader, whole)
        assert not {"schemas", "select"} & set(bad), bad
    finally:
        database.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_postgresql_source_preflight_of_a_table_that_is_gone(database: Database) -> None:
    """A job that has begun checks the tables that it knows."""
    database.execute("CREATE TABLE stays (id int PRIMARY KEY)", "CREATE TABLE goes (id int)")
    whole = endpoint_of(database)
    with closing(source(whole).catalog()) as catalog:
        tables = catalog.tables(lambda table: True)
    database.execute("DROP TABLE goes")
    with closing(source(whole).checks()) as checks:
        found = checks.run(PreflightContext("job", {}, tables, {}))
    assert "goes" not in " ".join(one.message + one.table for one in found)


def test_postgresql_source_preflight_without_the_right_to_connect(database: Database) -> None:
    role, whole = f"{database.name}_reader", endpoint_of(database)
    database.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'p'", f"REVOKE CONNECT ON DATABASE {database.name} FROM PUBLIC"
    )
    reader = replace(whole, user=role, password="p")
    try:
        for open_it in (open_session, partial(connect, application_name="test")):
            with pytest.raises((SourceError, TargetError)) as refused:
                open_it(reader)
            assert refused.value.hint == f'GRANT CONNECT ON DATABASE "{database.name}" TO "{role}"'
        database.execute(refused.value.hint)
        open_session(reader).close()
    finally:
        database.execute(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.since(12)  # older ones can be no target
def test_postgresql_preflight_warns_of_releases_that_no_test_has_seen(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At both ends: the tables of what was tested lose the release of this server."""
    whole = endpoint_of(database)

    def versions() -> list[CheckResult]:
        with closing(target(whole).checks()) as checks:
            there = checks.run(PreflightContext("job", {}, {}, {}))
        return [one for one in (*results_of(whole, whole), *there) if one.check.endswith(".version")]

    release = str(database.query("SHOW server_version")[0][0])
    assert versions()[0].verdict == "ok"
    monkeypatch.setattr(source_server, "TESTED", (10,))
    monkeypatch.setattr(preflight_server, "TESTED", (10,))
    for one, role in zip(versions(), ("a source", "a target"), strict=True):
        assert one.verdict == "warning" and release in one.message and f"tested as {role} (10)" in one.message
        assert "anabranch verify JOB" in one.hint


def test_preflight_of_a_job_whose_state_another_role_owns(
    database: Database, target_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a whole: what the job has begun cannot be read, and nothing is said but that; never the advice to empty tables."""
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    role = f"{target_database.name}_poor"
    database.execute("CREATE TABLE item (id int PRIMARY KEY)")
    store = target(endpoint_of(target_database)).store()
    store.prepare()
    store.close()
    target_database.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'p'",
        f"GRANT CREATE ON DATABASE {target_database.name} TO {role}",
        f"GRANT CREATE ON SCHEMA public TO {role}",
        "CREATE TABLE item (id int PRIMARY KEY)",
        "INSERT INTO item VALUES (1)",
        f"ALTER TABLE item OWNER TO {role}",
    )
    server = target_database.server
    file = tmp_path / "job.toml"
    file.write_text(
        f'name = "job"\n[source]\nurl = "{database.url}"\n[target]\n'
        f'url = "postgresql://{role}:p@{server.host}:{server.port}/{target_database.name}"\n'
        '[[rules]]\ninclude = ["public.*"]\ntarget = "public.{table}"\n'
    )
    try:
        failed = [one for one in Job.from_file(str(file)).preflight().results if one.verdict == "failed"]
        assert failed and {one.check for one in failed} == {"target.state"}, failed
        target_database.execute(*(one.hint for one in failed))
        after = Job.from_file(str(file)).preflight().results
        assert "target.existing" in {one.check for one in after if one.verdict == "failed"}, "now it is asked"
    finally:
        target_database.execute(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")
