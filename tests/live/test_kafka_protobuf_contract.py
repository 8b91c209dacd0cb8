"""Numbers of Protobuf's fields at a real Kafka: one stays with its column, and is nobody else's ever again.

The registry follows the published interface (`rigs/schema_registry.py`), and has protoc judge each schema. What does not live
here: what messages have (test_kafka_registered_contract.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch import failpoints
from anabranch.rows.messages.protobuf.text import numbers_in
from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from rigs.job_here import JobHere
from rigs.registered_messages import Registered
from rigs.scenario import Scenario
from rigs.schema_registry import PASSWORD, schema_registry


@pytest.fixture
def of(kafka: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registered]:
    monkeypatch.setenv("REGISTRY_PASSWORD", PASSWORD)
    with schema_registry() as registry:
        yield Registered("protobuf", kafka, registry)


@pytest.fixture
def made(
    of: Registered,
    source_database: Callable[[Server], Database],
    target_database: Database,
    mysql: Server,
    tmp_path: Path,
) -> Iterator[Scenario]:
    """Set up a job whose steps share nothing but its state, as processes do."""
    made = Scenario(source_database(mysql), target_database, tmp_path, name=unique_name("job"))
    of.write_job(made)
    made.source.execute("CREATE TABLE item (id INT PRIMARY KEY, a INT, b INT)")
    yield made
    made.close()


def _latest(of: Registered, topic: str) -> str:
    return of.registry.schemas[of.registry.subjects[f"{topic}-value"][-1] - 1]


def _numbers(of: Registered, topic: str) -> dict[str, int]:
    return dict(numbers_in(_latest(of, topic))["Value"].fields)


def test_numbers_stay_with_their_columns_over_changes_and_over_processes(made: Scenario, of: Registered) -> None:
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
            if at == 1:  # a process that meets a definition, and no row of it
                JobHere(made).stream()
        made.source.execute(
            f"INSERT INTO item (id, {', '.join(list(numbers)[1:])}) VALUES {(at, *list(numbers.values())[1:])}"
        )
        JobHere(made).stream()
        assert _numbers(of, topic) == numbers, statement
    for at, ((_, value), (_, numbers)) in enumerate(zip(of.read(topic), steps, strict=True)):
        assert value["after"] == numbers | {"id": at}
    made.source.execute("ALTER TABLE item RENAME COLUMN c TO d", "INSERT INTO item (id, d) VALUES (99, 4)")
    JobHere(made).stream()
    assert _numbers(of, topic) == {"id": 1, "a": 3, "d": 4, "b": 6} and "reserved 2, 5;" in _latest(of, topic)


@pytest.mark.parametrize("initial_load", [False, True], ids=["changes", "initial_load"])
def test_a_number_is_never_another_columns_behind_a_lost_registry_or_another_beginning(
    made: Scenario, of: Registered, initial_load: bool
) -> None:
    registry, topic = of.registry, f"{made.name}.item"
    registry.levels[""] = "NONE"  # so that nobody but the job looks at types
    types: dict[int, str] = {}

    def written(row: str) -> dict[str, int]:
        """Let a process write a row, and hold the types of its schema against those that numbers had before."""
        made.source.execute(f"REPLACE INTO item VALUES ({row})")
        JobHere(made).stream()
        found = numbers_in(_latest(of, topic))["Value"]
        for name, number in found.fields.items():
            assert types.setdefault(number, found.types[name]) == found.types[name], f"{name} has number {number}"
        return dict(found.fields)

    def replace_column(type: str, is_followed: bool = True) -> None:
        """Drop column `a`, and add another one of its name. `is_followed`: while the job runs."""
        made.source.execute("ALTER TABLE item DROP a")
        if is_followed:
            JobHere(made).stream()
        made.source.execute(f"ALTER TABLE item ADD a {type}")

    def begin_again() -> None:
        """Begin the job anew, behind what the topics have."""
        JobHere(made).job.drop(execute=True)
        of.write_job(made, f'topics = "existing"\ninitial_load = {str(initial_load).lower()}')
        JobHere(made).load()

    of.write_job(made, f"initial_load = {str(initial_load).lower()}")
    made.source.execute("INSERT INTO item VALUES (0, 0, 0)")
    JobHere(made).load()
    assert written("1, 1, 1") == {"id": 1, "a": 2, "b": 3}
    replace_column("DOUBLE")
    JobHere(made).stream()
    assert written("2, 2, 0.5") == {"id": 1, "b": 3, "a": 4}
    begin_again()
    assert written("3, 3, 0.5") == {"id": 1, "b": 3, "a": 4}
    registry.subjects.clear()  # what the registry had is lost, and the state has it all the same
    assert written("4, 4, 0.5") == {"id": 1, "b": 3, "a": 4}
    registry.subjects.clear()
    replace_column("INT")
    failpoints.arm({failpoints.VARIABLE: "apply.saved=raise"})
    with pytest.raises(failpoints.FailpointReached):
        JobHere(made).stream()
    failpoints.arm({})
    assert written("5, 5, 5") == {"id": 1, "b": 3, "a": 5}
    JobHere(made).job.drop(execute=True)
    replace_column("DOUBLE", is_followed=False)
    begin_again()
    assert written("6, 6, 0.5") == {"id": 1, "b": 3, "a": 6}
