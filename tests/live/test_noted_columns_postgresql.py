"""Columns of a PostgreSQL that notes each ALTER TABLE in its log (an event trigger): every statement has its place, and columns
their numbers there, whatever the catalogue shows by then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from anabranch.connectors.postgresql.source import connector
from anabranch.connectors.postgresql.source.statement_notes import SET_UP, UNDO
from anabranch.contracts import PreflightContext
from anabranch.errors import ConfigError
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ddl_changes import Outcome
from anabranch.model.schema import Column
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.local import Small
from rigs.altered_postgresql import Make, dies, jobs, statement, streams
from rigs.endpoints import endpoint_of
from rigs.job_here import JobHere

APPLY = """[ddl]
drop_column = "apply"
rename_column = "apply"
nullability = "apply"
"""
PLACES = {
    "postgresql": ("capture.statement.noted", "capture.published", "apply.altered", "apply.committed"),
    "mariadb": ("apply.altering", "apply.altered.apart"),
    "mysql": ("apply.altering", "apply.altered.apart", "apply.altered", "apply.committed"),
}


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
    *SET_UP,
    "CREATE TABLE item (id int PRIMARY KEY, v varchar(20) NOT NULL, w int, x text)",
    "CREATE TABLE other (id int PRIMARY KEY, v int)",
    "INSERT INTO item VALUES (1, 'one', 1, 'x'), (2, 'two', 2, NULL)",
)
BACKLOG = (
    "INSERT INTO item VALUES (3, 'three', 3, 'x3')",
    "ALTER TABLE item DROP w, ADD n int DEFAULT 7",
    "ALTER TABLE item RENAME x TO w",
    "INSERT INTO item (id, v, w) VALUES (4, 'four', 'text')",
    "ALTER TABLE item ALTER v DROP NOT NULL",
    "INSERT INTO item (id, n) VALUES (5, 5)",
    "UPDATE item SET v = 'five' WHERE id = 5",
    "BEGIN; ALTER TABLE item ALTER v SET NOT NULL; INSERT INTO item (id, v) VALUES (6, 'six'); COMMIT",
    "ALTER TABLE item DROP w",
    "ALTER TABLE item ADD w date DEFAULT '2024-02-29'",
    "UPDATE item SET id = 20 WHERE id = 2",
    "DELETE FROM item WHERE id = 3",
    "INSERT INTO other VALUES (1, 1)",
)
BOTH_SIDES = """
BEGIN;
INSERT INTO item (id, v) VALUES (30, 'before'), (31, 'goes');
UPDATE item SET v = 'changed before', n = 40 WHERE id = 4;
ALTER TABLE item DROP n, ADD m int;
INSERT INTO item (id, v, m) VALUES (32, 'between', 4);
DELETE FROM item WHERE id = 31;
UPDATE item SET w = '2024-01-01';
ALTER TABLE item ALTER v DROP NOT NULL, ALTER w SET NOT NULL;
ALTER TABLE item RENAME m TO k;
UPDATE item SET v = NULL WHERE id = 30;
ALTER TABLE other RENAME v TO u;
ALTER TABLE other ADD t text;
INSERT INTO other VALUES (30, 30, 't');
ALTER TABLE other ALTER t SET NOT NULL;
COMMIT
"""


STRICT = (("item", "w"), ("other", "t"))


@pytest.mark.parametrize("to", ["postgresql", "mariadb", pytest.param("mysql", marks=pytest.mark.long)])
@pytest.mark.one_case("postgresql")
def test_rule_17_each_statement_has_its_place(to: str, make: Make) -> None:
    """Also those behind which no row is changed, and where columns go and others come with no row between. Then the job dies at
    every place on a statement's way, and goes on."""
    here = make(to, *TABLES)
    source = here.made.source
    source.execute(*BACKLOG)
    streams(here)
    history = here.job.schema_versions("public.item")
    names = [[column.name for column in one.schema.columns] for one in history]
    assert names == [
        ["id", "v", "w", "x"],
        ["id", "v", "x", "n"],
        ["id", "v", "w", "n"],
        ["id", "v", "w", "n"],
        ["id", "v", "w", "n"],
        ["id", "v", "n"],
        ["id", "v", "n", "w"],
    ]
    nulls = [one.schema.column("v").nullable for one in history]
    assert nulls == [False, False, False, True, False, False, False]
    assert {one.statement for one in history[1:]} == {"event trigger"}
    if to == "postgresql":
        _both_sides(here)
    _dies_at_each(here, to)


