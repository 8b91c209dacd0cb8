"""Copies of tables that a tool makes, alters, fills and swaps in: the table goes on, or is parked with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from anabranch.capture import copies, kept_catalog
from anabranch.capture.definitions import SWAPPED, DefinitionKeeper, alone
from anabranch.connectors.memory.source.capture import MemoryOrder, mark
from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.model.column_changes import ColumnChange, Untold
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ghost_names import USUAL, GhostNames
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import Action, Column, ForeignKey, Index, TableSchema
from anabranch.rows.chunk import Barrier, BarrierKind
from anabranch.rows.log_items import LogStatement
from anabranch.trail.writer import TrailWriter

INT = LogicalType(Kind.INT32)
ID, N = Column("id", INT, "int", nullable=False), Column("n", INT, "int", has_default=True)
ADDED = Column("a", INT, "int", has_default=True, default="5")
FILLED = Column("z", INT, "int", nullable=False)
ORDERS, OTHER = TableId("shop", "orders"), TableId("shop", "other")
LIKE = "create /* gh-ost */ table `shop`.`_orders_gho` like `shop`.`orders`"
ALTER = "alter /* gh-ost */ table `shop`.`_orders_gho` ADD a INT DEFAULT 5, ADD INDEX (a)"
SWAP = "rename /* gh-ost */ table `shop`.`orders` to `shop`.`_orders_del`, `shop`.`_orders_gho` to `shop`.`orders`"
GH_OST = (LIKE, ALTER, SWAP)
COLUMNS = "`id` int NOT NULL,\n  `n` int DEFAULT NULL,\n  PRIMARY KEY (`id`)"
PT_OSC = (
    f"CREATE TABLE `shop`.`_orders_new` (\n  {COLUMNS}\n) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    "ALTER TABLE `shop`.`_orders_new` ADD a INT DEFAULT 5",
    "CREATE TRIGGER `pt_osc_shop_orders_del` AFTER DELETE ON `shop`.`orders` FOR EACH ROW DELETE IGNORE FROM "
    "`shop`.`_orders_new` WHERE `shop`.`_orders_new`.`id` <=> OLD.`id`",
    "RENAME TABLE `shop`.`orders` TO `shop`.`_orders_old`, `shop`.`_orders_new` TO `shop`.`orders`",
    "DROP TABLE IF EXISTS `shop`.`_orders_old`",
)


def table(id: TableId, *more: Column) -> TableSchema:
    return TableSchema(id, (ID, N, *more), ("id",), version=1, engine="InnoDB")


@dataclass
class Source:
    """A connector whose catalogue finds the tables `now`."""

    now: dict[TableId, TableSchema]
    shows: dict[int, TableSchema] = field(default_factory=dict)  # from the so manieth look on
    looks: int = 0
    order: Any = field(default_factory=MemoryOrder)
    dialect: Any = field(default_factory=MysqlDialect)

    def catalog(self) -> Source:
        return self

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        self.looks += 1
        if self.looks in self.shows:
            self.now |= {self.shows[self.looks].id: self.shows[self.looks]}
        return {table: schema for table, schema in self.now.items() if wanted(table)}

    def mark(self) -> LogMark:
        return mark("server", 7)

    def close(self) -> None: ...


@dataclass
class Log:
    """A log that a keeper reads, statement by statement, with `orders` altered already in the source's catalogue."""

    home: Path
    schemas: tuple[TableSchema, ...]
    follows: frozenset[ColumnChange] = frozenset(ColumnChange)
    now: tuple[Column, ...] = (ADDED,)
    named: tuple[str, ...] = ()  # tables that the job replicates whatever a tool calls so

    def __post_init__(self) -> None:
        self._places = count(1)
        self.open()
        for schema in self.schemas:
            self.trail.schema(schema)
        self.trail.flush()

    def open(self) -> None:
        self.trail = TrailWriter.open(self.home, job="j", job_uuid="u", source_identity="server", pack=False)
        source: Any = Source({s.id: s for s in self.schemas} | {ORDERS: table(ORDERS, *self.now), OTHER: table(OTHER)})

        def wanted(table: TableId) -> bool:
            is_left_out = GhostNames(USUAL).pattern_of(table.name) and table.name not in self.named
            return table.schema == "shop" and not is_left_out

        names = GhostNames(USUAL if ColumnChange.SWAP in self.follows else ())
        self.keeper = DefinitionKeeper(
            source,
            self.trail,
            wanted,
            lambda: None,
            follows=lambda table: self.follows,
            ghosts=names,
            tools=GhostNames(USUAL),
        )

    def killed(self) -> None:
        """Go on behind a kill."""
        self.trail.close()
        self.open()

    def joins(self, table: TableId) -> None:
        """Bring a table in again, by a load, as it was."""
        latest = self.trail.history.latest(table)
        assert latest is not None
        schema = latest.with_version(latest.version + 1)
        self.trail.schema(schema, joined=True)
        there = mark("server", next(self._places))
        self.trail.append(alone([Barrier(0, 0, BarrierKind.SCHEMA, table, schema=schema)], there, None))
        self.trail.flush()

    def read(self, sql: str, at: int = 0) -> list[Barrier]:
        """Read a statement, as capture does: what it says is durable before the next one. `at`: its place, read again."""
        there = mark("server", at or next(self._places))
        chunk = self.keeper.on_statement(LogStatement(sql, "shop", there))
        self.trail.append(chunk or alone([], there, None))
        self.trail.flush()
        return list(chunk.barriers) if chunk else []


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Log]]:
    monkeypatch.setattr(copies, "BEHIND_SECONDS", 0.0)
    monkeypatch.setattr(kept_catalog, "BEHIND_SECONDS", 0.0)
    made: list[Log] = []

    def make(*schemas: TableSchema, **more: Any) -> Log:
        made.append(Log(tmp_path, schemas or (table(ORDERS), table(OTHER)), **more))
        return made[-1]

    yield make
    for one in made:
        one.trail.close()


