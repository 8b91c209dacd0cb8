"""A MySQL or MariaDB as the target of a load: its roles, a table with columns of many types, and rows for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.target.load import MysqlLoader
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.connectors.mysql.target.tables import MysqlTables
from anabranch.contracts import Bounds, TargetReader, ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of

MARKS = ("low", "high")
LOCAL, INSERT = "LOAD DATA LOCAL", "INSERT"  # ways in
RULES = ValueRules()
COLUMNS = {
    "id": ("INT NOT NULL PRIMARY KEY", LogicalType(Kind.INT32)),
    "word": ("VARCHAR(10)", LogicalType(Kind.TEXT, length=10)),
    "small": ("TINYINT", LogicalType(Kind.INT8)),
    "born": ("DATE", LogicalType(Kind.DATE)),
    "data": ("LONGBLOB", LogicalType(Kind.BINARY)),
    "price": ("DECIMAL(6,2)", LogicalType(Kind.DECIMAL, precision=6, scale=2)),
}


@dataclass(frozen=True)
class Roles:
    """The roles of a target that the suite of loaders asks for."""

    endpoint: Endpoint

    def store(self) -> MysqlStore:
        return MysqlStore(self.endpoint)

    def tables(self, rules: ValueRules) -> MysqlTables:
        return MysqlTables(self.endpoint, rules, self.endpoint.scheme)

    def loader(self, rules: ValueRules) -> MysqlLoader:
        return MysqlLoader(self.endpoint, rules)

    def reader(self, rules: ValueRules) -> TargetReader:
        from anabranch.connectors.mysql.target.verify import MysqlTargetReader

        return MysqlTargetReader(self.endpoint)


@dataclass(frozen=True)
class Place:
    """A database of a test's own, with a job that has its name."""

    database: Database
    endpoint: Endpoint

    @property
    def job(self) -> str:
        return self.database.name[-40:]

    @property
    def family(self) -> str:
        with closing(self.database.connect()) as connection:
            return family(connection)

    def loader(self, rules: ValueRules = RULES) -> MysqlLoader:
        return MysqlLoader(self.endpoint, rules)

    def things(self, **others: tuple[str, LogicalType]) -> TargetTable:
        """Make a table with COLUMNS, or with others in their places; a column whose type is "" is left out."""
        columns = {name: how for name, how in {**COLUMNS, **others}.items() if how[0]}
        return self.table("things", columns)

    def table(self, name: str, columns: dict[str, tuple[str, LogicalType]], engine: str = "InnoDB") -> TargetTable:
        wanted = ", ".join(f"`{column}` {sql}" for column, (sql, _) in columns.items())
        self.database.execute(f"CREATE TABLE {name} ({wanted}) ENGINE={engine} CHARACTER SET utf8mb4")
        names, types = tuple(columns), tuple(type for _, type in columns.values())
        key = tuple(column for column, (sql, _) in columns.items() if "PRIMARY KEY" in sql)
        return TargetTable(TableId("shop", name), TableId(self.database.name, name), names, types, key, names)

    def begin(self, loader: MysqlLoader, table: TargetTable, generation: int = 1, chunks: int = 1, **how: Any) -> None:
        bounds = [Bounds((str(n),), (str(n + 1),)) for n in range(chunks - 1)] + [Bounds()]
        loader.begin_generation(self.job, table, generation, bounds, how.pop("empty", False), **how)

    def load(
        self, loader: MysqlLoader, table: TargetTable, lines: Iterable[bytes], number: int = 0, generation: int = 1
    ) -> int:
        return loader.load_chunk(self.job, table, generation, number, MARKS, lines)

    def rows(self, columns: str = "*", name: str = "things") -> list[tuple[Any, ...]]:
        return self.database.query(f"SELECT {columns} FROM {name} ORDER BY 1")

    def count(self, name: str = "things") -> int:
        return int(self.database.query(f"SELECT COUNT(*) FROM {name}")[0][0])


def line(id: int, **values: str) -> bytes:
    r"""A line of `things`: what is not given is NULL; values as they stand in a line."""
    fields = [str(id), *(values.get(name, "\\N") for name in COLUMNS if name != "id")]
    return "\t".join(fields).encode() + b"\n"


@contextmanager
def place_at(server: Server, name: str, way: str) -> Iterator[Place]:
    """A new database there, the state of jobs beside it, and the server's local_infile as the way wants it."""
    made = create_database(server, name)
    ((before,),) = made.query("SELECT @@GLOBAL.local_infile")
    made.execute(f"SET GLOBAL local_infile = {int(way == LOCAL)}")
    found = Place(made, endpoint_of(made))
    with closing(MysqlStore(found.endpoint)) as store:
        store.prepare()
        yield found
        store.jobs.drop(found.job)
    made.execute(f"SET GLOBAL local_infile = {before}")
    drop_database(made)