def _both_sides(here: JobHere) -> None:
    """One transaction. Of w and t it has rows before the statement that ends NULL: that waits for the next note."""
    source = here.made.source
    source.execute("DELETE FROM other", BOTH_SIDES)
    streams(here)
    nullable = [here.job.schema_versions(f"public.{table}")[-1].schema.column(name).nullable for table, name in STRICT]
    assert nullable == [True, True]
    source.execute("ALTER TABLE item ALTER w SET DEFAULT now()")
    streams(here)
    nullable = [here.job.schema_versions(f"public.{table}")[-1].schema.column(name).nullable for table, name in STRICT]
    assert nullable == [False, True]
    assert here.verify().identical


def _dies_at_each(here: JobHere, to: str) -> None:
    met, gone = [], "w"
    for number, place in enumerate(PLACES[to]):
        here.made.source.execute(
            f"BEGIN; INSERT INTO item (id, v) VALUES (10{number}, 'v'); ALTER TABLE item ADD c{number} int, DROP {gone};"
            f"ALTER TABLE item RENAME c{number} TO d{number}; UPDATE item SET d{number} = 2 WHERE id = 4; COMMIT"
        )
        gone = f"d{number}"
        with dies(here, place) as reached:
            met += reached
        streams(here)
    assert tuple(met) == PLACES[to]
    assert {one.outcome for one in here.job.ddl_changes("public.item")} == {Outcome.ALTERED}
    here.made.source.execute(*UNDO)


