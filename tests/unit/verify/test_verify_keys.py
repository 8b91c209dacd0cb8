"""The source's rows whose keys a target tells: they are lines as any others, of which canonical forms are made once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from anabranch.contracts import Bounds, ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.verify.digest import Summing
from anabranch.verify.plan import VerifyPiece, VerifyTable

TYPES = {"id": LogicalType(Kind.TEXT), "j": LogicalType(Kind.JSON), "w": LogicalType(Kind.VECTOR)}
ID, NAMES = TableId("s", "t"), tuple(TYPES)
TABLE = TargetTable(ID, ID, NAMES, tuple(TYPES.values()), ("id",), NAMES)
ONE = VerifyTable(
    TableSchema(ID, tuple(Column(name, type, "") for name, type in TYPES.items()), ("id",)), TABLE, only_changed=True
)
LINES = b'a\t{"b": [1.50, {"c": 2}]}\t[1.5,2]\nb\\\\x\t\\N\t\\N\n'


class Ends:
    """Both ends, whose rows are the same."""

    def reader(self, rules: ValueRules) -> Ends:
        return self

    def snapshot(self, identity: str) -> Ends:
        return self

    def lines_of(self, *args: Any) -> Iterator[bytes]:
        yield LINES + b"other\t{}\t[1]\n"  # a row that the source takes for one of the keys

    def lines(self, *args: Any) -> Iterator[bytes]:
        yield LINES

    def keys(self, table: TargetTable, piece: str) -> Iterator[list[list[str | None]]]:
        yield [["a"], ["b\\x"]]

    def has_all(self, table: TargetTable) -> bool:
        return False

    def share(self, job: str) -> None: ...

    def open_shared(self, *args: str) -> bool:
        return True

    def leave(self) -> None: ...

    def close(self) -> None: ...


def test_rows_of_keys_that_a_target_tells_are_equal_to_those_of_whole_tables() -> None:
    ends = cast(Any, Ends())
    work = Summing(ends, ends, ValueRules())
    sums = []
    for piece in (VerifyPiece(ONE, Bounds(), "0"), VerifyPiece(ONE, None, "0")):
        with work.read(piece) as (header, blocks):
            sums.append(work.finish(piece, header, blocks))
    assert sums[0].rows.sum() == 2 and not sums[0].differing(sums[1])
