"""Labels of ENUM and SET with characters beyond U+FFFF, which MySQL and MariaDB show as `?` wherever they show a definition:
they are asked of the server's values, and arrive at every target. Where nobody knows them, their column is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from anabranch import connectors
from anabranch.errors import PreflightFailed
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.job_here import JobHere
from rigs.preflight_mysql import user_with
from rigs.scenario import Scenario
from rigs.scenario_mysql_target import job_at_mysql

Make = Callable[[Server], Database]
ENUM = ("a", "?", "😀?", "it's \\ 😁", "x,y", "é\n😀")
SET = ("a", "?", "😀", "it's \\ 😁")
PAIRS = [
    ("mysql", "mysql"),
    ("mysql", "mariadb"),
    ("mariadb", "mysql"),
    ("mariadb", "mariadb"),
    ("mysql", "postgresql"),
    ("mariadb", "postgresql"),
]
BY_PAIR = pytest.mark.parametrize("source, target", PAIRS, ids=[f"{one} to {other}" for one, other in PAIRS])


def quoted(*labels: str) -> str:
    return ", ".join("'" + one.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n") + "'" for one in labels)


def table(charset: str = "utf8mb4") -> str:
    one, some = f"enum({quoted(*ENUM)})", f"set({quoted(*SET)})"
    columns = f"e {one} CHARACTER SET {charset} NOT NULL DEFAULT '😀?', `s``%s` {some} CHARACTER SET {charset}"
    return f"CREATE TABLE t (id int PRIMARY KEY, {columns}, l enum('a', '?') CHARACTER SET latin1)"


@contextmanager
def job_between(source: Database, target: Server, directory: Path) -> Iterator[JobHere]:
    if target.name != "postgresql":
        with job_at_mysql(source, target, directory, is_quick=True) as made:
            yield JobHere(made)
        return
    there = create_database(target, "labels")
    made = Scenario(source, there, directory, name=unique_name("job"), is_quick=True)
    try:
        yield JobHere(made)
    finally:
        made.close()
        drop_database(there)


@BY_PAIR
def test_labels_beyond_the_basic_plane_arrive_by_the_load_and_by_the_log(
    source: str, target: str, request: pytest.FixtureRequest, source_database: Make, tmp_path: Path
) -> None:
    """They did not: a load stopped with "Data truncated", and by the log a `?` came in their place."""
    database = source_database(request.getfixturevalue(source))
    every = [*((one, SET[n % len(SET)]) for n, one in enumerate(ENUM)), ("a", ",".join(SET))]

    def rows(first: int) -> str:
        return "INSERT INTO t (id, e, `s``%s`, l) VALUES " + ", ".join(
            f"({first + n}, {quoted(one)}, {quoted(some)}, '?')" for n, (one, some) in enumerate(every)
        )

    def differing(here: JobHere) -> list[object]:
        there = here.made.there
        ours = database.query("SELECT id, CONCAT(e), CONCAT(`s``%s`), l FROM t ORDER BY id")
        column = '"s`%s"' if target == "postgresql" else "`s``%s`"
        theirs = here.made.target.query(f"SELECT id, e, {column}, l FROM {there}.t ORDER BY id")
        assert len(ours) in (len(every) + 1, 2 * len(every) + 2)
        return [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]]

    database.execute(table(), rows(1), "INSERT INTO t (id, l) VALUES (0, '?')")
    with job_between(database, request.getfixturevalue(target), tmp_path / "job") as here:
        here.load()
        assert differing(here) == []
        database.execute(rows(101), "INSERT INTO t (id, l) VALUES (100, '?')", "UPDATE t SET e = '😀?' WHERE e = 'a'")
        here.stream()
        assert differing(here) == []
        assert here.verify().identical
        there = f"{here.made.there}.t"
        here.made.target.execute(f"INSERT INTO {there} (id) VALUES (7777)")
        assert here.made.target.query(f"SELECT e FROM {there} WHERE id = 7777") == [("😀?",)]


def definition(database: Database) -> TableSchema:
    with closing(connectors.source(endpoint_of(database)).catalog()) as catalog:
        return catalog.named([TableId(database.name, "t")])[TableId(database.name, "t")]


@pytest.mark.every_server
@pytest.mark.parametrize("charset", ["utf8mb4", "utf32", "utf16"])
def test_definitions_have_the_labels_whole(charset: str, mysql_family: Server, source_database: Make) -> None:
    """Nothing is left behind at the server, and a second table is asked for as the first one was."""
    database = source_database(mysql_family)
    database.execute(table(charset), "INSERT INTO t (id) VALUES (1)")
    for _ in range(2):
        columns = {one.name: one for one in definition(database).columns}
        assert columns["e"].type is not None and columns["e"].type.values == ENUM
        assert columns["e"].default == "😀?" and "'😀?'" in columns["e"].native
        assert columns["s`%s"].type is not None and columns["s`%s"].type.values == SET
    assert database.query("SHOW TABLES") == [("t",)]


def test_a_column_with_unknown_labels_is_refused_with_the_grant(
    mysql: Server, source_database: Make, tmp_path: Path
) -> None:
    """A user without the right to a temporary table cannot ask. A label that is a question mark in latin1 needs none."""
    database = source_database(mysql)
    database.execute(table())
    rights = "REPLICATION SLAVE, REPLICATION CLIENT, RELOAD ON *.*", f"SELECT ON `{database.name}`.*"
    with user_with(database, *rights) as user, job_at_mysql(database, mysql, tmp_path / "job", is_quick=True) as made:
        made.user = (user.user, user.password)
        made.write_job()
        with pytest.raises(PreflightFailed) as failed:
            JobHere(made).load()
        said = str(failed.value)
        assert "GRANT CREATE TEMPORARY TABLES ON" in said and "'?', in which ? may stand" in said
        assert ".l" not in said
