"""Partitions of topics: as many for each table as the job file says, and a key in one of them, whoever adds some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from anabranch.errors import ConfigError, PreflightFailed
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.in_time import until
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.scenario import Scenario
from rigs.scenario_kafka import Read, Reader, to_kafka, topics_of, with_whole_rows
from rigs.scenario_postgresql import FromPostgres

ITEM, LOOSE = "CREATE TABLE item (id INT PRIMARY KEY, n INT)", "CREATE TABLE loose (a INT, v VARCHAR(20))"
KEYS = range(1, 25)
ROUNDS = 6


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
    _write(made, kafka, item=4, loose=3)
    source.execute(ITEM, LOOSE, *with_whole_rows(made, "item", "loose", "scenario_mark"))
    yield JobHere(made)
    made.close()


def _write(made: Scenario, kafka: Server, **partitions: int) -> None:
    """Write the job file with these partitions by table, and two for any other."""
    by_table = ", ".join(f'"{made.there}.{table}" = {count}' for table, count in partitions.items())
    to_kafka(made, kafka, options=f'topic = "{{job}}.{{table}}"\npartitions = 2\ntable_partitions = {{ {by_table} }}')


def _counts(made: Scenario, administrator: AdminClient) -> dict[str, int]:
    told = administrator.list_topics().topics
    return {
        name.removeprefix(f"{made.name}."): len(topic.partitions)
        for name, topic in told.items()
        if name.startswith(f"{made.name}.")
    }


def _row(one: Read) -> tuple[Any, ...]:
    """The row of a table without a key that a message is about."""
    return tuple((one.value["after"] or one.value["before"]).values())


def _places(read: list[Read], of: Callable[[Read], Any]) -> dict[Any, set[int]]:
    found: dict[Any, set[int]] = {}
    for one in read:
        found.setdefault(of(one), set()).add(one.partition)
    return found


def _assert_in_order(read: list[Read]) -> None:
    """Messages of each partition are in the source's order, none of them twice."""
    for number in {one.partition for one in read}:
        mine = [one for one in read if one.partition == number and one.value]
        told = [(one.sequence, one.value["ordinal"], one.value["op"] != "delete") for one in mine]
        assert told == sorted(set(told)), "in the source's order, and each once"


