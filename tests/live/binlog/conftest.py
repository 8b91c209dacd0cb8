"""A database whose log is followed by a BinlogReader, and what its rows should come to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch import connectors
from anabranch.connectors.mysql.source.capture import BinlogReader
from anabranch.connectors.mysql.source.positions import BinlogOrder
from anabranch.contracts import Bounds, LogOptions, ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, Chunk, Op, Part
from anabranch.rows.compiled import compiled
from anabranch.rows.lines import lines
from anabranch.rows.log_items import LogIdle, LogStatement
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import Server, start_mysql

SERVER_ID = 77001
BY_DECODER = (
    "types",
    "values",
    "transactions",
    "differential",
    "corpus",
    "rollbacks",
    "compressed",
    "refused",
    "origins",
)


def endpoint_of(server: Server, *options: tuple[str, str]) -> Endpoint:
    return Endpoint(server.name, server.host, server.port, server.user, server.password, "", options)


@dataclass
class Follower:
    """Reads the log of `database` with the definitions as they are when `begin` is called."""

    database: Database
    rules: ValueRules = field(default_factory=ValueRules)
    tables: dict[TableId, TableSchema] = field(default_factory=dict)
    items: list[Chunk | LogStatement] = field(default_factory=list)
    server_id: int = SERVER_ID
    decoding: str = "auto"
    leave_out: frozenset[str] = frozenset()
    reader: BinlogReader | None = None
    mark: LogMark | None = None

    @property
    def endpoint(self) -> Endpoint:
        return endpoint_of(self.database.server)

    def definitions(self) -> dict[TableId, TableSchema]:
        catalog = connectors.source(self.endpoint).catalog()
        try:
            return catalog.tables(lambda table: table.schema == self.database.name)
        finally:
            catalog.close()

    def begin(self, mark: LogMark | None = None) -> LogMark:
        """Open the log, by default at its end."""
        self.tables = self.tables or self.definitions()
        self.stop()
        how = LogOptions(self.server_id, 1.0, self.rules, decoding=self.decoding, leave_out=self.leave_out)
        self.reader = BinlogReader(self.endpoint, how)
        self.mark = mark or self.reader.end()
        self.reader.start(self.mark, self.tables.get)
        return self.mark

    def take(self, seconds: float = 180.0) -> list[Chunk | LogStatement]:
        """Everything up to the log's end as it is now."""
        assert self.reader is not None
        self.end = self.reader.end()
        new: list[Chunk | LogStatement] = []
        until = time.monotonic() + seconds
        while not BinlogOrder().includes(self.mark, self.end.native, None):
            in_time(until, f"the reader did not come to {self.end.native}, it is at {self.mark}")
            item = self.reader.read(0.2)
            if item is None:
                continue
            if isinstance(item, Chunk):
                if item.part is not Part.FRAGMENT:
                    self.mark = LogMark("", item.resume)
            else:
                self.mark = item.mark
            if not isinstance(item, LogIdle):
                new.append(item)
        self.items += new
        return new

    def run(self, *statements: str) -> list[Chunk | LogStatement]:
        """Statements on one connection, then everything they put into the log."""
        self.database.execute(*statements)
        return self.take()

    def schema(self, table: str) -> TableSchema:
        return self.tables[TableId(self.database.name, table)]

    def images(self, table: str, items: list[Any] | None = None) -> list[dict[str, Any]]:
        """Row images as dictionaries, `_op` as Op, absent columns left out."""
        found = []
        for chunk in self.items if items is None else items:
            for rows in chunk.tables if isinstance(chunk, Chunk) else ():
                if rows.table.name == table:
                    found += [self._image(rows, image) for image in rows.batch.to_pylist()]
        return found

    @staticmethod
    def _image(rows: Any, image: dict[str, Any]) -> dict[str, Any]:
        names = rows.batch.schema.names[META:]
        present = rows.shapes[image["_shape"]].present
        return {"_op": Op(image["_op"])} | {n: image[n] for n, there in zip(names, present, strict=True) if there}

    def chunks(self) -> list[Chunk]:
        return [item for item in self.items if isinstance(item, Chunk)]

    def statements(self) -> list[str]:
        return [item.sql for item in self.items if isinstance(item, LogStatement)]

    def told(self, table: str) -> list[bytes]:
        """The table's rows as lines, as its log says: images applied by primary key."""
        schema = self.schema(table)
        wanted = [i for i, column in enumerate(schema.columns) if column.type is not None]
        state: dict[tuple[bytes, ...], list[bytes]] = {}
        for chunk in self.chunks():
            for rows in chunk.tables:
                if rows.table == schema.id:
                    _apply(state, schema, rows, wanted)
        return sorted(b"\t".join(row) + b"\n" for row in state.values())

    def read(self, table: str) -> list[bytes]:
        """The table's rows as lines, as a SELECT says."""
        schema = self.schema(table)
        names = [column.name for column in schema.columns if column.type is not None]
        snapshot = connectors.source(self.endpoint).snapshot()
        try:
            blocks = list(snapshot.lines(schema, names, Bounds(), self.rules))
        finally:
            snapshot.close()
        return sorted(b"".join(blocks).splitlines(keepends=True))

    def stop(self) -> None:
        if self.reader is not None:
            self.reader.close()
            self.reader = None


