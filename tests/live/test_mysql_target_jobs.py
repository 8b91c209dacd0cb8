"""Whole jobs to a MySQL or MariaDB that is set up in a way that a target may be, or that gets what it does not take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError, RowRefused
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario_mysql_target import AtMysql, MysqlToMysql, PostgresToMysql

Make = Callable[..., AtMysql]
MANY = 150  # more rows than go without a staging table
WANTS_KEYS = {"mysql": "sql_require_primary_key", "mariadb": "innodb_force_primary_key"}
MODES = "ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,NO_ZERO_DATE,NO_ZERO_IN_DATE"


@pytest.fixture
def job(source_database: Callable[[Server], Database], tmp_path: Path) -> Iterator[Make]:
    """`job(source, target, *statements)`: a job of a new database, nothing of it loaded."""
    made: list[AtMysql] = []

    def make(source: Server, target: Server, *statements: str) -> AtMysql:
        database = source_database(source)
        database.execute(*statements)
        kind = PostgresToMysql if source.name == "postgresql" else MysqlToMysql
        there = create_database(target, "there")
        made.append(kind(database, there, tmp_path / f"job{len(made)}", name=unique_name("job")))
        return made[-1]

    yield make
    for one in made:
        JobHere(one).job.drop(execute=True)
        drop_database(one.target)


@contextmanager
def settings(server: Server, **values: str) -> Iterator[None]:
    """What the server has for everybody, as long as it lasts."""
    place = create_database(server, "settings")
    before = {name: place.query(f"SELECT @@GLOBAL.{name}")[0][0] for name in values}
    try:
        place.execute(*(f"SET GLOBAL {name} = {value}" for name, value in values.items()))
        yield
    finally:
        place.execute(*(f"SET GLOBAL {name} = '{value}'" if isinstance(value, str) else f"SET GLOBAL {name} = {value}"
                        for name, value in before.items()))  # fmt: skip
        drop_database(place)


def test_pitfall_62_a_target_that_wants_keys_and_has_other_modes(mysql_family: Server, job: Make) -> None:
    """No table of ours is without a key, and no session of ours depends on a default. Where the server gives a key to each
    table that has none, there may be such tables, too."""
    made = job(
        mysql_family,
        mysql_family,
        "CREATE TABLE keyed (id INT PRIMARY KEY, u INT UNIQUE, v VARCHAR(20))",
        "CREATE TABLE keyless (n INT, v VARCHAR(20))",
        "INSERT INTO keyed VALUES " + ", ".join(f"({n}, {n}, 'v{n}')" for n in range(MANY)),
        "INSERT INTO keyless SELECT id, v FROM keyed",
    )
    gives = {"sql_generate_invisible_primary_key": "ON"} if mysql_family.name == "mysql" else {}
    if not gives:
        made.write_job(rules=f'[[rules]]\ninclude = ["{made.schema}.keyed"]\ntarget = "{made.there}.{{table}}"\n')
    with settings(mysql_family, **{WANTS_KEYS[mysql_family.name]: "ON", "sql_mode": f"'{MODES}'"}, **gives):
        here = JobHere(made)
        here.load()
        made.source.execute(
            "UPDATE keyed SET v = REPEAT(CHAR(92), 3)",
            "INSERT INTO keyless VALUES (1, 'more'), (1, 'more')",
            "UPDATE keyless SET v = 'other' WHERE n < 120",
            "DELETE FROM keyless WHERE n > 100 OR n = 5",
        )
        here.stream()
        made.source.execute("UPDATE keyed SET u = u + 1 ORDER BY u DESC", "DELETE FROM keyed WHERE id > 3")
        here.stream(stage_rows=1)
        made.assert_identical("keyed", *["keyless"] * bool(gives))
        assert here.verify().identical


def test_pitfall_58_texts_that_would_be_one_key_stop_the_load(mariadb: Server, mysql: Server, job: Make) -> None:
    """Blanks at the end count in the source's collation, and not in the one that stands in for it."""
    made = job(
        mariadb,
        mysql,
        "CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_unicode_nopad_ci PRIMARY KEY)",
        "INSERT INTO t VALUES ('a'), ('a ')",
    )
    with pytest.raises(RowRefused, match="key k=a"):
        JobHere(made).load()


def test_pitfall_63_what_a_column_does_not_hold_is_found_in_the_stream(
    logical_postgresql: Server, mysql_family: Server, job: Make
) -> None:
    made = job(
        logical_postgresql,
        mysql_family,
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(10,2), at timestamp, doc jsonb)",
        "INSERT INTO t VALUES (1, 1.50, '2024-02-29 12:00', '{\"a\": 1}')",
    )
    here = JobHere(made)
    here.load()
    here.stream()
    made.source.execute(
        "INSERT INTO t (id, at) VALUES (2, 'infinity'), (3, '12024-02-09 10:00'), (4, '0044-03-15 BC'), (5, '2024-02-29')",
        "UPDATE t SET doc = '[1e400]' WHERE id = 1",
    )
    here.stream(parks=True, sets_aside=True)
    aside = {change.key["id"] for change in here.job.set_aside()}
    beyond = {"1"} if mysql_family.name == "mysql" else set()  # MariaDB keeps the text of a document
    assert aside == {"2", "3", "4"} | beyond and made.target.query("SELECT id FROM t ORDER BY id") == [(1,), (5,)]
    made.source.execute("INSERT INTO t (id, at) VALUES (6, '-infinity')")
    with pytest.raises(AnabranchError) as stopped:
        here.stream()
    assert stopped.value.exit_code == 6 and "id=6" in str(stopped.value).replace(" ", "")
