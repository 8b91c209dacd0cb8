"""Columns that a PostgreSQL drops, renames and widens: told by the names in its rows and the numbers in its catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source import connector
from anabranch.connectors.postgresql.source.positions import lsn_of, place_of
from anabranch.contracts import LogOptions
from anabranch.errors import TablesParked
from anabranch.job import parts
from anabranch.lifecycle import copying
from anabranch.lifecycle.beginning import begin_trail_if_none, open_trail
from anabranch.model.column_changes import ColumnChange
from anabranch.model.ddl_changes import Outcome
from anabranch.model.ids import TableId
from anabranch.rows import compiled
from anabranch.testing.databases import Database
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from anabranch.testing.torture.local import Small
from anabranch.view.identity import followed_identity, trail_uuid
from rigs.altered_postgresql import Make, dies, jobs, statement, streams
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES

APPLY = """[ddl]
add_column = "apply"
drop_column = "apply"
rename_column = "apply"
change_type = "apply"
"""


@pytest.fixture
def make(
    request: pytest.FixtureRequest,
    logical_postgresql: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> Iterator[Make]:
    """`make(to, *statements)`: a job that streams the tables which these make."""
    with jobs(request, lambda: source_database(logical_postgresql), tmp_path, APPLY) as job:
        yield job


TABLES = (
    "CREATE TABLE item (id int PRIMARY KEY, v varchar(20), w int, x text, y numeric(9,2))",
    "CREATE TABLE other (id int PRIMARY KEY, v int)",
    "INSERT INTO item VALUES (1, 'one', 1, 'x', 0.25), (2, 'two', 2, NULL, 1)",
)
BACKLOG = (
    "INSERT INTO item VALUES (3, 'three', 3, 'x3', 3)",
    "ALTER TABLE item RENAME w TO amount",
    "INSERT INTO item (id, v, amount) VALUES (4, 'four', 4)",
    "ALTER TABLE item ALTER v TYPE varchar(40), ALTER y TYPE numeric(12,2)",
    "UPDATE item SET v = 'a text that is longer than before', y = 1234567890.25 WHERE id = 1",
    "ALTER TABLE item DROP x",
    "UPDATE item SET id = 20, amount = NULL WHERE id = 2",
    "INSERT INTO item (id, v, y) VALUES (5, 'five', -0.5)",
    "ALTER TABLE item RENAME y TO price",
    "DELETE FROM item WHERE id = 3",
    "INSERT INTO other VALUES (1, 1)",
)
BOTH_SIDES = """
BEGIN;
INSERT INTO item (id, v, amount) VALUES (30, 'before', 1), (31, 'goes', 2);
UPDATE item SET v = 'changed before', amount = 40 WHERE id = 4;
UPDATE item SET id = 21 WHERE id = 20;
ALTER TABLE item RENAME amount TO n;
INSERT INTO item (id, v, n) VALUES (32, 'between', 4);
DELETE FROM item WHERE id = 31;
ALTER TABLE item DROP v;
UPDATE item SET n = 5 WHERE id = 30;
ALTER TABLE other RENAME v TO u;
INSERT INTO other VALUES (30, 30);
INSERT INTO item (id, n, price) VALUES (34, 6, 7);
COMMIT
"""
PLACES = {
    "postgresql": ("capture.statement.noted", "capture.published", "apply.altered", "apply.committed"),
    "mariadb": ("apply.altering", "apply.altered.apart"),
    "mysql": ("apply.altering", "apply.altered.apart", "apply.altered", "apply.committed"),
}


@pytest.mark.parametrize("to", ["postgresql", "mariadb", pytest.param("mysql", marks=pytest.mark.long)])
@pytest.mark.one_case("postgresql")
def test_rule_17_columns_change_between_the_rows_of_both_definitions(to: str, make: Make) -> None:
    """Several statements in a backlog, whose catalogue shows the last of them only, with rows of each definition between, also
    in one transaction. Then the job dies at every place on a statement's way, and goes on."""
    here = make(to, *TABLES)
    source = here.made.source
    source.execute(*BACKLOG)
    streams(here)
    history = here.job.schema_versions("public.item")
    names = [[column.name for column in one.schema.columns] for one in history]
    assert names == [
        ["id", "v", "w", "x", "y"],
        ["id", "v", "amount", "x", "y"],
        ["id", "v", "amount", "x", "y"],
        ["id", "v", "amount", "y"],
        ["id", "v", "amount", "price"],
    ]
    source.execute(BOTH_SIDES)
    streams(here)
    assert here.verify().identical
    met, name = [], "n"
    for number, place in enumerate(PLACES[to]):
        source.execute(
            f"BEGIN; INSERT INTO item (id, {name}) VALUES (10{number}, 1); ALTER TABLE item RENAME {name} TO n{number};"
            f"UPDATE item SET n{number} = 2 WHERE id = 4; COMMIT"
        )
        name = f"n{number}"
        with dies(here, place) as reached:
            met += reached
        streams(here)
    assert tuple(met) == PLACES[to]
    noted = here.job.ddl_changes("public.item")
    assert {one.outcome for one in noted} == {Outcome.ALTERED}
    assert {one.rule.setting for one in noted} == {"[ddl] rename_column", "[ddl] drop_column", "[ddl] change_type"}


