"""Labels of a PostgreSQL that a standing enum(…) of a MySQL or MariaDB cannot have, met by a load: what the error says can be
done, and leads on; and two jobs that give labels to one column at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.connectors.mysql.target import labels
from anabranch.errors import ConfigError, RowRefused, TablesParked
from anabranch.load import plan
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import PostgresToMysql

pytestmark = pytest.mark.one_family
GRADES, KINDS = TableId("public", "of_grades"), TableId("public", "of_kinds")
AS_TEXT = '"public.{0}" = "varchar(63)"\n'
EXACT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"


@pytest.fixture
def here(mysql_family: Server, logical_postgresql: Server, tmp_path: Path) -> Iterator[JobHere]:
    source, target = create_database(logical_postgresql, "labels"), create_database(mysql_family, "labels")
    made = JobHere(PostgresToMysql(source, target, tmp_path, name=unique_name("job")))
    yield made
    made.job.drop(execute=True)
    drop_database(target)
    drop_database(source)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[JobHere, str], None]:
    """`meanwhile(here, *statements)`: the source does this once, when the next load has begun and has read no row."""

    def once(here: JobHere, *statements: str) -> None:
        left = [statements]
        real = plan._have_begun

        def begun() -> None:
            real()
            if left:
                here.made.source.execute(*left.pop())

        monkeypatch.setattr(plan, "_have_begun", begun)

    return once


def _rows(here: JobHere, table: TableId) -> list[tuple[object, ...]]:
    return sorted(here.made.target.query(f"SELECT * FROM `{here.made.there}`.{table.name}"))


def test_a_load_says_what_to_do_about_a_label_that_a_column_cannot_have(
    here: JobHere, meanwhile: Callable[..., None]
) -> None:
    source, target = here.made.source, here.made.target
    source.execute(
        "CREATE TYPE grade AS ENUM ('a', 'b')",
        "CREATE TABLE of_grades (id int PRIMARY KEY, g grade)",
        "INSERT INTO of_grades VALUES (1, 'a'), (2, 'b')",
    )
    # a server takes '2' for the place of a label
    meanwhile(here, "ALTER TYPE grade ADD VALUE '2'", "INSERT INTO of_grades VALUES (3, '2')")
    with pytest.raises(
        RowRefused, match=r"lacks labels that the source has: '2', .*--recreate .*\[types\.map\]"
    ) as told:
        here.load()
    assert re.search(r'"(public\.)?grade" = "varchar\(63\)" and anabranch plan JOB --execute', str(told.value))
    here.made.write_job("[types.map]\n" + AS_TEXT.format("grade"))
    here.job.plan(execute=True)
    with pytest.raises(TablesParked, match="of_grades"):
        here.load()  # all others
    here.load(GRADES, recreate=True)
    here.stream()
    assert _rows(here, GRADES) == [(1, "a"), (2, "b"), (3, "2")]

    # rows that are nobody's stay, so that the table is not made anew
    source.execute(
        "CREATE TYPE kind AS ENUM ('a', 'b')",
        "CREATE TABLE of_kinds (id int PRIMARY KEY, k kind)",
        "INSERT INTO of_kinds VALUES (1, 'a')",
    )
    place = f"`{here.made.there}`.of_kinds"
    target.execute(
        f"CREATE TABLE {place} (id int PRIMARY KEY, k enum('a','b') {EXACT})", f"INSERT INTO {place} VALUES (100, 'b')"
    )
    here.stream()
    meanwhile(here, "ALTER TYPE kind ADD VALUE '7'", "INSERT INTO of_kinds VALUES (2, '7')")
    with pytest.raises(
        RowRefused, match=r"of_kinds has rows that were there before the load, .* not made anew"
    ) as told:
        here.load(KINDS, keep=True)
    assert "--recreate" not in str(told.value)
    (by_hand,) = re.findall(r"ALTER TABLE `.*? MODIFY `k` varchar\(63\).*?DEFAULT NULL", str(told.value))

    here.made.write_job("[types.map]\n" + AS_TEXT.format("grade") + AS_TEXT.format("kind"))
    here.job.plan(execute=True)
    with pytest.raises(ConfigError, match=r"stays as it is .*column k is enum\('a','b'\), needed is varchar\(63\)"):
        here.load(KINDS, keep=True)  # the server would take '2' for 'b'
    assert _rows(here, KINDS) == [(100, "b")]
    target.execute(by_hand)
    here.load(KINDS, keep=True)
    here.stream()
    assert _rows(here, KINDS) == [(1, "a"), (2, "7"), (100, "b")]

    # somebody makes an enum(…) of it again, and a text that is no label comes
    target.execute(f"ALTER TABLE {place} MODIFY k enum('a','b','7') {EXACT}")
    source.execute("ALTER TYPE kind ADD VALUE '1'", "INSERT INTO of_kinds VALUES (3, '1')")
    with pytest.raises(RowRefused, match=r"column k is enum\('a','b','7'\) .* now, which rows are not written for"):
        here.stream()
    assert _rows(here, KINDS) == [(1, "a"), (2, "7"), (100, "b")]


def test_two_jobs_that_add_labels_to_a_column_do_not_take_away_each_others(mysql_family: Server) -> None:
    database = create_database(mysql_family, "labels")
    try:
        database.execute(f"CREATE TABLE t (id int PRIMARY KEY, m enum('a') {EXACT})")
        endpoint, first, second = endpoint_of(database), _moods(database, "a", "b"), _moods(database, "a", "b", "c")
        with closing(database.connect(autocommit=False)) as holder, ThreadPoolExecutor(2) as both:
            holder.cursor().execute("SELECT * FROM t")  # an ALTER TABLE waits for its end
            adding = [both.submit(labels.add_labels, endpoint, [one]) for one in (second, first)]
            until(lambda: _is_waited_for(database) or any(one.done() for one in adding), "one alters, one waits")
            holder.commit()
            done = [one.result() for one in adding]
        assert sorted(map(len, done)) in ([0, 1], [1, 1])
        assert _type(database) == "enum('a','b','c')"
    finally:
        drop_database(database)


def _moods(database: Database, *values: str) -> tuple[TableSchema, TargetTable]:
    type = LogicalType(Kind.ENUM, values=values, native="mood", printed=True)
    source, number = TableId("public", "t"), LogicalType(Kind.INT32)
    columns = (Column("id", number, "integer", False), Column("m", type, "mood"))
    target = TargetTable(source, TableId(database.name, "t"), ("id", "m"), (number, type), ("id",), ("id", "m"))
    return TableSchema(source, columns, ("id",)), target


def _is_waited_for(database: Database) -> bool:
    """Return whether a session waits for the table, and another one for its turn."""
    states = {str(state) for (state,) in database.query("SELECT STATE FROM information_schema.PROCESSLIST")}
    return {"User lock", "Waiting for table metadata lock"} <= states


def _type(database: Database) -> str:
    query = "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND COLUMN_NAME = 'm'"
    return str(database.query(query, [database.name])[0][0])
