"""Verification of a MySQL or MariaDB target with Spark: equal is equal, and every difference is found, named, and shown as
the target has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from anabranch import connectors
from anabranch.config.url import parse_url
from anabranch.contracts import RowTarget, SourceConnector, ValueRules
from anabranch.load.plan import LoadTable
from anabranch.load.run import load_tables
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import Filter
from anabranch.spark.engine import SparkEngine
from anabranch.testing.databases import Database, create_database, drop_database, unique_name
from anabranch.testing.servers import Server
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import TableResult, Verification
from anabranch.verify.run import verify_tables

MANY = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) "
SHOP = (
    "CREATE TABLE item (id INT, part VARCHAR(20), note VARCHAR(80), price DOUBLE, weight FLOAT, made DATETIME(6),"
    " PRIMARY KEY (part, id))",
    f"INSERT INTO item {MANY}SELECT i, CONCAT('p', i % 7), NULLIF(CONCAT('n', i % 5), 'n3'), i / 7, i / 3,"
    " TIMESTAMPADD(SECOND, i, '2024-02-29 23:59:59.000001') FROM n",
    "CREATE TABLE doc (id INT PRIMARY KEY, doc JSON)",
    """INSERT INTO doc VALUES (1, '{"b": 1.50, "a": [1e2, null, "é\\\\n"]}'), (2, 'null'), (3, NULL),
       (5, '{"a": {"z": 1, "y": 2}}')""",
    "CREATE TABLE log (word VARCHAR(20), number INT)",
    f"INSERT INTO log {MANY}SELECT CONCAT('w', i % 3), i % 2 FROM n",
)
DAMAGE = (
    "DELETE FROM item WHERE id = 10",
    "INSERT INTO item (id, part) VALUES (1000, 'p1')",
    "UPDATE item SET note = '' WHERE id = 3 AND note IS NULL",  # NULL is not ''
    "UPDATE item SET weight = 7.5, made = made + INTERVAL 1 MICROSECOND WHERE id = 20",
    "UPDATE item SET price = CASE id WHEN 30 THEN 31 ELSE 30 END / 7 WHERE id IN (30, 31)",  # swapped
    "DELETE FROM log WHERE word = 'w1' AND number = 1 LIMIT 1",
    "UPDATE log SET number = 5 WHERE word = 'w2' LIMIT 1",
    "UPDATE doc SET doc = NULL WHERE id = 2",
    """UPDATE doc SET doc = '{"a": {"y": 2, "z": 1.00}}' WHERE id = 5""",  # the same value
    """UPDATE doc SET doc = '{"b": 1.51, "a": [1e2, null, "é\\\\n"]}' WHERE id = 1""",
)


@dataclass
class Ends:
    """Tables of a source, loaded into a database of the target."""

    spark: Any
    there: Database
    source: SourceConnector
    target: RowTarget
    tables: list[VerifyTable]

    def verify(self, tables: Sequence[VerifyTable] = (), **options: Any) -> Verification:
        options = {"rows_per_piece": 250} | options
        found = verify_tables(lambda: self.spark, self.source, self.target, list(tables or self.tables), **options)
        assert found is not None
        return found

    def each(self, tables: Sequence[VerifyTable] = (), **options: Any) -> dict[str, TableResult]:
        return {str(one.source).partition(".")[2]: one for one in self.verify(tables, **options).tables}


@pytest.fixture(
    params=[("mariadb", "mysql"), pytest.param(("mysql", "mariadb"), marks=pytest.mark.long)], ids=" to ".join
)
def ends(request: pytest.FixtureRequest, spark: Any, source_database: Callable[[Server], Database]) -> Iterator[Ends]:
    here, there = (request.getfixturevalue(name) for name in request.param)
    database = source_database(here)
    database.execute(*SHOP)
    with loaded(spark, database, database.name, there) as made:
        yield made


@contextmanager
def loaded(spark: Any, database: Database, schema: str, there: Server) -> Iterator[Ends]:
    """All tables of a schema, at another server."""
    made_there, job = create_database(there, "verify"), unique_name("verify")
    (at, _), (to, _) = (parse_url(end.url, {}, needs_database=True) for end in (database, made_there))
    assert at is not None and to is not None
    source, target = connectors.source(at), connectors.target(to)
    with closing(source.catalog()) as catalog:
        found = catalog.tables(lambda table: table.schema == schema)
    schemas = [schema for _, schema in sorted(found.items())]
    tables = [VerifyTable(schema, _target_table(schema, target, made_there.name)) for schema in schemas]
    with closing(target.store()) as store:
        store.prepare()
        loads = [LoadTable(one.schema, one.table, one.filter) for one in tables]
        assert load_tables(job, SparkEngine(lambda: spark), source, target, loads, lock="table")
        yield Ends(spark, made_there, source, target, tables)
        store.jobs.drop(job)
    drop_database(made_there)


def _target_table(schema: Any, target: RowTarget, database: str) -> TargetTable:
    names = tuple(column.name for column in schema.columns)
    types = tuple(replace(c.type, at_target=target.types.at_target(c.type, ValueRules())) for c in schema.columns)
    return TargetTable(schema.id, replace(schema.id, schema=database), names, types, schema.primary_key, names)


def test_sums_of_a_postgresql_and_of_a_mysql_s_lines_tell_what_is_equal(
    logical_postgresql: Server, mysql: Server, spark: Any
) -> None:
    """Tables with floats go on to digests, because both servers write a float in several ways."""
    database = create_database(logical_postgresql, "verify")
    database.execute(
        "CREATE SCHEMA shop",
        "CREATE TABLE shop.item (id int, part varchar(20), price numeric(12, 4), made timestamp(6), at timestamptz, raw bytea,"
        " mark uuid, day date, number bigint, PRIMARY KEY (part, id))",
        "INSERT INTO shop.item SELECT i, 'p' || i % 7, nullif(i % 5, 3) / 7.0,"
        " timestamp '2024-02-29 23:59:59.1' + i * interval '1 s',"
        " timestamptz '2024-02-29 23:59:59+02' + i * interval '1 ms', decode(md5(i::text), 'hex'), md5(i::text)::uuid,"
        " date '2024-02-29' + i, (1::bigint << 40) - i * 100000000000 FROM generate_series(1, 900) AS i",
        "CREATE TABLE shop.share (id int PRIMARY KEY, part double precision)",
        "INSERT INTO shop.share SELECT i, nullif(i % 3, 2) / 7.0 FROM generate_series(1, 300) AS i",
    )
    with loaded(spark, database, "shop", mysql) as ends:
        found = ends.each()
        assert {name: one.digests[0].partition(":")[0] for name, one in found.items()} == {
            "item": "fingerprint",
            "share": "blake2b",
        }
        assert all(one.identical for one in found.values()) and ends.verify(by_rows=True).identical
        ends.there.execute(
            "UPDATE item SET at = at + INTERVAL 1 MICROSECOND WHERE id = 20", "DELETE FROM share WHERE id = 7"
        )
        item, share = (ends.each()[name] for name in ("item", "share"))
        assert [(one.key["id"], one.columns) for one in item.sample] == [("20", ("at",))] and share.missing == 1
    drop_database(database)


@pytest.mark.timeout(1200)
def test_pitfall_37_48_every_kind_of_difference_is_found_at_a_mysql(ends: Ends) -> None:
    assert ends.verify().identical and ends.verify(by_rows=True).identical
    ends.there.execute(*DAMAGE)
    found = ends.each(show_values=True)
    item, log, doc = found["item"], found["log"], found["doc"]
    assert (item.missing, item.extra, item.different, item.identical) == (1, 1, 4, False)
    rows = {one.key["id"]: one for one in item.sample}
    assert {number: (one.kind, one.columns) for number, one in rows.items()} == {
        "10": ("missing", ()),
        "1000": ("extra", ()),
        "3": ("different", ("note",)),
        "20": ("different", ("weight", "made")),
        "30": ("different", ("price",)),
        "31": ("different", ("price",)),
    }
    assert rows["3"].values == {"note": (None, "")} and rows["10"].key == {"part": "p3", "id": "10"}
    made = ("2024-03-01 00:00:19.000001", "2024-03-01 00:00:19.000002")
    assert rows["20"].values["made"] == made and rows["20"].values["weight"][1] == "7.5"
    assert (log.missing, log.extra, log.different) == (2, 1, 0)
    by_text = {"5"} if ends.there.server.name == "mariadb" else set()  # MariaDB's JSON is its text
    assert {one.key["id"] for one in doc.sample} == {"1", "2"} | by_text
    rows_of_other_jobs_are_left_out(ends)
    rule_27_filtered_rows_are_left_out(ends)


def rows_of_other_jobs_are_left_out(ends: Ends) -> None:
    """Of a table that several jobs write to what the source has not is somebody's."""
    found = ends.each([replace(one, is_shared=True) for one in ends.tables])
    item, log = found["item"], found["log"]
    assert (item.missing, item.extra, item.others, item.different) == (1, 0, 1, 4)
    assert (log.missing, log.extra, log.others) == (2, 0, 1)


def rule_27_filtered_rows_are_left_out(ends: Ends) -> None:
    """Rows that the filter leaves out are none of the source's, and extra where the target has them."""
    (item,) = (one for one in ends.tables if one.schema.id.name == "item")
    ends.there.execute("DELETE FROM item WHERE id % 2 = 1")
    filtered = [replace(item, filter=Filter("id % 2 = 0", ("id",)))]
    found = ends.each(filtered)["item"]
    assert (found.missing, found.extra, found.different, found.rows_source) == (1, 1, 2, 450)
