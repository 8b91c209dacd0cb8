"""Labels that enums of a real PostgreSQL got: another one gets them when the first row with one comes, in the same place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pytest

from anabranch.apply.labels import needed_now
from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.contracts import Bounds, Conflict
from anabranch.errors import Redefined, RowRefused, TargetBusy
from anabranch.load.copy import ChunkWork
from anabranch.load.plan import LoadPiece, LoadTable
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.table_life import TableState
from anabranch.rows.net import RowChange, TableNet, Updates
from anabranch.spark.work import Outcome, do
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import JOB, RULES
from rigs.postgresql_writer import Applying
from rigs.structures import Ends, Make, ends

__all__ = ["ends"]

MADE = (
    "CREATE TYPE mood AS ENUM ('sad', 'o''k')",
    "CREATE DOMAIN feeling AS mood",
    "CREATE TYPE place AS (town text, felt mood)",
    "CREATE TABLE plain (id int PRIMARY KEY, v mood)",
    "CREATE TABLE many (id int PRIMARY KEY, v mood[])",
    "CREATE TABLE wrapped (id int PRIMARY KEY, v feeling)",
    "CREATE TABLE parts (id int PRIMARY KEY, v place)",
)
NEW = {"plain": "first", "many": "{sad,be\\\\tween}", "wrapped": "last", "parts": "(x,la''st)"}
ADDED = (
    "ALTER TYPE mood ADD VALUE 'first' BEFORE 'sad'",
    r"ALTER TYPE mood ADD VALUE E'be\\tween' AFTER 'sad'",
    "ALTER TYPE mood ADD VALUE 'last'",
    "ALTER TYPE mood ADD VALUE 'la''st'",
)
LABELS = "SELECT enumlabel::text FROM pg_enum WHERE enumtypid = 'public.mood'::regtype ORDER BY enumsortorder"


def applying(both: Ends, user: str = "") -> Applying:
    made = Applying(endpoint_of(both.target, user, "x" if user else ""))
    states = {t: TableState(t, both.tables[t].target, "streaming", schema=s) for t, s in both.schemas.items()}
    made.writer.follow_labels(needed_now(source(endpoint_of(both.source)), lambda: states))
    return made


@pytest.fixture
def both(ends: Make) -> Iterator[Ends]:
    made = ends(*MADE)
    made.create()
    with closing(PostgresStore(endpoint_of(made.target))) as store:
        store.create_checkpoint(JOB, Position(0, "start"), 0)
    yield made


def inserted(both: Ends, name: str, *values: tuple[int, str]) -> TableNet:
    ids, texts = zip(*values, strict=True)
    columns = {"id": pa.array(ids, pa.int32()), "v": pa.array(texts, pa.string())}
    return TableNet(both.tables[TableId("public", name)], inserts=pa.table(columns))


def test_a_label_is_added_with_the_first_row_that_has_it(both: Ends) -> None:
    """Whatever is made of the enum, by a statement for the row or by COPY; all labels at once, each in its place."""
    both.source.execute(*ADDED)
    made = applying(both)
    value = NEW["many"]
    with (
        pytest.raises(TargetBusy, match=r"labels that the target's lacked: ALTER TYPE public\.mood ADD VALUE") as told,
        made as writer,
    ):
        writer.merge(inserted(both, "many", *((n, value) for n in range(50))))
    assert told.value.table == "public.many" and both.target.query("SELECT * FROM public.many") == []
    assert both.target.query(LABELS) == both.source.query(LABELS)
    made.merge(inserted(both, "many", *((n, value) for n in range(50))))
    for name, text in NEW.items():
        if name != "many":
            made.merge(inserted(both, name, (1, text.replace("''", "'"))))
    made.writer.close()


@pytest.mark.parametrize("name", NEW)
def test_each_kind_of_type_and_each_way_of_a_row(both: Ends, name: str) -> None:
    table = both.tables[TableId("public", name)]
    old = {"plain": "sad", "many": "{sad}", "wrapped": "sad", "parts": "(x,sad)"}[name]
    made = applying(both)
    made.merge(inserted(both, name, (1, old), (2, old), (3, old)))
    new = old.replace("sad", "new")
    key = pa.table({"id": pa.array([1], pa.int32())})
    net = TableNet(table, updates=(Updates(key, pa.table({"v": pa.array([new], pa.string())})),))
    both.source.execute("ALTER TYPE mood ADD VALUE 'new'")
    with pytest.raises(TargetBusy), made as writer:
        writer.merge(net)
    made.merge(net)
    both.source.execute("ALTER TYPE mood ADD VALUE 'newer'")
    newer = RowChange(table, "update", {"id": "2"}, {"v": old.replace("sad", "newer")})
    with pytest.raises(TargetBusy), made as writer:
        writer.change(newer)
    with made as writer:
        writer.change(newer)
    assert both.target.query(f"SELECT v::text FROM public.{name} ORDER BY id") == [
        (old.replace("sad", label),) for label in ("new", "newer", "sad")
    ]
    made.writer.close()


def test_where_nothing_can_be_added_it_is_the_conflict_that_it_was(both: Ends) -> None:
    """No such label at the source; labels of which nobody can say which is which; a type that belongs to somebody else."""
    made = applying(both)
    with pytest.raises(Conflict, match="ADD VALUE … at the target"), made as writer:
        writer.merge(inserted(both, "plain", (1, "unheard of")))
    user, name = f"{both.target.name}_plain", both.target.name
    both.source.execute("ALTER TYPE mood ADD VALUE 'new'")
    both.target.execute(
        f"CREATE ROLE {user} LOGIN PASSWORD 'x'",
        f"GRANT ALL ON ALL TABLES IN SCHEMA public, anabranch TO {user}",
        f"GRANT ALL ON SCHEMA public, anabranch TO {user}",
        f"GRANT TEMPORARY ON DATABASE {name} TO {user}",
    )
    made.writer.close()
    try:
        other = applying(both, user)
        with pytest.raises(Conflict, match="ADD VALUE … at the target"), other as writer:
            writer.merge(inserted(both, "plain", (1, "new")))
        other.writer.close()
        assert both.target.query(LABELS) == [("sad",), ("o'k",)]
    finally:
        both.target.execute(f"DROP OWNED BY {user}", f"DROP ROLE {user}")
    both.source.execute("ALTER TYPE mood RENAME VALUE 'sad' TO 'glum'")
    made = applying(both)
    with pytest.raises(Redefined), made as writer:
        writer.merge(inserted(both, "plain", (1, "new")))
    assert both.target.query(LABELS) == [("sad",), ("o'k",)]
    made.writer.close()


@pytest.mark.parametrize("name", NEW)
def test_a_label_that_comes_while_a_table_is_loaded_is_added(both: Ends, name: str) -> None:
    """The definition that the load has is older than the label; its chunk is refused, and read again."""
    old = {"plain": "sad", "many": "{sad}", "wrapped": "sad", "parts": "(x,sad)"}[name]
    table = TableId("public", name)
    work = ChunkWork(JOB, source(endpoint_of(both.source)), target(endpoint_of(both.target)), RULES)
    one = LoadTable(both.schemas[table], both.tables[table])
    piece = LoadPiece(one, 0, Bounds())
    both.source.execute(*ADDED, f"INSERT INTO {name} VALUES (1, '{old}')")
    both.source.query(f"INSERT INTO {name} VALUES (2, %s) RETURNING id", [NEW[name].replace("''", "'")])
    with work.read(piece) as (header, blocks):
        assert work.finish(piece, header, blocks) == (2,)
    shown = f"SELECT id, v::text FROM public.{name} ORDER BY id"
    assert both.target.query(shown) == both.source.query(shown)
    assert both.target.query(LABELS) == both.source.query(LABELS)


def test_a_load_whose_label_cannot_be_added_is_refused(both: Ends) -> None:
    """The target's labels have other names: nobody can say which is which."""
    table = TableId("public", "plain")
    work = ChunkWork(JOB, source(endpoint_of(both.source)), target(endpoint_of(both.target)), RULES)
    piece = LoadPiece(LoadTable(both.schemas[table], both.tables[table]), 0, Bounds())
    both.target.execute("ALTER TYPE mood RENAME VALUE 'sad' TO 'glum'")
    both.source.execute("ALTER TYPE mood ADD VALUE 'new'", "INSERT INTO plain VALUES (1, 'new')")
    with work.read(piece) as (header, blocks), pytest.raises(RowRefused, match="key id=1"):
        work.finish(piece, header, blocks)
    assert both.target.query(LABELS) == [("glum",), ("o'k",)]


def loaded(both: Ends, name: str, raw: bool) -> Outcome:
    ends = source(endpoint_of(both.source)), target(endpoint_of(both.target))
    table = TableId("public", name)
    load = LoadTable(both.schemas[table], both.tables[table])
    forms = both.loader.raw_forms([load.table]) if raw else {}
    assert bool(forms) == raw
    return do(ChunkWork(JOB, *ends, RULES, forms=forms), LoadPiece(load, 0, Bounds()))


@pytest.mark.parametrize(
    ("name", "raw"), [*((name, False) for name in NEW), ("plain", True), ("wrapped", True)], ids=str
)
def test_torture_seed_19_a_label_that_came_since_the_table_was_made_is_added_by_its_load(
    both: Ends, name: str, raw: bool
) -> None:
    both.source.execute(*ADDED, f"INSERT INTO {name} SELECT n, '{NEW[name]}' FROM generate_series(1, 3) n")
    assert loaded(both, name, raw).value == (3,)
    assert both.target.query(f"SELECT v::text FROM {name}") == both.source.query(f"SELECT v::text FROM {name}")
    assert both.target.query(LABELS) == both.source.query(LABELS)
