"""Change tables at a PostgreSQL: what SQL Server's readers ask of them, from every source, while the job dies."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch import failpoints
from anabranch.errors import AnabranchError, ConfigError, JobChanged, PreflightFailed, RowRefused, StateError
from anabranch.job import parts
from anabranch.model.ids import TableId
from anabranch.spark.changes import ChangesSource
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from anabranch.testing.torture.local import LocalEngine, Small
from rigs.change_readers import ITEM, Reader, keep_changes, transaction, whole_rows
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_postgresql import FromPostgres

SOURCES = ["mysql", "logical_postgresql", pytest.param("mariadb", marks=pytest.mark.long)]
PLACES = ("apply.appended", "apply.commit", "apply.committed")
NONE = bytes(10)


@pytest.fixture(params=SOURCES)
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    source = source_database(request.getfixturevalue(request.param))
    target = create_database(request.getfixturevalue("postgresql"), "changes")
    kind = FromPostgres if request.param == "logical_postgresql" else Scenario
    made = kind(source, target, tmp_path, name=unique_name("job"))
    keep_changes(made)
    source.execute(ITEM, *whole_rows(made, "item", "scenario_mark"))
    yield JobHere(made)
    drop_database(target)


def _lsn(made: Scenario, call: str) -> bytes:
    return bytes(made.target.query(f"SELECT cdc.{call}")[0][0])


def _changes(made: Scenario, since: bytes, to: bytes, option: str = "all") -> list[tuple[Any, ...]]:
    query = "SELECT * FROM cdc.fn_cdc_get_all_changes_public_item(%s, %s, %s)"
    return [tuple(row) for row in made.target.query(query, [since, to, option])]


def _net(made: Scenario, since: bytes, to: bytes, option: str = "all") -> set[tuple[Any, ...]]:
    query = 'SELECT "__$operation", id, v, n FROM cdc.fn_cdc_get_net_changes_public_item(%s, %s, %s)'
    return {tuple(row) for row in made.target.query(query, [since, to, option])}


@pytest.mark.one_case("mysql")
def test_a_reader_gets_every_change_once_while_the_job_dies(here: JobHere) -> None:
    made, draw, rows = here.made, random.Random(20261128), dict[int, tuple[str | None, int]]()
    for place in ("changes.made", "changes.known"):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached):
            here.load()
        failpoints.arm({})
    here.load()
    reader, met = Reader(made), []
    begin = _lsn(made, "fn_cdc_get_min_lsn('public_item')")
    for number in range(12):
        for _ in range(3):
            made.source.execute("BEGIN", *transaction(draw, rows), "COMMIT")
        failpoints.arm({failpoints.VARIABLE: f"{PLACES[number % 3]}=raise"} if number % 2 else {})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(PLACES[number % 3])
        finally:
            failpoints.arm({})
        reader.look()
    here.stream()
    reader.look()
    assert set(met) == set(PLACES)
    assert (
        reader.rows_read == rows == {key: tuple(rest) for key, *rest in made.source.query("SELECT id, v, n FROM item")}
    )
    assert reader.seen == sorted(set(reader.seen)), "in the log's order, none twice"
    net = _net(made, begin, reader.read)
    assert net == {(2, key, *rest) for key, rest in rows.items()}, "all of them came in this range"


def test_rows_have_the_layout_and_the_functions_the_answers_of_sql_server(here: JobHere) -> None:
    made, source = here.made, here.made.source
    here.load()
    first = _lsn(made, "fn_cdc_get_max_lsn()")
    source.execute("INSERT INTO item VALUES (1, 'one', 1), (2, 'two', 2)", "UPDATE item SET v = 'ONE' WHERE id = 1")
    here.stream()
    middle = _lsn(made, "fn_cdc_get_max_lsn()")
    source.execute("UPDATE item SET id = 9 WHERE id = 2")
    source.execute(
        "BEGIN",
        "DELETE FROM item WHERE id = 1",
        "INSERT INTO item VALUES (1, 'again', 5)",
        "INSERT INTO item VALUES (3, 'gone', 3)",
        "DELETE FROM item WHERE id = 3",
        "COMMIT",
    )
    here.stream()
    last = _lsn(made, "fn_cdc_get_max_lsn()")
    columns = made.target.query(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'cdc' AND table_name = 'public_item_CT'"
        " ORDER BY ordinal_position"
    )
    head = ["__$start_lsn", "__$end_lsn", "__$seqval", "__$operation", "__$update_mask"]
    assert [name for (name,) in columns] == [*head, "id", "v", "n", "__$command_id"]
    shown = [row[2:] for row in _changes(made, first, middle, "all update old")]
    assert shown == [
        (2, b"\x07", 1, "one", 1),
        (2, b"\x07", 2, "two", 2),
        (3, b"\x02", 1, "one", 1),
        (4, b"\x02", 1, "ONE", 1),
    ]
    assert [row[2] for row in _changes(made, first, middle)] == [2, 2, 4]
    pairs = [row[1] for row in _changes(made, first, middle, "all update old")[2:]]
    assert pairs[0] == pairs[1], "the two images of an update have one place"
    asked = "SELECT cdc.fn_cdc_has_column_changed('public_item', %s, %s)"
    assert [made.target.query(asked, [name, b"\x02"])[0][0] for name in ("id", "v", "n")] == [0, 1, 0]
    behind = _lsn(made, f"fn_cdc_increment_lsn('\\x{middle.hex()}'::bytea)")
    assert _net(made, behind, last) == {(1, 2, "two", 2), (2, 9, "two", 2), (4, 1, "again", 5)}
    assert {row[0] for row in _net(made, behind, last, "all with merge")} == {1, 5}
    assert _lsn(made, f"fn_cdc_decrement_lsn('\\x{behind.hex()}'::bytea)") == middle
    times = made.target.query('SELECT start_lsn, tran_end_time, "position" FROM cdc.lsn_time_mapping ORDER BY 1')
    assert bytes(times[-1][0]) == last and times[-1][2].startswith(f"{len(times) - 1}@")
    newest = made.target.query("SELECT cdc.fn_cdc_map_time_to_lsn('largest less than or equal', %s)", [times[-1][1]])
    assert bytes(newest[0][0]) == last
    assert (
        abs(made.target.query("SELECT extract(epoch FROM now() AT TIME ZONE 'UTC' - %s)", [times[-1][1]])[0][0]) < 3600
    )
    far, early = _lsn(made, f"fn_cdc_increment_lsn('\\x{last.hex()}'::bytea)"), NONE
    for since, to, option in ((first, far, "all"), (early, last, "all"), (last, first, "all"), (first, last, "some")):
        with pytest.raises(psycopg.Error, match="insufficient number of arguments") as refused:
            _changes(made, since, to, option)
        assert refused.value.sqlstate == "CD313"


def test_spark_reads_the_same_rows_from_the_trail(here: JobHere) -> None:
    made, draw, rows = here.made, random.Random(19), dict[int, tuple[str | None, int]]()
    here.load()
    for _ in range(10):
        made.source.execute("BEGIN", *transaction(draw, rows), "COMMIT")
    here.stream()
    asked = Reader(made)
    first, last = asked.one("fn_cdc_get_min_lsn('public_item')"), asked.one("fn_cdc_get_max_lsn()")
    expected = [tuple(row) for row in _changes(made, first, last, "all update old")]
    options = {"path": str(here.job.trail), "changes": f"{made.schema}.item"}
    source = ChangesSource(options | {"from": str(int.from_bytes(first[:7], "big") + 1)})
    reader = source.reader(source.schema())
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    kept = ("__$start_lsn", "__$seqval", "__$operation", "__$update_mask", "id", "v", "n")
    assert sorted(tuple(row[name] for name in kept) for row in found) == sorted(expected) != []


def test_a_reader_needs_the_rights_that_the_page_names_and_computed_columns_are_values(here: JobHere) -> None:
    made, source, role = here.made, here.made.source, unique_name("reader")
    source.execute(
        "CREATE TABLE made (id INT PRIMARY KEY, twice INT GENERATED ALWAYS AS (id * 2) STORED, was VARCHAR(9))",
        *whole_rows(made, "made"),
    )
    here.load()
    source.execute("INSERT INTO made (id, was) VALUES (4, 'x')", "UPDATE made SET id = 5")
    here.stream()
    made.target.execute(
        f"CREATE ROLE {role}",
        f"GRANT USAGE ON SCHEMA cdc TO {role}",
        f"GRANT SELECT ON cdc.change_tables, cdc.captured_columns, cdc.lsn_time_mapping TO {role}",
        f'GRANT SELECT ON cdc."public_made_CT" TO {role}',
    )
    bounds = "cdc.fn_cdc_get_min_lsn('public_{0}'), cdc.fn_cdc_get_max_lsn()"
    query = f"SELECT * FROM cdc.fn_cdc_get_all_changes_public_{{0}}({bounds}, 'all')"
    asked = {"options": f"-c role={role}"}
    if not isinstance(made, FromPostgres):  # whose log has no computed columns before release 18
        found = [row[2:] for row in made.target.query(query.format("made"), **asked)]
        assert found == [(2, b"\x07", 4, 8, "x"), (4, b"\x03", 5, 10, "x")]
    with pytest.raises(psycopg.Error, match="permission denied"):
        made.target.query(query.format("item"), **asked)


@pytest.mark.one_case("logical_postgresql")
def test_what_needs_rows_is_refused_and_what_has_no_row_stops(here: JobHere) -> None:
    made, source = here.made, here.made.source
    source.execute("CREATE TABLE other (id INT PRIMARY KEY)", *whole_rows(made, "other"))
    here.load()
    here.load()  # nothing to do
    for refused in (
        lambda: here.load(TableId(made.schema, "item")),
        here.verify,
        here.job.arm,
        here.job.plan_drill,
        here.job.plan_cutover,
        here.job.resume,
        lambda: here.job.vouch_for(f"{made.schema}.item"),
        here.job.reverse,
        lambda: here.job.rewind("0@", execute=True),
    ):
        with pytest.raises((ConfigError, StateError)):
            refused()
    source.execute(
        "INSERT INTO item VALUES (1, 'one', 1)", "ALTER TABLE other ADD v INT", "INSERT INTO other VALUES (1, 1)"
    )
    source.execute("INSERT INTO item VALUES (2, 'two', 2)")
    here.stream()
    assert (made.states()["item"], made.states()["other"]) == ("streaming", "parked")
    assert made.target.query('SELECT id FROM cdc."public_item_CT" ORDER BY 1') == [(1,), (2,)]
    last, parked = (_lsn(made, f"fn_cdc_get_{call}") for call in ("max_lsn()", "min_lsn('public_other')"))
    with pytest.raises(psycopg.Error, match="insufficient number of arguments"):
        made.target.query("SELECT * FROM cdc.fn_cdc_get_all_changes_public_other(%s, %s, 'all')", [parked, last])
    source.execute("INSERT INTO item VALUES (3, 'three', 3)", "TRUNCATE TABLE item")
    with pytest.raises(RowRefused, match="TRUNCATE, which change tables have no row for") as stopped:
        here.stream()
    assert stopped.value.position is not None
    assert made.target.query('SELECT id FROM cdc."public_item_CT" ORDER BY 1') == [(1,), (2,), (3,)], (
        "what is in front of it"
    )
    with pytest.raises(ConfigError, match="keeps changes"):
        here.job.resume(f"{made.schema}.other")
    here.job.skip(stopped.value.position, execute=True)
    source.execute("INSERT INTO item VALUES (1, 'new', 1)")
    here.stream()
    assert made.target.query('SELECT v FROM cdc."public_item_CT" WHERE id = 1 ORDER BY "__$start_lsn"') == [
        ("one",),
        ("new",),
    ]


def test_a_value_that_the_target_refuses_names_its_transaction_and_labels_come(here: JobHere) -> None:
    made, source = here.made, here.made.source
    is_postgresql = isinstance(made, FromPostgres)
    if is_postgresql:
        source.execute(
            "CREATE TYPE mood AS ENUM ('sad')",
            'CREATE TABLE felt (id INT PRIMARY KEY, m mood, c TEXT COLLATE "C", f FLOAT8)',
        )
        source.execute(*whole_rows(made, "felt"))
    else:
        source.execute("CREATE TABLE felt (id INT PRIMARY KEY, m TEXT, c VARCHAR(9), f DOUBLE)")
    here.load()
    source.execute("INSERT INTO felt VALUES (1, 'sad', 'c', 0)", "UPDATE felt SET f = '-0' WHERE id = 1")
    here.stream()
    if is_postgresql:
        source.execute("ALTER TYPE mood ADD VALUE 'glad'", "INSERT INTO felt VALUES (2, 'glad', 'c', 'NaN')")
        source.execute("UPDATE felt SET c = 'd' WHERE id = 2")
        here.stream()
        shown = made.target.query(
            'SELECT m::text, "__$update_mask" FROM cdc."public_felt_CT" ORDER BY "__$start_lsn", "__$operation"'
        )
        assert shown[-3:] == [("glad", b"\x0f"), ("glad", b"\x04"), ("glad", b"\x04")], "NaN stays NaN"
        assert shown[1] == ("sad", b"\x08"), "0 became -0"
        return
    source.execute(*(f"INSERT INTO felt VALUES ({key}, 'x', 'c', 0)" for key in range(10, 16)))
    source.execute("INSERT INTO felt VALUES (16, 'a\\0b', 'c', 0)", "INSERT INTO felt VALUES (17, 'x', 'c', 0)")
    with pytest.raises(RowRefused) as refused:
        here.stream()
    found = made.target.query('SELECT max(id) FROM cdc."public_felt_CT"')
    assert found == [(15,)] and refused.value.position is not None
    here.job.skip(refused.value.position, execute=True)
    here.stream()
    assert made.target.query('SELECT id FROM cdc."public_felt_CT" WHERE id > 14 ORDER BY 1') == [(15,), (17,)]


def test_another_form_is_another_job(here: JobHere) -> None:
    made = here.made
    here.load()
    made.write_job()
    with pytest.raises(JobChanged, match="form"):
        parts.run_apply(here.job, LocalEngine(Small()))
    with pytest.raises(ConfigError, match="another job"):
        here.job.plan()


@pytest.mark.one_case("mysql")
def test_columns_that_functions_of_readers_cannot_have_are_refused(here: JobHere) -> None:
    """PL/pgSQL has names of its own for what a function gives; the load ended with the server's words for it."""
    made = here.made
    made.source.execute("CREATE TABLE odd (id INT PRIMARY KEY, `$1` INT, `$12` INT, `a$fn$b` INT)")
    with pytest.raises(PreflightFailed, match=r"arguments that are called \$1 "):
        here.load()
    renamed = '"$1" = "one"'
    for name, why in (
        ("a$fn$b", r"cannot name a\$fn\$b"),
        ("__$seqval", r"of its own that are called __\$seqval"),
        ("b", ""),
    ):
        text = f'[[tables]]\nname = "{made.schema}.odd"\ncolumns.rename = {{ {renamed}, "a$fn$b" = "{name}" }}\n'
        keep_changes(made, text)
        if why:
            with pytest.raises(PreflightFailed, match=why):
                here.load()
    here.load()
    made.source.execute("INSERT INTO odd VALUES (1, 2, 3, 4)")
    here.stream()
    call = "fn_cdc_get_all_changes_public_odd(cdc.fn_cdc_get_min_lsn('public_odd'), cdc.fn_cdc_get_max_lsn(), 'all')"
    assert made.target.query(f'SELECT id, one, "$12", b FROM cdc.{call}') == [(1, 2, 3, 4)]


