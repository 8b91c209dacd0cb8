"""What statements do to the tables in force: MySQL's dialect, a catalogue that says what is there now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.capture.definitions import DefinitionKeeper
from anabranch.connectors.memory.source.capture import MemoryOrder, mark
from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.errors import SourceError, SourceUnavailable, UnknownLogEvent
from anabranch.model.column_changes import ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.parked_reasons import DROPPED
from anabranch.model.position import LogMark
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema
from anabranch.rows.chunk import Barrier, BarrierKind, Chunk
from anabranch.rows.log_items import LogStatement
from anabranch.trail.writer import TrailWriter

HERE = mark("server", 7)


def table(name: str, engine: str = "InnoDB") -> TableSchema:
    columns = (Column("id", LogicalType(Kind.INT64), "bigint", nullable=False), Column("n", None, "int"))
    return TableSchema(TableId("shop", name), columns, ("id",), engine=engine)


@dataclass
class Source:
    """A connector whose catalogue finds `tables`."""

    now: dict[TableId, TableSchema]
    order: Any = field(default_factory=MemoryOrder)
    dialect: Any = field(default_factory=MysqlDialect)

    def catalog(self) -> Source:
        return self

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        return {table: schema for table, schema in self.now.items() if wanted(table)}

    def mark(self) -> LogMark:
        return HERE

    def close(self) -> None: ...


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Callable[..., DefinitionKeeper]]:
    """A keeper of tables that a trail has definitions of, and that are still the same at the source."""
    opened: list[TrailWriter] = []

    def make(*tables: TableSchema) -> DefinitionKeeper:
        opened.append(TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity="server", pack=False))
        for schema in tables:
            opened[-1].schema(schema)
        source: Any = Source({schema.id: schema for schema in tables})
        return DefinitionKeeper(source, opened[-1], lambda t: t.schema == "shop", lambda: None)

    yield make
    for trail in opened:
        trail.close()


def barriers(chunk: Chunk | None) -> list[tuple[BarrierKind, str]]:
    found: tuple[Barrier, ...] = chunk.barriers if chunk else ()
    return [(barrier.kind, barrier.table.name) for barrier in found]


def seen(keeper: DefinitionKeeper, sql: str) -> list[tuple[BarrierKind, str]]:
    """Return the barriers of a statement, but for notes of what is not followed."""
    found = barriers(keeper.on_statement(LogStatement(sql, "shop", HERE)))
    return [one for one in found if one[0] is not BarrierKind.NOTE]


def noted(keeper: DefinitionKeeper, sql: str) -> dict[str, str]:
    """Return what is noted of tables that go on as they are, by their names; or what is noted beside what they follow."""
    chunk = keeper.on_statement(LogStatement(sql, "shop", HERE))
    return {one.table.name: one.reason for one in (chunk.barriers if chunk else ())}


def test_rule_33_only_of_a_memory_table_a_delete_without_condition_is_a_truncate(keep: Callable) -> None:
    keeper = keep(table("cache", "MEMORY"), table("orders"))
    assert seen(keeper, "DELETE FROM `shop`.`cache`") == [(BarrierKind.TRUNCATE, "cache")]
    assert seen(keeper, "TRUNCATE TABLE orders") == [(BarrierKind.TRUNCATE, "orders")]
    with pytest.raises(UnknownLogEvent, match="logged as a statement") as refused:
        seen(keeper, "DELETE FROM orders")
    assert "ROW" in refused.value.hint
    assert seen(keeper, "DELETE FROM elsewhere.orders") == []


def test_torture_seed_1368_a_schema_that_holds_none_of_ours_may_go(keep: Callable) -> None:
    """Nobody has to look what there is now; while somebody drops a schema, the server may tell half of it."""
    keeper = keep(table("orders"))
    keeper.source.now.clear()
    for statement in ("DROP DATABASE other", "DROP SCHEMA IF EXISTS other", "CREATE OR REPLACE DATABASE other"):
        assert seen(keeper, statement) == []
    assert seen(keeper, "DROP DATABASE shop") == [(BarrierKind.PARK, "orders")]


def test_what_may_have_taken_parked_tables_away_is_kept_for_when_the_source_says_so(keep: Callable) -> None:
    keeper = keep(table("orders"), table("other"))
    for statement in (
        "DROP TABLE elsewhere",
        "DROP DATABASE other",
        "DROP TEMPORARY TABLE t",
        "ALTER TABLE orders ADD a INT",
    ):
        seen(keeper, statement)
    assert not keeper.may_be_gone, "nothing that is parked"
    seen(keeper, "DROP TABLE other, orders")
    assert keeper.may_be_gone
    (barrier,) = keeper.drop(TableId("shop", "orders"))
    assert barrier.statement == "DROP TABLE other, orders" and barrier.reason.startswith(DROPPED)
    seen(keeper, "DROP DATABASE shop")
    (barrier,) = keeper.drop(TableId("shop", "other"), "a partition of shop.root")
    assert barrier.statement == "DROP DATABASE shop" and "it is a partition of shop.root; exclude it" in barrier.reason
    seen(keeper, "CREATE TABLE orders (id INT)")
    entry = keeper.trail.history.parked_by(TableId("shop", "orders"))
    assert entry is not None and entry.reason.startswith("created after start")


def test_a_new_table_has_the_statement_that_names_it_or_none(keep: Callable) -> None:
    """The catalogue shows all that came meanwhile, by statements that the log has further on."""
    keeper = keep(table("orders"))
    keeper.source.now |= {schema.id: schema for schema in (table("one"), table("two"))}
    assert seen(keeper, "CREATE TABLE one (id INT)") == [(BarrierKind.PARK, "one"), (BarrierKind.PARK, "two")]
    found = {name: keeper.trail.history.parked_by(TableId("shop", name)) for name in ("one", "two")}
    assert {name: entry and entry.statement for name, entry in found.items()} == {
        "one": "CREATE TABLE one (id INT)",
        "two": "",
    }


@pytest.mark.parametrize(
    "clauses",
    [
        "DROP COLUMN n, ADD COLUMN n INT",
        "MODIFY n TINYINT",
        "CHANGE n n INT",
        "CONVERT TO CHARACTER SET latin1",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (id)",
        "ENGINE = MyISAM",
    ],
)
def test_rule_19_what_may_change_values_parks_also_if_the_definition_is_the_same_now(
    keep: Callable, clauses: str
) -> None:
    """A column that went and came back is empty; one that was made narrower and wide again has lost digits."""
    keeper = keep(table("orders"), table("other"))
    assert seen(keeper, f"ALTER TABLE orders {clauses}") == [(BarrierKind.PARK, "orders")]
    entry = keeper.trail.history.parked_by(TableId("shop", "orders"))
    assert entry is not None and entry.statement == f"ALTER TABLE orders {clauses}"


@pytest.mark.parametrize(
    "clauses",
    [
        "COMMENT 'x'",
        "ADD INDEX (n)",
        "RENAME INDEX a TO b",
        "AUTO_INCREMENT = 7",
        "ENGINE = InnoDB",
        "REMOVE PARTITIONING",
    ],
)
def test_rule_19_what_changes_no_value_goes_on(keep: Callable, clauses: str) -> None:
    keeper = keep(table("orders"))
    assert seen(keeper, f"ALTER TABLE orders {clauses}, ALGORITHM = INPLACE, LOCK = NONE") == []


BOTH = (Action.CASCADE, Action.RESTRICT)


def with_keys(schema: TableSchema, *actions: Action, unique: str = "") -> TableSchema:
    """With a foreign key for each action ON DELETE, k0, k1, …, and a unique index of this name."""
    parent = TableId("shop", "other")
    keys = tuple(ForeignKey(f"k{at}", ("n",), parent, ("id",), action) for at, action in enumerate(actions))
    return replace(schema, foreign_keys=keys, indexes=(Index(unique, ("n",), unique=True),) if unique else ())


@pytest.mark.parametrize(
    ("clauses", "then", "now"),
    [
        ("ADD FOREIGN KEY (n) REFERENCES other (id)", {}, {"actions": (Action.RESTRICT,)}),
        ("DROP FOREIGN KEY K0", {"actions": (Action.RESTRICT,)}, {}),
        ("DROP CONSTRAINT k0", {"actions": (Action.RESTRICT,)}, {}),
        ("ADD UNIQUE KEY u (n)", {}, {"unique": "u"}),
        ("DROP KEY u, DROP FOREIGN KEY k1", {"actions": BOTH, "unique": "u"}, {"actions": BOTH[:1]}),
    ],
)  # fmt: skip
def test_rule_19_keys_that_only_refuse_come_and_go(
    keep: Callable, clauses: str, then: dict[str, Any], now: dict[str, Any]
) -> None:
    """The definition in force stays as it is: rows are read, and applied, as before."""

    def of(keys: dict[str, Any]) -> TableSchema:
        return with_keys(table("orders"), *keys.get("actions", ()), unique=keys.get("unique", ""))

    keeper = keep(of(then), table("other"))
    keeper.source.now[of(now).id] = of(now)
    assert seen(keeper, f"ALTER TABLE orders {clauses}") == []
    assert keeper.trail.history.in_force()[TableId("shop", "orders")] == of(then)
    assert seen(keeper, "CREATE INDEX i ON other (n)") == [], "compared again with each statement"


@pytest.mark.parametrize(
    "clauses",
    [
        "DROP FOREIGN KEY k0",
        "DROP FOREIGN KEY K0, ADD FOREIGN KEY (n) REFERENCES other (id)",
        "DROP CONSTRAINT IF EXISTS k0",
        "ADD FOREIGN KEY (n) REFERENCES other (id) ON UPDATE CASCADE",
    ],
)
def test_rule_01_19_keys_that_act_park_also_if_they_are_there_again(keep: Callable, clauses: str) -> None:
    """Meanwhile rows went, or did not go, with their parents."""
    keeper = keep(with_keys(table("orders"), Action.CASCADE), table("other"))
    found = seen(keeper, f"ALTER TABLE orders {clauses}")
    assert sorted(found) == [(BarrierKind.PARK, "orders"), (BarrierKind.PARK, "other")]


def seen_at(keeper: DefinitionKeeper, sql: str, at: LogMark) -> list[tuple[BarrierKind, str]]:
    found = barriers(keeper.on_statement(LogStatement(sql, "shop", at)))
    return [one for one in found if one[0] is not BarrierKind.NOTE]


def test_rule_19_another_action_of_a_key_parks(keep: Callable) -> None:
    keeper = keep(with_keys(table("orders"), Action.RESTRICT), table("other"))
    now = with_keys(table("orders"), Action.SET_NULL)
    keeper.source.now[now.id] = now
    found = seen(keeper, "ALTER TABLE orders DROP FOREIGN KEY k0")  # what made another of it comes further on
    assert sorted(found) == [(BarrierKind.PARK, "orders"), (BarrierKind.PARK, "other")]


def test_rule_19_a_unique_key_of_a_table_without_a_primary_one_tells_its_rows_apart(keep: Callable) -> None:
    keyless = replace(table("orders"), primary_key=())
    keeper = keep(keyless)
    keeper.source.now[keyless.id] = with_keys(keyless, unique="u")
    assert seen(keeper, "ALTER TABLE orders ADD UNIQUE KEY u (n)") == [(BarrierKind.PARK, "orders")]


def test_rule_19_such_a_key_parks_also_where_indexes_are_followed(keep: Callable) -> None:
    """An index that comes in the same statement does not let the table go on by a key that is gone."""
    keyed = with_keys(replace(table("orders"), primary_key=()), unique="u")
    keeper = keep(keyed)
    keeper.source.now[keyed.id] = replace(keyed, indexes=(Index("k", ("id",)),))
    keeper.follows = lambda table: frozenset((ColumnChange.INDEXES,))
    assert seen(keeper, "ALTER TABLE orders DROP INDEX u, ADD INDEX k (id)") == [(BarrierKind.PARK, "orders")]


def test_rule_19_another_expression_is_another_definition(keep: Callable) -> None:
    keeper = keep(schema := table("orders"))
    computed = replace(schema.columns[1], generated=True, expression="id + 1")
    keeper.source.now = {schema.id: replace(schema, columns=(schema.columns[0], computed))}
    assert seen(keeper, "CREATE INDEX i ON orders (n)") == [(BarrierKind.PARK, "orders")]


def test_a_type_that_was_not_known_when_the_trail_began_is_no_other_definition(keep: Callable) -> None:
    """A dropped column of a type that a later release reads: its default is told in another form by then."""
    schema = table("orders")
    refused = Column("at", None, "point", has_default=True, default="x", refusal="geometry is not replicated yet")
    known = Column("at", LogicalType(Kind.GEOMETRY), "point", has_default=True, default="\\x78")
    now = replace(schema, columns=(*schema.columns, known))
    keeper = keep(replace(schema, columns=(*schema.columns, refused)))
    keeper.source.now = {schema.id: now}
    assert seen(keeper, "CREATE INDEX i ON orders (n)") == []
    keeper.source.now = {schema.id: replace(now, columns=(*schema.columns, replace(known, native="polygon")))}
    assert seen(keeper, "CREATE INDEX j ON orders (n)") == [(BarrierKind.PARK, "orders")]


def test_rule_17_a_table_goes_on_behind_columns_that_are_certain(keep: Callable) -> None:
    """Barriers say that a table goes on with its next definition, only where the job asks for it."""
    keeper, asked = keep(table("orders"), table("other")), []
    keeper.reselect = lambda: asked.append("again")
    then = keeper.source.now[TableId("shop", "orders")]
    added = Column("a", LogicalType(Kind.INT32), "int", has_default=True, default="5")
    keeper.source.now[then.id] = replace(then, columns=(*then.columns, added))
    keeper.follows = lambda table: frozenset(ColumnChange) - {ColumnChange.INDEXES}
    assert seen(keeper, "CREATE TABLE elsewhere.new (id INT)") == [], "the catalogue is ahead of the log"
    assert seen(keeper, "ALTER TABLE orders ADD INDEX by_n (n)") == []
    assert seen(keeper, "ALTER TABLE orders ADD a INT DEFAULT 5") == [(BarrierKind.ALTER, "orders")] and asked
    found = keeper.select(then.id)
    assert found is not None and found.version == 2 and found.columns[-1] == added
    assert seen(keeper, "ALTER TABLE orders ADD b INT") == [(BarrierKind.PARK, "orders")], "the catalogue has no b"
    keeper.follows = lambda table: frozenset()
    then = keeper.source.now[TableId("shop", "other")]
    keeper.source.now[then.id] = replace(then, columns=(*then.columns, added))
    assert seen(keeper, "ALTER TABLE other ADD a INT DEFAULT 5") == [(BarrierKind.PARK, "other")]


@pytest.mark.parametrize(
    ("sql", "kinds"),
    [
        ("CREATE INDEX i ON orders (n)", "indexes"),
        ("CREATE UNIQUE INDEX i ON orders (n)", "unique_keys"),
        ("CREATE FULLTEXT INDEX i ON orders (n)", "full-text and spatial indexes"),
        ("ALTER TABLE orders ADD CONSTRAINT c CHECK (n > 0), ADD UNIQUE (n)", "checks, unique_keys"),
        ("ALTER TABLE orders ADD CONSTRAINT FOREIGN KEY (n) REFERENCES t (id), ADD FOREIGN KEY (n) REFERENCES t (id)",
         "foreign_keys"),
        ("ALTER TABLE orders DROP CONSTRAINT u", "unique_keys"),
        ("ALTER TABLE orders DROP CONSTRAINT some", "constraints"),
        ("ALTER TABLE orders ALTER CHECK c NOT ENFORCED", "checks"),
        ("ALTER TABLE orders ENGINE=InnoDB COMMENT='x'", "comments"),
        ("ALTER TABLE orders PARTITION BY HASH (id) PARTITIONS 4", "partitions"),
        ("ALTER TABLE orders ADD PARTITION (PARTITION p VALUES LESS THAN (5))", "partitions"),
        ("ALTER TABLE orders REMOVE PARTITIONING", "partitions"),
    ],
)  # fmt: skip
def test_what_is_not_followed_is_noted(keep: Callable, sql: str, kinds: str) -> None:
    """Once, of a table that goes on; nothing is said of how rows are stored."""
    keeper = keep(with_keys(table("orders"), unique="u"), table("other"))
    assert noted(keeper, sql) == {"orders": kinds}
    for quiet in ("FORCE", "ENGINE=InnoDB", "AUTO_INCREMENT=5", "ROW_FORMAT=DYNAMIC", "DISABLE KEYS"):
        assert noted(keeper, f"ALTER TABLE orders {quiet}") == {}
    assert noted(keeper, "CREATE INDEX i ON elsewhere.orders (n)") == {}
    keeper.follows = lambda table: frozenset((ColumnChange.INDEXES,))
    keys = "ADD FOREIGN KEY (n) REFERENCES t (id)"
    assert noted(keeper, f"ALTER TABLE orders ADD KEY k (n), {keys}, COMMENT 'x'") == {"orders": "foreign_keys"}
    assert noted(keeper, "ALTER TABLE orders ADD KEY l (n), ADD CHECK (n > 0)") == {"orders": ""}, (
        "the definition has it"
    )


def test_rows_that_go_with_a_partition_let_the_table_go_on_where_the_job_keeps_them(keep: Callable) -> None:
    """A statement that may bring rows parks the table, as does one that is not certain; a partition made a table is new."""
    keeper, orders = keep(table("orders"), table("other")), TableId("shop", "orders")
    keeper.follows = lambda table: frozenset((ColumnChange.PARTITIONS,))
    went = [(BarrierKind.ALTER, "orders")]
    assert seen(keeper, "ALTER TABLE orders DROP PARTITION p0, p1") == went
    assert seen(keeper, "SET STATEMENT lock_wait_timeout=5 FOR ALTER TABLE orders TRUNCATE PARTITION ALL") == went
    assert seen(keeper, "ALTER TABLE orders CONVERT PARTITION p2 TO TABLE fresh") == [
        *went,
        (BarrierKind.PARK, "fresh"),
    ]
    found = keeper.select(orders)
    assert found is not None and found.version == 4 and keeper.trail.history.lost_rows(found)
    assert noted(keeper, "ALTER TABLE orders COALESCE PARTITION 2") == {"orders": "partitions"}
    keeper.unsettled[orders] = mark("server", 8)
    assert seen(keeper, "ALTER TABLE orders DROP PARTITION p3") == [(BarrierKind.PARK, "orders")], "read behind it"
    found = keeper.on_statement(LogStatement("ALTER TABLE other IMPORT PARTITION p TABLESPACE", "shop", HERE))
    assert found is not None and "rows came or went" in found.barriers[0].reason


def test_unique_keys_are_followed_where_the_job_asks_for_them(keep: Callable) -> None:
    """They are another kind than indexes; a statement about both goes on for either."""
    keeper, orders = keep(table("orders")), TableId("shop", "orders")
    keeper.follows = lambda table: frozenset((ColumnChange.UNIQUE_KEYS,))
    assert seen(keeper, "CREATE INDEX i ON orders (n)") == []
    assert seen(keeper, "CREATE UNIQUE INDEX u ON orders (n)") == [(BarrierKind.ALTER, "orders")]
    assert [index.name for index in keeper.select(orders).indexes if index.unique] == ["u"]
    assert seen(keeper, "ALTER TABLE orders DROP CONSTRAINT u, ADD KEY i (n)") == [(BarrierKind.ALTER, "orders")]
    assert [index.name for index in keeper.select(orders).indexes] == ["i"]


@pytest.mark.parametrize(
    ("sql", "prepared", "becomes"),
    [
        ("ALTER TABLE orders DROP INDEX u", False, BarrierKind.ALTER),
        ("SET STATEMENT lock_wait_timeout=5 FOR ALTER TABLE orders DROP INDEX u", False, BarrierKind.ALTER),
        ("ALTER TABLE orders DROP INDEX U", True, BarrierKind.PARK),
        ("DROP INDEX u ON orders", True, BarrierKind.PARK),
        ("ALTER TABLE orders RENAME KEY u TO w", True, BarrierKind.PARK),
        ("ALTER TABLE orders DROP CONSTRAINT u", True, BarrierKind.PARK),
        ("CREATE OR REPLACE UNIQUE INDEX u ON orders (id)", True, BarrierKind.PARK),
        ("ALTER TABLE orders DROP INDEX u, COMMENT 'it\\'s'", False, BarrierKind.PARK),
        ("ALTER TABLE orders COMMENT 'it\\', DROP INDEX u, COMMENT ''", False, BarrierKind.PARK),
        ("ALTER TABLE orders DROP INDEX u, ADD INDEX i (never)", False, BarrierKind.PARK),
        ("ALTER TABLE orders DROP INDEX low", False, BarrierKind.PARK),  # over an expression
        ("ALTER TABLE orders DROP INDEX i", True, None),
        ("ALTER TABLE orders ADD UNIQUE w (n)", True, None),
        ("ALTER TABLE orders COMMENT 'it\\'s'", False, None),
    ],
)
def test_rule_17_a_unique_key_that_goes_is_followed_or_parks_its_table(
    keep: Callable, monkeypatch: pytest.MonkeyPatch, sql: str, prepared: bool, becomes: BarrierKind | None
) -> None:
    """The target's would refuse rows that the source takes. One that is missing refuses none."""
    monkeypatch.setattr("anabranch.capture.kept_catalog.BEHIND_SECONDS", 0.0)
    known = (
        Index("u", ("n",), True),
        Index("i", ("n",)),
        Index("low", (), True, kind="functional", parts=("(abs(n))",)),
    )
    keeper = keep(replace(table("orders"), indexes=known))
    keeper.follows = lambda table: frozenset((ColumnChange.UNIQUE_KEYS,))
    if prepared:
        keeper.trail.staging.prepare("x", HERE, left_out=[TableId("shop", "other")])
    chunk = keeper.on_statement(LogStatement(sql, "shop", HERE))
    found = [one for one in (chunk.barriers if chunk else ()) if one.kind is not BarrierKind.NOTE]
    assert [one.kind for one in found] == ([becomes] if becomes else [])
    if becomes is BarrierKind.PARK:
        assert "unique key" in found[0].reason and "load the table again" in found[0].reason