@pytest.mark.parametrize("statements", [GH_OST, PT_OSC], ids=["gh-ost", "pt-osc"])
@pytest.mark.parametrize("killed_behind", [None, 0, 1])
def test_pitfall_30_a_table_goes_on_as_its_copy(
    log: Callable[..., Log], statements: tuple[str, ...], killed_behind: int | None
) -> None:
    """Nothing but the swap does anything to the table; what is known of the copy outlives capture."""
    made, found = log(), []
    for number, statement in enumerate(statements):
        found += made.read(statement)
        if number == killed_behind:
            made.killed()
    (barrier,) = found
    assert (barrier.kind, barrier.table, barrier.untold) == (BarrierKind.ALTER, ORDERS, Untold(swapped=True))
    assert barrier.schema is not None and (barrier.schema.version, barrier.schema.columns) == (2, (ID, N, ADDED))
    assert made.trail.history.was_swapped(barrier.schema) and made.trail.history.parked() == {}
    assert "_orders" in barrier.statement


def test_a_statement_that_is_read_again_is_noted_once(log: Callable[..., Log]) -> None:
    made = log()
    made.read(LIKE, 10)
    made.read(ALTER, 20)
    made.killed()
    made.read(ALTER, 20)
    (barrier,) = made.read(SWAP, 30)
    assert barrier.kind is BarrierKind.ALTER and barrier.schema is not None and barrier.schema.columns[-1] == ADDED


def test_a_copy_that_is_as_its_table_comes_in_at_once(log: Callable[..., Log]) -> None:
    made = log(now=())
    alter = ALTER.replace("ADD a INT DEFAULT 5, ADD INDEX (a)", "ENGINE=InnoDB")
    found = [made.read(statement) for statement in (LIKE, alter, SWAP)]
    (barrier,) = found[-1]
    assert barrier.schema is not None and (barrier.schema.version, barrier.schema.columns) == (2, (ID, N))


def test_what_rows_have_got_in_a_column_without_a_default_goes_along(log: Callable[..., Log]) -> None:
    made = log(now=(FILLED,))
    (*_, found) = [made.read(one) for one in (LIKE, "ALTER TABLE _orders_gho ADD z INT NOT NULL", SWAP)]
    assert found[0].untold == Untold(filled=(("z", "0"),), swapped=True)


def test_rule_19_a_default_that_is_changed_behind_rows_got_another_value_parks(log: Callable[..., Log]) -> None:
    made = log(now=(replace(FILLED, has_default=True, default="6"),))
    statements = (LIKE, "ALTER TABLE _orders_gho ADD z INT NOT NULL", "ALTER TABLE _orders_gho ALTER z SET DEFAULT 6")
    for statement in statements:
        made.read(statement)
    assert made.read(SWAP)[0].kind is BarrierKind.PARK


