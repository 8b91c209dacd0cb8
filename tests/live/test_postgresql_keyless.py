"""Tables without a key at a real PostgreSQL: the right rows, and as many as asked, in a bounded number of readings of the
table, whatever the planner believes of what was staged a moment ago (K28)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.target import keyless
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import RowChange, TableNet, TargetTable
from anabranch.testing.databases import Database
from rigs.endpoints import endpoint_of
from rigs.postgresql_applier import TABLES, Applied

INT, REAL, TEXT = LogicalType(Kind.INT64), LogicalType(Kind.FLOAT64), LogicalType(Kind.TEXT)
BAG = TargetTable(TableId("shop", "bag"), TableId("public", "bag"), ("n", "f", "t", "u"), (INT, REAL, TEXT, TEXT), ())
ARROW = (pa.int64(), pa.float64(), pa.string(), pa.string())
ROWS, DISTINCT = 200_000, 100_000
FILL = f"""
INSERT INTO bag
SELECT i % {DISTINCT}, i % {DISTINCT} % 7, CASE WHEN i % 5 > 0 THEN md5((i % {DISTINCT})::text) END, repeat('x', 60)
  FROM generate_series(1, {ROWS}) i
"""
SOME = "SELECT n, f, t, u FROM bag WHERE n >= {0} AND n < {1}"


@pytest.fixture
def writing(target_database: Database) -> Iterator[Callable[[Sequence[tuple[Any, ...]], int], None]]:
    """`writing(rows, count)` merges these rows, each `count` times, in an epoch of their own."""
    endpoint = endpoint_of(target_database)
    with closing(PostgresStore(endpoint)) as store:
        store.prepare()
        store.create_checkpoint("shop", Position(0), 0)
    writer = PostgresWriter(endpoint, ValueRules())
    at = writer.claim("shop", "me")

    def merge(rows: Sequence[tuple[Any, ...]], count: int) -> None:
        nonlocal at
        then = Checkpoint("me", at.epoch + 1, Position(at.epoch + 1))
        assert writer.begin(at, then) == "open"
        table = pa.table(
            {n: pa.array(c, t) for n, t, c in zip(BAG.columns, ARROW, zip(*rows, strict=True), strict=True)}
        )
        net = TableNet(BAG, multiset=table.append_column("_delta", pa.array([count] * len(rows), pa.int64())))
        writer.merge(net)
        writer.commit()
        at = then

    yield merge
    writer.close()


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The plan of every removal, as the server had it at that moment."""
    found: list[str] = []
    real = keyless.remove
    monkeypatch.setattr(keyless, "remove", lambda connection, statement: real(Explaining(connection, found), statement))
    return found


class Explaining:
    """A connection that asks for the plan of a statement before it runs it."""

    def __init__(self, connection: Any, plans: list[str]) -> None:
        self._connection, self._plans = connection, plans

    def execute(self, statement: Any) -> Any:
        if not isinstance(statement, str):
            lines = self._connection.execute(b"EXPLAIN " + statement.as_bytes())
            self._plans.append("\n".join(line for (line,) in lines))
        return self._connection.execute(statement)


def test_pitfall_06_rule_28_a_removal_reads_the_table_twice_at_most(
    target_database: Database, writing: Callable[..., None], plans: list[str]
) -> None:
    """Duplicates, NULLs, text. The server has never seen what is staged, or believes of it what was true of another epoch:
    that nothing of it is to be removed."""
    target_database.execute("CREATE TABLE bag (n bigint, f float8, t text, u text)", FILL)
    some = target_database.query(SOME.format(0, 1_000))
    writing(sorted(set(some), key=str), -1)
    writing([(-n, 0.5, "new", None) for n in range(1, 10_001)], 1)
    more = target_database.query(SOME.format(1_000, 2_000))
    writing(sorted(set(more), key=str), -1)
    target_database.execute("ANALYZE bag")
    many = target_database.query(SOME.format(2_000, 12_000))
    writing(sorted(set(many), key=str), -1)
    writing([(-n, 0.5, "new", None) for n in range(1, 10_001)], -1)
    assert len(plans) == 4
    for plan in plans:
        assert "Nested Loop" not in plan and "Merge Join" not in plan and plan.count("Seq Scan on bag") == 2, plan
    taken = len({*some, *more, *many})
    assert target_database.query("SELECT count(*), min(n) FROM bag") == [(ROWS - taken, 0)]
    twice = target_database.query(
        "SELECT max(c) FROM (SELECT count(*) c FROM bag WHERE n < 12000 GROUP BY n, f, t, u) x"
    )
    assert twice == [(1,)]


