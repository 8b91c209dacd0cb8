"""What pgoutput of a real PostgreSQL sends, by a slot that is read over SQL: every kind of message, rows of every shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.postgresql.pgoutput import (
    ROW_HEAD,
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
    parse,
)
from anabranch.connectors.postgresql.row_images import ABSENT, NULL, UNCHANGED, images
from anabranch.rows.chunk import Op
from anabranch.testing.databases import Database, connect, create_database, drop_database
from anabranch.testing.servers import Server, start_postgresql

OPTIONS = ("--wal-level=logical", "--logical-decoding-work-mem=64kB", "--max-prepared-transactions=10")
INSERT, DELETE, BEFORE, AFTER = Op.INSERT, Op.DELETE, Op.BEFORE, Op.AFTER


@pytest.fixture(scope="module")
def source(servers_directory: Path) -> Iterator[Server]:
    with start_postgresql(servers_directory / "pgoutput", options=OPTIONS) as server:
        yield server


@dataclass
class Slot:
    """A publication of everything, and a slot that begins where it was made."""

    database: Database
    options: dict[str, str]
    two_phase: bool = False
    relations: dict[int, Relation] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.database.execute(
            "CREATE PUBLICATION everything FOR ALL TABLES",
            f"SELECT pg_create_logical_replication_slot('{self.database.name}', 'pgoutput', false, {self.two_phase})",
        )

    def take(self) -> list[bytes]:
        asked = {"publication_names": "everything", "proto_version": "1", "messages": "true", **self.options}
        words = ", ".join(f"'{one}'" for pair in asked.items() for one in pair)
        query = f"SELECT data FROM pg_logical_slot_get_binary_changes('{self.database.name}', NULL, NULL, {words})"
        return [bytes(data) for (data,) in self.database.query(query)]

    def items(self, messages: Sequence[bytes]) -> Iterator[tuple[Item, int]]:
        """All but rows; relations are kept."""
        in_stream = False
        for message in messages:
            if message[0] in ROWS:
                continue
            item, xid = parse(message, in_stream)
            if isinstance(item, (StreamStart, StreamStop)):
                in_stream = isinstance(item, StreamStart)
            if isinstance(item, Relation):
                self.relations[item.oid] = item
            yield item, xid

    def rows(self, messages: Sequence[bytes], table: str, head: int = ROW_HEAD) -> list[tuple[Op, tuple[Any, ...]]]:
        """The images of one table: text of each value, "u" for one that was left as it was, "-" for one that is not there."""
        oid = next(oid for oid, relation in self.relations.items() if relation.name == table)
        mine = [one for one in messages if one[0] in ROWS and int.from_bytes(one[head - 4 : head]) == oid]
        found = images(mine, [column.in_identity for column in self.relations[oid].columns], head)
        columns = [found.column(place).to_pylist() for place in range(found.cells.tags.shape[1])]
        none: dict[int, Any] = {ABSENT: "-", UNCHANGED: "u", NULL: None}
        return [
            (Op(op), tuple(none.get(int(t), columns[c][r] and columns[c][r].decode()) for c, t in enumerate(tags)))
            for r, (op, tags) in enumerate(zip(found.op, found.cells.tags, strict=True))
        ]


@pytest.fixture
def slot(source: Server, request: pytest.FixtureRequest) -> Iterator[Any]:
    database = create_database(source, request.node.name[:40])
    made: list[Slot] = []

    def make(**options: Any) -> Slot:
        made.append(Slot(database, options, options.pop("two_phase", False)))
        return made[-1]

    yield make
    for one in made:
        database.execute(f"SELECT pg_drop_replication_slot('{one.database.name}')")
    drop_database(database)


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
    made.database.execute("SELECT pg_replication_origin_create('elsewhere')")
    with closing(connect(made.database.server, made.database.name)) as connection, connection.transaction():
        connection.execute("SELECT pg_replication_origin_session_setup('elsewhere')")
        connection.execute("SELECT pg_replication_origin_xact_setup('0/1234', '2024-05-06 07:08:09.123456+00')")
        connection.execute("INSERT INTO parent VALUES (1, 'ok')")
        connection.execute("SELECT pg_logical_emit_message(true, 'ours', 'within')")
        connection.execute("TRUNCATE parent RESTART IDENTITY CASCADE")
    made.database.execute("SELECT pg_logical_emit_message(false, 'ours', 'alone')")
    made.database.execute("SELECT pg_replication_origin_drop('elsewhere')")
    messages = made.take()
    found = [item for item, _ in made.items(messages)]
    begin, commit = found[0], next(item for item in found if isinstance(item, Commit))
    assert isinstance(begin, Begin) and begin.lsn == commit.lsn < commit.end
    assert begin.time == commit.time == 1_714_979_289_123_456
    assert found[1] == Origin(0x1234, "elsewhere")
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