@pytest.fixture(scope="session")
def mysql_without_gtids(servers_directory: Path) -> Iterator[Server]:
    """A MySQL whose transactions are anonymous at first."""
    options = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF", "--binlog-row-metadata=MINIMAL"]
    with start_mysql(servers_directory / unique_name("nogtid"), options=options) as server:
        yield server
        server.stop(immediate=True)


def _apply(state: dict[tuple[bytes, ...], list[bytes]], schema: TableSchema, rows: Any, wanted: list[int]) -> None:
    columns = [rows.batch.column(META + i) for i in wanted]
    types = [schema.columns[i].type for i in wanted]
    text = [_texts(type, column) for type, column in zip(types, columns, strict=True)]
    keys = [wanted.index(i) for i in schema.key_indexes]
    meta = rows.batch.select([0, 3]).to_pydict()
    before: tuple[bytes, ...] = ()
    for row, op in enumerate(meta["_op"]):
        present = rows.shapes[meta["_shape"][row]].present
        value = {place: text[place][row] for place, i in enumerate(wanted) if present[i]}
        key = tuple(value.get(place, b"") for place in keys)
        if op == Op.INSERT:
            assert key not in state and len(value) == len(wanted)
            state[key] = [value[place] for place in range(len(wanted))]
        elif op == Op.DELETE:
            del state[key]
        elif op == Op.BEFORE:
            before = key
        else:
            old = state.pop(before)
            new = [value.get(place, old[place]) for place in range(len(wanted))]
            state[tuple(new[place] for place in keys)] = new


def _texts(type: Any, column: pa.Array) -> list[bytes]:
    return lines([type], [column]).split(b"\n")[:-1]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With each decoder that is installed, where rows, types and transactions are what is tested."""
    if "follow" in metafunc.fixturenames and metafunc.module.__name__.rpartition("_log_")[2] in BY_DECODER:
        metafunc.parametrize("follow", ["python", *["native"] * compiled("auto")], indirect=True)


@pytest.fixture
def follow(request: pytest.FixtureRequest) -> Iterator[Callable[..., Follower]]:
    """`follow(database, rules)` makes a Follower; its connection ends with the test."""
    decoding = getattr(request, "param", "auto")
    made: list[Follower] = []

    def make(database: Database, rules: ValueRules | None = None) -> Follower:
        made.append(Follower(database, rules or ValueRules(), server_id=SERVER_ID + len(made), decoding=decoding))
        return made[-1]

    yield make
    for follower in made:
        follower.stop()
