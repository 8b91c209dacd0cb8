"""What pgoutput of a real PostgreSQL sends, by a slot that is read over SQL: every kind of message, rows of every shape."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from anabranch.connectors.postgresql.source.pgoutput import (
    ROWS,
    STREAMED_ROW_HEAD,
    Begin,
    BeginPrepare,
    Commit,
    CommitPrepared,
    Item,
    Origin,
    Prepare,
    Relation,
    RollbackPrepared,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    Truncate,
    TypeName,
    Written,
)
from anabranch.rows.chunk import Op
from anabranch.testing.databases import connect
from rigs.postgresql_sessions import drop_origins, session_from

INSERT, DELETE, BEFORE, AFTER = Op.INSERT, Op.DELETE, Op.BEFORE, Op.AFTER


def kinds(found: Iterator[tuple[Item, int]]) -> list[type]:
    return [type(item) for item, _ in found if not isinstance(item, (Relation, TypeName))]


def test_rows_of_every_identity(slot: Any) -> None:
    made = slot()
    made.database.execute(
        "CREATE TABLE keyed (id int PRIMARY KEY, v text, large text)",
        "CREATE TABLE whole (id int, v text, large text)",
        "CREATE TABLE indexed (a int NOT NULL UNIQUE, b text)",
        "ALTER TABLE keyed ALTER large SET STORAGE EXTERNAL",
        "ALTER TABLE whole ALTER large SET STORAGE EXTERNAL, REPLICA IDENTITY FULL",
        "ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_a_key",
    )
    large = "x" * 10_000
    made.database.execute(
        *(f"INSERT INTO {name} VALUES (1, NULL, '{large}')" for name in ("keyed", "whole")),
        *(f"UPDATE {name} SET v = 'ü'" for name in ("keyed", "whole")),
        *(f"UPDATE {name} SET id = 2" for name in ("keyed", "whole")),
        *(f"DELETE FROM {name}" for name in ("keyed", "whole")),
        "INSERT INTO indexed VALUES (1, 'b')",
        "UPDATE indexed SET a = 2",
    )
    messages = made.take()
    assert kinds(made.items(messages)) == [Begin, Commit] * 10
    assert [relation.identity for relation in made.relations.values()] == ["default", "full", "index"]
    assert made.rows(messages, "keyed") == [
        (INSERT, ("1", None, large)),
        (BEFORE, ("1", "-", "-")),
        (AFTER, ("1", "ü", "u")),
        (BEFORE, ("1", "-", "-")),
        (AFTER, ("2", "ü", "u")),
        (DELETE, ("2", "-", "-")),
    ]
    assert made.rows(messages, "whole") == [
        (INSERT, ("1", None, large)),
        (BEFORE, ("1", None, large)),
        (AFTER, ("1", "ü", large)),
        (BEFORE, ("1", "ü", large)),
        (AFTER, ("2", "ü", large)),
        (DELETE, ("2", "ü", large)),
    ]
    assert made.rows(messages, "indexed")[1:] == [(BEFORE, ("1", "-")), (AFTER, ("2", "b"))]


def test_transactions_truncates_messages_and_origins(slot: Any) -> None:
    made = slot()
    made.database.execute(
        "CREATE TYPE mood AS ENUM ('ok')", "CREATE TABLE parent (id int PRIMARY KEY, m mood)",
        "CREATE TABLE child (p int REFERENCES parent)",
    )  # fmt: skip
    elsewhere = f"{made.database.name} elsewhere"
    with session_from(made.database, elsewhere) as connection:
        connection.execute("SELECT pg_replication_origin_xact_setup('0/1234', '2024-05-06 07:08:09.123456+00')")
        connection.execute("INSERT INTO parent VALUES (1, 'ok')")
        connection.execute("SELECT pg_logical_emit_message(true, 'ours', 'within')")
        connection.execute("TRUNCATE parent RESTART IDENTITY CASCADE")
        connection.commit()
    made.database.execute("SELECT pg_logical_emit_message(false, 'ours', 'alone')")
    drop_origins(made.database, elsewhere)
    messages = made.take()
    found = [item for item, _ in made.items(messages)]
    begin, commit = found[0], next(item for item in found if isinstance(item, Commit))
    assert isinstance(begin, Begin) and begin.lsn == commit.lsn < commit.end
    assert begin.time == commit.time == 1_714_979_289_123_456
    assert found[1] == Origin(0x1234, elsewhere)
    assert {(one.schema, one.name) for one in found if isinstance(one, TypeName)} == {("public", "mood")}
    oids = {relation.name: oid for oid, relation in made.relations.items()}
    (truncate,) = (one for one in found if isinstance(one, Truncate))
    assert truncate == Truncate((oids["parent"], oids["child"]), cascade=True, restart_identity=True)
    written = [(one.prefix, one.content, one.transactional) for one in found if isinstance(one, Written)]
    assert written == [("ours", b"within", True), ("ours", b"alone", False)]


def test_a_transaction_in_pieces_and_what_of_it_is_taken_back(slot: Any) -> None:
    made = slot(proto_version="2", streaming="on")
    made.database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    with closing(connect(made.database.server, made.database.name)) as connection, connection.transaction():
        connection.execute("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 2000) n")
        connection.execute("SAVEPOINT one")
        connection.execute("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(2001, 4000) n")
        connection.execute("ROLLBACK TO one")
        connection.execute("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(4001, 6000) n")
    messages = made.take()
    items = list(made.items(messages))
    assert {StreamStart, StreamStop, StreamCommit} <= set(kinds(iter(items)))
    starts = [item for item, _ in items if isinstance(item, StreamStart)]
    assert [one.is_first for one in starts] == [True, *[False] * (len(starts) - 1)] and len(
        {s.xid for s in starts}
    ) == 1
    gone = {item.subxid for item, _ in items if isinstance(item, StreamAbort)}
    assert starts[0].xid not in gone
    rows = [one for one in messages if one[0] in ROWS and int.from_bytes(one[1:5]) not in gone]
    ids = {int(row[0]) for _, row in made.rows(rows, "t", STREAMED_ROW_HEAD)}
    assert ids == {*range(1, 2001), *range(4001, 6001)}


def test_two_phases(slot: Any) -> None:
    made = slot(proto_version="3", two_phase=True)
    made.database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    for number, decision in enumerate(("COMMIT", "ROLLBACK")):
        made.database.execute(f"BEGIN; INSERT INTO t VALUES ({number}); PREPARE TRANSACTION 'g{number}'")
        assert made.take() != []
        made.database.execute(f"{decision} PREPARED 'g{number}'")
    made.database.execute("BEGIN; INSERT INTO t VALUES (9); PREPARE TRANSACTION 'g9'")
    undone, begun, prepared = (item for item, _ in made.items(made.take()) if not isinstance(item, Relation))
    made.database.execute("COMMIT PREPARED 'g9'")
    (done,) = (item for item, _ in made.items(made.take()))
    assert isinstance(begun, BeginPrepare) and isinstance(prepared, Prepare) and isinstance(done, CommitPrepared)
    assert prepared.gid == begun.gid == done.gid == "g9" and begun.end == prepared.end <= done.lsn < done.end
    assert isinstance(undone, RollbackPrepared) and undone.gid == "g1"
