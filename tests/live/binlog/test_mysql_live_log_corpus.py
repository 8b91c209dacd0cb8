"""The corpus tests/changes/mysql: what statements do, as the log tells it, on every server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from anabranch.connectors.mysql.source.statements import MysqlDialect
from anabranch.testing import packages
from anabranch.testing.databases import Database
from anabranch.testing.features import knows
from anabranch.testing.servers import Server
from rigs import corpus

pytestmark = pytest.mark.every_server
SETTINGS = "SET SESSION sql_mode = 'STRICT_TRANS_TABLES', time_zone = '+00:00'"


@pytest.mark.parametrize("path", corpus.files("mysql"), ids=lambda path: path.stem)
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
    before = [statement for one in sections for statement in one.before]
    database.execute(SETTINGS, f"CREATE TABLE {corpus.MARK} (n INT PRIMARY KEY)", *before)
    follower = follow(database)
    follower.begin()
    for number, section in enumerate(sections):
        run(section, database, tmp_path / "data")
        database.execute(f"INSERT INTO {corpus.MARK} VALUES ({number})")
    told = corpus.told(follower.take(), follower.tables, MysqlDialect(), database.name)
    wrong = [
        text for section, found in zip(sections, told, strict=False) for text in corpus.differences(section, found)
    ]
    assert not wrong, "\n".join(wrong)
    assert len(told) == len(sections) + 1 and not told[-1]


def runs_on(section: corpus.Section, server: Server) -> bool:
    only = section.facts.get("only", [server.name])
    fits = server.name != "mysql" or section.is_for(packages.parse_release(server.version)[0])
    return server.name in only and fits and all(knows(server, need) for need in section.facts.get("needs", []))


def run(section: corpus.Section, database: Database, data: Path) -> None:
    if section.data:
        database.execute("SET GLOBAL local_infile = ON")
    data.write_text(section.data)

    def connect() -> Any:
        connection = database.connect(local_infile=True)
        connection.cursor().execute(SETTINGS)
        return connection

    def execute(connection: Any, sql: str) -> str:
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute(sql.replace("{data}", str(data)))
                while cursor.nextset():
                    pass
        except pymysql.err.Error as error:
            return str(error.args[0])
        return ""

    corpus.run(section, connect, execute)
