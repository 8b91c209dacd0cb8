"""Updates that take unique values or keys from each other, on a real PostgreSQL: from row images to rows (K8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from anabranch.apply.compact import compact
from anabranch.apply.images import gather
from anabranch.connectors.postgresql.target import merge_rows
from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.exchange import CANNOT_PARK
from anabranch.connectors.postgresql.target.stage import PostgresStager
from anabranch.connectors.postgresql.target.standing import PostgresCatalog
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.contracts import Conflict, ValueRules
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.schema import TableSchema
from anabranch.model.state import Checkpoint
from anabranch.rows.keys import UniqueKey
from anabranch.rows.net import TableNet, TargetTable, Updates
from anabranch.testing.databases import create_database, drop_database
from anabranch.testing.servers import Server
from rigs.chunks import INT, TEXT, chunk_of, schema
from rigs.endpoints import endpoint_of
from rigs.unique_keys import UNIQUE, history

WIDE = schema("wide", {"id": INT, "u": INT, "v": INT, "w": TEXT}, ["id"])
NAMED = schema("named", {"id": TEXT, "u": INT}, ["id"])


def target_of(of: TableSchema, name: str) -> TargetTable:
    names = tuple(column.name for column in of.columns)
    return TargetTable(of.id, TableId("public", name), names, tuple(c.type for c in of.columns), of.primary_key, names)


class Target:
    """A claimed writer, and what the target says of its unique keys."""

    def __init__(self, endpoint: Endpoint, database: Any, bypass: bool = True) -> None:
        self.database, self.endpoint, self.epochs = database, endpoint, count(1)
        self.writer = PostgresWriter(endpoint, ValueRules(), bypass)
        self.at = self.writer.claim("shop", "me")
        self.known: dict[TableId, frozenset[str]] = {}

    def unique(self, table: TargetTable) -> frozenset[str]:
        if table.target not in self.known:
            with closing(PostgresCatalog(self.endpoint)) as catalog:
                keys = catalog.unique_keys([table]).get(table.source, frozenset())
                self.known[table.target] = frozenset(name for key in keys for name in key.columns)
        return self.known[table.target]

    def net(self, of: TableSchema, table: TargetTable, changes: Sequence[tuple]) -> TableNet:
        images = gather([chunk_of([changes], [of])], table, of, 1)
        assert images is not None
        return compact(images, table, checked=True, unique=self.unique(table))[0]

    def merge(self, *nets: TableNet, by_executor: bool = False) -> None:
        then = Checkpoint(self.at.owner, self.at.epoch + 1, Position(next(self.epochs)), 0)
        staged = []
        if by_executor:
            with closing(PostgresStager(self.endpoint, ValueRules())) as stager:
                staged = [stager.stage("shop", [net])[0] for net in nets]
        assert self.writer.begin(self.at, then) == "open"
        try:
            for net in staged:
                self.writer.merge_staged(net)
            for net in () if staged else nets:
                self.writer.merge(net)
        except Conflict:
            self.writer.rollback()
            raise
        self.writer.commit()
        self.at = then


@pytest.fixture
def target(target_database: Any) -> Iterator[Target]:
    endpoint = endpoint_of(target_database)
    with closing(PostgresStore(endpoint)) as store:
        store.prepare()
        store.create_checkpoint("shop", Position(0), 0)
    made = Target(endpoint, target_database)
    yield made
    made.writer.close()


def is_refused(target: Target, net: TableNet) -> bool:
    try:
        target.merge(net)
    except Conflict:
        return True
    return False


def in_place(net: TableNet) -> TableNet:
    return replace(net, updates=tuple(replace(updates, contends=False) for updates in net.updates))


# --- every kind of unique key -----------------------------------------------------------------------------------------


# As citext and collations that ignore case, which not every build of the server has: an equality that is not ours.
SIGNS = {"lt": "<", "le": "<=", "eq": "=", "ge": ">=", "gt": ">"}
BOTH = "AS 'SELECT lower($1) {} lower($2)'"
IGNORING_CASE = (
    *(
        f"CREATE FUNCTION ci_{name}(text, text) RETURNS bool IMMUTABLE LANGUAGE sql {BOTH.format(sign)};"
        f"CREATE OPERATOR {sign}* (LEFTARG = text, RIGHTARG = text, FUNCTION = ci_{name})"
        for name, sign in SIGNS.items()
    ),
    "CREATE FUNCTION ci_cmp(text, text) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT bttextcmp(lower($1), lower($2))'",
    f"CREATE OPERATOR CLASS ignoring_case FOR TYPE text USING btree AS FUNCTION 1 ci_cmp(text, text),"
    f" {', '.join(f'OPERATOR {place} {sign}*' for place, sign in enumerate(SIGNS.values(), 1))}",
)


@dataclass(frozen=True)
class Kind:
    """A table (id, u, v, w and `extra` of its own), rows, and changes that no statement could do row by row in place.
    `depends`: the columns that make the key."""

    name: str
    more: str  # of the table's definition
    index: str  # statements; {t} is the table
    rows: tuple[tuple[Any, ...], ...]
    after: tuple[tuple[Any, ...], ...]
    depends: str
    is_enforced: bool = True


KINDS = (
    Kind("plain", ", UNIQUE (u)", "", ((1, 1, 0, ""), (2, 2, 0, "")), ((1, 2, 0, ""), (2, 1, 0, "")), "u"),
    Kind(
        "several",
        ", UNIQUE (u), UNIQUE (v), UNIQUE (w, u) INCLUDE (v)",
        "",
        ((1, 1, 3, "a"), (2, 2, 2, "b"), (3, 3, 1, "c")),
        ((1, 2, 1, "b"), (2, 3, 3, "a"), (3, 1, 2, "c")),
        "uvw",
    ),
    Kind(
        "nulls_not_distinct",
        ", UNIQUE NULLS NOT DISTINCT (u)",
        "",
        ((1, None, 0, ""), (2, 2, 0, "")),
        ((1, 2, 0, ""), (2, None, 0, "")),
        "u",
    ),
    Kind(
        "partial",
        "",
        "CREATE UNIQUE INDEX ON {t} (u) WHERE v > 0",
        ((1, 7, 0, ""), (2, 7, 1, ""), (3, 7, -1, "")),
        ((1, 7, 1, ""), (2, 7, 0, ""), (3, 7, -1, "")),
        "uv",
    ),
    Kind(
        "expression",
        "",
        "CREATE UNIQUE INDEX ON {t} (lower(w), (u + 1))",
        ((1, 1, 0, "A"), (2, 1, 0, "b")),
        ((1, 1, 0, "B"), (2, 1, 0, "a")),
        "uw",
    ),
    Kind(
        "generated",
        ", g int GENERATED ALWAYS AS (u * 10 + v) STORED UNIQUE",
        "",
        ((1, 1, 2, ""), (2, 3, 4, "")),
        ((1, 3, 4, ""), (2, 1, 2, "")),
        "uv",
    ),
    Kind(
        "exclusion",
        ", EXCLUDE USING gist (int8range(u, v) WITH &&)",
        "",
        ((1, 1, 5, ""), (2, 5, 9, ""), (3, 9, 12, "")),
        ((1, 6, 10, ""), (2, 10, 14, ""), (3, 1, 6, "")),
        "uv",
    ),
    Kind(
        "ignores_case",
        "",
        "CREATE UNIQUE INDEX ON {t} (w ignoring_case)",
        ((1, 0, 0, "A"), (2, 0, 0, "b")),
        ((1, 0, 0, "B"), (2, 0, 0, "a")),
        "w",
    ),
    Kind(
        "ignores_spaces",
        "",
        "ALTER TABLE {t} ALTER w TYPE char(5), ADD UNIQUE (w)",
        ((1, 0, 0, "a"), (2, 0, 0, "b ")),
        ((1, 0, 0, "b"), (2, 0, 0, "a ")),
        "w",
    ),
    Kind(
        "deferrable",
        ", UNIQUE (u) DEFERRABLE INITIALLY DEFERRED",
        "",
        ((1, 1, 0, ""), (2, 2, 0, "")),
        ((1, 2, 0, ""), (2, 1, 0, "")),
        "u",
        is_enforced=False,
    ),
    Kind(
        "of_a_partition",
        ") PARTITION BY HASH (id",
        "CREATE TABLE {t}_0 PARTITION OF {t} FOR VALUES WITH (MODULUS 1, REMAINDER 0);"
        " CREATE UNIQUE INDEX ON {t}_0 (u)",
        ((1, 1, 0, ""), (2, 2, 0, "")),
        ((1, 2, 0, ""), (2, 1, 0, "")),
        "u",
    ),
)


def test_pitfall_11_values_are_handed_on_whatever_makes_them_unique(target: Target) -> None:
    """What the job does not write stays in the row. In place the same change is refused: the case would show nothing."""
    target.database.execute(*IGNORING_CASE)
    for kind in KINDS:
        table = target_of(WIDE, kind.name)
        name = f"public.{kind.name}"
        target.database.execute(
            f"CREATE TABLE {name} (id bigint PRIMARY KEY, u int, v int, w text, extra text DEFAULT 'new'{kind.more})",
            *filter(None, kind.index.format(t=name).split(";")),
            *(f"INSERT INTO {name} (id, u, v, w, extra) VALUES {row_text((*r, f'of {r[0]}'))}" for r in kind.rows),
        )
        assert target.unique(table) == frozenset(kind.depends), kind.name
        images = [("u", image(old), image(new)) for old, new in zip(kind.rows, kind.after, strict=True)]
        net = target.net(WIDE, table, images)
        if kind.is_enforced:
            assert is_refused(target, in_place(net)), kind.name
        target.merge(net)
        found = target.database.query(f"SELECT id, u, v, rtrim(w), extra FROM {name} ORDER BY id")
        expected = [(*row[:3], row[3].rstrip(), f"of {row[0]}") for row in kind.after]
        assert found == expected, kind.name


def image(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("id", "u", "v", "w"), row, strict=True))


def row_text(row: tuple[Any, ...]) -> str:
    return "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")"


def test_rule_08_an_expression_over_the_whole_row_depends_on_every_column(target: Target) -> None:
    target.database.execute(
        "CREATE TABLE public.whole (id bigint PRIMARY KEY, u int, v int, w text)",
        "CREATE FUNCTION digest_of(whole) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1.u + $1.v'",
        "CREATE UNIQUE INDEX ON public.whole (digest_of(whole))",
        "CREATE TABLE public.others (id bigint PRIMARY KEY, u int, v int, w text, extra int UNIQUE)",
    )
    assert target.unique(target_of(WIDE, "whole")) == {"id", "u", "v", "w"}
    assert target.unique(target_of(WIDE, "others")) == frozenset()  # of no column that is written
    assert target.unique(target_of(WIDE, "absent")) == frozenset()


# --- keys -------------------------------------------------------------------------------------------------------------


def test_pitfall_10_keys_are_shifted_and_swapped_with_all_that_is_in_their_rows(target: Target) -> None:
    """Identity values, generated columns, partial images; keys that are texts."""
    target.database.execute(
        "CREATE TABLE public.wide (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, u int UNIQUE, v int, w text,"
        " twice int GENERATED ALWAYS AS (v * 2) STORED, extra text DEFAULT 'new', own int GENERATED ALWAYS AS IDENTITY,"
        " large text)",
        "INSERT INTO public.wide (u, v, w, extra) SELECT i, i, 'w' || i, 'of ' || i FROM generate_series(1, 4) i",
        "UPDATE public.wide SET large = (SELECT string_agg(md5((id * n)::text), '') FROM generate_series(1, 3000) n)",
        "CREATE TABLE public.named (id text PRIMARY KEY, u int, extra text DEFAULT 'new')",
        "INSERT INTO public.named VALUES ('Anna', 1, 'kept'), ('Bert', 2, 'kept too')",
    )
    wide = target_of(WIDE, "wide")
    shift = [("u", {"id": i}, {"id": i + 1}) for i in (4, 3, 2, 1)]
    target.merge(target.net(WIDE, wide, [*shift, ("u", {"id": 2}, {"v": 70}), ("i", image((1, 1000, 0, "new")))]))
    swap = [("u", {"id": 2}, {"id": 99}), ("u", {"id": 3}, {"id": 2}), ("u", {"id": 99}, {"id": 3, "u": 2000})]
    target.merge(target.net(WIDE, wide, swap))
    query = "SELECT id, u, v, w, twice, extra, own FROM public.wide ORDER BY id"
    assert target.database.query(query) == [
        (1, 1000, 0, "new", 0, "new", 5),
        (2, 2, 2, "w2", 4, "of 2", 2),
        (3, 2000, 70, "w1", 140, "of 1", 1),
        (4, 3, 3, "w3", 6, "of 3", 3),
        (5, 4, 4, "w4", 8, "of 4", 4),
    ]
    large = "SELECT string_agg(md5((own * n)::text), '') FROM generate_series(1, 3000) n"  # stored out of line
    assert target.database.query(f"SELECT id FROM public.wide WHERE large = ({large}) ORDER BY id") == [
        (2,),
        (3,),
        (4,),
        (5,),
    ]
    names = target_of(NAMED, "named")
    renames = [("Anna", "x"), ("Bert", "ANNA"), ("x", "bert")]
    target.merge(target.net(NAMED, names, [("u", {"id": old}, {"id": new}) for old, new in renames]))
    assert target.database.query("SELECT id, u, extra FROM public.named ORDER BY u") == [
        ("bert", 1, "kept"), ("ANNA", 2, "kept too")
    ]  # fmt: skip


def test_rule_08_every_row_leaves_before_the_first_arrives(target: Target) -> None:
    """100,000 rows, each with the value of the one before it, beyond what the server sorts or keeps in memory."""
    rows = 100_000
    target.database.execute(
        "CREATE TABLE public.wide (id bigint PRIMARY KEY, u int UNIQUE, v int UNIQUE, w text, extra text)",
        f"INSERT INTO public.wide SELECT i, i, {rows} - i, repeat('x', 60), i::text FROM generate_series(0, {rows - 1}) i",
    )
    table, ids = target_of(WIDE, "wide"), pa.array(range(rows), pa.int64())
    turned = pa.array([(i + 1) % rows for i in range(rows)], pa.int64())
    half = rows // 2
    keys = pa.table({"id": ids})
    pieces = (
        Updates(keys.slice(0, half), pa.table({"u": turned}).slice(0, half), contends=True),
        Updates(keys.slice(half), pa.table({"u": turned, "w": ["y"] * rows}).slice(half), contends=True),
    )
    target.merge(TableNet(table, updates=pieces))
    query = f"SELECT count(*), count(*) FILTER (WHERE u = (id + 1) % {rows} AND v = {rows} - id AND extra = id::text) FROM wide"
    assert target.database.query(query) == [(rows, rows)]
    assert target.database.query("SELECT count(*) FROM wide WHERE w = 'y'") == [(rows - half,)]
    gone = TableNet(table, updates=(Updates(pa.table({"id": [5, -1]}), pa.table({"u": [-1, -2]}), contends=True),))
    with pytest.raises(Conflict, match="expected 2 updates"):
        target.merge(gone)
    assert target.database.query("SELECT u FROM wide WHERE id = 5") == [(6,)]


# --- histories --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("few", [0, merge_rows.FEW_ROWS], ids=["staged", "few"])
def test_rule_08_pitfall_11_the_net_change_leads_where_the_source_went(
    target: Target, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Histories of any kind, in two epochs' nets each, by the committing connection and by executors."""
    monkeypatch.setattr(merge_rows, "FEW_ROWS", few)
    tables: dict[tuple, TargetTable] = {}
    for seed in range(30):
        keys, start, changes, end = history(seed, 6 + seed % 30)
        if keys not in tables:
            tables[keys] = target_of(UNIQUE, f"unique_{len(tables)}")
            more = "".join(f", UNIQUE ({', '.join(key)})" for key in keys)
            target.database.execute(
                f"CREATE TABLE {tables[keys].target} (id bigint PRIMARY KEY, u int, v int, w text, tag int{more})"
            )
        table = tables[keys]
        inserts = [row_text(tuple(row.values())) for row in start]
        target.database.execute(
            f"TRUNCATE {table.target}",
            *([f"INSERT INTO {table.target} VALUES {', '.join(inserts)}"] if inserts else []),
        )
        half = len(changes) // 2
        nets = [target.net(UNIQUE, table, some) for some in (changes[:half], changes[half:])]
        target.merge(*nets, by_executor=few == 0 and seed % 2 == 0)
        found = target.database.query(f"SELECT id, u, v, w, tag FROM {table.target} ORDER BY id")
        assert [row[:4] for row in found] == [tuple(end[id].values())[:4] for id in sorted(end)], seed
        kept = {id: row["tag"] for id, row in end.items() if row["tag"] is not None}
        assert {row[0]: row[4] for row in found if row[0] in kept} == kept, seed


