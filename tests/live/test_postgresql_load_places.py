"""Large tables without a key, cut by where their rows lie: the pieces are the table in one snapshot only, so a load that lost
it begins anew. Rows move between the pieces all the time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.target import connector as target
from anabranch.contracts import Bounds
from anabranch.load.plan import LoadTable
from anabranch.load.run import PLACED_TRIES, load_tables
from anabranch.model.condition import Waiting
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable
from anabranch.spark.work import Bundle, Outcome, Work, do
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.local import LocalEngine, Small
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import JOB, RULES

HEAP = TableId("public", "heap")
PARTS = TableId("public", "parts")
ROWS = 5000
QUIET = "WITH (autovacuum_enabled = false)"  # which would change the server's idea of its size on the way
FILL = f"INSERT INTO heap SELECT g % 1000, repeat('x', g % 50) FROM generate_series(1, {ROWS}) g"
HOLDER = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND state = 'idle in transaction' AND query LIKE '%%pg_export_snapshot%%'"
)


@pytest.fixture
def heap(logical_postgresql: Server, source_database: Callable[[Server], Database]) -> Database:
    database = source_database(logical_postgresql)
    database.execute(f"CREATE TABLE heap (id int, v text) {QUIET}", FILL, "ANALYZE heap")
    return database


def schema_of(database: Database, table: TableId = HEAP) -> TableSchema:
    with closing(source(endpoint_of(database)).catalog()) as catalog:
        return catalog.tables(lambda one: one == table)[table]


def rows_of(database: Database, table: str = "heap") -> Counter[Any]:
    return Counter(database.query(f"SELECT id, v FROM {table}"))


def move(database: Database) -> None:
    """Most rows lie elsewhere behind this, on pages that are new or were read before."""
    database.execute("DELETE FROM heap WHERE id % 10 = 3", "VACUUM heap", "UPDATE heap SET id = id + 1, v = v || 'y'")


# --- pieces -----------------------------------------------------------------------------------------------------------


def test_rule_14_places_are_the_table_in_a_shared_snapshot(heap: Database) -> None:
    heap.execute(
        "CREATE TABLE parts (id int, v text) PARTITION BY RANGE (id)",
        f"CREATE TABLE parts_a PARTITION OF parts FOR VALUES FROM (0) TO (900) {QUIET}",
        f"CREATE TABLE parts_b PARTITION OF parts DEFAULT {QUIET}",
        "INSERT INTO parts SELECT * FROM heap",
    )
    connector = source(endpoint_of(heap))
    schemas = [schema_of(heap), schema_of(heap, PARTS)]
    with closing(connector.snapshot()) as sharer:
        shared = sharer.share(schemas)
        before = [rows_of(heap), rows_of(heap, "parts")]
        for schema, expected in zip(schemas, before, strict=True):
            bounds = sharer.places(schema, 500)
            assert len(bounds) > 5 and bounds[0].lower is None and bounds[-1].upper is None
            found: Counter[Any] = Counter()
            for one in bounds:
                with closing(connector.snapshot()) as reader:
                    assert reader.open_shared(schema, shared) is not None
                    lines = b"".join(reader.lines(schema, ["id", "v"], one, RULES)).decode().splitlines()
                assert len(lines) < 2000
                found.update((int(line.split("\t")[0]), line.split("\t")[1]) for line in lines)
                move(heap)
                heap.execute("UPDATE parts SET id = id + 100")
            assert found == expected
        assert rows_of(heap) != before[0]


def test_small_tables_are_one_piece(heap: Database) -> None:
    with closing(source(endpoint_of(heap)).snapshot()) as reader:
        assert reader.places(schema_of(heap), 1_000_000) == [Bounds()]


@pytest.mark.servers
def test_a_server_that_would_read_all_of_it_for_each_piece_is_not_asked_to(
    postgresql12: Server, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(postgresql12)
    database.execute("CREATE TABLE heap (id int, v text)", FILL)
    with closing(source(endpoint_of(database)).snapshot()) as reader:
        assert reader.places(schema_of(database), 100) == [Bounds()]


# --- loads ------------------------------------------------------------------------------------------------------------


class Engine(LocalEngine):
    """Calls `between` when so many pieces have been done, in all."""

    def __init__(self, between: Callable[[int], object]) -> None:
        super().__init__(Small())
        self._between, self.done = between, 0

    def run(
        self, work: Work, bundles: Sequence[Bundle], take: Callable[[Outcome], None], stop: Callable[[], bool]
    ) -> bool:
        for piece in [piece for bundle in bundles for piece in bundle.pieces]:
            if stop():
                return False
            outcome = do(work, piece)
            self.done += 1
            self._between(self.done)
            take(outcome)
        return True


@dataclass
class Rig:
    """Loads of the heap into a database."""

    source: Database
    target: Database
    table: TargetTable = field(init=False)
    schema: TableSchema = field(init=False)
    waits: list[tuple[str, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        with closing(target(endpoint_of(self.target)).store()) as store:
            store.prepare()
        self.schema = schema_of(self.source)
        types = tuple(one.type for one in self.schema.columns if one.type)
        self.table = TargetTable(HEAP, HEAP, ("id", "v"), types, (), ("id", "v"))

    def load(
        self,
        between: Callable[[int], object] = lambda done: None,
        stop: int = 0,
        room: Callable[[], str] | None = None,
        **options: Any,
    ) -> bool:
        engine = Engine(between)
        generation = max(self.generation(), 1)
        load = LoadTable(self.schema, self.table, generation=generation, exact=True, **options)
        ends = source(endpoint_of(self.source)), target(endpoint_of(self.target))
        return load_tables(
            JOB,
            engine,
            *ends,
            [load],
            rows_per_chunk=1000,
            stop=lambda: bool(stop) and engine.done >= stop,
            room=room,
            on_wait=lambda why, on: self.waits.append((why, on)),
        )

    def generation(self) -> int:
        return sum(number for (number,) in self.target.query("SELECT generation FROM anabranch.table_state"))

    def chunks(self) -> tuple[int, int, int]:
        """How many there are, are done, and of how many moments."""
        query = "SELECT count(*), count(rows), count(DISTINCT high) FILTER (WHERE rows IS NOT NULL) FROM anabranch.load_chunk"
        return self.target.query(query)[0]


@pytest.fixture
def rig(heap: Database, target_database: Database) -> Iterator[Rig]:
    yield Rig(heap, target_database)


def test_rule_14_a_table_without_a_key_is_loaded_in_pieces_of_one_moment(rig: Rig) -> None:
    before = rows_of(rig.source)
    assert rig.load(lambda done: move(rig.source))
    assert rows_of(rig.target) == before != rows_of(rig.source)
    count, done, moments = rig.chunks()
    assert count == done == 5 and moments == 1 == rig.generation()


def test_rule_14_pieces_that_wait_for_room_are_of_the_moment_of_the_others(rig: Rig) -> None:
    """Nothing is read anew for it: what waits is not begun."""
    before, asked = rows_of(rig.source), list[int]()

    def room() -> str:
        asked.append(len(asked))
        return "load_limit_gb: full" if 2 <= asked[-1] < 7 else ""

    assert rig.load(lambda done: move(rig.source), room=room)
    assert rig.waits and set(rig.waits) == {("load_limit_gb: full", Waiting.ROOM)}
    assert rows_of(rig.target) == before != rows_of(rig.source)
    assert rig.chunks() == (5, 5, 1) and rig.generation() == 1


def test_rule_14_a_load_that_ended_early_begins_anew(rig: Rig) -> None:
    """What it had is none of what the table is now."""
    assert not rig.load(stop=2)
    assert rig.chunks()[1] == 2
    move(rig.source)
    assert rig.load()
    assert rows_of(rig.target) == rows_of(rig.source)
    assert rig.generation() == 2 and rig.chunks()[2] == 1


def test_rule_14_a_snapshot_that_is_gone_makes_the_load_begin_anew(rig: Rig) -> None:
    def lose(done: int) -> None:
        move(rig.source)
        if done == 2:
            rig.source.query(HOLDER)

    seen = []
    assert rig.load(lambda done: seen.append(rows_of(rig.source)) or lose(done))
    assert rows_of(rig.target) in seen
    assert rig.generation() == 2 and rig.chunks()[2] == 1


def test_rule_14_a_truncate_and_a_rewrite_make_the_load_begin_anew(rig: Rig) -> None:
    ways = {1: ("TRUNCATE heap", FILL), 3: ("VACUUM FULL heap",)}
    assert rig.load(lambda done: rig.source.execute(*ways.get(done, ())))
    assert rows_of(rig.target) == rows_of(rig.source)
    assert rig.generation() == 3 and rig.chunks()[2] == 1


def test_rule_14_a_snapshot_that_never_lasts_makes_it_one_piece(rig: Rig) -> None:
    def lose(done: int) -> None:
        rig.source.query(HOLDER)
        move(rig.source)

    assert rig.load(lose)
    assert rig.generation() == PLACED_TRIES + 1 and rig.chunks() == (1, 1, 1)
    assert sum(rows_of(rig.target).values()) > 0


def test_rule_14_beside_rows_of_others_it_is_one_piece(rig: Rig) -> None:
    """They could not be taken out if it had to begin anew."""
    assert rig.load(keep=True)
    assert rig.chunks() == (1, 1, 1)
