"""A Kafka as a target: what a program reads with `read_committed`, from every source, while the job dies."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from anabranch import failpoints
from anabranch.errors import ConfigError, PreflightFailed, RowRefused, StateError, TargetError
from anabranch.model.ids import TableId
from anabranch.state.store import StateStore
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_kafka import Read, Reader, to_kafka, topics_of, with_whole_rows
from rigs.scenario_postgresql import FromPostgres

SOURCES = ["mysql", "logical_postgresql", pytest.param("mariadb", marks=pytest.mark.long)]
PLACES = ("apply.appended", "apply.saved", "apply.commit", "apply.committed")
ITEM = "CREATE TABLE item (id INT PRIMARY KEY, v VARCHAR(20), n INT)"


@pytest.fixture(params=SOURCES)
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
    to_kafka(made, kafka, options='topic = "{job}.{table}"\npartitions = 3')
    source.execute(ITEM, *with_whole_rows(made, "item", "scenario_mark"))
    yield JobHere(made)
    made.close()


def _transaction(draw: random.Random, rows: dict[int, tuple[str | None, int]]) -> list[str]:
    """Statements of one transaction, which leave other rows behind."""
    made = []
    for _ in range(draw.randint(1, 6)):
        key, other = draw.randint(1, 12), draw.choice([None, "a", "b", "ä"])
        shown = "NULL" if other is None else f"'{other}'"
        if key not in rows:
            rows[key] = (other, draw.randint(0, 9))
            made.append(f"INSERT INTO item VALUES ({key}, {shown}, {rows[key][1]})")
        elif draw.random() < 0.4:
            del rows[key]
            made.append(f"DELETE FROM item WHERE id = {key}")
        else:
            rows[key] = (other, rows[key][1] + 1)
            made.append(f"UPDATE item SET v = {shown}, n = n + 1 WHERE id = {key}")
    return made


@pytest.mark.one_case("logical_postgresql")
def test_a_reader_gets_every_transaction_once_and_whole_while_the_job_dies(here: JobHere, kafka: Server) -> None:
    made, draw, rows = here.made, random.Random(20261128), dict[int, tuple[str | None, int]]()
    for place in ("changes.made", "changes.known"):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached):
            here.load()
        failpoints.arm({})
    here.load()
    reader, met, sizes = Reader(kafka, [f"{made.name}.item"]), [], []
    for number in range(100):
        if number >= 8 and set(met) == set(PLACES):  # a stream may end before it comes to its place
            break
        for _ in range(3):
            statements = _transaction(draw, rows)
            sizes.append(len(statements))
            made.source.execute("BEGIN", *statements, "COMMIT")
        failpoints.arm({failpoints.VARIABLE: f"{PLACES[number % 4]}=raise"} if number % 3 else {})
        try:
            here.stream()
        except failpoints.FailpointReached:
            met.append(PLACES[number % 4])
        finally:
            failpoints.arm({})
        reader.look()
    here.stream()
    reader.look()
    assert set(met) == set(PLACES)
    changes = [(sequence, [one for one in each if one.value is not None]) for sequence, each in reader.by_transaction()]
    assert [len(each) for _, each in changes] == sizes, "each transaction once, and whole"
    found: dict[int, Any] = {}
    places: dict[int, set[int]] = {}
    for key in {one.key["id"] for one in reader.seen}:
        mine = [one for one in reader.seen if one.key["id"] == key]
        assert [one.sequence for one in mine] == sorted(one.sequence for one in mine), "in the source's order"
        places[key] = {one.partition for one in mine}
        last = [one for one in mine if one.value is not None][-1].value
        if last["after"] is not None:
            found[key] = (last["after"]["v"], last["after"]["n"])
    assert all(len(where) == 1 for where in places.values()), "a key is in one partition"
    assert len(set.union(*places.values())) > 1
    assert found == rows == {key: tuple(rest) for key, *rest in made.source.query("SELECT id, v, n FROM item")}


def _values(read: list[Read]) -> list[tuple[Any, Any]]:
    return [(one.key, None if one.value is None else one.value["op"]) for one in read]


@pytest.mark.one_case("mysql")
def test_what_needs_rows_is_refused_and_what_is_refused_is_named(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    to_kafka(made, kafka, options='topic = "{job}.{table}"\nlargest_message = 4000')
    source.execute("CREATE TABLE other (id INT PRIMARY KEY, t TEXT)", *with_whole_rows(made, "other"))
    here.load()
    here.load()  # nothing to do
    for refused in (
        lambda: here.load(TableId(made.schema, "item")),
        lambda: here.verify(repairs=True),
        here.job.arm,
        here.job.plan_drill,
        here.job.plan_cutover,
        here.job.resume,
        here.job.reverse,
        lambda: here.job.rewind("0@", execute=True),
    ):
        with pytest.raises((ConfigError, StateError)):
            refused()
    reader, others = Reader(kafka, [f"{made.name}.item"]), Reader(kafka, [f"{made.name}.other"])
    source.execute(
        "INSERT INTO item VALUES (1, 'one', 1)", "TRUNCATE TABLE item", "INSERT INTO item VALUES (2, 'two', 2)"
    )
    source.execute("UPDATE item SET id = 3 WHERE id = 2", "DELETE FROM item WHERE id = 3")
    here.stream()
    assert _values(reader.look()) == [
        ({"id": 1}, "insert"),
        (None, "truncate"),
        ({"id": 2}, "insert"),
        ({"id": 2}, "delete"),
        ({"id": 2}, None),
        ({"id": 3}, "insert"),
        ({"id": 3}, "delete"),
        ({"id": 3}, None),
    ]
    source.execute("INSERT INTO other VALUES (1, 'small')", f"INSERT INTO other VALUES (2, '{'x' * 5000}')")
    source.execute("INSERT INTO other VALUES (3, 'small')")
    with pytest.raises(RowRefused, match=r"bytes for topic .*which takes 4000; its key: .*2") as stopped:
        here.stream()
    assert stopped.value.position is not None and stopped.value.table == f"{made.schema}.other"
    assert _values(others.look()) == [({"id": 1}, "insert")], "what is in front of it"
    here.job.skip(stopped.value.position, execute=True)
    here.stream()
    assert _values(others.look()) == [({"id": 3}, "insert")]


def test_rows_that_are_there_come_once_and_in_front_of_their_changes(
    here: JobHere, kafka: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, source = here.made, here.made.source
    phases: list[str] = []
    tells = StateStore.phase

    def phase(state: StateStore, name: str, *more: Any) -> None:
        phases.append(name)
        tells(state, name, *more)

    shown: dict[int, int] = {}
    counts = StateStore.progress

    def progress(state: StateStore, table: Any, done: int, total: int | None) -> None:
        counts(state, table, done, total)
        if table.name == "item":
            shown[done] = _rows_loaded(here)["item"]

    monkeypatch.setattr(StateStore, "phase", phase)
    monkeypatch.setattr(StateStore, "progress", progress)
    to_kafka(made, kafka, options='topic = "{job}.{table}"\npartitions = 3\ninitial_load = true')
    source.execute(
        "CREATE TABLE other (t VARCHAR(20), d DECIMAL(9,2), at TIMESTAMP NULL, j JSON)", *with_whole_rows(made, "other")
    )
    source.execute(
        "INSERT INTO other VALUES ('a\tb\\0c', -1.50, '2026-11-28 12:00:00', '{\"a\": [1, null]}'), (NULL, NULL, NULL, NULL)"
    )
    source.execute(*(f"INSERT INTO item VALUES ({key}, 'x', 0)" for key in range(20)))
    for number, place in enumerate(("first.read", "first.committed", "first.read"), 1):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached):
            here.load()
        failpoints.arm({})
        assert "loading" in phases, phases
        assert number > 1 or shown == {20: 20, 0: 0}, (
            "rows are shown as they come, and are none when they are taken back"
        )
        phases.clear()
        source.execute(f"UPDATE item SET n = {number} WHERE id < 10", f"DELETE FROM item WHERE id = {10 + number}")
    here.load()
    here.load()  # nothing to do
    source.execute(
        "UPDATE item SET n = n + 10 WHERE id = 1", "INSERT INTO item VALUES (30, 'new', 0)", "DELETE FROM other"
    )
    here.stream()
    reader, others = Reader(kafka, [f"{made.name}.item"]), Reader(kafka, [f"{made.name}.other"])
    told = [one for one in reader.look() if one.value is not None]
    assert len([one for one in told if one.value["op"] == "read"]) == len({one.key["id"] for one in told}) - 1
    for key in {one.key["id"] for one in told}:
        mine = [one for one in told if one.key["id"] == key]
        assert [one.value["op"] == "read" for one in mine] == [key != 30, *[False] * (len(mine) - 1)], "each row once"
        images = [image for one in mine for image in (one.value["before"], one.value["after"])][1:]
        assert all(before == after for before, after in zip(images[::2], images[1::2], strict=False)), "without a gap"
    there = {one.key["id"]: one.value["after"] for one in told}
    rows = {key: {"id": key, "v": v, "n": n} for key, v, n in source.query("SELECT id, v, n FROM item")}
    assert {key: row for key, row in there.items() if row} == rows
    found = [(one.value["op"], one.value["before"], one.value["after"]) for one in others.look()]
    read = [after for op, _, after in found if op == "read"]
    gone = [before for op, before, _ in found if op == "delete"]
    assert len(found) == 4 and sorted(map(str, read)) == sorted(map(str, gone)), "values as the log has them"
    assert _states(here) == dict.fromkeys(("item", "other", "scenario_mark"), "streaming")


def _rows_loaded(here: JobHere) -> dict[str, int]:
    (target,) = here.job.status()["targets"]
    return {table["source"].rpartition(".")[2]: table["rows_loaded"] for table in target["tables"]}


def _states(here: JobHere) -> dict[str, str]:
    (target,) = here.job.status()["targets"]
    return {table["source"].rpartition(".")[2]: table["state"] for table in target["tables"]}


def test_messages_have_the_columns_of_their_time(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    source.execute("CREATE TABLE other (id INT PRIMARY KEY, t TEXT)", *with_whole_rows(made, "other"))
    source.execute("INSERT INTO other VALUES (1, 'x')")
    here.load()
    source.execute("INSERT INTO item VALUES (1, 'x', 1)", "ALTER TABLE item ADD w INT", "UPDATE item SET w = 7")
    source.execute("ALTER TABLE item DROP COLUMN v", "UPDATE item SET n = 2")
    if not isinstance(made, FromPostgres):
        source.execute("ALTER TABLE item RENAME COLUMN n TO m", "ALTER TABLE item MODIFY m BIGINT")
        source.execute(f"UPDATE item SET m = {1 << 40}")
    source.execute("UPDATE item SET id = 2")
    for place in ("apply.altered", "apply.committed"):  # killed around the epoch of such a statement
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached):
            here.stream()
        failpoints.arm({})
    here.stream()
    reader = Reader(kafka, [f"{made.name}.item"])
    reader.look()
    told = [one for one in reader.seen if one.value is not None]
    found = [(one.value["before"], one.value["after"]) for one in told if one.key == {"id": 1}]
    assert found[:3] == [
        (None, {"id": 1, "v": "x", "n": 1}),
        ({"id": 1, "v": "x", "n": 1, "w": None}, {"id": 1, "v": "x", "n": 1, "w": 7}),
        ({"id": 1, "n": 1, "w": 7}, {"id": 1, "n": 2, "w": 7}),
    ]
    if not isinstance(made, FromPostgres):
        assert found[3] == ({"id": 1, "m": 2, "w": 7}, {"id": 1, "m": 1 << 40, "w": 7})
    (last,) = [one.value["after"] for one in told if one.key == {"id": 2}]
    assert set(last) == {"id", "w", "n" if isinstance(made, FromPostgres) else "m"}
    assert "altered" in {str(one.outcome) for one in here.job.ddl_changes()}
    source.execute("ALTER TABLE other RENAME COLUMN id TO number", "UPDATE other SET t = 'y'", "DELETE FROM item")
    here.stream()
    assert _states(here) == {"item": "streaming", "other": "parked", "scenario_mark": "streaming"}
    assert not Reader(kafka, [f"{made.name}.other"]).look(), "the key would be another one"


@pytest.mark.one_case("mysql")
def test_changed_definitions_are_told_once_while_the_job_dies(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    is_postgresql = isinstance(made, FromPostgres)
    to_kafka(made, kafka, options='mode = "single"\ntopic = "{job}"\nformat = "debezium"\nschema_changes = true')
    here.load()
    source.execute(
        "INSERT INTO item VALUES (1, 'x', 1)", "ALTER TABLE item ADD w DECIMAL(9,2)", "UPDATE item SET w = 7"
    )
    source.execute("ALTER TABLE item DROP COLUMN v", "UPDATE item SET n = 2")
    for place in ("apply.ddl.noted", "apply.commit", "apply.committed"):
        failpoints.arm({failpoints.VARIABLE: f"{place}=raise"})
        with pytest.raises(failpoints.FailpointReached):
            here.stream()
        failpoints.arm({})
    here.stream()
    found = Reader(kafka, [made.name]).look()
    in_order = [one.value for one in sorted(found, key=lambda one: one.offset) if one.value is not None]
    told = [one for one in in_order if "tableChanges" in one]
    assert ["tableChanges" in one for one in in_order] == [False, True, False, True, False], "once, and at their places"
    columns = [[one["name"] for one in each["tableChanges"][0]["table"]["columns"]] for each in told]
    assert columns == [["id", "v", "n", "w"], ["id", "n", "w"]]
    added = told[0]["tableChanges"][0]["table"]["columns"][-1]
    type = "numeric" if is_postgresql else "DECIMAL"
    assert (added["typeName"], added["length"], added["scale"]) == (type, 9, 2)
    statements = ["ALTER TABLE item ADD w DECIMAL(9,2)", "ALTER TABLE item DROP COLUMN v"]
    assert [one["ddl"] for one in told] == ([None, None] if is_postgresql else statements)
    (key,) = {one.key["databaseName"] for one in found if "tableChanges" in one.value}
    assert key == source.name and {one["source"]["table"] for one in told} == {"item"}


@pytest.mark.one_case("mysql")
def test_topics_of_others_are_refused_and_those_of_the_job_are_watched(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    name = f"{made.name}.item"
    administrator = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    administrator.create_topics([NewTopic(name, 1, 1)])[name].result()
    until(lambda: name in topics_of(kafka), "the topic is there")
    producer = Producer({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    producer.produce(name, b"{}")
    producer.flush()
    with pytest.raises(PreflightFailed, match="has messages that are not the job's"):
        here.load()
    administrator.delete_topics([name])[name].result()
    until(lambda: name not in topics_of(kafka), "the topic is gone")
    administrator.create_topics([NewTopic(name, 1, 1)])[name].result()  # by a reader that came first
    until(lambda: name in topics_of(kafka), "the topic is there")
    here.load()
    source.execute(*(f"INSERT INTO item VALUES ({key}, 'x', 0)" for key in range(20)))
    here.stream()
    reader = Reader(kafka, [name])
    assert {one.partition for one in reader.look()} == {0, 1, 2}, "as the job file says"
    places = {one.key["id"]: one.partition for one in reader.seen}
    administrator.create_partitions([NewPartitions(name, 5)])[name].result()
    until(lambda: len(administrator.list_topics(name).topics[name].partitions) == 5, "it has more partitions")
    source.execute("UPDATE item SET n = 1 WHERE id >= 0")
    here.stream()
    assert {one.key["id"]: one.partition for one in reader.look()} == places, "a key stays where it is"
    assert "has 5 partitions by now, the job writes to the first 3" in "\n".join(map(str, here.job.preflight().results))
    administrator.delete_topics([name])[name].result()
    until(lambda: name not in topics_of(kafka), "the topic is gone")
    administrator.create_topics([NewTopic(name, 3, 1)])[name].result()
    until(lambda: name in topics_of(kafka), "it is there again")
    told = "\n".join(map(str, here.job.preflight().results))
    assert "was removed and made again" in told
    assert "may be lost with a broker" in told and "have replication 1, min.insync.replicas = 1" in told
    source.execute("DELETE FROM item WHERE id = 1")
    with pytest.raises(TargetError, match="was removed and made again"):
        here.stream()
    state = f"anabranch.{made.name}"
    administrator.delete_topics([state])[state].result()
    until(lambda: state not in topics_of(kafka), "the state is gone")
    to_kafka(made, kafka, options='topic = "{job}.anew.{table}"\npartitions = 3')
    with pytest.raises(StateError, match="has lost the job's checkpoint"):
        here.load()


@pytest.mark.one_case("mysql")
def test_a_job_of_processes_writes_messages_and_says_how_far_it_is(here: JobHere, kafka: Server) -> None:
    made = here.made
    made.is_quick = True
    made.run_until_caught_up()
    made.source.execute("INSERT INTO item VALUES (1, 'one', 1)")
    made.run_until_caught_up()
    reader = Reader(kafka, [f"{made.name}.item"])
    assert _values(reader.look()) == [({"id": 1}, "insert")]
    (target,) = made.status()["targets"]
    assert {table["state"] for table in target["tables"]} == {"streaming"}
    assert "identical: 2 of 2 tables" in made.cli("verify").stdout
    assert f"anabranch.{made.name}" in topics_of(kafka)
    made.cli("drop", "--execute")
    until(lambda: f"anabranch.{made.name}" not in topics_of(kafka), "its state is gone")
    assert f"{made.name}.item" in topics_of(kafka), "what readers read stays"


@pytest.mark.one_case("logical_postgresql")
def test_envelopes_are_debeziums_where_the_job_file_says_so(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    to_kafka(made, kafka, options='topic = "{job}.{table}"\nformat = "debezium"\ntombstones = false')
    here.load()
    source.execute(
        "INSERT INTO item VALUES (1, 'one', 1)", "UPDATE item SET n = 2 WHERE id = 1", "DELETE FROM item WHERE id = 1"
    )
    here.stream()
    found = [one.value for one in Reader(kafka, [f"{made.name}.item"]).look()]
    assert [(one["op"], one["before"], one["after"]) for one in found] == [
        ("c", None, {"id": 1, "v": "one", "n": 1}),
        ("u", {"id": 1, "v": "one", "n": 1}, {"id": 1, "v": "one", "n": 2}),
        ("d", {"id": 1, "v": "one", "n": 2}, None),
    ]
    assert {one["source"]["connector"] for one in found} == {source.server.name}


@pytest.mark.one_case("mysql")
def test_messages_are_exbases_and_each_commit_is_told_behind_them(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    options = 'topic = "{job}.{table}"\nformat = "exbase"\ntransactions = "{job}.transactions"\npartitions = 2'
    to_kafka(made, kafka, options=options)
    here.load()
    source.execute("BEGIN", "INSERT INTO item VALUES (1, 'one', 1)", "UPDATE item SET n = 2 WHERE id = 1",
                   "DELETE FROM item WHERE id = 1", "COMMIT")  # fmt: skip
    source.execute("INSERT INTO item VALUES (2, NULL, 2)")
    here.stream()
    found = [one.value for one in Reader(kafka, [f"{made.name}.item"]).look()]
    first = {"id": "1", "v": "one", "n": "1"}
    assert [
        (one["commandType"], one["transaction"]["totalOrder"], one["oldColumnValues"], one["newColumnValues"])
        for one in sorted(found, key=lambda one: one["newColumnValues"].get("id") == "2")
    ] == [
        ("INSERT", "1", {}, first),
        ("UPDATE", "2", first, first | {"n": "2"}),
        ("DELETE", "3", first | {"n": "2"}, {}),
        ("INSERT", "1", {}, {"id": "2", "v": None, "n": "2"}),
    ]
    integer, text = ("integer", "character varying") if isinstance(made, FromPostgres) else ("int", "varchar")
    types = {"id": integer, "v": f"{text}(20)", "n": integer}
    assert [
        {name: type.replace("int(11)", "int") for name, type in one["dataColumnType"].items()} for one in found
    ] == [types] * 4
    commits = Reader(kafka, [f"{made.name}.transactions"]).look()
    assert [(one.value["commandType"], one.value["transaction"]["totalOrder"]) for one in commits] == [
        ("COMMIT", "3"),
        ("COMMIT", "1"),
    ]
    assert {one.value["transaction"]["id"] for one in commits} == {one["transaction"]["id"] for one in found}
    assert {one.partition for one in commits} == {0}


@pytest.mark.one_case("logical_postgresql")
def test_one_topic_has_all_tables_in_the_order_of_commits(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    options = 'mode = "single"\ntopic = "{job}.all"\nformat = "exbase"\ntransactions = "{job}.all"'
    to_kafka(made, kafka, options=options)
    source.execute("CREATE TABLE other (id INT PRIMARY KEY, t VARCHAR(9))", *with_whole_rows(made, "other"))
    here.load()
    source.execute("BEGIN", "INSERT INTO item VALUES (1, 'a', 1)", "INSERT INTO other VALUES (1, 'b')",
                   "DELETE FROM item WHERE id = 1", "COMMIT")  # fmt: skip
    source.execute("INSERT INTO other VALUES (2, 'c')", "INSERT INTO item VALUES (1, 'd', 4)")
    here.stream()
    found = Reader(kafka, [f"{made.name}.all"]).look()
    assert {one.partition for one in found} == {0}
    in_order = [one.value for one in sorted(found, key=lambda one: one.offset)]
    assert [(one["commandType"], one["objectName"], one["transaction"]["totalOrder"]) for one in in_order] == [
        ("INSERT", "item", "1"), ("INSERT", "other", "2"), ("DELETE", "item", "3"), ("COMMIT", "", "3"),
        ("INSERT", "other", "1"), ("COMMIT", "", "1"), ("INSERT", "item", "1"), ("COMMIT", "", "1"),
    ]  # fmt: skip
