"""A load meets rows of a real PostgreSQL that name large objects: none arrives without its object, unless the job says so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.connectors.postgresql.source.snapshot import PostgresSnapshot
from anabranch.connectors.postgresql.target import connector as target
from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import SourceError
from anabranch.load.copy import ChunkWork
from anabranch.load.plan import LoadPiece, LoadTable
from anabranch.model.schema import TableSchema
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import JOB, RULES, mapped

MADE = (
    "CREATE DOMAIN lo AS oid",
    "CREATE DOMAIN picture AS lo",
    "CREATE TABLE plain (id int PRIMARY KEY, v oid)",
    "CREATE TABLE wrapped (id int PRIMARY KEY, v lo)",
    "CREATE TABLE nested (id int PRIMARY KEY, v picture)",
    "CREATE TABLE many (id int PRIMARY KEY, v oid[])",
    "CREATE TABLE keyless (id int, v oid)",
    "CREATE TABLE odd (id int PRIMARY KEY, v oid, lomowner oid, m oid)",
)
Make = Callable[[Server], Database]
WHOLE = Bounds()
NUMBERS = PostgresSourceOptions(large_objects="numbers")


def read(database: Database) -> dict[str, TableSchema]:
    with closing(source(endpoint_of(database)).catalog()) as catalog:
        return {table.name: schema for table, schema in catalog.tables(lambda table: table.schema == "public").items()}


def refusal(snapshot: PostgresSnapshot, schema: TableSchema, bounds: Bounds = WHOLE, columns: str = "id v") -> str:
    snapshot.open(schema, "none")
    try:
        snapshot.refuse_loose_ends(schema, columns.split(), bounds, ValueRules())
    except SourceError as error:
        assert "columns.drop" in str(error.hint) and error.table == str(schema.id)
        return error.message
    return ""


def test_a_row_that_names_a_large_object_is_refused_by_its_key(
    postgresql_source: Server, source_database: Make
) -> None:
    database = source_database(postgresql_source)
    database.execute(*MADE)
    tables = read(database)
    for name in tables:
        value = "ARRAY[0, 4294967295]::oid[]" if name == "many" else "4294967295"
        database.execute(f"INSERT INTO {name} (id, v) SELECT g, {value} FROM generate_series(1, 20) g")
    with closing(PostgresSnapshot(endpoint_of(database))) as snapshot:
        assert {name: refusal(snapshot, schema) for name, schema in tables.items()} == dict.fromkeys(tables, "")
        snapshot.open(tables["plain"], "none")
        for name in tables:
            new = "v || lo_create(0)" if name == "many" else "lo_create(0)"
            database.execute(f"UPDATE {name} SET v = {new} WHERE id = 17")
        snapshot.refuse_loose_ends(tables["plain"], ["id", "v"], Bounds(), ValueRules())  # it is of before
        for name, schema in tables.items():
            row = "a row without a key" if name == "keyless" else "id=17"
            found = refusal(snapshot, schema)
            assert found.startswith("column v (") and f"the row with {row} names a large object" in found, (name, found)
            if schema.primary_key:
                assert [refusal(snapshot, schema, one) for one in (Bounds(None, ("16",)), Bounds(("17",), None))] == [
                    "",
                    "",
                ]
            assert refusal(snapshot, schema, columns="id") == ""
    with closing(PostgresSnapshot(endpoint_of(database), options=NUMBERS)) as snapshot:
        assert {name: refusal(snapshot, schema) for name, schema in tables.items()} == dict.fromkeys(tables, "")


@pytest.mark.parametrize("form", ["lines", "unread"])
def test_a_chunk_with_such_a_row_is_not_loaded(
    logical_postgresql: Server, source_database: Make, target_database: Database, form: str
) -> None:
    database = source_database(logical_postgresql)
    database.execute("CREATE TABLE plain (id int PRIMARY KEY, v oid)", "INSERT INTO plain VALUES (1, lo_create(0))")
    schema = read(database)["plain"]
    table = replace(mapped(schema), source_columns=("id", "v"))
    to = target(endpoint_of(target_database))
    with closing(to.store()) as store, closing(to.loader(RULES)) as loader:
        store.prepare()
        loader.create_table(schema, table, RULES, False)
        loader.begin_generation(JOB, table, 1, [Bounds()], False)
        forms = {table.source: loader.raw_forms([table])[table.source]} if form == "unread" else {}
    piece = LoadPiece(LoadTable(schema, table), 0, Bounds())
    work = ChunkWork(JOB, source(endpoint_of(database)), to, RULES, forms=forms)
    with work.read(piece) as (header, blocks), pytest.raises(SourceError, match="names a large object"):
        work.finish(piece, header, blocks)
    assert target_database.query("SELECT count(*) FROM dest.plain") == [(0,)]
    with ChunkWork(JOB, source(endpoint_of(database), NUMBERS), to, RULES).read(piece) as (header, blocks):
        assert work.finish(piece, header, blocks) == (1,)
    shown = database.query("SELECT id, v::text FROM plain")
    assert target_database.query("SELECT id, v::text FROM dest.plain") == shown and shown[0][0] == 1


def test_tables_without_such_columns_are_asked_nothing(logical_postgresql: Server, source_database: Make) -> None:
    database = source_database(logical_postgresql)
    database.execute("CREATE TABLE usual (id int PRIMARY KEY, a text, b numeric, c regclass, d timestamptz[])")
    with closing(PostgresSnapshot(endpoint_of(database))) as snapshot:
        snapshot.refuse_loose_ends(read(database)["usual"], ["id", "a", "b", "c", "d"], Bounds(), ValueRules())
        assert snapshot._connection is None
