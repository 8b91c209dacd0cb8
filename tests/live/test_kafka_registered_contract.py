"""Messages in Avro and Protobuf at a real Kafka, read by the client's own deserializers, with a registry that follows the
published interface (`rigs/schema_registry.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from anabranch import failpoints
from anabranch.connectors.kafka.target import KafkaTarget
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.connectors.kafka.target.registered import registered
from anabranch.contracts import PreflightContext
from anabranch.errors import TargetError, TargetUnavailable
from anabranch.model.checks import CheckVerdict
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.appended import ChangeBatch
from anabranch.rows.chunk import Op
from anabranch.testing.conformance.appender import JOB, RULES, AppendSubject, Epochs, changes, table, transaction
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.registered_messages import FORMATS, Registered
from rigs.scenario import Scenario
from rigs.schema_registry import PASSWORD, schema_registry

TABLE = table("a")
COLUMNS = (Column("id", LogicalType(Kind.INT64), "bigint"), Column("word", LogicalType(Kind.TEXT), "text"))
CONTEXT = PreflightContext(JOB, {}, {}, {TABLE.source: TABLE})
AWAY = 503, {"error_code": 50003, "message": "no primary"}


@pytest.fixture(params=FORMATS)
def of(request: pytest.FixtureRequest, kafka: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registered]:
    monkeypatch.setenv("REGISTRY_PASSWORD", PASSWORD)
    with schema_registry() as registry:
        yield Registered(request.param, kafka, registry)


@pytest.fixture
def target(of: Registered) -> Iterator[KafkaTarget]:
    options = KafkaTargetOptions(
        topic=unique_name("topic") + ".{table}",
        format="avro" if of.format == "avro" else "protobuf",
        registry=of.registry.url,
    )
    made = KafkaTarget(of.endpoint, options)
    with closing(made.store()) as store:
        store.jobs.save_job(JOB, {"uuid": "1"})
        with closing(made.change_tables(RULES)) as topics:
            topics.begin(JOB, "1", [(TableSchema(TABLE.source, COLUMNS), TABLE)], 0, 0)
        yield made
        store.jobs.drop(JOB)


@pytest.fixture
def here(
    of: Registered,
    source_database: Callable[[Server], Database],
    target_database: Database,
    mysql: Server,
    tmp_path: Path,
) -> Iterator[JobHere]:
    made = Scenario(source_database(mysql), target_database, tmp_path, name=unique_name("job"))
    of.write_job(made)
    yield JobHere(made)
    made.close()


def test_kafka_has_each_message_with_the_number_of_its_schema(target: KafkaTarget, of: Registered) -> None:
    epochs, registry = Epochs(AppendSubject(target, list)), of.registry
    first = ChangeBatch([transaction(1)], [changes(TABLE, (Op.INSERT, 1, 0, 7, "ä"), (Op.DELETE, 1, 1, 7, "ä"))])
    second = ChangeBatch([transaction(2)], [changes(TABLE, (Op.INSERT, 2, 0, 8, "b"))])
    third = ChangeBatch([transaction(3)], [changes(TABLE, (Op.INSERT, 3, 0, 9, "c"))])
    registry.answers = AWAY
    with pytest.raises(TargetUnavailable, match="no primary"):
        epochs.do(first)
    epochs.appender.rollback()
    registry.answers = None
    epochs.do(first)
    registry.answers = AWAY
    epochs.do(second)  # what a process knows it need not ask
    epochs.now = epochs.appender.claim(JOB, "another owner")
    if of.format == "protobuf":  # of which the latest schema tells the numbers of fields
        with pytest.raises(TargetUnavailable, match="no primary"):
            epochs.do(third)
        epochs.appender.rollback()
        registry.answers = None
    epochs.do(third)
    epochs.appender.close()
    registry.answers = None
    topic = target.options.topic.format(table="a")
    read = of.read(topic)
    assert [key for key, _ in read] == [{"id": 7}] * 3 + [{"id": 8}, {"id": 9}]
    told = [value and (value["op"], value["before"], value["after"]) for _, value in read]
    row = {"id": 7, "word": "ä"}
    assert told == [
        ("c", None, row),
        ("d", row, None),
        None,
        ("c", None, {"id": 8, "word": "b"}),
        ("c", None, {"id": 9, "word": "c"}),
    ]
    assert registry.subjects == {f"{topic}-key": [1], f"{topic}-value": [2]}, "each schema once"


def test_preflight_asks_the_registry_and_registers_nothing(target: KafkaTarget, of: Registered) -> None:
    registry = of.registry
    (fine,) = registered(target.options, target.endpoint, CONTEXT, {})
    assert (fine.verdict, registry.schemas) == (CheckVerdict.OK, [])
    topic = target.options.topic.format(table="a")
    avro = '{"type": "record", "name": "Key", "fields": [{"name": "id", "type": "string"}]}'
    protobuf = f'syntax = "proto3"; package {topic.replace("-", "_")}; message Key {{ string id = 1; }}'
    registry.schemas.append(avro if of.format == "avro" else protobuf)
    registry.subjects[f"{topic}-key"], registry.kinds = [1], {} if of.format == "avro" else {1: "PROTOBUF"}
    (other,) = registered(target.options, target.endpoint, CONTEXT, {})
    assert other.verdict == CheckVerdict.FAILED and f"{topic}-key" in other.message
    if of.format == "protobuf":
        registry.kinds.clear()
        (kind,) = registered(target.options, target.endpoint, CONTEXT, {})
        assert kind.verdict == CheckVerdict.FAILED and "has schemas of AVRO" in kind.message
    away = replace(target.options, registry="http://127.0.0.1:1")
    (absent,) = registered(away, target.endpoint, CONTEXT, {})
    assert absent.verdict == CheckVerdict.FAILED and "http://127.0.0.1:1" in absent.message


TYPED = (
    "CREATE TABLE typed (id INT UNSIGNED PRIMARY KEY, price DECIMAL(10,2), at DATETIME(6), seen TIMESTAMP NULL, day DATE, "
    "lasts TIME, born YEAR, state ENUM('new','paid'), flags BIT(10), data JSON, raw BLOB, place POINT, big BIGINT UNSIGNED, "
    "note TEXT, none INT, `größe cm` DOUBLE)"
)
ROW = (
    "({id}, -1.50, '2024-02-29 12:00:00.000001', '2024-02-29 12:00:00', '1969-12-31', '-01:00:00', 2024, 'paid', "
    "b'1000000001', '{{\"a\": 1}}', x'00ff', ST_GeomFromText('POINT(1 2)'), 18446744073709551615, '', NULL, 0)"
)
SEEN = {
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
    "big": 2**64 - 1,
    "note": "",
    "none": None,
}


def test_kafka_has_what_a_mysql_has_of_rows_that_are_there_and_of_changes(here: JobHere, of: Registered) -> None:
    of.write_job(here.made, 'decimal = "precise"\ninitial_load = true')
    here.made.source.execute(TYPED, f"INSERT INTO typed VALUES {ROW.format(id=4294967294)}")
    here.load()
    numbers = dict(of.registry.subjects)
    here.made.source.execute(f"INSERT INTO typed VALUES {ROW.format(id=4294967295)}")
    here.made.source.execute("UPDATE typed SET price = NULL WHERE id > 4294967294", "DELETE FROM typed")
    here.stream()
    read = of.read(f"{here.made.name}.typed")
    last, before = {"id": 2**32 - 1}, {"id": 2**32 - 2}
    assert [(key, value and value["op"]) for key, value in read] == [
        (before, "r"),
        *((last, op) for op in ("c", "u")),
        *((key, op) for key in (before, last) for op in ("d", None)),
    ]
    values = [value for _, value in read]
    assert [value and value["source"]["snapshot"] for value in values[:3]] == ["true", "false", "false"]
    assert all((one["source"]["connector"], one["source"]["table"]) == ("mysql", "typed") for one in values[:3])
    assert values[2]["after"] == values[1]["after"] | {"price": None} and values[2]["before"] == values[1]["after"]
    assert values[3]["before"] == values[0]["after"] == values[1]["after"] | before
    found = dict(values[0]["after"])
    assert len(found.pop("place")["wkb"]) == 21
    assert found == SEEN | before | {"größe cm" if of.format == "protobuf" else "gr__e_cm": 0.0}
    assert of.registry.subjects == numbers, "the load has registered what changes have"


def _images(read: list[tuple[Any, Any]]) -> dict[int, list[tuple[str, Any, Any]]]:
    """Return what is told of each key, in order."""
    found: dict[int, list[tuple[str, Any, Any]]] = {}
    for key, value in read:
        if value is not None:
            found.setdefault(key["id"], []).append((value["op"], value["before"], value["after"]))
    return found


def test_rows_that_are_there_come_once_while_the_load_dies(
    here: JobHere, of: Registered, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, source = here.made, here.made.source
    made.is_quick = True
    of.write_job(made, "initial_load = true")
    source.execute("CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20))", "CREATE TABLE bare (v INT)")
    source.execute(*(f"INSERT INTO item VALUES ({key}, 'ä')" for key in range(20)), "INSERT INTO bare VALUES (1), (1)")
    of.registry.refused = f"/subjects/{made.name}.item-value", 503
    with pytest.raises(TargetUnavailable, match=r"item-value.* answers 503"):
        here.load()
    of.registry.refused = None
    for number, place in enumerate(("first.read", "first.committed"), 1):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached):
            here.load()
        failpoints.arm({})
        source.execute(f"UPDATE item SET v = '{number}' WHERE id < 10", f"DELETE FROM item WHERE id = {10 + number}")
    reached = tmp_path / "reached"
    with monkeypatch.context() as armed:
        armed.setenv(failpoints.VARIABLE, "first.read=exit;first.committed=exit")
        armed.setenv(failpoints.LOG_VARIABLE, str(reached))
        made.run_until_caught_up()
    assert all(f"{place}=exit" in reached.read_text() for place in ("first.read", "first.committed")), "it was killed"
    source.execute("UPDATE item SET v = 'end' WHERE id = 1", "INSERT INTO item VALUES (30, 'new')", "DELETE FROM bare")
    made.run_until_caught_up()
    told = _images(of.read(f"{made.name}.item"))
    for key, mine in told.items():
        assert [op == "r" for op, _, _ in mine] == [key != 30, *[False] * (len(mine) - 1)], "each row once"
        assert all(one[2] == after[1] for one, after in pairwise(mine)), "without a gap"
    rows = [{"id": key, "v": v} for key, v in source.query("SELECT id, v FROM item ORDER BY id")]
    assert [mine[-1][2] for _, mine in sorted(told.items()) if mine[-1][2]] == rows
    bare = [(value["op"], value["before"], value["after"]) for _, value in of.read(f"{made.name}.bare")]
    assert bare == [("r", None, {"v": 1})] * 2 + [("d", {"v": 1}, None)] * 2
    numbers = {name: len(found) for name, found in of.registry.subjects.items() if "mark" not in name}
    assert numbers == dict.fromkeys([f"{made.name}.{one}" for one in ("item-key", "item-value", "bare-value")], 1)


def test_a_registry_that_refuses_a_schema_stops_the_load_and_names_the_subject(here: JobHere, of: Registered) -> None:
    made, registry = here.made, of.registry
    of.write_job(made, "initial_load = true")
    made.source.execute("CREATE TABLE item (id INT PRIMARY KEY, v INT)", "INSERT INTO item VALUES (1, 1)")
    subject = f"{made.name}.item-value"
    registry.schemas.append('{"type": "record", "name": "Other", "fields": [{"name": "id", "type": "string"}]}')
    registry.subjects[subject] = [1]
    with pytest.raises(TargetError, match=subject) as refused:
        here.load()
    assert "delete the subject if nobody reads by it" in (refused.value.hint or "")
    assert of.read(f"{made.name}.item") == []
    del registry.subjects[subject]
    here.load()
    assert _images(of.read(f"{made.name}.item")) == {1: [("r", None, {"id": 1, "v": 1})]}


PARKED = {"avro": {"refused", "widened", "taken"}, "protobuf": {"refused", "widened"}}


def test_a_definition_that_the_registry_refuses_parks_its_table_alone(here: JobHere, of: Registered) -> None:
    made, names = here.made, ["refused", "widened", "taken", "other"]
    for name in names:
        made.source.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, `a-b` INT)")
    here.load()
    made.source.execute(*(f"INSERT INTO {name} VALUES (1, 1, 1)" for name in names))
    made.source.execute("ALTER TABLE refused MODIFY v VARCHAR(20)", "ALTER TABLE widened MODIFY id BIGINT")
    made.source.execute("ALTER TABLE taken ADD a_b INT")
    if of.format == "protobuf":  # whose numbers have the same bytes, however long they are
        made.source.execute("ALTER TABLE other MODIFY v BIGINT")
    made.source.execute(*(f"UPDATE {name} SET v = 2" for name in names))
    here.stream()
    (told,) = here.job.status()["targets"]
    tables = {one["source"].rpartition(".")[2]: one["state"] for one in told["tables"]}
    parked = PARKED[of.format]
    assert {name: tables[name] for name in names} == {
        name: "parked" if name in parked else "streaming" for name in names
    }
    counts = {name: len(of.read(f"{made.name}.{name}")) for name in names}
    assert counts == {name: 1 if name in parked else 2 for name in names}