@pytest.mark.one_case("mysql")
def test_partitions_that_somebody_adds_beside_the_running_job_move_no_key(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    administrator = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    here.load()
    assert _counts(made, administrator) == {"item": 4, "loose": 3, "scenario_mark": 2}, "as the job file says"
    item, loose = (Reader(kafka, [f"{made.name}.{table}"]) for table in ("item", "loose"))
    source.execute(*(f"INSERT INTO item VALUES ({key}, 0)" for key in KEYS))
    source.execute(*(f"INSERT INTO loose VALUES ({key % 6}, 'v')" for key in KEYS))
    with here.running():
        until(lambda: item.look() is not None and len(item.seen) == len(KEYS), "the first messages are there")
        added = [NewPartitions(f"{made.name}.item", 9), NewPartitions(f"{made.name}.loose", 7)]
        for one in administrator.create_partitions(added).values():
            one.result()
        for number in range(ROUNDS):
            source.execute("BEGIN", *(f"UPDATE item SET n = {number} + 1 WHERE id = {key}" for key in KEYS), "COMMIT")
            source.execute(f"UPDATE loose SET v = 'v{number}'")
        until(lambda: _counts(made, administrator)["item"] == 9, "brokers tell of the new partitions")
        source.execute("UPDATE item SET n = 99")
        until(lambda: item.look() is not None and len(item.seen) == len(KEYS) * (ROUNDS + 2), "all messages are there")
    source.execute("UPDATE item SET n = 100", "DELETE FROM loose WHERE a = 0")
    here.stream()  # by another process's client, which knows all partitions from its beginning
    item.look()
    loose.look()
    where = _places(item.seen, lambda one: one.key["id"])
    assert all(len(places) == 1 for places in where.values()), "a key is in one partition for ever"
    assert set.union(*where.values()) == {0, 1, 2, 3}, "those that the job began with, and no other"
    for key in KEYS:
        told = [one.value["after"]["n"] for one in item.seen if one.key["id"] == key]
        assert told == [0, *range(1, ROUNDS + 1), 99, 100], "every change once, in the source's order"
    _assert_in_order(item.seen)
    assert all(len(places) == 1 for places in _places(loose.seen, _row).values()), (
        "an image is in one partition for ever"
    )
    assert {one.partition for one in loose.seen} <= {0, 1, 2} and all(one.key is None for one in loose.seen)
    _assert_in_order(loose.seen)
    rows: Counter[tuple[Any, ...]] = Counter()
    for one in loose.seen:
        for image, weight in (("before", -1), ("after", 1)):
            if one.value[image] is not None:
                rows[tuple(one.value[image].values())] += weight
    assert +rows == Counter(source.query("SELECT a, v FROM loose")) and not -rows
    told = "\n".join(map(str, here.job.preflight().results))
    assert "item has 9 partitions by now, the job writes to the first 4" in told
    assert "loose has 7 partitions by now, the job writes to the first 3" in told


def test_both_partitions_of_a_key_that_changes_are_told_of_it(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    here.load()
    source.execute(*(f"INSERT INTO item VALUES ({key}, 0)" for key in KEYS))
    here.stream()
    reader = Reader(kafka, [f"{made.name}.item"])
    reader.look()
    first = {one.key["id"]: one.partition for one in reader.seen}
    source.execute("BEGIN", *(f"UPDATE item SET id = {key + 100} WHERE id = {key}" for key in KEYS), "COMMIT")
    source.execute("BEGIN", *(f"UPDATE item SET id = {key} WHERE id = {key + 100}" for key in KEYS), "COMMIT")
    here.stream()
    found = reader.look()
    assert {one.key["id"]: one.partition for one in found if one.key["id"] < 100} == first, "where it was before"
    between = {one.key["id"]: one.partition for one in found if one.key["id"] >= 100}
    assert any(between[key + 100] != place for key, place in first.items()), "some keys go to another partition"
    (there, back), messages = sorted({one.sequence for one in found}), dict[tuple[int, int], list[str]]()
    for one in found:
        messages.setdefault((one.sequence, one.key["id"]), []).append(one.value["op"] if one.value else "tombstone")
    gone, come = ["delete", "tombstone"], ["insert"]
    assert messages == {(there, key): gone for key in KEYS} | {(there, key + 100): come for key in KEYS} | {
        (back, key + 100): gone for key in KEYS
    } | {(back, key): come for key in KEYS}
    for number in set(first.values()):
        told = [one.sequence for one in found if one.partition == number]
        assert told == sorted(told), "in the source's order"
    ordinals = {(one.sequence, one.key["id"]): one.value["ordinal"] for one in found if one.value}
    assert all(ordinals[there, key] <= ordinals[there, key + 100] for key in KEYS), "the delete is the former one"


@pytest.mark.one_case("mysql")
def test_other_partitions_than_those_that_the_job_began_with_are_refused(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    administrator = AdminClient({"bootstrap.servers": f"{kafka.host}:{kafka.port}"})
    _write(made, kafka, item=4, items=3)
    unknown = f"table_partitions names {made.there}.items; the job has {made.there}.item, {made.there}.loose"
    assert unknown in "\n".join(map(str, here.job.preflight().results))
    with pytest.raises(PreflightFailed, match=r"table_partitions names .*\.items"):
        here.load()
    assert not [name for name in topics_of(kafka) if name.startswith(f"{made.name}.")], "nothing was made"
    _write(made, kafka, item=4, loose=3)
    here.load()
    source.execute("INSERT INTO item VALUES (1, 1)")
    here.stream()
    for item in (8, 2):
        _write(made, kafka, item=item, loose=3)
        was = rf"table_partitions: was {made.there}.item = 4, .* is {made.there}.item = {item}"
        with pytest.raises(PreflightFailed, match=was):
            here.load()
        for execute in (False, True):
            with pytest.raises(ConfigError, match=f"messages that are there forbid it: .*{was}"):
                here.job.plan(execute)
    assert _counts(made, administrator)["item"] == 4
    _write(made, kafka, item=4, loose=3)
    source.execute("UPDATE item SET n = 2")
    here.stream()
    reader = Reader(kafka, [f"{made.name}.item"])
    reader.look()
    assert [one.value["after"]["n"] for one in reader.seen] == [1, 2] and len(
        {one.partition for one in reader.seen}
    ) == 1


@pytest.mark.one_case("mysql")
def test_a_parked_table_with_partitions_of_its_own_keeps_no_job_from_starting(here: JobHere, kafka: Server) -> None:
    made, source = here.made, here.made.source
    here.load()
    source.execute("INSERT INTO item VALUES (1, 1)", "INSERT INTO loose VALUES (1, 1)")
    here.stream()
    source.execute("ALTER TABLE item RENAME COLUMN id TO number", "INSERT INTO loose VALUES (2, 2)")
    here.stream()
    found = "\n".join(map(str, here.job.preflight().results))
    assert f"table_partitions names {made.there}.item; the job has {made.there}.loose" in found
    assert not here.job.preflight().failed
    here.load()
    source.execute("INSERT INTO loose VALUES (3, 3)")
    here.stream()
    reader = Reader(kafka, [f"{made.name}.loose"])
    reader.look()
    assert [one.value["after"]["a"] for one in sorted(reader.seen, key=lambda one: one.sequence)] == [
        1,
        2,
        3,
    ]
