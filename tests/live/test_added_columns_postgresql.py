"""Columns that a PostgreSQL adds to its tables come to the target just there. Its log has no statement of that: the rows behind
it come by other columns, and the catalogue says what these are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source import PostgresSource, connector
from anabranch.contracts import LogOptions, RedefinedCatalog
from anabranch.model.column_changes import FOLLOWS_NOTHING, Altered, ColumnChange
from anabranch.model.ddl_changes import DdlRule, Outcome, digest_of
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows import compiled
from anabranch.rows.log_items import LogRedefined
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.local import Small
from rigs.altered_postgresql import Make, dies, jobs, statement, streams
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES


@pytest.fixture
def make(
    request: pytest.FixtureRequest,
    logical_postgresql: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> Iterator[Make]:
    """`make(to, *statements)`: a job that streams the tables which these make."""
    with jobs(request, lambda: source_database(logical_postgresql), tmp_path, "") as job:
        yield job


TABLES = (
    "CREATE TABLE item (id int PRIMARY KEY, v varchar(20))",
    "CREATE TABLE other (id int PRIMARY KEY, v int)",
    "INSERT INTO item VALUES (1, 'one'), (2, 'two')",
)
BACKLOG = (
    "INSERT INTO item VALUES (3, 'three')",
    "ALTER TABLE item ADD COLUMN n int NOT NULL DEFAULT 5",
    "INSERT INTO item (id, v, n) VALUES (4, 'four', 6)",
    "UPDATE item SET n = 7 WHERE id = 1",
    "ALTER TABLE item ADD note text, ADD price numeric(9,2) DEFAULT 1.5, ADD day date DEFAULT '2024-02-29'",
    "COMMENT ON COLUMN item.note IS 'it''s new'",
    "INSERT INTO item (id, note, v, n, price, day) VALUES (5, 'x', 'five', 8, -0.25, NULL)",
    "UPDATE item SET id = 20, note = 'moved' WHERE id = 2",
    "ALTER TABLE item ADD word varchar(9) NOT NULL DEFAULT '\u00e9'",
    "ALTER TABLE item ALTER n SET DEFAULT 9, ALTER price DROP DEFAULT",
    "DELETE FROM item WHERE id = 3",
    "INSERT INTO other VALUES (1, 1)",
)
BOTH_SIDES = """
BEGIN;
INSERT INTO item (id, v) VALUES (30, 'before'), (31, 'goes');
UPDATE item SET v = 'changed before' WHERE id = 4;
UPDATE item SET id = 21 WHERE id = 20;
INSERT INTO other VALUES (30, 30);
ALTER TABLE item ADD mid int DEFAULT 3;
INSERT INTO item (id, v, word, mid) VALUES (32, 'between', 'w', 4), (33, 'b', 'w', NULL);
DELETE FROM item WHERE id = 31;
ALTER TABLE item ADD late text, ADD flag boolean DEFAULT true;
ALTER TABLE other ADD more bigint DEFAULT 8;
UPDATE item SET late = 'behind' WHERE id = 30;
UPDATE other SET v = 31 WHERE id = 30;
INSERT INTO item (id, v, word, mid, late, flag) VALUES (34, 'behind', 'w', 5, 'l', false);
COMMIT
"""
PLACES = {
    "postgresql": ("capture.statement.noted", "capture.published", "apply.altered", "apply.committed"),
    "mariadb": ("apply.altering", "apply.altered.apart"),
    "mysql": ("apply.altering", "apply.altered.apart", "apply.altered", "apply.committed"),
}


@pytest.mark.parametrize("to", ["postgresql", "mariadb", pytest.param("mysql", marks=pytest.mark.long)])
@pytest.mark.one_case("mariadb")
def test_rule_17_columns_come_between_the_rows_of_both_definitions(to: str, make: Make) -> None:
    """Several statements in a backlog, whose catalogue shows the last of them only, with rows of each definition between, also
    in one transaction. Then the job dies at every place on a statement's way, and goes on."""
    here = make(to, *TABLES)
    source = here.made.source
    source.execute(*BACKLOG)
    streams(here)
    history = here.job.schema_versions("public.item")
    assert [column.name for column in history[-1].schema.columns] == ["id", "v", "n", "note", "price", "day", "word"]
    assert [(one.came, one.statement) for one in history[1:]] == [("altered", "relation message")] * 3
    source.execute(BOTH_SIDES)
    streams(here)
    assert here.verify().identical
    met = []
    for number, place in enumerate(PLACES[to]):
        source.execute(
            f"BEGIN; INSERT INTO item (id, v, word) VALUES (10{number}, 'before', 'w');"
            f"ALTER TABLE item ADD c{number} int DEFAULT {number}; UPDATE item SET c{number} = -1 WHERE id = 4; COMMIT"
        )
        with dies(here, place) as reached:
            met += reached
        streams(here)
    assert tuple(met) == PLACES[to]
    noted, versions = here.job.ddl_changes("public.item"), here.job.schema_versions("public.item")[1:]
    assert [(one.sequence, one.version, one.digest, one.outcome) for one in noted] == [
        (one.sequence, one.schema.version, digest_of(one.schema), Outcome.ALTERED) for one in versions
    ]
    assert {(one.rule, one.statement) for one in noted} == {(DdlRule("[ddl] add_column", "apply"), "")}