# --- where rows may not leave -----------------------------------------------------------------------------------------


def test_rule_08_rows_that_others_refer_to_stay_and_park_their_values(target: Target, target_database: Any) -> None:
    target_database.execute(
        "CREATE TABLE public.wide (id bigint PRIMARY KEY, u int UNIQUE, v int NOT NULL UNIQUE, w text UNIQUE)",
        "INSERT INTO public.wide VALUES (1, 1, 1, 'a'), (2, 2, 2, 'b'), (3, 3, 3, NULL)",
        "CREATE TABLE public.child (id int PRIMARY KEY, wide bigint REFERENCES public.wide ON DELETE CASCADE)",
        "INSERT INTO public.child VALUES (10, 1)",
        "CREATE TABLE public.audited (id bigint PRIMARY KEY, u int UNIQUE, v int, w text)",
        "INSERT INTO public.audited VALUES (1, 1, 1, 'a'), (2, 2, 2, 'b')",
        "CREATE FUNCTION pass() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER audit BEFORE UPDATE ON public.audited FOR EACH ROW EXECUTE FUNCTION pass()",
    )
    wide, audited = target_of(WIDE, "wide"), target_of(WIDE, "audited")
    two = ("u", {"id": 1}, {"u": 2, "w": "c"}), ("u", {"id": 2}, {"u": 1})
    swap = target.net(WIDE, wide, [*two, ("u", {"id": 3}, {"w": "a"})])
    keys = target.net(WIDE, wide, [("u", {"id": 2}, {"id": 3}), ("u", {"id": 1}, {"id": 2})])
    numbers = target.net(WIDE, wide, [("u", {"id": 1}, {"v": 2}), ("u", {"id": 2}, {"v": 1})])
    watched = target.net(WIDE, audited, [("u", {"id": 1}, {"u": 2}), ("u", {"id": 2}, {"u": 1})])
    target.writer.close()
    enforcing = Target(target.endpoint, target_database, bypass=False)
    enforcing.epochs = count(100)
    with closing(enforcing.writer):
        enforcing.merge(swap)
        for net in (keys, numbers, watched):
            with pytest.raises(Conflict, match=CANNOT_PARK):
                enforcing.merge(net)
    assert target_database.query("SELECT * FROM wide ORDER BY id") == [(1, 2, 1, "c"), (2, 1, 2, "b"), (3, 3, 3, "a")]
    assert target_database.query("SELECT * FROM child") == [(10, 1)]