def test_rule_17_also_within_transactions_that_are_large(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come while they are open, or in fragments: what was given of one comes again. In Python as well."""
    here = make("postgresql", *TABLES, "INSERT INTO item SELECT g, 'v', g, 'x', g FROM generate_series(100, 120) AS g")
    many = "INSERT INTO other SELECT g, 0 FROM generate_series({0}, {0} + 4000) AS g"
    for number, (first, altered) in enumerate({10_000: "RENAME w TO u", 20_000: "DROP x"}.items()):
        here.made.source.execute(
            f"BEGIN; {many.format(first)}; INSERT INTO item (id, v, x) VALUES ({first}, 'before', 'x');"
            f"UPDATE item SET v = 'before', x = 'z' WHERE id = 10{number}; ALTER TABLE item {altered};"
            f"INSERT INTO item (id, v) VALUES ({first} + 1, 'b'); DELETE FROM item WHERE id = 11{number};"
            f"{many.format(first + 5_000)}; COMMIT",
            f"BEGIN; {many.format(first + 100_000)}; UPDATE item SET v = 'large' WHERE id = {first}; COMMIT",
        )
        with monkeypatch.context() as patch:
            if number:
                patch.setattr(compiled, "NATIVE", None)
            patch.setattr("rigs.job_here.Small", partial(Small, log_images=500))
            streams(here)


def test_rule_17_a_keepalive_moves_the_place_on_before_the_transaction_comes_again(make: Make) -> None:
    """Once its next definition is in the trail the job dies, behind a mark that is nearer to the commit than that of before."""
    here = make("postgresql", *TABLES)
    source = here.made.source
    with closing(source.connect(autocommit=False)) as session:
        session.execute("INSERT INTO item VALUES (8, 'eight', 8, 'x', 8)")
        session.execute("ALTER TABLE item ADD n int DEFAULT 7")
        lsn = source.query("SELECT pg_catalog.pg_current_wal_insert_lsn()::text")[0][0]
        session.execute("INSERT INTO item (id, n) VALUES (9, 9)")
        session.commit()
    with dies(here, "capture.published") as reached:
        pass
    assert reached and len(here.job.schema_versions("public.item")) == 2
    job, uuid = here.job, trail_uuid(here.job)
    assert uuid is not None
    with open_trail(job, followed_identity(job) or "", uuid, parts.LOCK_SECONDS) as trail:
        place = place_of(trail.end.resume)
        assert place.lsn < lsn_of(lsn)
        trail.heartbeat(place.at(lsn_of(lsn)).mark(trail.end.commit_time))
        trail.flush()
    streams(here)
    assert len(here.job.schema_versions("public.item")) == 2, "rows of before came by the former definition"


def test_rule_19_a_table_that_no_row_tells_of_is_parked_by_its_load(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PARKING_SECONDS", 0.5)
    here = make("postgresql", *TABLES, is_loaded=False)
    begin_trail_if_none(here.job)
    here.made.source.execute("ALTER TABLE item DROP x")
    with pytest.raises(TablesParked, match=r"1 tables are parked: public\.item"):
        here.load()
    assert "its definition changed at the source" in here.made.reason("item")
    here.load(TableId("public", "item"), recreate=True)
    streams(here)


LAST = "INSERT (id) VALUES (9)"
GOES_ON = {
    "renamed_twice": ["RENAME v TO u", LAST, "RENAME u TO t", "INSERT (id) VALUES (10)"],
    "renamed_and_dropped": ["RENAME v TO u", LAST, "DROP u", "INSERT (id) VALUES (10)"],
    "dropped_and_back": ["DROP w", "INSERT VALUES (9, 'v')", "ADD w text", "INSERT VALUES (10, 'v', 'text')"],
    "renamed_and_added": ["RENAME v TO u", "ADD n int DEFAULT 7", LAST],
    "two_dropped": ["DROP v, DROP w", LAST],
    "index_goes_on": ["RENAME v TO u", LAST],
    "index_gone": ["DROP v", LAST],
    "longer": ["ALTER v TYPE text", "INSERT VALUES (9, 'a text that is longer than before')"],
    "within": [
        "BEGIN; INSERT VALUES (8, 'v', 8); DROP v; INSERT VALUES (9, 9); RENAME w TO u; UPDATE SET u = 1; COMMIT"
    ],
    "within_and_back": [
        "BEGIN; INSERT (id, v) VALUES (8, 'a'); RENAME v TO z; INSERT (id, z) VALUES (9, 'b'); RENAME z TO v;"
        " INSERT (id, v) VALUES (10, 'c'); COMMIT",
        "INSERT (id, v) VALUES (11, 'd')",
    ],
    "rolled_back": [f"BEGIN; RENAME v TO u; ROLLBACK; {LAST}"],
}
PARKS = {
    "swapped": (["RENAME v TO z", "RENAME w TO v", "RENAME z TO w", LAST], "two columns"),
    "dropped_and_added": (["DROP v", "ADD n int", LAST], "v was dropped, and whether"),
    "of_a_key": (["RENAME id TO key", "INSERT (key) VALUES (9)"], "primary key is another"),
    "unique_one": (["RENAME v TO u", LAST], "part of a key"),
    "checked": (["RENAME v TO u", LAST], "part of a key"),
    "computed": (["RENAME v TO u", LAST], "computed is not as it was"),
    "greater": (["ALTER w TYPE bigint", LAST], "was integer and is bigint"),
    "shorter": (["ALTER v TYPE varchar(10)", LAST], "was character varying(20)"),
    "anew": (["ALTER w TYPE bigint USING w + 1", "ALTER v TYPE text", LAST], "was character varying(20) and is text"),
    "view_there": (["DROP v", LAST], "depends on v at the target"),
    "standing": (["RENAME v TO u", LAST], "already"),
}


def test_rule_17_only_what_is_certain_goes_on(make: Make) -> None:
    """A table for each kind of change; the catalogue shows what is behind all of them."""
    more = {
        "unique_one": ", UNIQUE (v)",
        "checked": ", CHECK (v <> 'no')",
        "computed": ", g text GENERATED ALWAYS AS (v || 'x') STORED",
    }
    names = [*GOES_ON, *PARKS]
    here = make(
        "postgresql",
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20), w int{more.get(name, '')})" for name in names),
        "CREATE INDEX ON index_goes_on (v)",
        *(f"INSERT INTO {name} (id, v, w) VALUES (1, 'one', 1), (2, 'two', 2)" for name in names),
    )
    made = here.made
    made.target.execute(
        "ALTER TABLE public.standing ADD u int", "CREATE VIEW public.of_it AS SELECT v FROM public.view_there"
    )
    steps = GOES_ON | {name: statements for name, (statements, _) in PARKS.items()}
    made.source.execute(*(statement(name, text) for name, texts in steps.items() for text in texts))
    here.stream()
    states = made.states()
    assert {name: states[name] for name in GOES_ON} == dict.fromkeys(GOES_ON, "streaming"), made.status()
    made.assert_identical(*GOES_ON)
    reasons = {name: made.reason(name) for name in PARKS}
    assert {name: why for name, why in reasons.items() if PARKS[name][1] not in why or states[name] != "parked"} == {}
    here.load(TableId("public", "dropped_and_added"), recreate=True)
    here.stream()
    made.source.execute(
        "ALTER TABLE dropped_and_added RENAME n TO m", "INSERT INTO dropped_and_added VALUES (11, 1, 1)"
    )
    here.stream()
    assert made.states()["dropped_and_added"] == "streaming", made.reason("dropped_and_added")
    made.assert_identical("dropped_and_added")


REPLACED = {
    "again": ["DROP w", "ADD w int"],
    "again_default": ["DROP w", "ADD w int DEFAULT 7", "INSERT (id) VALUES (9)"],
    "shifted": ["DROP v", "RENAME x TO v", "ADD x text"],
    "within": ["BEGIN; INSERT (id, w) VALUES (8, 8); DROP w; ADD w int; INSERT (id, w) VALUES (9, 9); COMMIT"],
}


def test_rule_19_a_column_that_another_one_of_its_name_has_replaced(make: Make) -> None:
    """Rows of both look alike: the table is parked by the catalogue, with or without a row behind it. Where a row between has
    told of it, the table goes on."""
    columns = "id int PRIMARY KEY, v text, x text, w int"
    names = (*REPLACED, "told")
    here = make(
        "postgresql",
        *(f"CREATE TABLE {name} ({columns})" for name in names),
        *(f"INSERT INTO {name} VALUES (1, 'v', 'x', 1)" for name in names),
    )
    made = here.made
    steps = REPLACED | {"told": ["DROP w", "INSERT (id) VALUES (8)", "ADD w int", "INSERT (id, w) VALUES (9, 9)"]}
    made.source.execute(*(statement(name, text) for name, texts in steps.items() for text in texts))
    with here.running():
        until(lambda: [made.states()[name] for name in REPLACED] == ["parked"] * len(REPLACED), "they are parked")
    assert {name for name in REPLACED if "another column has its name" not in made.reason(name)} == set(), made.status()
    here.stream()
    assert made.states()["told"] == "streaming", made.reason("told")
    for name in REPLACED:
        here.load(TableId("public", name), recreate=True)
    streams(here)


def test_what_is_kept_and_what_the_job_file_parks(make: Make) -> None:
    """A column that is kept has NULL in rows that come, also in those of the transaction that drops it."""
    ddl = '[ddl]\ndrop_column = "keep"\n'
    here = make("postgresql", *TABLES, ddl=ddl)
    here.made.source.execute(
        "BEGIN; INSERT INTO item (id, x) VALUES (7, 'x'); ALTER TABLE item DROP x; INSERT INTO item (id) VALUES (8); COMMIT",
        "ALTER TABLE other RENAME v TO u",
        "INSERT INTO other VALUES (5, 5)",
    )
    here.stream()
    states = here.made.states()
    assert (states["item"], states["other"]) == ("streaming", "parked"), here.made.status()
    here.made.assert_identical("item")
    kept = here.made.target.query("SELECT id, x FROM public.item ORDER BY id")
    assert kept == [(1, "x"), (2, None), (7, None), (8, None)]


def test_a_table_without_a_key_has_its_rows_told_apart(make: Make) -> None:
    here = make("postgresql", "CREATE TABLE bag (v text, w int)", "INSERT INTO bag VALUES ('a', 1), ('a', 2), ('b', 3)")
    here.made.source.execute(
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "BEGIN; UPDATE bag SET v = 'c' WHERE v = 'b'; ALTER TABLE bag DROP w; UPDATE bag SET v = 'd' WHERE v = 'c';"
        "DELETE FROM bag WHERE ctid = '(0,1)'; COMMIT",
        "ALTER TABLE bag RENAME v TO u",
        "INSERT INTO bag VALUES ('e')",
    )
    streams(here, "bag")


def test_rule_19_looks_at_the_catalogue_leave_to_rows_what_those_will_tell(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    """Not a type whose rows were written anew: nobody may ever change one of them, and they may have other values now."""
    database, item = source_database(logical_postgresql), TableId("public", "item")
    database.execute(*TABLES)
    source = connector(endpoint_of(database))
    with closing(source.catalog()) as catalog:
        then = catalog.tables(item.__eq__)
    follows = frozenset[ColumnChange]()
    for kind, alter, is_told in (
        (ColumnChange.DROP, "DROP x", True),
        (ColumnChange.RENAME, "RENAME w TO u", True),
        (ColumnChange.TYPE, "ALTER v TYPE varchar(40)", True),
        (ColumnChange.TYPE, "ALTER u TYPE bigint USING u * 2", False),
    ):
        database.execute(f"ALTER TABLE item {alter}")
        former, follows = follows, follows | {kind}
        reasons = [
            source.drift(LogOptions(1, 0.05, RULES, "anabranch_x", follows=follows), then, {item: kinds}.__getitem__)[
                item
            ]
            for kinds in (former, follows)
        ]
        changed = ["its definition changed at the source" in why for why in reasons]
        assert changed == [kind not in former or not is_told, not is_told], alter
    with closing(source.catalog()) as catalog:
        then = catalog.tables(lambda table: table.schema == "public")
    database.execute("ALTER TABLE item RENAME u TO w", "ALTER TABLE other RENAME v TO u")
    each = {table: follows if table == item else frozenset[ColumnChange]() for table in then}
    found = source.drift(LogOptions(1, 0.05, RULES, "anabranch_x", follows=follows), then, each.__getitem__)
    other = TableId("public", "other")
    assert [("its definition changed" in found[table]) for table in (item, other)] == [False, True], (
        "each by its own words"
    )


@pytest.mark.servers
@pytest.mark.parametrize("release", ["11", "15"])
def test_on_other_releases(
    release: str, request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    server = request.getfixturevalue(f"postgresql{release}")
    with jobs(request, lambda: source_database(server), tmp_path, APPLY) as job:
        here = job("postgresql", *TABLES)
        here.made.source.execute(*BACKLOG)
        streams(here)
        assert len(here.job.schema_versions("public.item")) == 5