def test_pitfall_06_types_without_equality(target_database: Database) -> None:
    """json, xml and point have no `=`; they are told apart by their text, in the quick way and one by one."""
    odd = TargetTable(
        TableId("shop", "odd"), TableId("public", "odd"), ("j", "x", "p", "b"), (TEXT, TEXT, TEXT, TEXT), ()
    )
    target_database.execute("CREATE TABLE odd (j json, x text, p point, b box)")
    same = {"j": '{"a": 1.0}', "x": "<a/>", "p": "(1,2)", "b": "(2,2),(1,1)"}
    other = {**same, "j": '{"a":1.0}'}
    with closing(PostgresStore(endpoint_of(target_database))) as store:
        store.prepare()
        store.create_checkpoint("shop", Position(0), 0)
    with closing(PostgresWriter(endpoint_of(target_database), ValueRules())) as writer:
        at = writer.claim("shop", "me")
        writer.begin(at, Checkpoint("me", 1, Position(1)))
        rows = pa.Table.from_pylist([same, other, dict.fromkeys(odd.columns)])
        for counts in ([3, 2, 2], [-1, -1, -1]):
            writer.merge(TableNet(odd, multiset=rows.append_column("_delta", pa.array(counts, pa.int64()))))
        writer.change(RowChange(odd, "delete", old_values=same))
        writer.change(RowChange(odd, "update", values={**other, "p": "(3,4)"}, old_values=other))
        writer.commit()
    found = target_database.query("SELECT j::text, p::text, count(*) FROM odd GROUP BY 1, 2 ORDER BY 2")
    assert found == [('{"a": 1.0}', "(1,2)", 1), ('{"a":1.0}', "(3,4)", 1), (None, None, 1)]


REFUSES = """
CREATE FUNCTION public.refuses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('public.tries') <= 6 THEN RAISE 'on purpose'; END IF;
  RETURN NEW;
END $$
"""


def test_rule_28_the_slow_way_is_short_and_takes_rows_without_a_key_together(
    target_database: Database, tmp_path: Path
) -> None:
    """One of 64 transactions meets a conflict, also by its net change: a few go row by row, and 500 rows of a table without a
    key in one step."""
    target_database.execute(*TABLES, "CREATE SEQUENCE public.tries", REFUSES)
    target_database.execute(
        "CREATE TRIGGER refuses BEFORE INSERT ON shop.items FOR EACH ROW WHEN (NEW.id = 40) EXECUTE FUNCTION refuses()"
    )
    with closing(Applied(target_database, tmp_path / "trail")) as one:
        changed: list[RowChange] = []
        change = one.applier.progress.writer.change
        one.applier.progress.writer.change = lambda row: changed.append(row) or change(row)
        heap = [("heap", "i", {"a": number % 100, "b": None}) for number in range(500)]
        moved = [("heap", "u", {"a": n % 100, "b": None}, {"a": n % 100, "b": "x"}) for n in range(0, 500, 2)]
        items = [("items", "i", {"id": number, "a": 0, "b": ""}) for number in range(64)]
        one.applier.apply(one.append([[item, *heap, *moved] for item in items]))
        assert one.applier.progress.totals.slow_epochs == 1
        assert 1 <= len(changed) <= 4 and all(row.table.key for row in changed), changed
    assert target_database.query("SELECT count(*) FROM shop.items") == [(64,)]
    assert target_database.query("SELECT b, count(*) FROM shop.heap GROUP BY 1 ORDER BY 1") == [
        ("x", 64 * 250),
        (None, 64 * 250),
    ]


def test_a_table_without_a_key_that_is_gone_is_named(target_database: Database, tmp_path: Path) -> None:
    target_database.execute(*TABLES)
    with closing(Applied(target_database, tmp_path / "trail")) as one:
        one.add(2)
        target_database.execute("ALTER TABLE shop.heap DROP COLUMN b")
        with pytest.raises(TargetError, match="no column b any more — the target table was changed"):
            one.add(1)
