"""Messages in Avro at a real Kafka, with a registry that follows the published interface (`rigs/schema_registry.py`)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from anabranch.connectors.kafka.target import KafkaTarget
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.registered import registered
from anabranch.contracts import PreflightContext
from anabranch.errors import TargetUnavailable
from anabranch.model.checks import CheckVerdict
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.chunk import Op
from anabranch.testing.conformance.appender import JOB, RULES, AppendSubject, Epochs, changes, table, transaction
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_kafka import committed, to_kafka
from rigs.schema_registry import PASSWORD, SchemaRegistry, schema_registry

TABLE = table("a")
COLUMNS = (Column("id", LogicalType(Kind.INT64), "bigint"), Column("word", LogicalType(Kind.TEXT), "text"))
CONTEXT = PreflightContext(JOB, {}, {}, {TABLE.source: TABLE})


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[SchemaRegistry]:
    monkeypatch.setenv("REGISTRY_PASSWORD", PASSWORD)
    with schema_registry() as made:
        yield made


@pytest.fixture
def target(kafka: Server, registry: SchemaRegistry) -> Iterator[KafkaTarget]:
    options = KafkaTargetOptions(topic=unique_name("topic") + ".{table}", format="avro", registry=registry.url)
    made = KafkaTarget(Endpoint("kafka", kafka.host, kafka.port, "", ""), options)
    with closing(made.store()) as store:
        store.jobs.save_job(JOB, {"uuid": "1"})
        with closing(made.change_tables(RULES)) as topics:
            topics.begin(JOB, "1", [(TableSchema(TABLE.source, COLUMNS), TABLE)], 0, 0)
        yield made
        store.jobs.drop(JOB)


def test_kafka_has_each_message_with_the_number_of_its_schema(target: KafkaTarget, registry: SchemaRegistry) -> None:
    epochs = Epochs(AppendSubject(target, list))
    registry.answers = 503, {"error_code": 50003, "message": "no primary"}
    batch = ChangeBatch([transaction(1)], [changes(TABLE, (Op.INSERT, 1, 0, 7, "ä"), (Op.DELETE, 1, 1, 7, "ä"))])
    with pytest.raises(TargetUnavailable, match="no primary"):
        epochs.do(batch)
    epochs.appender.rollback()
    registry.answers = None
    epochs.do(batch)
    registry.answers = 503, {"error_code": 50003, "message": "no primary"}
    epochs.now = epochs.appender.claim(JOB, "another owner")
    epochs.do(ChangeBatch([transaction(2)], [changes(TABLE, (Op.INSERT, 2, 0, 8, "b"))]))  # its schemas are known
    epochs.appender.close()
    read = [
        [_read(registry, part) for part in one]
        for one in committed(target.endpoint, target.options.topic.format(table="a"))
    ]
    assert [key for key, _ in read] == [{"id": 7}] * 3 + [{"id": 8}]
    told = [value and (value["op"], value["before"], value["after"]) for _, value in read]
    row = {"id": 7, "word": "ä"}
    assert told == [("c", None, row), ("d", row, None), None, ("c", None, {"id": 8, "word": "b"})]
    topic = target.options.topic.format(table="a")
    assert sorted(registry.subjects) == [f"{topic}-key", f"{topic}-value"]


def test_preflight_asks_the_registry_and_registers_nothing(target: KafkaTarget, registry: SchemaRegistry) -> None:
    (fine,) = registered(target.options, target.endpoint, CONTEXT, {})
    assert (fine.verdict, registry.schemas) == (CheckVerdict.OK, [])
    subject = target.options.topic.format(table="a") + "-key"
    registry.schemas.append('{"type": "record", "name": "Key", "fields": [{"name": "id", "type": "string"}]}')
    registry.subjects[subject] = [1]
    (other,) = registered(target.options, target.endpoint, CONTEXT, {})
    assert other.verdict == CheckVerdict.FAILED and subject in other.message
    away = replace(target.options, registry="http://127.0.0.1:1")
    (absent,) = registered(away, target.endpoint, CONTEXT, {})
    assert absent.verdict == CheckVerdict.FAILED and "http://127.0.0.1:1" in absent.message


TYPED = (
    "CREATE TABLE typed (id INT UNSIGNED PRIMARY KEY, price DECIMAL(10,2), at DATETIME(6), seen TIMESTAMP NULL, day DATE, "
    "lasts TIME, born YEAR, state ENUM('new','paid'), flags BIT(10), data JSON, raw BLOB, place POINT, big BIGINT UNSIGNED)"
)
ROW = (
    "(4294967295, -1.50, '2024-02-29 12:00:00.000001', '2024-02-29 12:00:00', '1969-12-31', '-01:00:00', 2024, 'paid', "
    "b'1000000001', '{\"a\": 1}', x'00ff', ST_GeomFromText('POINT(1 2)'), 18446744073709551615)"
)


def test_kafka_has_in_avro_what_a_mysql_has(
    source_database: Callable[[Server], Database],
    target_database: Database,
    mysql: Server,
    kafka: Server,
    registry: SchemaRegistry,
    tmp_path: Path,
) -> None:
    made = Scenario(source_database(mysql), target_database, tmp_path, name=unique_name("job"))
    options = f'topic = "{{job}}.{{table}}"\nformat = "avro"\ndecimal = "precise"\nregistry = "{registry.url}"'
    to_kafka(made, kafka, options=options)
    made.source.execute(TYPED)
    here = JobHere(made)
    here.load()
    made.source.execute(f"INSERT INTO typed VALUES {ROW}", "UPDATE typed SET price = NULL", "DELETE FROM typed")
    here.stream()
    read = committed(Endpoint("kafka", kafka.host, kafka.port, "", ""), f"{made.name}.typed")
    made.close()
    values = [_read(registry, value) for _, value in read]
    assert [_read(registry, key) for key, _ in read] == [{"id": 2**32 - 1}] * 4
    assert [value and value["op"] for value in values] == ["c", "u", "d", None]
    assert values[0]["source"]["connector"] == "mysql" and values[0]["source"]["table"] == "typed"
    assert values[1]["after"] == values[0]["after"] | {"price": None} and values[1]["before"] == values[0]["after"]
    found = values[0]["after"]
    assert len(found.pop("place")["wkb"]) == 21
    assert found == {
        "id": 2**32 - 1,
        "price": Decimal("-1.50"),
        "at": 1709208000000001,
        "seen": "2024-02-29T12:00:00Z",
        "day": -1,
        "lasts": -3_600_000_000,
        "born": 2024,
        "state": "paid",
        "flags": b"\x01\x02",
        "data": '{"a": 1}',
        "raw": b"\x00\xff",
        "big": Decimal(2**64 - 1),
    }


def test_a_definition_that_the_registry_refuses_parks_its_table_alone(
    source_database: Callable[[Server], Database],
    target_database: Database,
    mysql: Server,
    kafka: Server,
    registry: SchemaRegistry,
    tmp_path: Path,
) -> None:
    made = Scenario(source_database(mysql), target_database, tmp_path, name=unique_name("job"))
    to_kafka(made, kafka, options=f'topic = "{{job}}.{{table}}"\nformat = "avro"\nregistry = "{registry.url}"')
    names = ("refused", "widened", "taken", "other")
    for name in names:
        made.source.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, `a-b` INT)")
    here = JobHere(made)
    here.load()
    made.source.execute(*(f"INSERT INTO {name} VALUES (1, 1, 1)" for name in names))
    made.source.execute("ALTER TABLE refused MODIFY v VARCHAR(20)", "ALTER TABLE widened MODIFY id BIGINT")
    made.source.execute("ALTER TABLE taken ADD a_b INT")
    made.source.execute(*(f"UPDATE {name} SET v = 2" for name in names))
    here.stream()
    (target,) = here.job.status()["targets"]
    tables = {one["source"].rpartition(".")[2]: one for one in target["tables"]}
    endpoint = Endpoint("kafka", kafka.host, kafka.port, "", "")
    counts = {name: len(committed(endpoint, f"{made.name}.{name}")) for name in names}
    made.close()
    assert {name: tables[name]["state"] for name in names} == dict.fromkeys(names, "parked") | {"other": "streaming"}
    assert counts == dict.fromkeys(names, 1) | {"other": 2}


def _read(registry: SchemaRegistry, message: bytes | None) -> Any:
    if message is None:
        return None
    schema = fastavro.parse_schema(registry.schema(int.from_bytes(message[1:5], "big")))
    return fastavro.schemaless_reader(io.BytesIO(message[5:]), schema, None)