def test_rule_19_statements_meet_where_a_generated_column_is_computed() -> None:
    """A statement that touches a generated column also reaches the columns that it is computed of; where these are not
    known, it meets every other statement that touches a column."""
    plain, of_n = table(ORDERS), replace(ADDED, generated=True, computed_from=("N",))
    with_it, unknown = (table(ORDERS, one) for one in (of_n, replace(of_n, computed_from=None)))
    other_n = replace(plain, columns=(ID, replace(N, native="bigint")))
    reached = copies._reached
    n = reached(plain, other_n, ())
    assert n == {"n"} and reached(plain, plain, (("Z", "0"),)) == {"z"}
    assert reached(plain, with_it, ()) == {"a", "n"} and copies.meet(reached(plain, with_it, ()), n)
    assert reached(plain, unknown, ()) is None and copies.meet(reached(plain, unknown, ()), n)
    assert not copies.meet(reached(plain, unknown, ()), set()) and not copies.meet({"a"}, n)


def test_several_statements_of_which_one_is_about_columns_are_followed(log: Callable[..., Log]) -> None:
    made = log()
    indexes = [f"ALTER TABLE _orders_gho ADD INDEX {name} (n)" for name in ("one", "two")]
    (barrier,) = [made.read(one) for one in (LIKE, indexes[0], ALTER, indexes[1], SWAP)][-1]
    assert barrier.kind is BarrierKind.ALTER and barrier.schema is not None and barrier.schema.columns[-1] == ADDED


def test_a_migration_that_was_broken_off_is_begun_anew(log: Callable[..., Log]) -> None:
    made = log()
    first = (LIKE, "ALTER TABLE _orders_gho ADD UNIQUE (n)", "DROP TABLE IF EXISTS `shop`.`_orders_gho`")
    *_, found = [made.read(one) for one in (*first, *GH_OST)]
    assert [one.kind for one in found] == [BarrierKind.ALTER]


def test_statements_that_alter_other_columns_of_a_copy_are_followed_one_after_another(log: Callable[..., Log]) -> None:
    made = log(now=(ADDED, FILLED, Column("C", INT, "int", has_default=True)))
    statements = (LIKE, ALTER, "ALTER TABLE _orders_gho ADD z INT NOT NULL", "ALTER TABLE _orders_gho ADD C INT", SWAP)
    for statement in statements[:3]:
        made.read(statement)
    made.killed()
    made.read(statements[3])
    (barrier,) = made.read(SWAP)
    assert barrier.kind is BarrierKind.ALTER and barrier.untold == Untold(filled=(("z", "0"),), swapped=True)
    assert barrier.schema is not None and [c.name for c in barrier.schema.columns] == ["id", "n", "a", "z", "C"]


