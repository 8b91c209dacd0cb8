"""Values that cannot be converted: every message names table, column, key of the row, and the key of the job file that decides,
in load and in stream, and shows no value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.decoders import DECODERS
from anabranch.connectors.postgresql.source.preflight_decoder import unconverted
from anabranch.contracts import Bounds, ValueRules
from anabranch.errors import AnabranchError, ValueRefused
from anabranch.model.ids import TableId
from anabranch.rows import compiled
from anabranch.rows.chunk import Chunk, Op
from anabranch.rows.refused import NO_TEXT
from anabranch.testing.databases import Database, drop_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_encodings import as_stored, database_in
from rigs.postgresql_log import LogFollower

RULES = ValueRules()
NOTE = TableId("public", "note")
SECRET = "confidential"


@pytest.fixture
def bytes_without_encoding(logical_postgresql: Server) -> Iterator[Database]:
    database = database_in(logical_postgresql, "SQL_ASCII")
    database.execute("CREATE TABLE note (place int, name varchar(9), body text, doc json, PRIMARY KEY (place, name))")
    yield database
    drop_database(database)


def assert_named(error: AnabranchError, table: object, column: str, key: str, setting: str) -> None:
    text = str(error)
    assert error.table == str(table), text
    assert f"column {column} " in text and f" with {key} holds" in text and setting in error.hint, text
    assert SECRET not in text and "Traceback" not in text and "\n" not in text


BAD_NOTES = {
    "body": (b"INSERT INTO note VALUES (7, 'k', 'confidential \xe9t\xe9')", "place=7, name=k"),
    "name": (b"INSERT INTO note VALUES (7, '\xe9t\xe9', 'confidential')", r"place=7, name=\xe9t\xe9"),
    "doc": (b"INSERT INTO note VALUES (7, 'k', '', '{\"a\": \"confidential \xff\"}')", "place=7, name=k"),
}


@pytest.mark.parametrize("column", BAD_NOTES)
@pytest.mark.parametrize("decoding", ["python", "native"])
def test_postgresql_text_without_an_encoding_is_refused_by_name(
    bytes_without_encoding: Database, column: str, decoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As lines, unread, cut into chunks, by key, and in the stream."""
    if decoding == "python":
        monkeypatch.setattr(compiled, "NATIVE", None)
    database, (statement, key) = bytes_without_encoding, BAD_NOTES[column]
    follower = LogFollower(database, "pgoutput")
    try:
        as_stored(database, "INSERT INTO note VALUES (1, 'ä', 'ö', '{}'), (2, 'b', NULL, NULL)".encode())
        assert sum(chunk.tables[0].batch.num_rows for chunk in follower.take() if isinstance(chunk, Chunk)) == 2
        as_stored(database, statement)
        with pytest.raises(ValueRefused) as log:
            follower.take()
        assert_named(log.value, NOTE, column, key, "[[tables]] columns.drop")
        assert log.value.position
    finally:
        follower.close()
    connector = source(endpoint_of(database))
    schema = follower.tables[NOTE]
    names = [one.name for one in schema.columns]
    readings = {
        "lines": lambda reader: list(reader.lines(schema, names, Bounds(), RULES)),
        "raw": lambda reader: list(reader.raw(schema, names, Bounds())),
        "in chunks": lambda reader: [
            b"".join(reader.lines(schema, names, bounds, RULES)) for bounds in reader.bounds(schema, 1)
        ],
    }
    for read in readings.values():
        with closing(connector.snapshot()) as reader:
            reader.open(schema, "none")
            with pytest.raises(ValueRefused) as load:
                read(reader)
        assert_named(load.value, NOTE, column, key, "[[tables]] columns.drop")


@pytest.mark.parametrize("decoding", ["python", "native"])
def test_rule_26_postgresql_text_without_an_encoding_is_left_out_and_marked(
    bytes_without_encoding: Database, decoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the job wants that: the rows around it come as they are."""
    if decoding == "python":
        monkeypatch.setattr(compiled, "NATIVE", None)
    database = bytes_without_encoding
    follower = LogFollower(database, "pgoutput", ValueRules(carries=True))
    try:
        statements = [statement for statement, _ in BAD_NOTES.values()]
        between = [f"INSERT INTO note VALUES ({number}, 'b', 'good')".encode() for number in (1, 2, 3)]
        change = b"UPDATE note SET body = '\xff' WHERE place = 1", b"DELETE FROM note WHERE place = 7"
        as_stored(database, between[0], statements[0], between[1], statements[1], between[2], *change)
        rows = [rows for chunk in follower.take() if isinstance(chunk, Chunk) for rows in chunk.tables]
    finally:
        follower.close()
    found = [
        (rows.batch["place"][one.row].as_py(), one.column, rows.batch["_op"][one.row].as_py(), one.what)
        for rows in rows
        for one in rows.unconverted
    ]
    assert found == [
        *((7, 2, Op.INSERT, NO_TEXT), (7, 1, Op.INSERT, NO_TEXT), (1, 2, Op.AFTER, NO_TEXT)),
        (7, 1, Op.DELETE, NO_TEXT),
    ]
    for one in rows:
        shapes = one.batch["_shape"].to_pylist()
        assert all(not one.shapes[shapes[mark.row]].present[mark.column] for mark in one.unconverted)
        bodies = one.batch["body"].to_pylist()
        assert [bodies[at] for at, place in enumerate(one.batch["place"].to_pylist()) if place in (2, 3)] in (
            ["good", "good"],
            ["good"],
            [],
        )


def test_postgresql_text_without_a_character_is_refused_by_name(logical_postgresql: Server) -> None:
    """WIN1252 has five bytes without one; the server ends the stream at them, and names no table."""
    database = database_in(logical_postgresql, "WIN1252")
    try:
        database.execute("CREATE TABLE note (id int PRIMARY KEY, body text)", "CREATE TABLE other (body text)")
        follower = LogFollower(database, "pgoutput")
        try:
            stored = [
                b"INSERT INTO note VALUES (1, '\xe9t\xe9 \x80')",
                b"INSERT INTO note VALUES (7, 'confidential \x81')",
            ]
            with closing(database.connect(client_encoding="WIN1252")) as connection:
                for statement in stored:
                    connection.execute(statement)
            with pytest.raises(ValueRefused) as log:
                follower.take()
            assert_named(log.value, NOTE, "body", "id=7", "anabranch drop JOB --execute")
            assert log.value.position and "WIN1252" in log.value.message
        finally:
            follower.close()
        with closing(source(endpoint_of(database)).snapshot()) as reader, pytest.raises(ValueRefused) as load:
            list(reader.lines(follower.tables[NOTE], ["id", "body"], Bounds(), RULES))
        assert_named(load.value, NOTE, "body", "id=7", "[[tables]] columns.drop")
    finally:
        drop_database(database)


def test_preflight_refuses_decoders_that_do_not_convert(logical_postgresql: Server) -> None:
    """By the server's own encoding; a plug-in need not be installed to be asked about."""
    for encoding, is_refused in (("WIN1252", True), ("SQL_ASCII", False), ("UTF8", False)):
        database = database_in(logical_postgresql, encoding)
        try:
            with closing(database.connect()) as connection:
                found = connection.info.parameter_status("server_encoding")
            for name, decoder in DECODERS.items():
                verdicts = [one.verdict for one in unconverted(found, decoder)]
                assert verdicts == ["failed"] * (is_refused and name != "pgoutput")
        finally:
            drop_database(database)