def test_rule_17_also_within_transactions_that_are_large(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come while they are open, or in fragments: what was given of one comes again."""
    monkeypatch.setattr("rigs.job_here.Small", partial(Small, log_images=500))
    here = make("postgresql", *TABLES)
    many = "INSERT INTO other SELECT g, 0 FROM generate_series({0}, {0} + 4000) AS g"
    here.made.source.execute(
        f"BEGIN; {many.format(10_000)}; ALTER TABLE item DROP w, ADD n int DEFAULT 1;"
        "INSERT INTO item (id, v) VALUES (10, 'v');"
        f"{many.format(20_000)}; UPDATE item SET x = 'x'; ALTER TABLE item ALTER x SET NOT NULL; {many.format(30_000)}; COMMIT",
        f"BEGIN; {many.format(40_000)}; UPDATE item SET v = 'large' WHERE id = 10; COMMIT",
    )
    streams(here)
    assert [one.schema.column("x").nullable for one in here.job.schema_versions("public.item")] == [True, True]


DEFAULTS = (
    "ALTER TABLE item ALTER v SET DEFAULT 'it''s', ALTER w SET DEFAULT 5",
    "ALTER TABLE item ADD n numeric(6,2) DEFAULT 7, ADD t timestamptz DEFAULT '2024-02-29 12:00+01', ADD g int DEFAULT 3",
    "INSERT INTO item (id) VALUES (3)",
    "BEGIN; INSERT INTO item (id, v) VALUES (4, 'before'); ALTER TABLE item ADD d date DEFAULT '2024-01-01';"
    "ALTER TABLE item ALTER d SET DEFAULT '2025-01-01'; INSERT INTO item (id) VALUES (5); COMMIT",
    "ALTER TABLE item ALTER w DROP DEFAULT, ALTER g SET DEFAULT 4, ADD m timestamptz DEFAULT now()",
    "ALTER TABLE item ALTER g DROP DEFAULT, ALTER x SET DEFAULT 'none'",
    "SET timezone = 'Asia/Tokyo'; SET datestyle = 'SQL, DMY'; ALTER TABLE item ALTER d SET DEFAULT '03/02/2026'",
    "BEGIN; INSERT INTO item (id, v) VALUES (6, 'before'); ALTER TABLE item ADD k timestamptz DEFAULT now(),"
    " ADD z numeric(5,2) DEFAULT 0::numeric(5,2), ADD s varchar(9) DEFAULT 'abc'::text;"
    "INSERT INTO item (id, v) VALUES (7, 'behind'); COMMIT",
    "ALTER TABLE item ADD u numeric(38,28) DEFAULT 2",
    "ALTER TABLE other ALTER v SET DEFAULT 8",
)
OF_POSTGRESQL = ("ALTER TABLE item ADD r real DEFAULT 'NaN'",)
NUMBER = "2." + 28 * "0"
SHOWN = """SELECT column_name, column_default FROM information_schema.columns
            WHERE table_name = 'item' AND table_schema IN ('public', database()) ORDER BY ordinal_position"""
FOUND = {
    "postgresql": [
        "'it''s'::character varying", None, "'none'::text", "7.00", "'2024-02-29 11:00:00+00'::timestamp with time zone",
        None, "'2026-02-03'::date", "now()", "now()", "0.00", "'abc'::character varying", NUMBER,
        "'NaN'::real",
    ],
    "mariadb": [
        "'it''s'", "NULL", "'none'", "7.00", "'2024-02-29 11:00:00.000000'", "NULL", "'2026-02-03'", "utc_timestamp(6)",
        "utc_timestamp(6)", "0.00", "'abc'", NUMBER,
    ],
}  # fmt: skip


@pytest.mark.parametrize("to", ["postgresql", "mariadb"])
def test_defaults_are_followed_at_their_places(to: str, make: Make) -> None:
    """Also one that was given in the transaction in which its column came, whose rows of before have what the server kept."""
    here = make(to, *TABLES, ddl='[ddl]\ncolumn_default = "apply"\n')
    here.made.source.execute("ALTER TABLE item ALTER v DROP NOT NULL", *DEFAULTS, *OF_POSTGRESQL[: to == "postgresql"])
    streams(here)
    shown = SHOWN if to == "mariadb" else SHOWN.replace("database()", "'public'")
    found = dict(here.made.target.query(shown))
    assert [found[name] for name in "vwxntgdmkzsur"[: len(FOUND[to])]] == FOUND[to]
    nulls = [one.schema.column("v").nullable for one in here.job.schema_versions("public.item")]
    assert not any(nulls)  # nullability is not followed
    here.made.source.execute("ALTER TABLE item ALTER w SET DEFAULT 6 * random(), ALTER m SET DEFAULT NULL")
    here.stream()
    assert (here.made.states()["item"], here.made.states()["other"]) == ("parked", "streaming")
    assert "w cannot have its default" in here.made.reason("item")


PLANS = {
    "ADD c numeric(6,2) DEFAULT 1.5, DROP v": (Outcome.ALTERED, ""),
    "ALTER w TYPE bigint, ALTER v SET DEFAULT 'x'": (Outcome.ALTERED, ""),
    "ALTER w DROP NOT NULL, ALTER w SET DEFAULT 7, ADD d timestamptz NOT NULL DEFAULT '2024-01-01 00:00:00+00'": (
        Outcome.ALTERED,
        "",
    ),
    "RENAME v TO u": (Outcome.ALTERED, ""),
    "ADD UNIQUE (v)": (Outcome.PASSED, "stay as they are"),
    "ALTER w SET DEFAULT 6 * length('x')": (Outcome.PARKED, "cannot have its default here"),
    "ALTER w TYPE text USING 'x' || w": (Outcome.PARKED, "USING"),
    "ADD c int UNIQUE": (Outcome.PARKED, "c is unique"),
}


def test_a_plan_foresees_what_is_followed(make: Make) -> None:
    names = {clauses: f"planned{number}" for number, clauses in enumerate(PLANS)}
    made = [
        f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20), w int NOT NULL DEFAULT 5)" for name in names.values()
    ]
    here = make("postgresql", *SET_UP, *made, ddl=APPLY + 'column_default = "apply"\n')
    plans = {clauses: here.job.plan_ddl(f"ALTER TABLE {name} {clauses}") for clauses, name in names.items()}
    found = {clauses: (plan.outcome, plan.why) for clauses, plan in plans.items()}
    assert {
        one: what for one, what in found.items() if what[0] is not PLANS[one][0] or PLANS[one][1] not in what[1]
    } == {}
    here.made.source.execute(*(f"ALTER TABLE {name} {clauses}" for clauses, name in names.items()))
    here.made.source.execute(*(f"INSERT INTO {name} (id) VALUES (1)" for name in names.values()))
    here.stream()
    states = here.made.states()
    for clauses, name in names.items():
        assert (states[name] == "parked") is (plans[clauses].outcome is Outcome.PARKED), clauses
        if (after := plans[clauses].after) is not None and states[name] != "parked":
            now = here.job.schema_versions(f"public.{name}")[-1].schema
            assert [_told(column) for column in after.columns] == [_told(column) for column in now.columns]
    with pytest.raises(ConfigError, match="not foreseen: what RENAME TO"):
        here.job.plan_ddl("ALTER TABLE planned1 RENAME TO other")
    here.made.source.execute(*UNDO)
    untold = here.job.plan_ddl("ALTER TABLE planned4 ALTER w SET DEFAULT 8")
    assert untold.outcome is Outcome.PASSED and "no row tells" in untold.why


def _told(column: Column) -> tuple[object, ...]:
    return column.name, column.native, column.nullable, column.default, column.number


LAST = "INSERT (id) VALUES (9)"
GOES_ON = {
    "same_name": ["DROP v", "ADD v text", "INSERT VALUES (9, 1, 'v')"],
    "no_row": ["DROP v", "RENAME w TO u", "ADD n int DEFAULT 3"],
    "default_of_key": ["ALTER v SET DEFAULT 'x'", LAST],
    "rolled_back": [f"BEGIN; DROP v; ROLLBACK; {LAST}"],
    "back_again": [
        "BEGIN; RENAME v TO u; INSERT VALUES (8, 'v', 8); RENAME u TO v; INSERT VALUES (9, 'v', 9); COMMIT",
    ],
    "longer": ["ALTER v TYPE text", "INSERT VALUES (9, 'a text that is longer than before')"],
    "strict_and_not": ["ALTER v SET NOT NULL", "ALTER v DROP NOT NULL", LAST],
    "filled_before": ["BEGIN; UPDATE SET w = 1; ALTER w SET NOT NULL; COMMIT", "INSERT VALUES (9, 'v', 9)"],
}
PARKS = {
    "volatile": (["DROP w", "ADD w float DEFAULT random()", LAST], "written anew"),
    "gone_since": (["ADD n int DEFAULT 1", "DROP n", LAST], "n"),
    "computed": (["ALTER w TYPE bigint USING w + 1", LAST], "USING"),
    "fraction": (["ALTER w TYPE numeric(12,2)", LAST], "was integer and is numeric(12,2)"),
    "of_a_key": (["RENAME id TO key", "INSERT (key) VALUES (9)"], "primary key is another"),
}


def test_rule_17_only_what_is_certain_goes_on(make: Make) -> None:
    """A table for each kind of change; the catalogue shows what is behind all of them."""
    names = [*GOES_ON, *PARKS]
    here = make(
        "postgresql",
        *SET_UP,
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, v varchar(20), w int)" for name in names),
        *(f"INSERT INTO {name} (id, v, w) VALUES (1, 'one', 1), (2, 'two', 2)" for name in names),
    )
    made = here.made
    steps = GOES_ON | {name: statements for name, (statements, _) in PARKS.items()}
    made.source.execute(*(statement(name, text) for name, texts in steps.items() for text in texts))
    made.source.execute("SELECT pg_logical_emit_message(true, 'anabranch:ddl', 'none of ours')")
    here.stream()
    states = made.states()
    assert {name: states[name] for name in GOES_ON} == dict.fromkeys(GOES_ON, "streaming"), made.status()
    made.assert_identical(*GOES_ON)
    reasons = {name: made.reason(name) for name in PARKS}
    assert {name: why for name, why in reasons.items() if PARKS[name][1] not in why or states[name] != "parked"} == {}


def test_preflight_says_how_it_is_set_up_where_the_job_asks_for_it(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(logical_postgresql)
    database.execute("CREATE TABLE item (id int PRIMARY KEY)")

    def told(**chosen: str) -> list[CheckResult]:
        context = PreflightContext("job", {f"ddl.{kind}": action for kind, action in chosen.items()}, {}, {})
        with closing(connector(endpoint_of(database)).checks()) as checks:
            found = list(checks.run(context))
        return [one for one in found if one.check == "source.decoder" and "statements" in one.message]

    assert not told(drop_column="park") and not told(add_column="apply")
    (dropped,), (nulls,) = told(drop_column="keep"), told(nullability="apply")
    assert dropped.verdict is CheckVerdict.WARNING and "nullability is not followed" in nulls.message
    database.execute(*dropped.hint.partition(": ")[2].split("; CREATE EVENT")[0:1], *SET_UP[-4:])
    assert not told(drop_column="keep", nullability="apply", column_default="apply")
    database.execute(SET_UP[2].replace("'defaults'", "'others'"))
    (defaults,) = told(drop_column="keep", column_default="apply")
    assert "of an earlier release, and column_default is not followed" in defaults.message
    database.execute(*UNDO)
    assert told(drop_column="keep")


@pytest.mark.servers
@pytest.mark.parametrize("release", ["15", "17"])
def test_on_other_releases(
    release: str, request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> None:
    server = request.getfixturevalue(f"postgresql{release}")
    with jobs(request, lambda: source_database(server), tmp_path, APPLY) as job:
        here = job("postgresql", *TABLES)
        here.made.source.execute(*BACKLOG)
        streams(here)
        assert len(here.job.schema_versions("public.item")) == 7
