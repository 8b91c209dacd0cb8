"""Verification of MariaDB and MySQL against PostgreSQL: equal is equal, and every difference is found and named."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from anabranch import connectors
from anabranch.config.url import parse_url
from anabranch.contracts import TypeMap, ValueRules
from anabranch.errors import TargetError
from anabranch.load.plan import LoadTable
from anabranch.load.run import load_tables
from anabranch.rows import compiled
from anabranch.rows.net import TargetTable
from anabranch.rules.rule_set import Filter
from anabranch.spark.engine import SparkEngine
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.verify import run
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import Verification
from anabranch.verify.run import verify_tables

MANY = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) "
SHOP = (
    "CREATE TABLE item (id INT, part VARCHAR(20), note VARCHAR(80), price DOUBLE, weight FLOAT, made DATETIME(6),"
    " PRIMARY KEY (part, id))",
    f"INSERT INTO item {MANY}SELECT i, CONCAT('p', i % 7), NULLIF(CONCAT('n', i % 5), 'n3'), i / 7, i / 3,"
    " TIMESTAMPADD(SECOND, i, '2024-02-29 23:59:59.000001') FROM n",
    "CREATE TABLE log (word VARCHAR(20), number INT)",
    f"INSERT INTO log {MANY}SELECT CONCAT('w', i % 3), i % 2 FROM n",
)


class Pair:
    """Loaded tables at both ends."""

    def __init__(self, spark: Any, source: Database, target: Database) -> None:
        self.spark, self.source, self.target = spark, source, target
        ends = [parse_url(end.url, {}, needs_database=True)[0] for end in (source, target)]
        assert ends[0] is not None and ends[1] is not None
        self.ends = connectors.source(ends[0]), connectors.target(ends[1])
        with closing(self.ends[1].store()) as store:
            store.prepare()
        with closing(self.ends[0].catalog()) as catalog:
            found = catalog.tables(lambda table: table.schema == source.name)
        self.schemas = [schema for _, schema in sorted(found.items())]
        self.tables = [VerifyTable(schema, _target_table(schema, self.ends[1].types)) for schema in self.schemas]

    def load(self) -> None:
        loads = [LoadTable(one.schema, one.table, one.filter) for one in self.tables]
        assert load_tables("shop", SparkEngine(lambda: self.spark), *self.ends, loads, lock="table")

    def verify(self, **options: Any) -> Verification:
        result = verify_tables(lambda: self.spark, *self.ends, self.tables, **{"rows_per_piece": 250} | options)
        assert result is not None
        return result


def _target_table(schema: Any, map: TypeMap) -> TargetTable:
    names = tuple(column.name for column in schema.columns)
    kinds = (column.type for column in schema.columns)
    types = tuple(replace(type, at_target=map.at_target(type, ValueRules())) for type in kinds)
    return TargetTable(schema.id, replace(schema.id, schema="public"), names, types, schema.primary_key, names)


@pytest.fixture
def pair(spark: Any, source_database: Callable[[Server], Database], target_database: Database) -> Callable[..., Pair]:
    def make(server: Server, *statements: str) -> Pair:
        database = source_database(server)
        database.execute(*statements)
        made = Pair(spark, database, target_database)
        made.load()
        return made

    return make


@pytest.mark.parametrize("by_rows", [False, True])
@pytest.mark.one_case("mariadb-False", "mysql-True")
def test_loaded_tables_are_identical(mysql_family: Server, pair: Callable[..., Pair], by_rows: bool) -> None:
    result = pair(mysql_family, *SHOP, "CREATE TABLE nothing (id INT PRIMARY KEY)").verify(by_rows=by_rows)
    assert result.identical and result.exit_code == 0
    assert [(t.target, t.rows_source, t.rows_target) for t in result.tables] == [
        ("public.item", 900, 900),
        ("public.log", 900, 900),
        ("public.nothing", 0, 0),
    ]


def test_rows_of_other_jobs_are_left_out_of_a_shared_table(mariadb: Server, pair: Callable[..., Pair]) -> None:
    made = pair(mariadb, *SHOP)
    made.target.execute(
        "INSERT INTO public.item SELECT id, 'q' || part, note, price, weight, made FROM public.item",
        "INSERT INTO public.log VALUES ('other', 1), ('w1', 1)",
    )
    assert not made.verify().identical
    made.tables = [replace(one, is_shared=True) for one in made.tables]
    result = made.verify()
    assert result.identical and result.exit_code == 0
    assert [(t.extra, t.others, t.rows_target) for t in result.tables] == [(0, 900, 1800), (0, 2, 902)]
    made.target.execute(
        "DELETE FROM public.item WHERE id = 7 AND part = 'p0'", "DELETE FROM public.log WHERE word = 'w2'"
    )
    made.target.execute("UPDATE public.item SET note = 'x' WHERE id = 8 AND part = 'p1'")
    item, bag = made.verify().tables
    assert (item.missing, item.different, item.extra, item.identical) == (1, 1, 0, False)
    assert {difference.kind for difference in item.sample} == {"missing", "different"}
    assert bag.missing == 300 and not bag.identical


def test_pitfall_37_48_every_kind_of_difference_is_found(mariadb: Server, pair: Callable[..., Pair]) -> None:
    made = pair(mariadb, *SHOP)
    made.target.execute(
        "DELETE FROM item WHERE id = 10",
        "INSERT INTO item (id, part) VALUES (1000, 'p1')",
        "UPDATE item SET note = '' WHERE id = 3 AND note IS NULL",  # NULL is not ''
        "UPDATE item SET weight = 'NaN', made = made + interval '1 microsecond' WHERE id = 20",
        "UPDATE item SET price = CASE id WHEN 30 THEN 31 ELSE 30 END / 7.0::float8 WHERE id IN (30, 31)",  # swapped
        "DELETE FROM log WHERE ctid = (SELECT min(ctid) FROM log WHERE word = 'w1' AND number = 1)",
        "UPDATE log SET number = 5 WHERE ctid = (SELECT min(ctid) FROM log WHERE word = 'w2')",
    )
    item, log = made.verify(show_values=True).tables
    assert (item.missing, item.extra, item.different, item.identical) == (1, 1, 4, False)
    found = {d.key["id"]: d for d in item.sample}
    assert {number: (d.kind, d.columns) for number, d in found.items()} == {
        "10": ("missing", ()),
        "1000": ("extra", ()),
        "3": ("different", ("note",)),
        "20": ("different", ("weight", "made")),
        "30": ("different", ("price",)),
        "31": ("different", ("price",)),
    }
    assert found["3"].values == {"note": (None, "")} and found["10"].key == {"part": "p3", "id": "10"}
    assert (log.missing, log.extra, log.different) == (2, 1, 0)
    assert {(d.kind, d.values["word"], d.copies) for d in log.sample if d.kind == "extra"} == {
        ("extra", (None, "w2"), (0, 1))
    }
    assert made.verify().exit_code == 4


def test_a_table_that_is_wholly_different_is_bounded(
    mariadb: Server, pair: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pair(mariadb, *SHOP)
    made.target.execute("UPDATE item SET note = 'x'")
    monkeypatch.setattr("anabranch.verify.run.LIMIT_ROWS", 50)
    item, log = made.verify(limit_keys=7).tables
    assert log.identical and not item.is_complete
    assert 7 <= item.different < 900 and len(item.sample) == 7
    assert item.sample[0].values == {}


def test_rule_27_filtered_rows_are_left_out(mariadb: Server, pair: Callable[..., Pair]) -> None:
    made = pair(mariadb, *SHOP)
    made.tables = [replace(made.tables[0], filter=Filter("id % 2 = 0", ("id",))), made.tables[1]]
    made.target.execute("DELETE FROM item WHERE id % 2 = 1")
    assert made.verify().identical
    made.target.execute("DELETE FROM item WHERE id = 4")
    item, _ = made.verify().tables
    assert (item.missing, item.extra, item.rows_source) == (1, 0, 450)


def test_values_with_several_texts_are_equal(mysql_family: Server, pair: Callable[..., Pair]) -> None:
    texts = [r"tab\there", r"nl\nand\r", r"back\\slash", r"\\N", "\b\f\v", "", "ünï😀", "\\\\b"]
    rows = ", ".join(f"({i}, '{text}', {i} * 0.1, 16777215 + {i} * 0.5, 1e300 * {i})" for i, text in enumerate(texts))
    made = pair(
        mysql_family,
        "CREATE TABLE v (id INT PRIMARY KEY, t VARCHAR(40), d DECIMAL(20,3), f FLOAT, g DOUBLE)",
        f"INSERT INTO v VALUES {rows}",
    )
    assert made.verify().identical


def test_pitfall_38_json_is_compared_by_value(mysql_family: Server, pair: Callable[..., Pair]) -> None:
    made = pair(
        mysql_family,
        "CREATE TABLE j (id INT PRIMARY KEY, doc JSON)",
        """INSERT INTO j VALUES (1, '{"b": 1.50, "a": [1e2, null, "é\\\\n"]}'), (2, 'null'), (3, NULL),
           (4, '12345678901234567890.5'), (5, '{"a": {"z": 1, "y": 2}}')""",
    )
    assert made.verify().identical
    made.target.execute(
        "UPDATE j SET doc = NULL WHERE id = 2",
        """UPDATE j SET doc = '{"a": {"y": 2, "z": 1.00}}' WHERE id = 5""",
        """UPDATE j SET doc = jsonb_set(doc, '{b}', '1.51') WHERE id = 1""",
    )
    assert {d.key["id"] for d in made.verify().tables[0].sample} == {"1", "2"}


PLAIN = (
    "CREATE TABLE p (id BIGINT PRIMARY KEY, n INT, s VARCHAR(40), d DECIMAL(12,2), t DATETIME(6), i TIMESTAMP NULL,"
    " b VARBINARY(9), e ENUM('x','y') NOT NULL, u BIGINT UNSIGNED, w TEXT CHARACTER SET latin1)",
    f"INSERT INTO p {MANY}SELECT i * 7000000000, NULLIF(i % 9, 4), CONCAT('tab\\t', i), i / 7,"
    " TIMESTAMPADD(SECOND, -i, '2000-01-01'), TIMESTAMPADD(SECOND, i, '2024-02-29 23:59:59'), UNHEX(HEX(i)),"
    " ELT(1 + i % 2, 'x', 'y'), 18446744073709551615 - i, NULL FROM n",
)


@pytest.mark.skipif(compiled.NATIVE is None, reason="the compiled code is not installed (make native)")
@pytest.mark.one_case("mariadb")
def test_equal_tables_are_known_by_fingerprints_and_others_by_their_rows(
    mysql_family: Server, pair: Callable[..., Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pair(mysql_family, *PLAIN, *SHOP)
    read: list[list[str]] = []
    sides = run._Run.sides

    def told(self: Any, work: Any, known: Any) -> Any:
        read.append(sorted({str(p.one.table.target) for p in self.pieces if p.one.table.source not in known}))
        return sides(self, work, known)

    monkeypatch.setattr(run._Run, "sides", told)
    result = made.verify()
    assert result.identical and [(t.rows_source, t.rows_target) for t in result.tables] == [(900, 900)] * 3
    assert made.verify(by_rows=True).identical
    made.target.execute("UPDATE p SET n = NULL WHERE id = 7000000000")
    item, log, plain = made.verify().tables
    assert item.identical and log.identical and not plain.identical
    assert [(d.kind, d.key, d.columns) for d in plain.sample] == [("different", {"id": "7000000000"}, ("n",))]
    with_floats = "public.item"
    assert read == [[with_floats], ["public.item", "public.log", "public.p"], [with_floats, "public.p"]]


def test_a_missing_target_table_is_one_message(mariadb: Server, pair: Callable[..., Pair]) -> None:
    made = pair(mariadb, *SHOP)
    made.target.execute("DROP TABLE log")
    with pytest.raises(TargetError, match="does not exist"):
        made.verify()
