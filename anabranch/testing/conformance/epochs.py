"""Make the tables, rows and claimed writer's epochs that several suites of a target work with.

What does not live here: what every target must do (`writer.py`, `asides.py`, `disagreement.py`, `loader.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa

from anabranch.apply.abilities import MergeWriter, merging
from anabranch.contracts import Begun, Bounds, Conflict, RowTarget, ValueRules
from anabranch.errors import TargetBusy
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import Column, TableSchema
from anabranch.model.state import Checkpoint
from anabranch.rows.lines import escaped_line, parse_line
from anabranch.rows.net import RowChange, TableNet, TargetTable

JOB, OWNER = "conformance", "owner-1"
TRIES = 10  # of an epoch that is put off
RULES = ValueRules()
NUMBER, WORD = LogicalType(Kind.INT32), LogicalType(Kind.TEXT, length=40)
NATIVE = {NUMBER: "int", WORD: "varchar(40)"}  # the source's words, which a target of its family takes
ARROW = {"id": pa.int32(), "parent": pa.int32(), "word": pa.string()}
Line = tuple[str | None, ...]


@dataclass(frozen=True)
class Target:
    """An empty target database; `prepare()` was called. `not_yet`: in the text of a refusal that holds for this epoch alone."""

    connector: RowTarget
    not_yet: str = ""


def table(name: str, has_key: bool = True) -> TargetTable:
    names = ("id", "parent", "word")
    key = ("id",) if has_key else ()
    return TargetTable(TableId("shop", name), TableId("public", name), names, (NUMBER, NUMBER, WORD), key, names)


def schema(of: TargetTable) -> TableSchema:
    columns = tuple(
        Column(name, type, NATIVE.get(type, str(type)), nullable=name not in of.key)
        for name, type in zip(of.source_columns, of.types, strict=True)
    )
    return TableSchema(of.source, columns, of.key)


def create(target: Target, *tables: TargetTable) -> None:
    with closing(target.connector.tables(RULES)) as made:
        for of in tables:
            made.create_table(schema(of), of, RULES, False)


def make(target: Target, of: TargetTable, rows: Sequence[Line] = ()) -> TargetTable:
    """The table at the target with rows, by way of the initial load."""
    create(target, of)
    with closing(target.connector.loader(RULES)) as loader:
        loader.begin_generation(JOB, of, 1, [Bounds()], False)
        loader.load_chunk(JOB, of, 1, 0, ("{}", "{}"), [b"".join(map(escaped_line, rows))] if rows else [])
    return of


def three(target: Target, name: str = "a") -> TargetTable:
    return make(target, table(name), [("1", None, "one"), ("2", "1", "two"), ("3", "1", None)])


def rows(target: Target, of: TargetTable) -> list[Line]:
    with closing(target.connector.reader(RULES)) as reader:
        blocks = [block for piece in reader.pieces(of, 100) for block in reader.lines(of, piece)]
    lines = [tuple(parse_line(line)) for block in blocks for line in block.split(b"\n")[:-1]]
    return sorted(lines, key=str)


def arrow(*lines: Line, names: Sequence[str] = ("id", "parent", "word")) -> pa.Table:
    """Rows of text forms as a net change carries them."""
    columns = list(zip(*lines, strict=True)) or [()] * len(names)
    values = {
        name: [int(v) if v is not None and name != "word" else v for v in column]
        for name, column in zip(names, columns, strict=True)
    }
    return pa.table({name: pa.array(column, ARROW[name]) for name, column in values.items()})


def keys(*numbers: int) -> pa.Table:
    return arrow(*((str(number),) for number in numbers), names=("id",))


class Epochs:
    """A claimed writer that makes one epoch after another."""

    def __init__(self, target: Target, owner: str = OWNER) -> None:
        with closing(target.connector.store()) as store:
            store.jobs.create_checkpoint(JOB, Position(0, "start"), 1)
        self.not_yet = target.not_yet
        self.writer = merging(target.connector.writer(RULES, False))
        self.now = self.writer.claim(JOB, owner)

    def __enter__(self) -> Epochs:
        return self

    def __exit__(self, *error: object) -> None:
        self.writer.close()

    @property
    def next(self) -> Checkpoint:
        sequence = self.now.position.sequence + 10
        return replace(self.now, epoch=self.now.epoch + 1, position=Position(sequence, f"at-{sequence}"), commit_time=2)

    def do(self, work: Callable[[MergeWriter], object], origin: str = "") -> object:
        """One epoch; rolled back when `work` raises. What was refused for this epoch alone is tried again in the next one."""
        then = self.next
        for _ in range(TRIES):
            assert self.writer.begin(self.now, then, origin) is Begun.OPEN
            try:
                result = work(self.writer)
            except (Conflict, TargetBusy) as error:
                self.writer.rollback()
                if not self.not_yet or self.not_yet not in str(error):
                    raise
            else:
                self.writer.commit()
                self.now = then
                return result
        raise AssertionError("the same epoch is put off again and again")

    def merge(self, net: TableNet) -> object:
        return self.do(lambda writer: writer.merge(net))

    def change(self, row: RowChange) -> object:
        return self.do(lambda writer: writer.change(row))
