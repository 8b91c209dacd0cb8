"""Columns that get another type at a PostgreSQL, whose rows are written anew for it: by the server's cast, which a note of the
statement tells, or by an expression (USING), which nothing tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from anabranch.connectors.postgresql.source import connector
from anabranch.connectors.postgresql.source.statement_notes import SET_UP, UNDO, is_set_up
from anabranch.contracts import LogOptions
from anabranch.model.column_changes import FOLLOWS_NOTHING
from anabranch.model.ids import TableId
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.altered_postgresql import Make, jobs, streams
from rigs.endpoints import endpoint_of
from rigs.job_here import JobHere
from rigs.postgresql_load import RULES

APPLY = '[ddl]\nnullability = "apply"\n'
TABLES = (
    "CREATE TABLE item (id int PRIMARY KEY, n int NOT NULL DEFAULT 5, s smallint, v varchar(20), t text)",
    "INSERT INTO item VALUES (1, 1, -1, 'one', 'a'), (2, -2147483648, 32767, NULL, 'b')",
)
CASTS = (
    "INSERT INTO item VALUES (3, 3, 3, 'three', 'c')",
    "ALTER TABLE item ALTER n TYPE bigint",
    "INSERT INTO item VALUES (4, 9223372036854775807, 4, 'four', 'd')",
    "/* by a tool */ ALTER TABLE public.item ALTER COLUMN s SET DATA TYPE numeric(20,0), ALTER v TYPE varchar(40);",
    "BEGIN; UPDATE item SET s = 12345678901 WHERE id = 1; ALTER TABLE item ALTER n TYPE numeric(19,0);"
    " UPDATE item SET n = 6; COMMIT",
    "UPDATE item SET id = 30 WHERE id = 3",
)
EXPRESSIONS = {
    "of_its_type": ("ALTER TABLE item ALTER n TYPE int USING n + 1",),
    "of_a_text": ("ALTER TABLE item ALTER t TYPE text USING upper(t)",),
    "of_another": ("ALTER TABLE item ALTER n TYPE bigint USING n + 1",),
    "of_a_longer": ("ALTER TABLE item ALTER v TYPE varchar(40) USING upper(v)",),
    "there_and_back": ("ALTER TABLE item ALTER n TYPE bigint USING n + 1", "ALTER TABLE item ALTER n TYPE int"),
    "in_a_function": (
        "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS"
        " 'BEGIN EXECUTE ''ALTER TABLE item ALTER n TYPE bigint ''||''U''||''SING n + 1''; END'",
        "SELECT f() /* ALTER TABLE item ALTER n TYPE bigint */",
    ),
    "of_two": (
        "BEGIN; ALTER TABLE item ALTER n TYPE bigint; ALTER TABLE item ALTER t TYPE text USING upper(t); COMMIT",
    ),
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


@pytest.mark.parametrize("to", ["postgresql", pytest.param("mariadb", marks=pytest.mark.long)])
def test_rule_17_what_the_server_casts_is_followed(to: str, make: Make) -> None:
    here = make(to, *SET_UP, *TABLES)
    here.made.source.execute(*CASTS)
    streams(here)
    columns = here.job.schema_versions("public.item")[-1].schema.columns
    assert [c.native for c in columns[1:4]] == ["numeric(19,0)", "numeric(20,0)", "character varying(40)"]
    assert here.verify().identical
    here.made.source.execute(*UNDO)


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(some, id=name, marks=() if name in ("of_its_type", "in_a_function") else pytest.mark.long)
        for name, some in EXPRESSIONS.items()
    ],
)
def test_rule_17_what_an_expression_computes_parks(statements: tuple[str, ...], make: Make) -> None:
    """Park the table also where the next row looks as the one before, and where no row comes."""
    here = make("postgresql", *SET_UP, *TABLES)
    here.made.source.execute(*statements)
    here.stream()
    assert here.made.states()["item"] == "parked"
    assert "USING" in reason(here)
    here.made.source.execute(*UNDO)


def reason(here: JobHere) -> str:
    return here.job.ddl_changes("public.item")[-1].why


def test_postgresql_live_looks_find_what_no_note_tells(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    """Without notes two looks are compared; who only writes the rows anew, or says something of a column, changes nothing."""
    database, item = source_database(logical_postgresql), TableId("public", "item")
    database.execute(*TABLES)
    source = connector(endpoint_of(database))
    with closing(source.catalog()) as catalog:
        then = catalog.tables(item.__eq__)
    asked = LogOptions(1, 0.05, RULES, "anabranch_x")
    source.drift(asked, then, FOLLOWS_NOTHING)
    for statement, is_told in (
        ("VACUUM FULL item", False),
        ("ALTER TABLE item ALTER n SET STATISTICS 50", False),
        ("TRUNCATE item", False),
        ("CLUSTER item USING item_pkey", False),
        ("BEGIN; TRUNCATE item; ALTER TABLE item ALTER n DROP NOT NULL; COMMIT", True),  # as an expression would look
        ("ALTER TABLE item ALTER n TYPE int USING n + 1", True),
        ("ALTER TABLE item ALTER n TYPE int USING n + 1, ALTER n SET NOT NULL", True),
        ("ALTER TABLE item ALTER n TYPE int USING n + 1, ALTER n SET STATISTICS 40", True),
        ("ALTER TABLE item ALTER n TYPE int USING n + 1, ALTER n SET DEFAULT 6", True),
    ):
        database.execute(statement)
        assert ("USING" in source.drift(asked, then, FOLLOWS_NOTHING).get(item, "")) is is_told, statement


def test_postgresql_live_a_note_that_does_not_come_is_none(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    """The triggers are there, as preflight wants them, and say nothing: looks find the statement."""
    database, item = source_database(logical_postgresql), TableId("public", "item")
    database.execute(*TABLES, *SET_UP, SET_UP[2].replace("GET DIAGNOSTICS", "RAISE 'no'; GET DIAGNOSTICS"))
    source = connector(endpoint_of(database))
    with closing(source.catalog()) as catalog:
        then = catalog.tables(item.__eq__)
    asked = LogOptions(1, 0.05, RULES, "anabranch_x")
    assert "USING" not in source.drift(asked, then, FOLLOWS_NOTHING).get(item, "")
    database.execute("ALTER TABLE item ALTER n TYPE int USING n + 1")
    assert "USING" in source.drift(asked, then, FOLLOWS_NOTHING)[item]
    database.execute(*UNDO)


def test_postgresql_live_triggers_of_an_earlier_release_are_not_set_up(
    logical_postgresql: Server, source_database: Callable[[Server], Database]
) -> None:
    database = source_database(logical_postgresql)
    with closing(database.connect()) as connection:
        assert not is_set_up(connection)
        database.execute(*SET_UP)
        assert is_set_up(connection)
        database.execute(SET_UP[2].replace("anabranch.retyped", "anabranch.former"))
        connection.rollback()
        assert not is_set_up(connection)
    database.execute(*UNDO)


@pytest.fixture
def readable() -> Iterator[Path]:
    """A directory that the server's user may read."""
    with TemporaryDirectory(prefix="anabranch-") as place:
        Path(place).chmod(0o755)
        yield Path(place)


def test_postgresql_what_the_script_of_an_extension_computes_parks(make: Make, readable: Path) -> None:
    """The text of the statement that runs it has no expression."""
    folder = readable / "extension"
    folder.mkdir()
    (folder / "doubled.control").write_text("default_version = '1'\nrelocatable = true\n")
    (folder / "doubled--1.sql").write_text("")
    (folder / "doubled--1--2.sql").write_text("ALTER TABLE public.item ALTER n TYPE bigint USING n + 1;")
    here = make("postgresql", *SET_UP, *TABLES)
    if here.made.source.query("SELECT 1 FROM pg_settings WHERE name = 'extension_control_path'") == []:
        pytest.skip("the server takes extensions from its own directory alone")
    with closing(here.made.source.connect()) as connection:
        connection.autocommit = True
        connection.execute(f"SET extension_control_path = '{readable}'")
        connection.execute("CREATE EXTENSION doubled VERSION '1'")
        connection.execute("ALTER EXTENSION doubled UPDATE TO '2'")
    here.stream()
    assert here.made.states()["item"] == "parked"
    assert "USING" in reason(here)
    here.made.source.execute("DROP EXTENSION doubled", *UNDO)
