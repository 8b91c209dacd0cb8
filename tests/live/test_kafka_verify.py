"""Verification of a Kafka: rows that messages tell, folded by key, beside those of each source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from anabranch.errors import ConfigError, TargetError
from anabranch.job.verifying import NO_BEGINNING
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_kafka import to_kafka, with_whole_rows
from rigs.scenario_postgresql import FromPostgres

ITEM = "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), n INT)"
KEYLESS = "CREATE TABLE loose (v VARCHAR(20), n INT)"
MYSQL_KINDS = """CREATE TABLE kinds (id VARCHAR(20) PRIMARY KEY, t TINYINT(1), u BIGINT UNSIGNED, f FLOAT, d DOUBLE,
 n DECIMAL(20,6), b VARBINARY(20), j JSON, s TIMESTAMP(6) NULL, m DATETIME, c TIME(3), y YEAR, e ENUM('a','b'), w SET('x','y'),
 i BIT(9), l DATE, x TEXT)"""
MYSQL_ROWS = (
    r"""INSERT INTO kinds VALUES ('a\tb', 1, 18446744073709551615, 0.1, 1e300, -1.5, x'00ff', '{"a": [1.50, null]}',
 '2026-11-28 12:00:00.5', '2026-01-01', '-12:30:00.25', 2026, 'b', 'x,y', b'101', '2020-02-29', 'back\\slash\nline "quote"')""",
    "INSERT INTO kinds (id) VALUES ('nothing')",
)
POSTGRESQL_KINDS = """CREATE TABLE kinds (id TEXT PRIMARY KEY, t BOOLEAN, f REAL, d DOUBLE PRECISION, n NUMERIC, b BYTEA,
 j JSONB, s TIMESTAMPTZ, m TIMESTAMP(3), c TIME, l DATE, x TEXT, u UUID, i INTERVAL, a INT[], z BIT(3), p INET, r INT4RANGE)"""
POSTGRESQL_ROWS = (
    r"""INSERT INTO kinds VALUES (E'a\tb', true, 0.1, 'NaN', 1.50, '\x00ff', '{"a": [1.50, null]}', '2026-11-28 12:00:00.5+02',
 'infinity', '12:30', '-infinity', E'back\\slash\nline "quote"', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '1 day 02:00',
 '{1,NULL,3}', B'101', '::1', '[1,5)')""",
    "INSERT INTO kinds (id, d) VALUES ('nothing', '-Infinity')",
)


@pytest.fixture(params=["mysql", "logical_postgresql"])
def here(
    request: pytest.FixtureRequest,
    source_database: Callable[[Server], Database],
    target_database: Database,
    kafka: Server,
    tmp_path: Path,
) -> Iterator[JobHere]:
    source = source_database(request.getfixturevalue(request.param))
    kind = FromPostgres if request.param == "logical_postgresql" else Scenario
    made = kind(source, target_database, tmp_path, name=unique_name("job"))
    kinds = POSTGRESQL_KINDS if kind is FromPostgres else MYSQL_KINDS
    source.execute(ITEM, KEYLESS, kinds, *with_whole_rows(made, "item", "loose", "kinds", "scenario_mark"))
    yield JobHere(made)
    made.close()


def _rows(here: JobHere) -> tuple[str, ...]:
    return POSTGRESQL_ROWS if isinstance(here.made, FromPostgres) else MYSQL_ROWS


@pytest.mark.one_case("logical_postgresql")
def test_rows_that_messages_tell_are_compared_by_key_and_without_one_as_often_as_they_are(
    here: JobHere, kafka: Server
) -> None:
    made, source = here.made, here.made.source
    format = "" if isinstance(made, FromPostgres) else 'format = "debezium"\ndecimal = "precise"\nschema = true\n'
    to_kafka(made, kafka, options=f'{format}topic = "{{job}}.{{table}}"\npartitions = 2\ninitial_load = true')
    source.execute(*_rows(here), "INSERT INTO loose VALUES ('a', 1), ('a', 1), (NULL, NULL)")
    source.execute(*(f"INSERT INTO item VALUES ({key}, 'x', 0)" for key in range(20)))
    here.load()
    again = [text.replace(r"a\tb", r"b\tb").replace("('nothing'", "('too'") for text in _rows(here)]
    source.execute(*again, "UPDATE item SET id = 30, n = 1 WHERE id = 3", "DELETE FROM item WHERE id < 3")
    source.execute("DELETE FROM loose WHERE v IS NULL", "INSERT INTO loose VALUES ('a', 1)")
    here.stream()
    found = here.verify()
    assert found.identical, str(found.to_json())
    assert {one.source.rpartition(".")[2]: one.rows_target for one in found.tables} == {
        "item": 17,
        "kinds": 4,
        "loose": 3,
        "scenario_mark": found.tables[-1].rows_source,
    }
    source.execute("UPDATE item SET v = 'y' WHERE id = 5", "DELETE FROM item WHERE id = 6", "DELETE FROM loose")
    source.execute("INSERT INTO item VALUES (40, 'z', 0)")
    item, _, loose, _ = here.verify().tables
    assert [(one.kind, one.key["id"], one.columns) for one in item.sample] == [
        ("different", "5", ("v",)),
        ("extra", "6", ()),
        ("missing", "40", ()),
    ]
    assert loose.extra == 3 and loose.sample[0].copies == (0, 3)
    here.stream()
    assert here.verify(patterns=(f"{made.schema}.item",)).identical
    source.execute("ALTER TABLE item ADD more INT", "INSERT INTO item VALUES (41, 'z', 0, 1)")
    here.stream()
    item, kinds, *_ = here.verify().tables
    assert item.is_undecided and "of the trail, from which on the table has its columns and types" in item.why
    assert kinds.identical, "one row of an earlier definition is its own table's matter"
    source.execute("UPDATE item SET more = 2")
    here.stream()
    assert here.verify(patterns=(f"{made.schema}.item",)).identical


@pytest.mark.one_case("mysql")
def test_where_changes_alone_were_told_rows_of_their_keys_are_compared_also_beside_writers(
    here: JobHere, kafka: Server
) -> None:
    made, source, topic = here.made, here.made.source, f"{here.made.name}.item"
    to_kafka(made, kafka, options='format = "exbase"\ntopic = "{job}.{table}"\npartitions = 2')
    source.execute(
        *(f"INSERT INTO item VALUES ({key}, 'x', 0)" for key in range(10)), "INSERT INTO loose VALUES ('a', 1)"
    )
    here.load()
    source.execute(
        "UPDATE item SET n = 1 WHERE id = 1", "DELETE FROM item WHERE id = 2", "INSERT INTO loose VALUES ('b', 1)"
    )
    source.execute("INSERT INTO item VALUES (50, 'new', 0)", *_rows(here))
    here.stream()
    item, kinds, loose, _ = here.verify().tables
    assert kinds.identical and kinds.rows_target == 2, str(kinds)
    assert item.identical and item.only_changed and (item.rows_source, item.rows_target) == (2, 2)
    assert str(item).endswith("2 rows of keys that the topic has")
    assert loose.is_undecided and loose.why == NO_BEGINNING
    source.execute("DELETE FROM item WHERE id = 50", "INSERT INTO item VALUES (2, 'y', 1), (60, 'z', 1)")
    item, *_ = here.verify().tables
    assert [(one.kind, one.key["id"]) for one in item.sample] == [("missing", "2"), ("extra", "50")]
    here.stream()
    with here.running():
        source.execute("UPDATE item SET n = n + 1 WHERE id < 3")
        found = here.verify(patterns=(f"{made.schema}.item",), max_pause=30.0)
        assert found.identical and found.positions is not None, str(found.to_json())
        assert here.verify(patterns=(f"{made.schema}.item",)).identical
    with pytest.raises(ConfigError, match="there are no rows to load, to compare"):
        here.verify(repairs=True)
    client = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    for one in client.delete_records([TopicPartition(topic, 0, -1), TopicPartition(topic, 1, -1)]).values():
        one.result()
    with pytest.raises(TargetError, match="has lost the messages behind offset 0"):
        here.verify(patterns=(f"{made.schema}.item",))
    to_kafka(made, kafka, options='topic = "{job}.{table}"\npartitions = 2\nformat = "avro"')
    with pytest.raises(ConfigError, match="are not read back"):
        here.verify()
