"""Initial load from MariaDB and MySQL into PostgreSQL as Spark tasks: every row once, whatever happens in between."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from anabranch import connectors
from anabranch.config.url import parse_url
from anabranch.contracts import ValueRules
from anabranch.errors import ConfigError, RowRefused, SchemaError, SourceError, TargetError
from anabranch.load import run
from anabranch.load.plan import LoadTable, plan
from anabranch.load.run import load_tables
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.table_facts import Facts
from anabranch.model.table_life import TableState
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import Filter
from anabranch.spark.engine import SparkEngine
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server

JOB = "shop"
DIGITS = "(SELECT 0 d UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6"
DIGITS += " UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)"
FILL = (
    "INSERT INTO {table} SELECT a.d + 10*b.d + 100*c.d + 1000*e.d, CONCAT('name ', a.d), NULLIF(b.d, 3), c.d / 8 FROM "
    f"{DIGITS} a, {DIGITS} b, {DIGITS} c, (SELECT 0 d UNION SELECT 1 UNION SELECT 2) e"
)
ROWS = 3000


def endpoint(url: str) -> Endpoint:
    found, problems = parse_url(url, {}, needs_database=True)
    assert found is not None, problems
    return found


@dataclass
class Route:
    """A source database, a target database, and the Spark session between them."""

    spark: Any
    source: Database
    target: Database

    def __post_init__(self) -> None:
        self.connector = connectors.source(endpoint(self.source.url))
        self.target_connector = connectors.target(endpoint(self.target.url))
        with closing(self.target_connector.store()) as store:
            store.prepare()

    def tables(self, **changes: Any) -> list[LoadTable]:
        with closing(self.connector.catalog()) as catalog:
            found = catalog.tables(lambda table: table.schema == self.source.name)
        return [LoadTable(schema, _target_table(schema), **changes) for _, schema in sorted(found.items())]

    def load(self, tables: list[LoadTable], **options: Any) -> bool:
        options = {"rows_per_chunk": 500} | options
        return load_tables(
            JOB, SparkEngine(lambda: self.spark), self.connector, self.target_connector, tables, **options
        )

    def interrupt(self) -> None:
        """A load of so many chunks that it hears of the end long before the last."""
        rows: list[int] = []
        tables = self.tables()
        assert not self.load(
            tables, rows_per_chunk=20, on_progress=lambda _, n, e: rows.append(n), stop=lambda: any(rows)
        )

    def state(self, table: str) -> TableState:
        with closing(self.target_connector.store()) as store:
            return store.tables(JOB)[TableId(self.source.name, table)]

    def loaded(self, table: str) -> list[tuple[Any, ...]]:
        return self.target.query(f"SELECT id, name, amount, share FROM public.{table} ORDER BY id, name, amount, share")

    def expected(self, table: str, where: str = "TRUE") -> list[tuple[Any, ...]]:
        return self.source.query(
            f"SELECT id, name, amount, share FROM {table} WHERE {where} ORDER BY id, name, amount, share"
        )


def _target_table(schema: Any) -> TargetTable:
    names = tuple(column.name for column in schema.columns)
    types = tuple(column.type for column in schema.columns)
    return TargetTable(schema.id, TableId("public", schema.id.name), names, types, schema.primary_key, names)


Make = Callable[..., Route]


@pytest.fixture
def route(spark: Any, source_database: Callable[[Server], Database], target_database: Database) -> Make:
    def make(server: Server, *statements: str) -> Route:
        database = source_database(server)
        database.execute(*statements)
        return Route(spark, database, target_database)

    return make


def table(name: str, key: str = "PRIMARY KEY") -> tuple[str, str]:
    return (
        f"CREATE TABLE {name} (id INT NOT NULL {key}, name VARCHAR(40), amount BIGINT, share DOUBLE)",
        FILL.format(table=name),
    )


@pytest.mark.one_family
def test_rule_05_tables_are_loaded_in_chunks_and_handed_over(mysql_family: Server, route: Make) -> None:
    made = route(mysql_family, *table("a"), *table("b"), "CREATE TABLE nothing (id INT PRIMARY KEY)")
    seen: dict[TableId, int] = {}
    assert made.load(made.tables(), on_progress=lambda t, rows, estimate: seen.update({t: rows}))
    assert made.loaded("a") == made.expected("a") and len(made.loaded("a")) == ROWS
    assert made.loaded("b") == made.expected("b")
    assert seen == {TableId(made.source.name, n): r for n, r in (("a", ROWS), ("b", ROWS), ("nothing", 0))}
    state = made.state("a")
    assert (state.state, state.generation, state.rows_loaded, state.facts) == ("loading", 1, ROWS, Facts(loaded=True))
    assert all(json.loads(state.low)) and all(json.loads(state.high))
    assert state.schema == made.tables()[0].schema
    chunks = made.target.query("SELECT count(*), min(rows) FROM anabranch.load_chunk WHERE source_table LIKE '%.a'")
    assert chunks[0][0] >= 5


def test_passwords_are_nowhere_in_spark_s_settings(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a"))
    made.load(made.tables())
    secrets = [server.password for server in (mariadb, made.target.server) if server.password]
    told = str(made.spark.sparkContext.getConf().getAll())
    command_lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert secrets and not any(secret in told for secret in secrets)
    assert not any(secret.encode() in line for secret in secrets for line in command_lines if b"java" in line)


def test_a_second_start_does_nothing_and_needs_no_spark(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a"))
    made.load(made.tables())
    made.spark = None
    made.source.execute("INSERT INTO a VALUES (99999, 'later', 1, 1)")
    assert made.load(made.tables())
    assert len(made.loaded("a")) == ROWS


def test_pitfall_45_a_load_waits_for_room_at_the_target(
    mariadb: Server, route: Make, servers_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than for a target that is away."""
    from rigs.disk import fill, small_disk  # tasks import this file, and have not that one

    made, place, tablespace = route(mariadb, *table("a")), servers_directory / unique_name("disk"), unique_name("small")
    place.mkdir()
    monkeypatch.setattr(run, "GIVE_UP", 0.0)
    datadir = made.target.server.datadir

    with small_disk(place, 1, datadir.stat().st_uid if datadir else 0) as disk, closing(made.target.connect()) as admin:
        admin.execute(f"CREATE TABLESPACE {tablespace} LOCATION '{disk}'")
        admin.execute(f"ALTER DATABASE {made.target.name} SET default_tablespace = {tablespace}")
        ballast = disk / "ballast"
        fill(ballast)
        os.truncate(ballast, ballast.stat().st_size - 64 * 1024)
        waits: list[str] = []

        def make_room_at_the_second(why: str, _: object) -> None:
            waits.append(why)
            if len(waits) == 2:
                ballast.unlink()

        assert made.load(made.tables(), on_wait=make_room_at_the_second)
        assert "No space left on device [53100] — make room on the target's disk" in waits[0]
        assert not ballast.exists() and made.loaded("a") == made.expected("a")
        admin.execute("DROP TABLE public.a")
        admin.execute(f"ALTER DATABASE {made.target.name} RESET default_tablespace")
        admin.execute(f"DROP TABLESPACE {tablespace}")