def test_preflight_says_what_change_tables_lack(here: JobHere, tmp_path: Path) -> None:
    made, source = here.made, here.made.source
    is_postgresql = isinstance(made, FromPostgres)
    long = "x" * 60
    source.execute(f"CREATE TABLE {long} (id INT PRIMARY KEY, i INT REFERENCES item (id))")
    if is_postgresql:
        source.execute("ALTER TABLE item REPLICA IDENTITY DEFAULT")
    else:
        source.execute(
            "CREATE TABLE child (id INT PRIMARY KEY, i INT, FOREIGN KEY (i) REFERENCES item (id) ON DELETE CASCADE)"
        )
        source.execute("SET GLOBAL binlog_row_image = 'MINIMAL'")
    made.target.execute("CREATE SCHEMA cdc", 'CREATE TABLE cdc."public_item_CT" (id int)')
    try:
        with pytest.raises(PreflightFailed) as failed:
            here.load()
    finally:
        if not is_postgresql:
            source.execute("SET GLOBAL binlog_row_image = 'FULL'")
    found = str(failed.value) + "\n".join(map(str, here.job.preflight().results))
    assert f"public_{long} is longer than 40 bytes" in found
    assert f"public_{long}_CT is longer than 63 bytes" in found and "[[rules]] include" not in found
    assert "public_item_CT is there, and is no change table of" in found
    assert ("REPLICA IDENTITY FULL" if is_postgresql else "binlog_row_image = MINIMAL") in found
    if not is_postgresql:
        assert "does not have the rows that foreign key" in found


@pytest.mark.one_case("mysql")
def test_a_database_has_the_changes_of_one_job(here: JobHere, tmp_path: Path) -> None:
    made = here.made
    here.load()
    second = JobHere(type(made)(made.source, made.target, tmp_path / "second", name=unique_name("job")))
    keep_changes(second.made)
    with pytest.raises(AnabranchError, match=r"change tables of another job|is there, and is no change table"):
        second.load()


@pytest.mark.one_case("mysql")
def test_a_job_of_processes_keeps_changes_and_says_how_far_it_is(here: JobHere) -> None:
    made = here.made
    made.is_quick = True
    made.run_until_caught_up()
    made.source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    made.run_until_caught_up()
    assert made.target.query('SELECT "__$operation", id FROM cdc."public_item_CT"') == [(2, 1)]
    (target,) = made.status()["targets"]
    assert {table["state"] for table in target["tables"]} == {"streaming"}
    assert "keeps changes" in made.cli("verify", code=2).stderr
    made.cli("drop", "--execute")
    assert made.target.query('SELECT id FROM cdc."public_item_CT"') == [(1,)], "what readers read stays"
