"""Rows that go from one PostgreSQL to another unread: which types do, to the letter, on every release; what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.target import connector as target
from anabranch.connectors.postgresql.target.load import PostgresLoader
from anabranch.contracts import Bounds
from anabranch.errors import RowRefused
from anabranch.load.copy import ChunkWork
from anabranch.load.plan import LoadPiece, LoadTable
from anabranch.load.run import forms_of
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable
from anabranch.spark.work import do
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import JOB, MARKS, RULES
from rigs.postgresql_types import rows_of, values_of
from rigs.scenario_postgresql import ALIKE

AS_TEXT = {"money", '"char"', "int4multirange", "tstzmultirange", "jsonpath", "regtype", "refcursor"}
AS_TEXT |= {"xid", "xid8", "cid", "tid", "pg_snapshot", "txid_snapshot", "int2vector", "oidvector"}
MORE = {
    "interval[]": ("'{1 day,NULL}'",),
    "daterange": ("'[2024-01-01,)'",),
    "int8range": ("'[1,9223372036854775807)'",),
    "uuid[]": ("'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'",),
    "jsonb[]": ("'{\"1\",NULL}'",),
    "timestamptz(3)": ("'2024-02-29 23:59:59.999'",),
}


@dataclass
class Ends:
    """Two databases, each with the tables that were asked for; what is loaded goes from one to the other."""

    source: Database
    target: Database
    loader: PostgresLoader = field(init=False)

    def __post_init__(self) -> None:
        endpoint = endpoint_of(self.target)
        with closing(target(endpoint).store()) as store:
            store.prepare()
        self.loader = PostgresLoader(endpoint, RULES)

    def run(self, *statements: str) -> None:
        for database in (self.source, self.target):
            database.execute(*statements)

    def tables(self) -> dict[str, tuple[TableSchema, TargetTable]]:
        with closing(source(endpoint_of(self.source)).catalog()) as catalog:
            found = catalog.tables(lambda table: True).values()
        return {one.id.name: (one, _target(one)) for one in found}

    def work(self) -> ChunkWork:
        ends = source(endpoint_of(self.source)), target(endpoint_of(self.target))
        tables = [one for _, one in self.tables().values()]
        with closing(ends[1].loader(RULES)) as loader:
            return ChunkWork(JOB, *ends, RULES, forms=loader.raw_forms(tables))

    def pass_on(self, name: str) -> str:
        """The table's rows, unread; the form in which they went, "" where both ends have none alike."""
        schema, table = self.tables()[name]
        self.loader.begin_generation(JOB, table, 1, [Bounds()], True)
        wanted = self.loader.raw_forms([table]).get(table.source, "")
        with closing(source(endpoint_of(self.source)).snapshot()) as reader:
            reader.open(schema, "none")
            if not wanted or reader.raw_form(schema, table.source_columns) != wanted:
                return ""
            blocks = reader.raw(schema, table.source_columns, Bounds())
            self.loader.load_raw(JOB, table, 1, 0, MARKS, wanted, blocks)
        return wanted

    def rows(self, name: str) -> tuple[list[Any], list[Any]]:
        found = []
        for database in (self.source, self.target):
            with database.connect(options=ALIKE) as connection:
                found.append(connection.execute(f"SELECT t::text FROM public.{name} t ORDER BY 1").fetchall())
        return found[0], found[1]


def _target(schema: TableSchema) -> TargetTable:
    names = tuple(one.name for one in schema.columns)
    types = tuple(one.type for one in schema.columns if one.type)
    return TargetTable(schema.id, schema.id, names, types, schema.primary_key, names)


Make = Callable[[Server, Server], Ends]


@pytest.fixture
def ends(source_database: Callable[[Server], Database]) -> Iterator[Make]:
    made: list[Ends] = []

    def make(one: Server, other: Server) -> Ends:
        made.append(Ends(source_database(one), source_database(other)))
        return made[-1]

    yield make
    for one in made:
        one.loader.close()


