"""A Writer of MySQL or MariaDB at work: a database of the test's own, a claimed checkpoint, one epoch after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from anabranch.connectors.mysql.target.apply import MysqlWriter
from anabranch.connectors.mysql.target.catalog import MysqlTargetCatalog
from anabranch.connectors.mysql.target.stage import MysqlStager
from anabranch.connectors.mysql.target.staging import NOT_YET
from anabranch.connectors.mysql.target.store import MysqlStore
from anabranch.contracts import Begun, Conflict, ValueRules
from anabranch.errors import TargetBusy
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.arrow import arrow_type
from anabranch.rows.net import RowChange, TableNet, TargetTable, Updates
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.servers import Server
from rigs import mysql_load
from rigs.endpoints import endpoint_of

JOB = "apply"
INT, TEXT = LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=200)
MANY = 1000  # more rows than go without a staging table


class Roles(mysql_load.Roles):
    """All roles of a target that the suite of writers asks for."""

    def catalog(self) -> MysqlTargetCatalog:
        return MysqlTargetCatalog(self.endpoint)

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> MysqlWriter:
        return MysqlWriter(self.endpoint, rules, bypass_constraints)

    def stager(self, rules: ValueRules) -> MysqlStager:
        return MysqlStager(self.endpoint, rules)


class Applying:
    """A claimed writer. `bypass`: its session asks no foreign keys. `account`: user and password, else the administrator's."""

    def __init__(
        self,
        database: Database,
        bypass: bool = True,
        owner: str = "me",
        job: str = JOB,
        account: tuple[str, str] = ("", ""),
    ) -> None:
        self.database, self.job, self.owner, self.bypass = database, job, owner, bypass
        self.endpoint = endpoint_of(database, *account)
        with closing(MysqlStore(self.endpoint)) as store:
            store.prepare()
            store.jobs.create_checkpoint(job, Position(0, "start"), 1)
        self.writer = MysqlWriter(self.endpoint, ValueRules(), bypass)
        self.now = self.writer.claim(job, owner)

    @property
    def next(self) -> Checkpoint:
        number = self.now.position.sequence + 10
        return replace(self.now, epoch=self.now.epoch + 1, position=Position(number, f"at-{number}"), commit_time=2)

    def begin(self) -> MysqlWriter:
        assert self.writer.begin(self.now, self.next) is Begun.OPEN
        return self.writer

    def commit(self) -> None:
        then = self.next
        self.writer.commit()
        self.now = then

    def do(self, work: Callable[[MysqlWriter], Any]) -> Any:
        """One epoch; rolled back when `work` raises a Conflict. Where a server makes staging tables between transactions
        alone, it is tried again with them."""
        for _ in range(10):
            writer = self.begin()
            try:
                result = work(writer)
            except (Conflict, TargetBusy) as error:
                writer.rollback()
                if NOT_YET not in str(error):
                    raise
            else:
                self.commit()
                return result
        raise AssertionError("staging tables are asked for again and again")

    def merge(self, *nets: TableNet) -> list[Any]:
        return list(self.do(lambda writer: [key for net in nets for key in writer.merge(net)]))

    def change(self, row: RowChange) -> Any:
        return self.do(lambda writer: writer.change(row))

    def table(self, name: str, columns: dict[str, LogicalType], key: Sequence[str] = ("id",)) -> TargetTable:
        names = tuple(columns)
        source, target = TableId("shop", name), TableId(self.database.name, name)
        return TargetTable(source, target, names, tuple(columns.values()), tuple(key), names)

    def create(
        self, name: str, definition: str, columns: dict[str, LogicalType], key: Sequence[str] = ("id",)
    ) -> TargetTable:
        self.database.execute(f"CREATE TABLE {name} ({definition})")
        return self.table(name, columns, key)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.database.query(sql)


def rows(of: TargetTable, names: Sequence[str], *lines: Sequence[Any]) -> pa.Table:
    """Rows as a net change carries them."""
    columns = [list(column) for column in zip(*lines, strict=True)] or [[] for _ in names]
    types = [of.type_of(name) for name in names]
    return pa.table([_array(*one) for one in zip(types, columns, strict=True)], names=list(names))


def _array(type: LogicalType, values: list[Any]) -> pa.Array:
    if type.kind is Kind.DECIMAL:
        values = [None if value is None else Decimal(value) for value in values]
    return pa.array(values, arrow_type(type))


def keys(of: TargetTable, *values: Any) -> pa.Table:
    return rows(of, of.key, *((value,) for value in values))


def updates(
    of: TargetTable,
    old: Sequence[Any],
    names: Sequence[str],
    *lines: Sequence[Any],
    moves: bool = False,
    contends: bool = False,
) -> Updates:
    return Updates(keys(of, *old), rows(of, names, *lines), moves, contends)


def bag(of: TargetTable, *lines: Sequence[Any]) -> TableNet:
    """A net change of a table without a key; the last of each line says how many rows come or go."""
    values = rows(of, of.columns, *(line[:-1] for line in lines))
    delta = pa.array([line[-1] for line in lines], pa.int64())
    return TableNet(of, multiset=values.append_column("_delta", delta))


@contextmanager
def applying_at(server: Server, name: str) -> Iterator[Applying]:
    """A new database there. Many rows go by LOAD DATA LOCAL, whether the server allows that by itself or not."""
    made = create_database(server, name)
    ((local,),) = made.query("SELECT @@GLOBAL.local_infile")
    made.execute("SET GLOBAL local_infile = ON")
    applying = Applying(made, job=made.name[-40:])
    yield applying
    applying.writer.close()
    made.execute(f"SET GLOBAL local_infile = {local}")
    drop_database(made)
