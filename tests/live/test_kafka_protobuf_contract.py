"""Messages in Protobuf at a real Kafka, read by the client's own deserializer, with a registry that follows the published
interface (`rigs/schema_registry.py`), which has protoc judge each schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.json_format import MessageToDict

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
from anabranch.rows.messages.protobuf.text import numbers_in
from anabranch.testing.conformance.appender import JOB, RULES, AppendSubject, Epochs, changes, table, transaction
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.protobuf_schemas import message_class
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
    options = KafkaTargetOptions(topic=unique_name("topic") + ".{table}", format="protobuf", registry=registry.url)
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
    with pytest.raises(TargetUnavailable, match="no primary"):
        epochs.do(ChangeBatch([transaction(2)], [changes(TABLE, (Op.INSERT, 2, 0, 8, "b"))]))
    epochs.appender.rollback()
    registry.answers = None
    epochs.do(ChangeBatch([transaction(2)], [changes(TABLE, (Op.INSERT, 2, 0, 8, "b"))]))
    epochs.appender.close()
    topic = target.options.topic.format(table="a")
    read = [[_read(registry, topic, part) for part in one] for one in committed(target.endpoint, topic)]
    assert [key.id for key, _ in read] == [7, 7, 7, 8]
    told = [value and (value.op, _row(value, "before"), _row(value, "after")) for _, value in read]
    row = {"id": "7", "word": "ä"}
    assert told == [("c", None, row), ("d", row, None), None, ("c", None, {"id": "8", "word": "b"})]
    assert registry.subjects == {f"{topic}-key": [1], f"{topic}-value": [2]}, "the same schema after all"


def test_preflight_asks_the_registry_and_registers_nothing(target: KafkaTarget, registry: SchemaRegistry) -> None:
    (fine,) = registered(target.options, target.endpoint, CONTEXT, {})
    assert (fine.verdict, registry.schemas) == (CheckVerdict.OK, [])
    topic = target.options.topic.format(table="a")
    package = topic.replace("-", "_")
    registry.schemas.append(f'syntax = "proto3"; package {package}; message Key {{ string id = 1; }}')
    registry.subjects[f"{topic}-key"], registry.kinds = [1], {1: "PROTOBUF"}
    (other,) = registered(target.options, target.endpoint, CONTEXT, {})
    assert other.verdict == CheckVerdict.FAILED and f"{topic}-key" in other.message
    registry.kinds.clear()
    (avro,) = registered(target.options, target.endpoint, CONTEXT, {})
    assert avro.verdict == CheckVerdict.FAILED and "has schemas of AVRO" in avro.message


TYPED = (
    "CREATE TABLE typed (id INT UNSIGNED PRIMARY KEY, price DECIMAL(10,2), at DATETIME(6), seen TIMESTAMP NULL, day DATE, "
    "lasts TIME, born YEAR, state ENUM('new','paid'), flags BIT(10), data JSON, raw BLOB, place POINT, big BIGINT UNSIGNED, "
    "note TEXT, none INT, `größe cm` DOUBLE)"
)
ROW = (
    "(4294967295, -1.50, '2024-02-29 12:00:00.000001', '2024-02-29 12:00:00', '1969-12-31', '-01:00:00', 2024, 'paid', "
    "b'1000000001', '{\"a\": 1}', x'00ff', ST_GeomFromText('POINT(1 2)'), 18446744073709551615, '', NULL, 0)"
)


def test_kafka_has_in_protobuf_what_a_mysql_has(
    source_database: Callable[[Server], Database],
    target_database: Database,
    mysql: Server,
    kafka: Server,
    registry: SchemaRegistry,
    tmp_path: Path,
) -> None:
    made = Scenario(source_database(mysql), target_database, tmp_path, name=unique_name("job"))
    options = f'topic = "{{job}}.{{table}}"\nformat = "protobuf"\ndecimal = "precise"\nregistry = "{registry.url}"'
    to_kafka(made, kafka, options=options)
    made.source.execute(TYPED)
    here = JobHere(made)
    here.load()
    made.source.execute(f"INSERT INTO typed VALUES {ROW}", "UPDATE typed SET price = NULL", "DELETE FROM typed")
    here.stream()
    topic = f"{made.name}.typed"
    read = committed(Endpoint("kafka", kafka.host, kafka.port, "", ""), topic)
    made.close()
    values = [_read(registry, topic, value) for _, value in read]
    assert [_read(registry, topic, key).id for key, _ in read] == [2**32 - 1] * 4
    assert [value and value.op for value in values] == ["c", "u", "d", None]
    insert, update, delete, _ = values
    assert (insert.source.connector, insert.source.table) == ("mysql", "typed")
    assert update.before == insert.after and not update.after.HasField("price") and delete.before == update.after
    row = insert.after
    price = row.price
    assert Decimal(int.from_bytes(price.value, "big", signed=True)).scaleb(-price.scale) == Decimal("-1.50")
    assert (price.precision, len(row.place.wkb), row.note, row.HasField("note")) == (10, 21, "", True)
    found = {one.json_name: getattr(row, one.name) for one in row.DESCRIPTOR.fields
             if not one.has_presence or row.HasField(one.name)}  # fmt: skip
    del found["price"], found["place"], found["note"]
    assert found == {
        "id": 2**32 - 1,
        "at": 1709208000000001,
        "seen": "2024-02-29T12:00:00Z",
        "day": -1,
        "lasts": -3_600_000_000,
        "born": 2024,
        "state": "paid",
        "flags": b"\x01\x02",
        "data": '{"a": 1}',
        "raw": b"\x00\xff",
        "big": 2**64 - 1,
        "größe cm": 0.0,
    }


def test_numbers_stay_with_their_columns_over_changes_and_over_processes(
    source_database: Callable[[Server], Database],
    target_database: Database,
    mysql: Server,
    kafka: Server,
    registry: SchemaRegistry,
    tmp_path: Path,
) -> None:
    """Each step is in a process of its own: one that has only noted what the numbers are, and one that registers them."""
    made = Scenario(source_database(mysql), target_database, tmp_path, name=unique_name("job"))
    to_kafka(made, kafka, options=f'topic = "{{job}}.{{table}}"\nformat = "protobuf"\nregistry = "{registry.url}"')
    made.source.execute("CREATE TABLE item (id INT PRIMARY KEY, a INT, b INT)")
    JobHere(made).load()
    topic = f"{made.name}.item"
    steps = [
        ("", {"id": 1, "a": 2, "b": 3}),
        ("DROP COLUMN a, ADD c INT", {"id": 1, "b": 3, "c": 4}),
        ("RENAME COLUMN b TO a", {"id": 1, "a": 3, "c": 4}),
        ("ADD b INT", {"id": 1, "a": 3, "c": 4, "b": 5}),
        ("DROP COLUMN b", {"id": 1, "a": 3, "c": 4}),
        ("ADD b INT", {"id": 1, "a": 3, "c": 4, "b": 6}),
    ]
    for at, (statement, numbers) in enumerate(steps):
        if statement:
            made.source.execute(f"ALTER TABLE item {statement}")
            JobHere(made).stream()
        made.source.execute(
            f"INSERT INTO item (id, {', '.join(list(numbers)[1:])}) VALUES {(at, *list(numbers.values())[1:])}"
        )
        JobHere(made).stream()
        latest = registry.schemas[registry.subjects[f"{topic}-value"][-1] - 1]
        assert dict(numbers_in(latest)["Value"].fields) == numbers, statement
    read = committed(Endpoint("kafka", kafka.host, kafka.port, "", ""), topic)
    for at, ((_, value), (_, numbers)) in enumerate(zip(read, steps, strict=True)):
        row = _read(registry, topic, value).after
        assert row.id == at and all(getattr(row, name) == number for name, number in list(numbers.items())[1:])
    made.source.execute("ALTER TABLE item RENAME COLUMN c TO d", "INSERT INTO item (id, d) VALUES (99, 4)")
    JobHere(made).stream()
    made.close()
    latest = registry.schemas[registry.subjects[f"{topic}-value"][-1] - 1]
    assert dict(numbers_in(latest)["Value"].fields) == {"id": 1, "a": 3, "d": 4, "b": 6} and "reserved 2, 5;" in latest


def test_a_definition_that_the_registry_refuses_parks_its_table_alone(
    source_database: Callable[[Server], Database],
    target_database: Database,
    mysql: Server,
    kafka: Server,
    registry: SchemaRegistry,
    tmp_path: Path,
) -> None:
    made = Scenario(source_database(mysql), target_database, tmp_path, name=unique_name("job"))
    to_kafka(made, kafka, options=f'topic = "{{job}}.{{table}}"\nformat = "protobuf"\nregistry = "{registry.url}"')
    names = ("refused", "widened", "taken", "wider")
    for name in names:
        made.source.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, `a-b` INT)")
    here = JobHere(made)
    here.load()
    made.source.execute(*(f"INSERT INTO {name} VALUES (1, 1, 1)" for name in names))
    made.source.execute("ALTER TABLE refused MODIFY v VARCHAR(20)", "ALTER TABLE widened MODIFY id BIGINT")
    made.source.execute("ALTER TABLE taken ADD a_b INT", "ALTER TABLE wider MODIFY v BIGINT")
    made.source.execute(*(f"UPDATE {name} SET v = 2" for name in names))
    here.stream()
    (told,) = here.job.status()["targets"]
    tables = {one["source"].rpartition(".")[2]: one["state"] for one in told["tables"]}
    endpoint = Endpoint("kafka", kafka.host, kafka.port, "", "")
    counts = {name: len(committed(endpoint, f"{made.name}.{name}")) for name in names}
    made.close()
    assert {name: tables[name] for name in names} == {
        "refused": "parked",
        "widened": "parked",
        "taken": "streaming",
        "wider": "streaming",
    }
    assert counts == {"refused": 1, "widened": 1, "taken": 2, "wider": 2}


def _read(registry: SchemaRegistry, topic: str, message: bytes | None) -> Any:
    """Return a message as the client's deserializer has it, with the class of the schema that its number names."""
    if message is None:
        return None
    kind = message_class(registry.schemas[int.from_bytes(message[1:5], "big") - 1])
    read = ProtobufDeserializer(kind, {"use.deprecated.format": False})
    return read(message, SerializationContext(topic, MessageField.VALUE))


def _row(envelope: Any, which: str) -> dict[str, Any] | None:
    if not envelope.HasField(which):
        return None
    found: dict[str, Any] = MessageToDict(getattr(envelope, which))
    return found