def test_a_unique_key_that_goes_from_a_table_that_is_not_read_parks_it(
    keep: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = keep(replace(table("orders"), indexes=(Index("u", ("n",), True),)))
    keeper.follows = lambda table: frozenset((ColumnChange.UNIQUE_KEYS,))

    def tables(*_: object) -> None:
        raise SourceError("no answer")

    monkeypatch.setattr(keeper.source, "tables", tables)
    assert seen(keeper, "ALTER TABLE orders DROP INDEX u") == [(BarrierKind.PARK, "orders")]


@pytest.mark.parametrize(
    ("sql", "prepared", "becomes"),
    [
        ("ALTER TABLE orders DROP FOREIGN KEY k0", False, BarrierKind.ALTER),
        ("ALTER TABLE orders DROP FOREIGN KEY K0", True, BarrierKind.PARK),
        ("ALTER TABLE orders DROP CONSTRAINT IF EXISTS k0, ADD INDEX i (n)", True, BarrierKind.PARK),
        ("ALTER TABLE orders DROP FOREIGN KEY k0, COMMENT 'it\\'s'", False, BarrierKind.PARK),
        ("ALTER TABLE orders DROP FOREIGN KEY nobody", True, None),
        ("ALTER TABLE orders ADD CONSTRAINT k1 FOREIGN KEY (n) REFERENCES other (id)", True, None),
    ],
)
def test_rule_17_a_foreign_key_that_goes_is_followed_or_parks_its_tables(
    keep: Callable, monkeypatch: pytest.MonkeyPatch, sql: str, prepared: bool, becomes: BarrierKind | None
) -> None:
    """The target's would refuse rows that the source takes. Without the setting it is only noted, as ever."""
    monkeypatch.setattr("anabranch.capture.kept_catalog.BEHIND_SECONDS", 0.0)
    keeper = keep(with_keys(table("orders"), Action.RESTRICT), table("other"))
    if prepared:
        keeper.trail.staging.prepare("x", HERE, left_out=[TableId("shop", "other")])
    assert seen(keeper, sql) == []
    keeper.follows = lambda table: frozenset((ColumnChange.FOREIGN_KEYS,))
    chunk = keeper.on_statement(LogStatement(sql, "shop", HERE))
    found = {one.table.name: one for one in (chunk.barriers if chunk else ()) if one.kind is not BarrierKind.NOTE}
    names = {None: [], BarrierKind.ALTER: ["orders"], BarrierKind.PARK: ["orders", "other"]}[becomes]
    assert sorted(found) == names and {one.kind for one in found.values()} <= {becomes}
    if becomes is BarrierKind.PARK:
        assert "foreign key k0" in found["orders"].reason and "load the table again" in found["orders"].reason


def test_a_foreign_key_that_is_left_out_beside_another_one_is_noted(keep: Callable) -> None:
    keeper = keep(table("orders"), table("other"))
    keeper.follows = lambda table: frozenset((ColumnChange.FOREIGN_KEYS, ColumnChange.INDEXES))
    out = "ADD CONSTRAINT out_of_it FOREIGN KEY (n) REFERENCES elsewhere (id)"
    inside = "ADD CONSTRAINT k FOREIGN KEY (n) REFERENCES other (id)"
    said = "foreign_keys (out_of_it)"
    assert noted(keeper, f"ALTER TABLE orders {inside}, {out}, ADD FULLTEXT INDEX f (n)") == {
        "orders": f"full-text and spatial indexes, {said}"
    }
    assert [key.name for key in keeper.select(TableId("shop", "orders")).foreign_keys] == ["k"]
    assert noted(keeper, f"ALTER TABLE orders ADD INDEX i (n), {out}") == {"orders": said}
    assert noted(keeper, f"ALTER TABLE orders DROP FOREIGN KEY k, {out}") == {"orders": said}
    assert noted(keeper, f"ALTER TABLE orders {inside}") == {"orders": ""}


def test_indexes_are_followed_where_the_job_asks_for_them(keep: Callable) -> None:
    """A statement that changes nothing the job knows of is none; one that alters columns goes on in any case."""
    keeper = keep(table("orders"), table("other"))
    create, orders = "CREATE INDEX by_n ON orders (n)", TableId("shop", "orders")
    assert seen(keeper, create) == [] and keeper.select(orders).version == 1
    keeper.follows = lambda table: frozenset((ColumnChange.INDEXES,))
    assert seen(keeper, "DROP INDEX never ON orders") == [] == seen(keeper, "CREATE UNIQUE INDEX u ON orders (n)")
    assert seen(keeper, create) == [(BarrierKind.ALTER, "orders")] and keeper.select(orders).indexes[0].name == "by_n"
    del keeper.source.now[TableId("shop", "other")]  # by a statement that the log has further on
    assert seen(keeper, "ALTER TABLE orders DROP KEY by_n") == [(BarrierKind.ALTER, "orders")]
    keeper.follows = lambda table: frozenset((ColumnChange.DROP,))
    assert seen(keeper, "ALTER TABLE orders DROP n, ADD INDEX by_id (id)") == [(BarrierKind.ALTER, "orders")]
    assert [index.name for index in keeper.select(orders).indexes] == ["by_id"]
    keeper.follows = lambda table: frozenset((ColumnChange.INDEXES,))
    assert (BarrierKind.PARK, "orders") in seen(keeper, "ALTER TABLE orders DROP KEY by_id, ENGINE=MyISAM")


@pytest.mark.parametrize(
    ("prepared", "goes_on"),
    [({"is_older": True}, False), ({"left_out": [TableId("shop", "other")]}, False), ({}, True)],
    ids=["from before", "rows that are not here", "nothing of ours"],
)
def test_rule_06_no_table_goes_on_while_a_transaction_with_rows_is_prepared(
    keep: Callable, prepared: dict[str, Any], goes_on: bool
) -> None:
    """Another application's on the same server keeps nobody from going on (torture seed 40215)."""
    keeper = keep(table("orders"))
    then = keeper.source.now[TableId("shop", "orders")]
    added = Column("a", LogicalType(Kind.INT32), "int", has_default=True, default="5")
    keeper.source.now[then.id] = replace(then, columns=(*then.columns, added))
    keeper.follows = lambda table: frozenset(ColumnChange)
    keeper.trail.staging.prepare("x", HERE, **prepared)
    kind = BarrierKind.ALTER if goes_on else BarrierKind.PARK
    assert seen(keeper, "ALTER TABLE orders ADD a INT DEFAULT 5") == [(kind, "orders")]


def test_a_table_that_the_catalogue_does_not_show_parks_and_capture_goes_on(
    keep: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right that was taken away refuses the question; a source that is away is asked again by whoever reads its log."""
    keeper = keep(table("orders"), table("other"))
    keeper.follows = lambda table: frozenset(ColumnChange)

    def refuse(error: type[SourceError]) -> None:
        def tables(*_: object) -> None:
            raise error("no answer")

        monkeypatch.setattr(keeper.source, "tables", tables)

    refuse(SourceError)
    assert seen(keeper, "ALTER TABLE orders ADD a INT") == [(BarrierKind.PARK, "orders")]
    refuse(SourceUnavailable)
    with pytest.raises(SourceUnavailable):
        seen(keeper, "ALTER TABLE other ADD a INT")