def _fill(made: Ends, types: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """A table for each type; its name -> the type."""
    named = {f"t{number}": type for number, type in enumerate(types)}
    made.run(*(f"CREATE TABLE {name} (id int PRIMARY KEY, v {type})" for name, type in named.items()))
    made.source.execute(*(f"INSERT INTO {name} VALUES {rows_of(type, types[type], 1)}" for name, type in named.items()))
    return named


def _identical(made: Ends, names: Sequence[str]) -> None:
    for name in names:
        here, there = made.rows(name)
        assert here == there and here, name


def test_every_type_that_goes_unread_arrives_to_the_letter(
    logical_postgresql: Server, postgresql: Server, ends: Make
) -> None:
    made = ends(logical_postgresql, postgresql)
    named = _fill(made, values_of(18) | MORE)
    as_text = {type for name, type in named.items() if not made.pass_on(name)}
    assert as_text == AS_TEXT
    _identical(made, [name for name, type in named.items() if type not in AS_TEXT])


@pytest.mark.servers
@pytest.mark.parametrize("is_source", [True, False], ids=["from", "to"])
@pytest.mark.parametrize("release", ["12", "15", "17"])
def test_types_go_unread_between_releases(
    release: str, is_source: bool, request: pytest.FixtureRequest, postgresql: Server, ends: Make
) -> None:
    """Of an interval the same bytes are another value before release 17."""
    older = request.getfixturevalue(f"postgresql{release}")
    made = ends(older, postgresql) if is_source else ends(postgresql, older)
    named = _fill(
        made, {type: values for type, values in (values_of(int(release)) | MORE).items() if type not in AS_TEXT}
    )
    as_text = {type for name, type in named.items() if not made.pass_on(name)}
    assert as_text == (set() if release == "17" else {"interval", "interval[]"})
    _identical(made, [name for name, type in named.items() if type not in as_text])


@pytest.mark.servers
def test_a_number_that_the_older_release_has_not_is_refused(
    request: pytest.FixtureRequest, postgresql: Server, ends: Make
) -> None:
    made = ends(postgresql, request.getfixturevalue("postgresql12"))
    made.run("CREATE TABLE one (id int PRIMARY KEY, v numeric)")
    made.source.execute("INSERT INTO one VALUES (1, 1.5), (2, 'Infinity')")
    with pytest.raises(RowRefused):
        made.pass_on("one")
    assert made.target.query("SELECT count(*) FROM one") == [(0,)]


def test_types_of_users_go_unread_where_the_form_says_all(
    logical_postgresql: Server, postgresql: Server, ends: Make
) -> None:
    """Labels and domains do, whatever their oids are; what has oids inside, or a form of an extension's, does not."""
    made = ends(logical_postgresql, postgresql)
    made.target.execute("CREATE TYPE before AS ENUM ('x')", "CREATE TYPE mood AS ENUM ('sad', 'glad', 'ok')")
    made.source.execute("CREATE TYPE mood AS ENUM ('ok', 'sad', 'glad')")
    made.run(
        "CREATE DOMAIN small AS integer CHECK (VALUE < 10)",
        "CREATE DOMAIN smaller AS small CHECK (VALUE < 5)",
        "CREATE DOMAIN moods AS mood",
        "CREATE TYPE pair AS (a int, b mood)",
        "CREATE TYPE span AS RANGE (subtype = float8)",
        "CREATE TABLE goes (id int PRIMARY KEY, a mood, b smaller, c moods, d small DEFAULT 1)",
        *(
            f"CREATE TABLE stays_{name} (id int PRIMARY KEY, v {type})"
            for name, type in enumerate(("mood[]", "pair", "span", "small[]", "xml", "regclass"))
        ),
    )
    made.source.execute(
        "INSERT INTO goes VALUES (1, 'ok', 4, 'glad', 2), (2, 'sad', NULL, NULL, NULL), (3, NULL, -1, 'ok', 1)"
    )
    assert made.pass_on("goes").endswith(": int4, enum, int4, enum, int4")
    _identical(made, ["goes"])
    assert [name for name in made.tables() if name.startswith("stays") and made.pass_on(name)] == []


def test_a_target_of_other_types_takes_lines(logical_postgresql: Server, postgresql: Server, ends: Make) -> None:
    made = ends(logical_postgresql, postgresql)
    made.source.execute("CREATE TABLE one (id int PRIMARY KEY, v int)", "INSERT INTO one VALUES (1, 2)")
    made.target.execute("CREATE TABLE one (id bigint PRIMARY KEY, v text)")
    assert made.pass_on("one") == ""
    assert _done(made, "one").value == (1,)
    assert made.target.query("SELECT id, v FROM one") == [(1, "2")]


def _done(made: Ends, name: str, work: ChunkWork | None = None) -> Any:
    schema, table = made.tables()[name]
    made.loader.begin_generation(JOB, table, 1, [Bounds()], True)
    return do(work or made.work(), LoadPiece(LoadTable(schema, table), 0, Bounds()))


def test_rows_and_ledger_of_a_stream_commit_together(
    logical_postgresql: Server, postgresql: Server, ends: Make
) -> None:
    """One that is done is not read again; one that breaks off leaves nothing."""
    made = ends(logical_postgresql, postgresql)
    made.run("CREATE TABLE one (id int PRIMARY KEY, v text)")
    made.source.execute("INSERT INTO one SELECT g, repeat('x', 100) FROM generate_series(1, 30000) g")
    schema, table = made.tables()["one"]
    made.loader.begin_generation(JOB, table, 1, [Bounds()], False)
    form = made.loader.raw_forms([table])[table.source]

    def broken() -> Iterator[bytes]:
        with closing(source(endpoint_of(made.source)).snapshot()) as reader:
            reader.open(schema, "none")
            yield next(iter(reader.raw(schema, table.source_columns, Bounds())))
            raise KeyboardInterrupt

    def never() -> Iterator[bytes]:
        raise AssertionError("a chunk that is done was read again")
        yield b""

    with pytest.raises(KeyboardInterrupt):
        made.loader.load_raw(JOB, table, 1, 0, MARKS, form, broken())
    assert made.target.query("SELECT count(*) FROM one") == [(0,)]
    assert made.loader.chunks(JOB, schema.id, 1)[0].rows is None
    outcome = do(made.work(), LoadPiece(LoadTable(schema, table), 0, Bounds()))
    assert outcome.value == (30000,)
    [chunk] = made.loader.chunks(JOB, schema.id, 1)
    assert chunk.rows == 30000 and chunk.low == chunk.high != ""
    assert made.loader.load_raw(JOB, table, 1, 0, MARKS, form, never()) == 30000
    _identical(made, ["one"])


def test_a_stream_that_is_refused_is_read_again_as_lines(
    logical_postgresql: Server, postgresql: Server, ends: Make
) -> None:
    """They name the row that the target does not take."""
    made = ends(logical_postgresql, postgresql)
    made.run("CREATE TABLE one (id int PRIMARY KEY, v text)")
    made.source.execute("INSERT INTO one SELECT g, 'v' || g FROM generate_series(1, 50000) g")
    made.target.execute("ALTER TABLE one ADD CHECK (v <> 'v40000')")
    outcome = _done(made, "one")
    assert outcome.failure.name == "RowRefused" and "key id=40000" in outcome.failure.message
    assert made.target.query("SELECT count(*) FROM one") == [(0,)]
    made.source.execute("UPDATE one SET v = 'w' WHERE id = 40000")
    assert _done(made, "one").value == (50000,)
    _identical(made, ["one"])


def test_a_column_that_got_another_type_meanwhile_is_seen(
    logical_postgresql: Server, postgresql: Server, ends: Make
) -> None:
    """An integer of eight bytes is no float of eight bytes."""
    made = ends(logical_postgresql, postgresql)
    made.run("CREATE TABLE one (id int PRIMARY KEY, v bigint)")
    made.source.execute("INSERT INTO one VALUES (1, 4611686018427387904)")
    work = made.work()
    made.target.execute("ALTER TABLE one ALTER v TYPE double precision")
    assert _done(made, "one", work).value == (1,)
    assert made.target.query("SELECT v FROM one") == [(4611686018427387904.0,)]
    made.source.execute("ALTER TABLE one ALTER v TYPE double precision")
    assert forms_of(target(endpoint_of(made.target)), RULES, []) == {}
    assert _done(made, "one", work).value == (1,)


def test_a_filter_needs_lines(logical_postgresql: Server, postgresql: Server, ends: Make) -> None:
    made = ends(logical_postgresql, postgresql)
    made.run("CREATE TABLE one (id int PRIMARY KEY)")
    made.source.execute("INSERT INTO one VALUES (1)")
    schema, table = made.tables()["one"]
    work = made.work()
    with closing(work.source.snapshot()) as reader:
        reader.open(schema, "none")
        assert work.form(reader, LoadPiece(LoadTable(schema, table), 0, Bounds())) != ""
        assert work.form(reader, LoadPiece(LoadTable(schema, table, _Filter()), 0, Bounds())) == ""
    assert table.source == TableId("public", "one")


class _Filter:
    text, columns = "id > 0", ("id",)
