"""Names and definitions in a database whose server does not look at their bytes, or that have no character in UTF-8: the
refusal says which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from anabranch.connectors.postgresql.source.catalog import PostgresCatalog
from anabranch.errors import ValueRefused
from anabranch.testing.databases import Database, drop_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_encodings import as_stored, database_in

STORED = {
    "the name of a schema sh\\xe9p holds": b'CREATE SCHEMA "sh\xe9p" CREATE TABLE one (id int)',
    "the name of a table t\\xe9 in schema public holds": b'CREATE TABLE "t\xe9" (id int PRIMARY KEY)',
    "the name of a column k\\xe9 of good holds": b'ALTER TABLE good ADD "k\xe9" int',
    "a label b\\xe9 of the type mood holds": b"ALTER TYPE mood ADD VALUE 'b\xe9'",
    "the default of good.v holds": b"ALTER TABLE good ALTER v SET DEFAULT 'caf\xe9'",
    "the constraint narrow of good holds": b"ALTER TABLE good ADD CONSTRAINT narrow CHECK (v <> 'caf\xe9')",
    "the index half of good holds": b"CREATE INDEX half ON good (id) WHERE v <> 'caf\xe9'",
}


@pytest.fixture
def without_encoding(logical_postgresql: Server) -> Iterator[Database]:
    database = database_in(logical_postgresql, "SQL_ASCII")
    database.execute("CREATE TYPE mood AS ENUM ('fine')", "CREATE TABLE good (id int PRIMARY KEY, v text, m mood)")
    yield database
    drop_database(database)


@pytest.mark.parametrize("said", STORED)
def test_a_name_or_definition_that_is_no_text_is_said(without_encoding: Database, said: str) -> None:
    as_stored(without_encoding, STORED[said])
    with closing(PostgresCatalog(endpoint_of(without_encoding))) as catalog:
        with pytest.raises(ValueRefused) as refused:
            catalog.tables(lambda _: True)
        message = refused.value.message.replace(" public.", " ")
        assert f": {said} bytes that are no text in UTF-8" in message and "caf" not in message, message
        assert "RENAME" in refused.value.hint and "SET DEFAULT" in refused.value.hint
        catalog.mark()  # the session goes on as before


def test_what_has_no_character_is_said_of_other_encodings(logical_postgresql: Server) -> None:
    database = database_in(logical_postgresql, "WIN1252")
    try:
        as_stored(database, b"CREATE TABLE good (id int PRIMARY KEY)", b"COMMENT ON TABLE good IS 'a\x81'")
        said = r"the comment of (public\.)?good holds bytes that have no character in WIN1252"
        with closing(PostgresCatalog(endpoint_of(database))) as catalog, pytest.raises(ValueRefused, match=said):
            catalog.tables(lambda _: True)
    finally:
        drop_database(database)
