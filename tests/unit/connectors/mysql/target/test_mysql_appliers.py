"""What an applier of a MySQL or MariaDB knows of its tables holds for one transaction: a table may be altered behind each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.connectors.mysql.target import one_by_one
from anabranch.connectors.mysql.target.appliers import MysqlApplier
from anabranch.connectors.mysql.target.known_columns import KnownColumn, KnownTable
from anabranch.connectors.mysql.target.one_by_one import CannotSay
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import INSERT, ChangeShape, TargetTable
from anabranch.rows.small import SmallChanges, SmallTransactions, Values

SHOP = TableId("shop", "items")
NUMBER, TEXT = LogicalType(Kind.INT64), LogicalType(Kind.TEXT)
CHOSEN = LogicalType(Kind.TEXT, target="varchar(20)")  # the job chose it: rows are written for it


def shape(type: LogicalType) -> ChangeShape:
    return ChangeShape(TargetTable(SHOP, SHOP, ("id", "a"), (NUMBER, type), ("id",), ("id", "a")), INSERT, ("id", "a"))


class Server:
    """A connection and what it knows. `spelled` is what column `a` is now, `sent` what was carried out."""

    open, explicit_timestamps, server_version = True, True, "8.0.40"
    is_mariadb = False
    committing = ("COMMIT",)

    def __init__(self) -> None:
        self.spelled, self.sent, self.looked, self.fails = "varchar", list[str](), 0, False
        self._known: KnownTable | None = None
        self._is_fresh = False

    # what of a connection is used
    def literal(self, value: object) -> str:
        return repr(value)

    def together(self, parts: Sequence[str]) -> None:
        self.sent += [part for part in parts if part.startswith("INSERT INTO `shop`")]
        if self.fails:
            raise one_by_one.pymysql.err.OperationalError(1205, "Lock wait timeout exceeded")

    def rollback(self) -> None: ...

    # what of KnownColumns is used
    def of(self, table: TableId) -> KnownTable:
        self.looked += not self._is_fresh
        if self._known is None or (not self._is_fresh and self._known.column("a").type != self.spelled):
            columns = [("id", "bigint"), ("a", self.spelled)]
            self._known = KnownTable(table, tuple(KnownColumn(n, t, t, "", "", 0, True, "") for n, t in columns))
        self._is_fresh = True
        return self._known

    def ended(self) -> None:
        self._is_fresh = False

    @property
    def stages(self) -> Any:
        return SimpleNamespace(connection=self, known=self)


@pytest.fixture(autouse=True)
def of_mysql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.connectors.mysql.target.literals.family", lambda connection: "mysql")


def applier(server: Server) -> MysqlApplier:
    def altered(stages: Any, table: TargetTable) -> str:
        return "" if server.spelled == "varchar" else f"column a is {server.spelled} now"

    connect: Callable[[], Any] = lambda: server  # noqa: E731  its type is said
    made = MysqlApplier(connect, "shop", "me.0", "stop", altered)
    made._stages = server.stages
    return made


def place(number: int) -> Checkpoint:
    return Checkpoint("me", number, Position(number, f"log.1:{number}"), number)


def row(type: LogicalType, *values: bytes) -> list[tuple[ChangeShape, Values]]:
    return [(shape(type), values)]


def test_a_column_that_is_altered_behind_a_commit_gets_no_value() -> None:
    server = Server()
    one = applier(server)
    assert one.carry_out(row(CHOSEN, b"1", b"x")) and one.commit(place(0), place(1))
    server.spelled = "enum"
    assert not one.carry_out(row(CHOSEN, b"2", b"y")) and len(server.sent) == 1


def test_a_column_that_is_altered_behind_a_rollback_gets_no_value() -> None:
    server = Server()
    one = applier(server)
    server.fails = True
    assert not one.carry_out(row(CHOSEN, b"1", b"x"))
    server.fails, server.spelled = False, "enum"
    assert not one.carry_out(row(CHOSEN, b"1", b"x")) and len(server.sent) == 1


def test_a_table_is_looked_at_once_in_a_transaction_and_a_plain_one_once_in_a_run() -> None:
    for type, times in ((CHOSEN, 3), (TEXT, 1)):
        server = Server()
        one = applier(server)
        for number in range(3):
            assert one.carry_out(row(type, b"1", b"x") * 2) and one.commit(place(number), place(number + 1))
        assert server.looked == times and len(server.sent) == 6


def test_one_session_looks_at_a_table_again_behind_each_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_by_one, "BATCH", 2)
    server = Server()

    def altered(table: TargetTable) -> str:
        server.of(table.target)
        return "" if len(server.sent) < 4 else "column a is enum now"

    numbers = list(range(6))
    columns = (pa.array(map(str, numbers), pa.string()), pa.array(["x"] * 6, pa.string()))
    changes = SmallChanges(shape(CHOSEN), np.array(numbers), np.array(numbers), columns)
    some = SmallTransactions([n + 1 for n in numbers], [f"log.1:{n}" for n in numbers], numbers, [changes])
    one_by_one.carry_out(server.stages, "shop", place(0), some, "stop", altered)
    assert len(server.sent) == 4 and server.looked == 3


def test_a_text_that_is_no_utf_8_goes_the_usual_way() -> None:
    server = Server()
    assert not applier(server).carry_out(row(TEXT, b"1", b"\xe4")) and not server.sent
    with pytest.raises(CannotSay):
        one_by_one.statement(server.stages, {}, *row(TEXT, b"1", b"\xe4")[0], "stop", lambda table: "")