def test_rule_17_also_within_transactions_that_are_large(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come while they are open, or in fragments: what was given of one comes again. In Python as well."""
    here = make("postgresql", *TABLES)
    many = "INSERT INTO other SELECT g, 0 FROM generate_series({0}, {0} + 4000) AS g"
    for number, first in enumerate((10_000, 20_000)):
        here.made.source.execute(
            f"BEGIN; {many.format(first)}; INSERT INTO item (id, v) VALUES ({first}, 'before');"
            f"ALTER TABLE item ADD c{number} int DEFAULT 5; INSERT INTO item (id, v, c{number}) VALUES ({first} + 1, 'b', 6);"
            f"{many.format(first + 5_000)}; COMMIT",
            f"BEGIN; {many.format(first + 100_000)}; UPDATE item SET v = 'large' WHERE id = {first}; COMMIT",
        )
        with monkeypatch.context() as patch:
            if number:
                patch.setattr(compiled, "NATIVE", None)
            patch.setattr("rigs.job_here.Small", partial(Small, log_images=500))
            streams(here)


GOES_ON = {
    "default_changed": ["ADD w int DEFAULT 5", "ALTER w SET DEFAULT 7", "INSERT (id, v) VALUES (9, 'nine')"],
    "default_later": ["ADD w int", "ALTER w SET DEFAULT 7", "INSERT (id, v) VALUES (9, 'nine')"],
    "constant_not_null_later": [
        "ADD w int DEFAULT 5",
        "INSERT (id, w) VALUES (9, NULL)",
        "UPDATE SET w = 1 WHERE w IS NULL",
        "ALTER w SET NOT NULL",
        "INSERT (id) VALUES (10)",
    ],
    "not_null_later": ["ADD w int", "UPDATE SET w = 1", "ALTER w SET NOT NULL", "INSERT VALUES (9, 'nine', 2)"],
    "gone_again": ["ADD w int", "DROP w", "INSERT VALUES (9, 'nine')"],
    "rolled_back": ["INSERT VALUES (9, 'nine')"],
    "types": [
        "ADD a jsonb DEFAULT '{\"a\": [1, 2]}', ADD b bytea DEFAULT '\\x00ff', ADD c int[] DEFAULT '{{1,2},{3,4}}',"
        "ADD d timestamptz DEFAULT '2024-01-01 02:00:00+01', ADD e mood DEFAULT 'glad',"
        "ADD g double precision DEFAULT 0.1, ADD h interval DEFAULT '1 day', ADD i uuid, ADD j text DEFAULT 'a''\"\\,{}'",
        "INSERT (id, v) VALUES (9, 'nine')",
    ],
}
PARKS = {
    "volatile": (["ADD w float DEFAULT random()", "INSERT (id, v) VALUES (9, 'nine')"], "written anew"),
    "volatile_once": (["ADD w float DEFAULT random()", "ALTER w DROP DEFAULT", "INSERT VALUES (9, '9', 1)"], "anew"),
    "counts": (["ADD w serial", "INSERT (id, v) VALUES (9, 'nine')"], "counts"),
    "unique_one": (["ADD w int UNIQUE", "INSERT (id, v) VALUES (9, 'nine')"], "is unique"),
    "computed": (
        ["ADD g int GENERATED ALWAYS AS (id) STORED, ADD w int", "INSERT VALUES (9, 'nine')"],
        "no statement of the log says so",
    ),
    "added_twice": (["ADD w int", "DROP w", "ADD w int DEFAULT 1", "INSERT VALUES (9, 'nine')"], "may have its name"),
    "made_anew": (["DROP v", "ADD v text, ADD w int", "INSERT VALUES (9, 'nine')"], "no statement of the log says so"),
    "retyped": (
        ["ADD w int", "INSERT VALUES (9, 'nine', 1)", "ALTER w TYPE bigint", "INSERT VALUES (10, '', 1)"],
        "by now",
    ),
    "renamed": (["RENAME v TO u", "ADD w int", "INSERT VALUES (9, 'nine')"], "no statement of the log says so"),
    "of_boxes": (["ADD w box DEFAULT '(1,1),(0,0)'", "INSERT VALUES (9, 'nine')"], "cannot be read"),
    "emptied": (["ADD w int", "TRUNCATE", "INSERT VALUES (9, 'nine')"], "written anew"),
    "divided": (["ADD w int DEFAULT 1", "INSERT VALUES (9, 'nine')"], "in partitions"),
    "dropped": (
        ["ADD w int", "INSERT VALUES (9, 'nine')", "DROP w", "INSERT VALUES (10, 'ten')"],
        "dropped since",
    ),
    "within": (
        ["BEGIN; ADD w int; INSERT VALUES (9, '9', 1); DROP w; INSERT VALUES (10, ''); COMMIT"],
        "dropped since",
    ),
    "standing": (["ADD w int", "INSERT VALUES (9, 'nine')"], "already"),
    "new_type": (["ADD w late_mood", "INSERT VALUES (9, 'nine')"], "late_mood"),
}


def test_rule_17_only_what_is_certain_goes_on(make: Make) -> None:
    """A table for each kind of change; the catalogue shows what is behind all of them."""
    names = [*GOES_ON, *PARKS]
    here = make(
        "postgresql",
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v text)" for name in names if name != "divided"),
        "CREATE TABLE divided (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE divided_1 PARTITION OF divided FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE of_mood (id int PRIMARY KEY, m mood)",
        *(f"INSERT INTO {name} VALUES (1, 'one'), (2, 'two')" for name in names),
    )
    made = here.made
    made.target.execute("ALTER TABLE public.standing ADD w int")
    made.source.execute("CREATE TYPE late_mood AS ENUM ('x')", "BEGIN; ALTER TABLE rolled_back ADD w int; ROLLBACK")
    steps = GOES_ON | {name: statements for name, (statements, _) in PARKS.items()}
    made.source.execute(*(statement(name, text) for name, texts in steps.items() for text in texts))
    here.stream()
    states = made.states()
    assert {name: states[name] for name in GOES_ON} == dict.fromkeys(GOES_ON, "streaming"), made.status()
    made.assert_identical(*GOES_ON)
    reasons = {name: made.reason(name) for name in PARKS}
    assert {name: why for name, why in reasons.items() if PARKS[name][1] not in why or states[name] != "parked"} == {}
    here.load(TableId("public", "retyped"), recreate=True)
    here.stream()
    made.assert_identical("retyped")
    made.source.execute("ALTER TABLE retyped ADD x int", "INSERT INTO retyped VALUES (11, '', 1, 1)")
    here.stream()
    assert made.states()["retyped"] == "streaming", made.reason("retyped")
    made.assert_identical("retyped")


def test_looks_at_the_catalogue_between_know_a_table_that_was_emptied(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    """And that a column was added is no drift, since rows will tell; one that is computed never comes with them."""
    database, item = source_database(logical_postgresql), TableId("public", "item")
    database.execute(*TABLES)
    source, other = (connector(endpoint_of(database)) for _ in range(2))
    assert isinstance(source, PostgresSource)
    options = LogOptions(1, 0.05, RULES, "anabranch_x", follows=frozenset({ColumnChange.ADD}))
    follows = {item: options.follows}.__getitem__
    with closing(source.catalog()) as catalog:
        then = catalog.tables(item.__eq__)
    database.execute("TRUNCATE item")
    source.drift(options, then, follows)
    database.execute("ALTER TABLE item ADD w int")
    columns = (("id", "integer"), ("v", "character varying(20)"), ("w", "integer"))
    found = []
    for one in (source, other):
        with closing(one.catalog()) as catalog:
            assert isinstance(catalog, RedefinedCatalog)
            found.append(catalog.behind(then[item], LogRedefined(item, columns, "", LogMark("", ""), "")))
    assert isinstance(found[0], Altered) and "written anew" in str(found[1])
    changed = "its definition changed at the source"
    assert changed not in source.drift(options, then, follows).values()
    assert changed in source.drift(options, then, FOLLOWS_NOTHING).values()
    database.execute("ALTER TABLE item ADD g int GENERATED ALWAYS AS (id) STORED")
    assert changed in source.drift(options, then, follows).values()


def test_a_table_without_a_key_has_its_rows_of_before_with_the_default(make: Make) -> None:
    """Rows are told by all their values, with those of the new column."""
    here = make("postgresql", "CREATE TABLE bag (v text)", "INSERT INTO bag VALUES ('a'), ('a'), ('b')")
    here.made.source.execute(
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "BEGIN; UPDATE bag SET v = 'c' WHERE v = 'b'; ALTER TABLE bag ADD n int DEFAULT 4;"
        "UPDATE bag SET v = 'd' WHERE v = 'c'; DELETE FROM bag WHERE ctid = '(0,1)'; COMMIT",
    )
    streams(here, "bag")