def test_a_hopeless_alteration_of_a_copy_is_not_waited_for(
    log: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue shows it, and it is not what may be followed; while it shows nothing of it, it is asked again."""
    made = log(now=())
    monkeypatch.setattr(kept_catalog, "BEHIND_SECONDS", 60.0)
    monkeypatch.setattr(copies, "PAUSE", 0.0)
    copy, source = TableId("shop", "_orders_gho"), cast("Source", made.keeper.source)
    made.read(LIKE)
    source.now[copy] = replace(table(copy), columns=(ID, replace(N, native="bigint")))
    source.looks = 0
    made.read("ALTER TABLE _orders_gho MODIFY n SMALLINT")
    assert source.looks == 1
    made.read("DROP TABLE _orders_gho")
    made.read(LIKE)
    source.now[copy], source.shows, source.looks = table(copy), {4: table(copy, ADDED)}, 0
    made.read("ALTER TABLE _orders_gho ADD a INT DEFAULT 5")
    assert source.looks == 4 and made.trail.history.copies()[copy].reason == ""


KEY = ForeignKey("f", ("n",), OTHER, ("id",), Action.RESTRICT, Action.RESTRICT)
PARKED = [
    # what the log has before the swap, why the table parks
    ((ALTER,), "does not show that shop._orders_gho was made as a copy"),
    (("CREATE TABLE _orders_gho (id INT PRIMARY KEY)", ALTER), "does not show"),
    ((LIKE, "DROP TABLE _orders_gho", "RENAME TABLE elsewhere TO _orders_gho"), "does not show"),
    ((LIKE, "RENAME TABLE _orders_gho TO x", "RENAME TABLE y TO _orders_gho"), "does not show"),
    ((LIKE, "DROP DATABASE shop_of_others", "CREATE TABLE _orders_gho (id INT)"), "does not show"),
    (("CREATE TABLE _orders_gho LIKE other", ALTER), "does not show"),
    ((LIKE, ALTER, "TRUNCATE TABLE orders"), "emptied while its copy was filled"),
    ((LIKE, ALTER, "ALTER TABLE _orders_gho ADD UNIQUE (n)"), "may keep rows out"),
    ((LIKE, ALTER, "CREATE UNIQUE INDEX u ON _orders_gho (n)"), "may keep rows out"),
    ((LIKE, "ALTER TABLE _orders_gho ADD a INT DEFAULT 6"), "something that is not followed"),
    ((LIKE, "ALTER TABLE _orders_gho CHANGE n a INT DEFAULT 5"), "something that is not followed"),
    ((LIKE, ALTER, "ALTER TABLE _orders_gho ALTER a SET DEFAULT 6"), "something that is not followed"),
    ((LIKE, ALTER, "ALTER TABLE _orders_gho ALTER a DROP DEFAULT, DROP n"), "not followed"),
    ((LIKE, "ALTER TABLE _orders_gho DROP n", "ALTER TABLE _orders_gho ADD n INT"), "several statements"),
    ((LIKE, "ALTER TABLE _orders_gho ADD a INT DEFAULT 5", "ALTER TABLE _orders_gho DROP a"), "several statements"),
    ((LIKE, "ALTER TABLE _orders_gho TRUNCATE PARTITION p0"), "does not show"),
    ((LIKE,), "catalogue has another definition"),  # it has a, which nothing has told
]


@pytest.mark.parametrize(("before", "why"), PARKED, ids=range(len(PARKED)))
def test_rule_19_what_is_not_certain_of_a_copy_parks_its_table(
    log: Callable[..., Log], before: tuple[str, ...], why: str
) -> None:
    made = log(follows=frozenset({ColumnChange.SWAP}) if "catalogue" in why else frozenset(ColumnChange))
    for statement in before:
        made.read(statement)
    (barrier,) = made.read(SWAP)
    assert (barrier.kind, barrier.table) == (BarrierKind.PARK, ORDERS)
    assert barrier.reason.startswith(SWAPPED) and why in barrier.reason


@pytest.mark.parametrize(
    ("schemas", "follows", "why"),
    [
        ((replace(table(ORDERS), foreign_keys=(KEY,)), table(OTHER)), None, "foreign keys"),
        ((table(ORDERS), replace(table(OTHER), foreign_keys=(replace(KEY, parent=ORDERS),))), None, "foreign keys"),
        ((table(ORDERS),), {ColumnChange.SWAP}, '[ddl] add_column is "park"'),
    ],
)
def test_rule_19_what_a_swap_would_leave_behind_parks_the_table(
    log: Callable[..., Log], schemas: tuple[TableSchema, ...], follows: set[ColumnChange] | None, why: str
) -> None:
    made = log(*schemas, **({"follows": frozenset(follows)} if follows else {}))
    *_, found = [made.read(one) for one in GH_OST]
    (barrier,) = [one for one in found if one.table == ORDERS]
    assert barrier.kind is BarrierKind.PARK and why in barrier.reason


def test_rule_19_a_table_that_was_altered_beside_its_copy_parks(log: Callable[..., Log]) -> None:
    made = log()
    made.read(LIKE)
    assert [one.kind for one in made.read("ALTER TABLE orders ADD a INT DEFAULT 5")] == [BarrierKind.ALTER]
    (barrier,) = made.read(SWAP)
    assert barrier.kind is BarrierKind.PARK and "another definition than it has" in barrier.reason


@pytest.mark.parametrize(
    "swap",
    [
        "RENAME TABLE orders TO _orders_del",
        "RENAME TABLE orders TO backup, _orders_gho TO orders",
        "RENAME TABLE orders TO _orders_del, fresh TO orders",
        "RENAME TABLE orders TO _orders_del, other TO x, _orders_gho TO orders",
        "RENAME TABLE _orders_gho TO orders",
    ],
)
def test_any_other_rename_parks_as_ever(log: Callable[..., Log], swap: str) -> None:
    made = log()
    found = [made.read(one) for one in (LIKE, ALTER, swap)]
    assert {one.kind for one in found[-1]} == {BarrierKind.PARK} and found[:-1] == [[], []]
    assert all("rename at the source" in one.reason for one in found[-1] if one.table == ORDERS)


def test_without_the_setting_a_swap_parks_as_ever(log: Callable[..., Log]) -> None:
    made = log(follows=frozenset(ColumnChange) - {ColumnChange.SWAP})
    *_, found = [made.read(one) for one in GH_OST]
    assert [one.kind for one in found] == [BarrierKind.PARK] and "rename at the source" in found[0].reason
    assert made.trail.history.copies() == {}


def test_names_of_tools_alone_let_no_table_go_on(log: Callable[..., Log]) -> None:
    """A swap parks its table where the job file does not follow swaps of it, though names of tools are known."""
    made = log()
    made.follows = frozenset(ColumnChange) - {ColumnChange.SWAP}
    *_, found = [made.read(one) for one in GH_OST]
    assert [one.kind for one in found] == [BarrierKind.PARK] and "rename at the source" in found[0].reason


def test_rule_19_a_copy_of_a_table_that_was_parked_and_joined_again_does_not_come_in(log: Callable[..., Log]) -> None:
    """It may have rows that the table has lost meanwhile, or lack some."""
    made = log()
    made.read(LIKE)
    (parked,) = made.read("ALTER TABLE orders IMPORT PARTITION p0 TABLESPACE")
    assert parked.kind is BarrierKind.PARK and made.trail.history.copies() == {}
    made.joins(ORDERS)
    made.read(ALTER)
    (barrier,) = made.read(SWAP)
    assert barrier.kind is BarrierKind.PARK and "does not show that shop._orders_gho was made" in barrier.reason


def test_rule_19_a_copy_comes_in_once(log: Callable[..., Log]) -> None:
    """Nothing tells what a table of its name is that comes behind it, whether the swap was followed or not."""
    made = log(now=())
    first, second = [made.read(one) for one in (LIKE, SWAP, SWAP)][1:]
    assert [one.kind for one in (*first, *second)] == [BarrierKind.ALTER, BarrierKind.PARK]
    assert "does not show" in second[0].reason and made.trail.history.copies() == {}
    made.joins(ORDERS)
    statements = (LIKE, "ALTER TABLE _orders_gho ADD UNIQUE (n)", SWAP)
    assert "may keep rows out" in [made.read(one) for one in statements][-1][0].reason
    assert made.trail.history.copies() == {}


def test_rule_19_a_copy_is_not_known_behind_a_time_in_which_swaps_were_not_followed(log: Callable[..., Log]) -> None:
    made = log()
    made.read(LIKE)
    follows, made.follows = made.follows, frozenset()
    made.killed()
    assert made.trail.history.copies() == {}
    made.follows = follows
    made.killed()
    assert made.trail.history.copies() == {} and "does not show" in made.read(SWAP)[0].reason


def test_a_table_that_is_emptied_often_is_noted_once(log: Callable[..., Log]) -> None:
    made = log()
    for statement in (LIKE, "TRUNCATE TABLE orders", "TRUNCATE TABLE orders", "TRUNCATE TABLE orders"):
        made.read(statement)
    assert len([one for one in made.trail.history.entries if one.kind == "copy"]) == 2


@pytest.mark.parametrize(
    ("others", "named", "parked"),
    [
        ((), "_orders_gho", {"orders", "_orders_gho"}),  # a new table, as behind any RENAME
        ((), "_orders_del", {"orders", "_orders_del"}),
        (("_orders_gho",), "_orders_gho", {"orders", "_orders_gho"}),
        (("_orders_gho",), "", {"orders", "_orders_gho"}),  # left out since, and not taken over yet
        (("_orders_del",), "_orders_del", {"orders", "_orders_del"}),
    ],
)
def test_rule_19_a_swap_parks_all_tables_of_the_job_that_it_names(
    log: Callable[..., Log], others: tuple[str, ...], named: str, parked: set[str]
) -> None:
    schemas = (table(ORDERS), table(OTHER), *(table(TableId("shop", name)) for name in others))
    made = log(*schemas, named=(named,))
    found = [made.read(one) for one in (LIKE, SWAP)]
    assert {one.table.name for one in (*found[0], *found[1])} == parked
    assert {one.kind for one in (*found[0], *found[1])} == {BarrierKind.PARK}
    assert found[1][0].table == ORDERS and "replicates itself" in found[1][0].reason
    assert {table.name for table in made.trail.history.parked()} == parked


@pytest.mark.parametrize(
    ("alter", "indexes"),
    [
        ("ADD INDEX j (n DESC)", {"i": ("n",), "u": ("n",), "j": ("n",)}),
        ("DROP INDEX i, ADD KEY i (n, id)", {"i": ("n", "id"), "u": ("n",)}),
        ("DROP INDEX u", {"i": ("n",)}),
        ("ADD a INT DEFAULT 5, ADD INDEX (a), DROP KEY i", {"u": ("n",), "a": ("a",)}),
    ],
)
def test_indexes_of_a_copy_come_in_with_it(
    log: Callable[..., Log], alter: str, indexes: dict[str, tuple[str, ...]]
) -> None:
    """Also those that the catalogue does not show, since a later statement has dropped them; behind a kill; and beside one
    that is not followed."""
    keyed = replace(table(ORDERS), indexes=(Index("i", ("n",)), Index("u", ("n",), unique=True)))
    made = log(keyed, table(OTHER), now=(ADDED,) if "ADD a" in alter else ())
    statements = (LIKE, f"ALTER TABLE _orders_gho {alter}", "ALTER TABLE _orders_gho ADD FULLTEXT ft (n)", SWAP)
    for statement in statements[:2]:
        made.read(statement)
    made.killed()
    for statement in statements[2:]:
        found = made.read(statement)
    (barrier,) = found
    assert barrier.kind is BarrierKind.ALTER and barrier.schema is not None and barrier.reason == ""
    assert {index.name: index.columns for index in barrier.schema.indexes} == indexes


def test_indexes_that_no_target_follows_are_named_where_the_copy_comes_in(log: Callable[..., Log]) -> None:
    made = log(now=())
    source = cast("Source", made.keeper.source)
    source.now[ORDERS] = replace(source.now[ORDERS], indexes=(Index("ft", ("n",), kind="fulltext"),))
    (barrier,) = [made.read(one) for one in (LIKE, "ALTER TABLE _orders_gho ADD FULLTEXT ft (n)", SWAP)][-1]
    assert (barrier.kind, barrier.reason) == (BarrierKind.ALTER, "full-text and spatial indexes")


def test_keys_that_a_swap_leaves_out_are_told(log: Callable[..., Log]) -> None:
    """As behind ALTER TABLE: the target's stay."""
    keyed = replace(table(ORDERS), indexes=(Index("u", ("n",), unique=True),))
    made = log(keyed, table(OTHER), now=(), follows=frozenset(ColumnChange) - {ColumnChange.UNIQUE_KEYS})
    with capture_logs() as told:
        (barrier,) = [made.read(one) for one in (LIKE, "ALTER TABLE _orders_gho DROP INDEX u", SWAP)][-1]
    assert barrier.kind is BarrierKind.ALTER
    assert [one["keys"] for one in told if one["event"] == "keys_altered"][-1] == ["unique index u is gone"]


@pytest.mark.parametrize(
    ("alter", "comment"), [("MODIFY n INT COMMENT 'new'", "new"), ("MODIFY n INT", ""), ("DROP n", None)]
)
def test_a_comment_that_a_swap_changes_parks_no_table(log: Callable[..., Log], alter: str, comment: str | None) -> None:
    """As behind ALTER TABLE: the job file need not say anything about comments, nor about indexes."""
    follows = frozenset({ColumnChange.SWAP, ColumnChange.DROP})
    said = replace(N, comment="of before")
    begun = replace(table(ORDERS), columns=(ID, said), indexes=(Index("i", ("n",)),))
    made = log(begun, table(OTHER), follows=follows, now=())
    columns = (ID,) if comment is None else (ID, replace(N, comment=comment))
    cast("Source", made.keeper.source).now[ORDERS] = replace(begun, columns=columns, indexes=())
    (barrier,) = [made.read(one) for one in (LIKE, f"ALTER TABLE _orders_gho {alter}", SWAP)][-1]
    assert barrier.kind is BarrierKind.ALTER and barrier.schema is not None
    assert [c.comment for c in barrier.schema.columns if c.name == "n"] == ([] if comment is None else [comment])


def test_where_swaps_are_not_followed_no_copy_is_noted_and_the_swap_parks_as_a_rename(log: Callable[..., Log]) -> None:
    made = log(follows=frozenset(ColumnChange) - {ColumnChange.SWAP})
    found = [made.read(statement) for statement in GH_OST]
    assert not made.keeper.copies.is_followed and made.trail.history.copies() == {}
    (barrier,) = found[-1]
    assert (barrier.kind, barrier.table) == (BarrierKind.PARK, ORDERS) and barrier.reason.startswith(
        "rename at the source"
    )
