"""The corpus tests/changes/mysql: what statements do, as the log tells it, on every server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import zip_longest
from pathlib import Path
from typing import Any

import corpus
import pymysql
import pytest

from anabranch.connectors.mysql.ddl import MysqlDialect
from anabranch.testing import packages
from anabranch.testing.databases import Database
from anabranch.testing.features import knows
from anabranch.testing.servers import Server

pytestmark = pytest.mark.every_server
SETTINGS = "SET SESSION sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00'"


@pytest.mark.parametrize("path", sorted(corpus.FILES.glob("*.sql")), ids=lambda path: path.stem)
def test_mysql_live_corpus(
    path: Path,
    mysql_family: Server,
    source_database: Callable[[Server], Database],
    follow: Callable[[Database], Any],
    tmp_path: Path,
) -> None:
    """All tables first, then every section's statements, with a mark behind each; one look at the log for all."""
    database = source_database(mysql_family)
    sections = [section for section in corpus.read(path) if runs_on(section, mysql_family)]
    assert sections
    database.execute(
        SETTINGS, f"CREATE TABLE {corpus.MARK} (n INT PRIMARY KEY)", *(s for one in sections for s in one.before)
    )
    follower = follow(database)
    follower.begin()
    for number, section in enumerate(sections):
        run(section, database, tmp_path)
        database.execute(f"INSERT INTO {corpus.MARK} VALUES ({number})")
    items = follower.take()
    told = corpus.told(items, MysqlDialect(), follower.tables, database.name)
    wrong = [text for section, found in zip(sections, told, strict=False) for text in differences(section, found)]
    assert not wrong, "\n".join(wrong)
    assert len(told) == len(sections) + 1 and not told[-1]


def runs_on(section: corpus.Section, server: Server) -> bool:
    only = section.facts.get("only", [server.name])
    release = packages.parse_release(server.version)[0]
    is_older = server.name != "mysql" or all(release < int(before) for before in section.facts.get("before", []))
    return server.name in only and is_older and all(knows(server, need) for need in section.facts.get("needs", []))


def run(section: corpus.Section, database: Database, directory: Path) -> None:
    """The statements in their order, each on the connection that it names."""
    if "data" in section.facts:
        database.execute("SET GLOBAL local_infile = ON")
    data = directory / "data"
    data.write_text("".join(row + "\n" for line in section.facts.get("data", []) for row in line.split("|")))
    with ExitStack() as stack:
        connections: dict[str, Any] = {}
        for step in section.steps:
            if step.connection not in connections:
                connection = stack.enter_context(closing(database.connect(local_infile=True)))
                connections[step.connection] = stack.enter_context(closing(connection.cursor()))
                connections[step.connection].execute(SETTINGS)
            execute(connections[step.connection], step, step.sql.replace("{data}", str(data)))


def execute(cursor: Any, step: corpus.Step, sql: str) -> None:
    try:
        cursor.execute(sql)
        while cursor.nextset():
            pass
    except pymysql.err.Error as error:
        assert error.args[0] == step.error, f"{sql}: {error}"
    else:
        assert step.error is None, f"{sql} was not refused"


def differences(section: corpus.Section, found: Sequence[str]) -> Iterator[str]:
    """Where the first difference is, and what is there."""
    expected = [(step.sql, line) for step in section.steps for line in step.changes]
    for (sql, wanted), line in zip_longest(expected, found, fillvalue=("", "")):
        if wanted != line:
            yield f"{section.title}: {sql}\n  expected {wanted}\n  found    {line}\n  all of it:\n    " + "\n    ".join(
                found
            )
            return