def test_rule_08_of_a_unique_key_it_is_known_whether_its_values_tell_all(
    target_database: Any,
) -> None:
    """Rows meet in a key that is not plain by something else than the values of its columns."""
    target_database.execute(
        "CREATE TABLE kinds (id bigint PRIMARY KEY, a bigint, b bigint, c bigint, g bigint GENERATED ALWAYS AS (a + b) STORED)",
        "ALTER TABLE kinds ADD UNIQUE (a, b) DEFERRABLE",
        "CREATE UNIQUE INDEX ON kinds (c) INCLUDE (b)",
        "CREATE UNIQUE INDEX ON kinds (least(a, b), greatest(a, b))",
        "CREATE UNIQUE INDEX ON kinds (b) WHERE c > 0",
        "CREATE UNIQUE INDEX ON kinds (a) NULLS NOT DISTINCT",
        "CREATE UNIQUE INDEX ON kinds (c, g)",
        "ALTER TABLE kinds ADD EXCLUDE USING btree (id WITH =)",
    )
    table = target_of(schema("kinds", {"id": INT, "a": INT, "b": INT, "c": INT}, ["id"]), "kinds")
    with closing(PostgresCatalog(endpoint_of(target_database))) as catalog:
        found = catalog.unique_keys([table])[table.source]
    assert {key.columns for key in found if key.is_plain} == {frozenset("ab"), frozenset("c")}
    assert {key.columns for key in found if not key.is_plain} == {
        frozenset("ab"),
        frozenset("bc"),
        frozenset("a"),
        frozenset("abc"),
        frozenset({"id"}),
    }


@pytest.mark.servers
def test_rule_08_a_unique_key_by_a_collation_that_takes_texts_for_equal_is_not_plain(postgresql15: Server) -> None:
    database = create_database(postgresql15, "alike")
    database.execute(
        "CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
        "CREATE TABLE named (id text PRIMARY KEY, u text COLLATE alike UNIQUE, v text UNIQUE)",
    )
    table = target_of(schema("named", {"id": TEXT, "u": TEXT, "v": TEXT}, ["id"]), "named")
    with closing(PostgresCatalog(endpoint_of(database))) as catalog:
        found = catalog.unique_keys([table])[table.source]
    drop_database(database)
    assert found == {UniqueKey(frozenset("u"), is_plain=False), UniqueKey(frozenset("v"))}
