"""The corpus tests/changes/postgresql: what statements do, as the log tells it through every decoder, on every release."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.connectors.postgresql.source.decoders import DECODERS
from anabranch.connectors.postgresql.source.slots import ROOTS
from anabranch.connectors.postgresql.source.statements import PostgresDialect
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs import corpus
from rigs.postgresql_log import LogFollower

OTHERS = ("postgresql11", "postgresql12", "postgresql15", "postgresql17")
RUNS = [
    pytest.param("logical_postgresql", "pgoutput", id="postgresql18-pgoutput"),
    *(pytest.param(name, "pgoutput", id=f"{name}-pgoutput", marks=pytest.mark.servers) for name in OTHERS),
    *(
        pytest.param("postgresql15", decoder, id=f"postgresql15-{decoder}", marks=pytest.mark.servers)
        for decoder in ("wal2json", "decoderbufs")
    ),
]
# What sections need of a decoder, and of a release.
FEATURES: dict[str, Callable[[str, int], bool]] = {
    "rows of roots": lambda decoder, version: DECODERS[decoder].roots and version >= ROOTS,
    "old nulls": lambda decoder, version: DECODERS[decoder].old_nulls,
    "NULL for NULL alone": lambda decoder, version: not DECODERS[decoder].ambiguous,
}
SETTINGS = "SET timezone = 'UTC'"


@pytest.mark.parametrize(("name", "decoder"), RUNS)
@pytest.mark.parametrize("path", corpus.files("postgresql"), ids=lambda path: path.stem)
def test_postgresql_changes(
    path: Path,
    name: str,
    decoder: str,
    request: pytest.FixtureRequest,
    source_database: Callable[[Server], Database],
) -> None:
    """All tables first, then every section's statements, with a mark behind each; one look at the log for all."""
    database = source_database(request.getfixturevalue(name))
    with closing(database.connect()) as connection:
        version: int = connection.info.server_version
    sections = [section for section in corpus.read(path) if runs_on(section, decoder, version)]
    before = [statement for one in sections for statement in one.before]
    database.execute(SETTINGS, f"CREATE TABLE {corpus.MARK} (n int PRIMARY KEY)", *before)
    with closing(LogFollower(database, decoder)) as follower:
        for number, section in enumerate(sections):
            corpus.run(section, lambda: connect(database), Execute(section.data))
            database.execute(f"INSERT INTO {corpus.MARK} VALUES ({number})")
        told = corpus.told(follower.take(), follower.tables, PostgresDialect(), "public")
    wrong = [
        text for section, found in zip(sections, told, strict=False) for text in corpus.differences(section, found)
    ]
    assert not wrong, "\n".join(wrong)
    assert len(told) == len(sections) + 1 and not told[-1]


def runs_on(section: corpus.Section, decoder: str, version: int) -> bool:
    only = section.facts.get("only", [decoder])
    needs = section.facts.get("needs", [])
    return (
        decoder in only and section.is_for(version // 10_000) and all(FEATURES[one](decoder, version) for one in needs)
    )


def connect(database: Database) -> Any:
    connection = database.connect()
    connection.execute(SETTINGS)
    return connection


class Execute:
    """`data`: what COPY … FROM STDIN is given."""

    def __init__(self, data: str) -> None:
        self.data = data

    def __call__(self, connection: Any, sql: str) -> str:
        try:
            with closing(connection.cursor()) as cursor:
                if sql.startswith("COPY "):
                    with cursor.copy(sql) as copy:
                        copy.write(self.data)
                else:
                    cursor.execute(sql)
        except psycopg.Error as error:
            return error.sqlstate or repr(error)
        return ""
