"""Types and functions of a real PostgreSQL before and after they were altered: which tables have other values now than the log
has shown, and which have not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from anabranch.connectors.postgresql.changed_types import changed_types
from anabranch.connectors.postgresql.source import connector as source
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of

MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE DOMAIN small AS int CHECK (VALUE < 10)",
    "CREATE TYPE place AS (town text, felt mood)",
    "CREATE FUNCTION inner_one(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1'",
    "CREATE FUNCTION outer_one(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT public.inner_one($1)'",
    "CREATE FUNCTION usual() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE TABLE felt (id int PRIMARY KEY, v mood[])",
    "CREATE TABLE sized (id int PRIMARY KEY, v small)",
    "CREATE TABLE parts (id int PRIMARY KEY, v place)",
    "CREATE TABLE counted (id int PRIMARY KEY, v int GENERATED ALWAYS AS (outer_one(id)) STORED)",
    "CREATE TABLE plain (id int PRIMARY KEY, v int DEFAULT usual())",
)
# Statements -> what is said of tables that hold other values by now
CHANGES: dict[tuple[str, ...], dict[str, str]] = {
    ("ALTER TYPE mood ADD VALUE 'new' BEFORE 'ok'",): {},
    ("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'",): {
        "felt": "labels of the enum public.mood were renamed",
        "parts": "mood",
    },
    tuple(f"ALTER TYPE mood RENAME VALUE '{a}' TO '{b}'" for a, b in (("fine", "x"), ("sad", "fine"), ("x", "sad"))): {
        "felt": "labels of the enum public.mood were renamed",
        "parts": "labels of the enum public.mood were renamed",
    },
    ("ALTER DOMAIN small ADD CHECK (VALUE > -5)",): {"sized": "domain public.small was altered"},
    ("ALTER TYPE place ADD ATTRIBUTE more int",): {"parts": "composite public.place was altered"},
    ("CREATE OR REPLACE FUNCTION inner_one(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 2'",): {
        "counted": "the function public.inner_one(integer) was replaced"
    },
    ("CREATE OR REPLACE FUNCTION usual() RETURNS int LANGUAGE sql AS 'SELECT 2'",): {},
}


def read(database: Database) -> dict[TableId, TableSchema]:
    with closing(source(endpoint_of(database)).catalog()) as catalog:
        return dict(catalog.tables(lambda table: table.schema == "public"))


def of_before(table: TableSchema) -> TableSchema:
    """As an earlier release noted it."""
    return replace(table, type_states=())


@pytest.mark.since(12)
def test_what_changed_is_said_of_the_tables_that_have_it(
    postgresql_source: Server, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(postgresql_source)
    database.execute(*MADE)
    for statements, expected in CHANGES.items():
        then = read(database)
        database.execute(*statements)
        now = read(database)
        found = {table.name: why for table in then if (why := changed_types(then[table], now[table]))}
        assert found.keys() == expected.keys(), (statements, found)
        assert all(words in found[name] for name, words in expected.items()), found
        older = {table.name for table in then if changed_types(of_before(then[table]), now[table])}
        noticed = "mood" in statements[0] or "FUNCTION" in statements[0]
        assert older == (expected.keys() if noticed else set()), (statements, older)