@pytest.mark.one_family
def test_an_interrupted_load_goes_on_with_its_chunks(mysql_family: Server, route: Make) -> None:
    made = route(mysql_family, *table("a"))
    made.interrupt()
    rows, in_ledger = made.target.query(
        "SELECT (SELECT count(*) FROM a), (SELECT sum(rows) FROM anabranch.load_chunk)"
    )[0]
    assert 0 < rows == in_ledger < ROWS
    done = made.target.query("SELECT number, rows, low FROM anabranch.load_chunk WHERE rows IS NOT NULL ORDER BY 1")
    assert made.load(made.tables())
    assert made.loaded("a") == made.expected("a")
    after = made.target.query("SELECT number, rows, low FROM anabranch.load_chunk ORDER BY 1")
    assert set(done) <= set(after) and made.state("a").rows_loaded == ROWS


def test_a_new_generation_empties_and_loads_again(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a"))
    made.load(made.tables())
    made.source.execute("DELETE FROM a WHERE id % 3 = 0")
    assert made.load(made.tables(generation=2, empty=True))
    assert made.loaded("a") == made.expected("a")
    assert made.state("a").generation == 2


def test_rows_at_the_target_are_refused(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a"))
    made.target.execute(
        "CREATE TABLE a (id int PRIMARY KEY, name text, amount bigint, share float8)", "INSERT INTO a VALUES (1)"
    )
    with pytest.raises(TargetError, match="holds rows"):
        made.load(made.tables())


def test_rule_19_another_definition_stops_a_load_that_goes_on(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a"))
    made.interrupt()
    made.source.execute("ALTER TABLE a ADD COLUMN more INT")
    with pytest.raises(SchemaError, match="changed while"):
        made.load(made.tables())


def test_rule_29_another_server_is_refused(mysql_family: Server, route: Make) -> None:
    made = route(mysql_family, *table("a"))
    with pytest.raises(SourceError, match="capture follows"):
        made.load(made.tables(), expected_identity="somebody else")


def test_a_refused_row_is_one_message_with_its_key(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a"), "INSERT INTO a VALUES (77777, 'x', 1, 1)")
    made.target.execute(
        "CREATE TABLE a (id int PRIMARY KEY CHECK (id < 7000), name text, amount bigint, share float8)",
    )
    with pytest.raises(RowRefused, match="id=77777") as caught:
        made.load(made.tables())
    assert caught.value.job == JOB and str(caught.value.table) == f"{made.source.name}.a"


def test_a_keyless_table_is_one_exact_piece_on_mariadb(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a", key=""), "INSERT INTO a SELECT * FROM a WHERE id < 10")
    assert made.load(made.tables())
    assert made.loaded("a") == made.expected("a") and len(made.loaded("a")) == ROWS + 10
    assert made.state("a").low == made.state("a").high


@dataclass(frozen=True)
class Verdicts:
    """Stands for capture: a file with one verdict per line, taken from the top."""

    file: Path

    def __call__(self, table: TableId, low: LogMark, high: LogMark) -> bool | None:
        verdict, *left = json.loads(self.file.read_text())
        self.file.write_text(json.dumps(left or [verdict]))
        return verdict


def test_rule_04_a_keyless_table_waits_for_a_quiet_moment(mysql: Server, route: Make, tmp_path: Path) -> None:
    made = route(mysql, *table("a", key=""))
    quiet = Verdicts(tmp_path / "verdicts")
    quiet.file.write_text(json.dumps([None, False, False, None, True]))
    assert made.load(made.tables(), quiet=quiet)
    assert made.loaded("a") == made.expected("a")
    assert len(json.loads(made.state("a").low)) == 1 and made.state("a").low == made.state("a").high


def test_rule_04_never_quiet_offers_the_lock(mysql: Server, route: Make, tmp_path: Path) -> None:
    made = route(mysql, *table("a", key=""))
    quiet = Verdicts(tmp_path / "verdicts")
    quiet.file.write_text(json.dumps([False]))
    with pytest.raises(SourceError, match=r'\[load\] lock = "table"'):
        made.load(made.tables(), quiet=quiet)
    assert made.load(made.tables(), lock="table")
    assert made.loaded("a") == made.expected("a")


@pytest.mark.one_family
def test_rule_27_a_filter_is_spark_sql_and_sees_typed_values(mysql_family: Server, route: Make) -> None:
    made = route(mysql_family, *table("a"), *table("b"))
    a, b = made.tables()
    where = Filter("amount > 4 AND share < 0.5D AND name <> 'NAME 1'", ("amount", "share", "name"))
    assert made.load([replace(a, filter=where), b])
    kept = [row for row in made.expected("a") if row[2] is not None and row[2] > 4 and row[3] < 0.5]
    assert made.loaded("a") == kept  # Spark's <> knows case: 'name 1' stays
    assert any(row[1] == "name 1" for row in kept)
    assert made.loaded("b") == made.expected("b")
    assert made.state("a").rows_loaded == len(kept)


def test_rule_27_a_filter_that_nothing_passes_and_one_by_a_dropped_column(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a"), *table("b"))
    a, b = made.tables()
    kept = [0, 1, 3]
    narrow = TargetTable(
        b.schema.id,
        b.table.target,
        tuple(b.table.columns[i] for i in kept),
        tuple(b.table.types[i] for i in kept),
        ("id",),
        tuple(b.table.columns[i] for i in kept),
    )
    b = replace(b, table=narrow, filter=Filter("amount = 7", ("amount",)))
    assert made.load([replace(a, filter=Filter("id < 0", ("id",))), b])
    assert made.loaded("a") == []
    loaded = made.target.query("SELECT id, name, share FROM public.b ORDER BY id")
    assert loaded == [(i, n, s) for i, n, _, s in made.expected("b", "amount = 7")] and loaded


def test_rule_27_a_filter_names_columns_whatever_they_are_called(mariadb: Server, route: Make) -> None:
    """Spark takes a dot in the name of a column for a field of it, and the load ended with an error of its own."""
    columns = 'id INT PRIMARY KEY, `price.eur` INT, `b``t` INT, `it\'s "x"` VARCHAR(9)'
    rows = "(1, 1, 1, 'a'), (2, 5, 1, 'a'), (3, 5, NULL, 'a'), (4, 5, 1, 'b')"
    made = route(mariadb, f"CREATE TABLE a ({columns})", f"INSERT INTO a VALUES {rows}")
    text = "`price.eur` > 2 AND `b``t` = 1 AND `it's \"x\"` = 'a'"
    where = Filter(text, ("price.eur", "b`t", 'it\'s "x"'))
    assert made.load([replace(made.tables()[0], filter=where)])
    assert made.target.query("SELECT id FROM public.a") == [(2,)]


def test_rule_27_a_filter_names_columns_that_are_called_as_ours_beside_them(mariadb: Server, route: Make) -> None:
    """Columns of the source may have the names that a piece gives to the header and the line beside them: no such filter
    could be loaded."""
    columns = "id INT PRIMARY KEY, `__header` INT, `__LINE` INT, `_header_` INT"
    made = route(
        mariadb, f"CREATE TABLE a ({columns})", "INSERT INTO a VALUES (1, 1, 1, 0), (2, 5, 1, 0), (3, 5, NULL, 0)"
    )
    where = Filter("`__header` > 2 AND `__LINE` = 1", ("__header", "__LINE"))
    assert made.load([replace(made.tables()[0], filter=where)])
    assert made.target.query("SELECT id FROM public.a") == [(2,)]


def test_a_bad_filter_is_one_message(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a"))
    with pytest.raises(ConfigError, match="Spark refuses the filter"):
        made.load([replace(made.tables()[0], filter=Filter("nosuch(id) > 1", ("id",)))])


def test_a_source_that_comes_back_is_waited_for(mariadb: Server, route: Make) -> None:
    made = route(mariadb, *table("a"))
    planned = plan(
        JOB,
        made.connector,
        made.target_connector,
        made.tables(),
        rows_per_chunk=500,
        rules=ValueRules(),
        expected_identity="",
    )
    assert len(planned[0].pieces) >= 5
    calls: list[int] = []

    def factory() -> Any:
        calls.append(1)
        if len(calls) == 1:
            mariadb.stop()
        if len(calls) == 2:
            mariadb.start()
        return made.spark

    # the plan stands, so that the first thing that meets the stopped server is a task
    from anabranch.load.copy import ChunkWork
    from anabranch.load.run import _Load

    work = ChunkWork(JOB, made.connector, made.target_connector, ValueRules())
    assert _Load(
        work, planned, SparkEngine(factory), lambda *_: None, lambda *_: None, lambda: False, lambda table: ""
    ).run()
    assert len(calls) >= 2 and made.loaded("a") == made.expected("a")
