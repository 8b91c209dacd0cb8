"""Replica identities of published tables: what a set-up leaves can be updated at the source."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.connectors.postgresql.source import connector as source
from anabranch.contracts import LogOptions, PreflightContext
from anabranch.testing.databases import Database, create_database, drop_database
from anabranch.testing.servers import Server
from rigs.endpoints import endpoint_of
from rigs.postgresql_load import RULES

PARTED = (
    "CREATE TABLE parted (g int, v int) PARTITION BY LIST (g)",
    "CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0)",
    "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1) PARTITION BY LIST (g)",
    "CREATE TABLE parted_1a PARTITION OF parted_1 FOR VALUES IN (1)",
    "CREATE TABLE keyed (id int PRIMARY KEY) PARTITION BY LIST (id)",
    "CREATE TABLE keyed_0 PARTITION OF keyed FOR VALUES IN (0)",
    "INSERT INTO parted VALUES (0, 1), (1, 2)",
    "INSERT INTO keyed VALUES (0)",
)


@pytest.fixture
def database(logical_postgresql: Server) -> Iterator[Database]:
    made = create_database(logical_postgresql, "identities")
    yield made
    drop_database(made)


def test_rows_of_partitions_without_a_key_can_be_changed_once_the_job_is_set_up(database: Database) -> None:
    database.execute(*PARTED)
    connector = source(endpoint_of(database))
    catalog = connector.catalog()
    tables = catalog.tables(lambda table: True)
    catalog.close()
    options = LogOptions(1, 0.05, RULES, f"anabranch_{database.name[-10:]}")
    try:
        connector.run(connector.steps(options, tables, begins=True), 20.0)
        assert connector.steps(options, tables, begins=True) == []
        database.execute("UPDATE parted SET v = v + 1", "UPDATE parted SET g = 1 WHERE g = 0", "DELETE FROM parted")
        database.execute("DELETE FROM keyed")
        database.execute("CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2)")
        (step,) = connector.steps(options, tables, begins=False)
        assert step.sql.endswith("REPLICA IDENTITY FULL") and "parted_2" in step.sql
        assert step.tables == ()  # the log has all of its rows: it does not park
        connector.run([step], 20.0)
        database.execute("INSERT INTO parted VALUES (2, 1)", "UPDATE parted SET v = 2")
    finally:
        connector.remains(options.name, remove=True)


def test_a_primary_key_that_is_checked_late_names_no_row(database: Database) -> None:
    """The server refuses its changes once it is published: preflight says so first, and what helps."""
    database.execute("CREATE TABLE late (id int PRIMARY KEY DEFERRABLE)", "INSERT INTO late VALUES (1), (2)")
    connector = source(endpoint_of(database))

    def told() -> list[str]:
        catalog = connector.catalog()
        tables = catalog.tables(lambda table: True)
        catalog.close()
        checks = connector.checks()
        found = checks.run(PreflightContext("job", {}, tables, {}))
        checks.close()
        return [one.hint for one in found if one.check == "source.replica_identity" and one.verdict == "failed"]

    (hint,) = told()
    database.execute("CREATE PUBLICATION p FOR TABLE late")
    with pytest.raises(Exception, match="does not have a replica identity"):
        database.execute("UPDATE late SET id = id + 1")
    database.execute(hint, "UPDATE late SET id = id + 1")
    assert told() == []


@pytest.mark.parametrize(
    "identity", ["TABLE computed_0 REPLICA IDENTITY FULL", "TABLE plain REPLICA IDENTITY USING INDEX by_twice"]
)
def test_stored_columns_are_published_for_every_identity_that_has_them(database: Database, identity: str) -> None:
    """A partition has its own identity, and an index may be one: the server refuses its changes else."""
    twice = "twice int GENERATED ALWAYS AS (v * 2) STORED"
    database.execute(
        f"CREATE TABLE computed (id int PRIMARY KEY, v int, {twice}) PARTITION BY LIST (id)",
        "CREATE TABLE computed_0 PARTITION OF computed FOR VALUES IN (0)",
        f"CREATE TABLE plain (id int PRIMARY KEY, v int, {twice} NOT NULL)",
        "CREATE UNIQUE INDEX by_twice ON plain (id, twice)",
        f"ALTER {identity}",
        "INSERT INTO computed VALUES (0, 1)",
        "INSERT INTO plain VALUES (0, 1)",
    )
    connector = source(endpoint_of(database))
    catalog = connector.catalog()
    tables = catalog.tables(lambda table: True)
    catalog.close()
    options = LogOptions(1, 0.05, RULES, f"anabranch_{database.name[-10:]}")
    try:
        connector.run(connector.steps(options, tables, begins=True), 20.0)
        database.execute(
            "UPDATE computed SET v = 2", "UPDATE plain SET v = 2", "DELETE FROM computed", "DELETE FROM plain"
        )
        assert connector.steps(options, tables, begins=True) == []
    finally:
        connector.remains(options.name, remove=True)
