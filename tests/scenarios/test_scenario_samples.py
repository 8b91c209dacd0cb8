"""Three databases as people have them in one job: loaded while somebody works in them, followed, verified. Each goes to
its own place at the target."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from anabranch.testing.databases import Database, drop_database
from anabranch.testing.samples import Sample, employer, films, legacy
from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario, quote, wait_until

Make = Callable[..., Scenario]
SAMPLES: dict[str, Sample] = {"films": films.SAMPLE, "employer": employer.SAMPLE, "legacy": legacy.SAMPLE}
# Where each goes: the rule's target, and the relation of one of its tables.
PLACES = {
    "films": ("{schema}.{table}", "films.{0}"),
    "employer": ("public.{schema}_{table}", 'public."employer_{0}"'),
    "legacy": ("Alt-Daten.{table}", '"Alt-Daten".{0}'),
}
CHOICES = '[types]\nzero_date = "null"\n'
ZERO = "0000-00-00"


@pytest.fixture(params=["mariadb", pytest.param("mysql", marks=pytest.mark.long)])
def source(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def databases(source: Server) -> Iterator[dict[str, Database]]:
    """Under their own names: a target is called after schema and table."""
    made = {name: Database(source, name) for name in SAMPLES}
    system = Database(source, "information_schema")
    system.execute(*(f"CREATE DATABASE {name} CHARACTER SET utf8mb4" for name in made))
    yield made
    for database in made.values():
        drop_database(database)


@pytest.mark.quick
def test_samples_are_loaded_followed_and_verified(
    source: Server, scenario: Make, databases: dict[str, Database]
) -> None:
    made = scenario(source)
    for name, sample in SAMPLES.items():
        sample.create(databases[name])
    rules = {**{name: place for name, (place, _) in PLACES.items()}, made.source.name: "public.{table}"}
    text = "".join(f'[[rules]]\ninclude = ["{name}.*"]\ntarget = "{target}"\n' for name, target in rules.items())
    made.write_job(CHOICES, rules=text)
    preflight_names_what_is_left_behind(made)
    run = made.start("run")
    somebody_works(databases, seed=1, transactions=60)
    made.wait_streaming(run, seconds=200)
    somebody_works(databases, seed=2, transactions=60)
    made.sync(run)
    everything_arrived(made, databases)
    definitions_stand(made, run)
    run.stop()
    made.cli("verify")
    pitfall_40_and_42_whoever_writes_next_gets_a_number_of_its_own(made)


def preflight_names_what_is_left_behind(made: Scenario) -> None:
    found = made.cli("preflight", "--json").json["checks"]
    told = {name for check in found if check["check"] == "source.not_carried" for name in check["names"]}
    for database, sample in SAMPLES.items():
        for names in sample.beside.values():
            missing = {n for n in names if not {f"{database}.{n}", f'{database}."{n}"'} & told}
            assert not missing, missing
    indexes = {name for check in found if check["check"] == "target.indexes" for name in check["names"]}
    assert {"films.film.words", "films.film_text.words"} <= indexes


def somebody_works(databases: dict[str, Database], seed: int, transactions: int) -> None:
    with ThreadPoolExecutor() as pool:
        for work in [pool.submit(SAMPLES[n].work, d, seed, transactions) for n, d in databases.items()]:
            work.result()


def everything_arrived(made: Scenario, databases: dict[str, Database]) -> None:
    for name, database in databases.items():
        one = copy.copy(made)
        one.source = database
        for table in one.source_tables():
            there = Counter(tuple(map(_without_zero, row)) for row in one.source_rows(table))
            here = Counter(one.target_rows(table, relation=PLACES[name][1].replace("{0}", _part(name, table))))
            assert there == here, f"{name}.{table}: missing {list(there - here)[:3]}, too much {list(here - there)[:3]}"


def _part(database: str, table: str) -> str:
    return table if database == "employer" else quote(table)


def _without_zero(value: Any) -> Any:
    return None if isinstance(value, str) and value.startswith(ZERO) else value


def definitions_stand(made: Scenario, run: Running) -> None:
    """What a source has beside rows is there, too, where it means the same."""
    open_tables = "SELECT source_table FROM anabranch.table_state WHERE NOT facts ? 'built'"
    wait_until(lambda: not made.target.query(open_tables), 60, "all is built", run.tail, run)
    checks = "SELECT conname FROM pg_constraint WHERE contype = 'c' AND connamespace = 'films'::regnamespace AND convalidated"
    assert ("paid",) in made.target.query(checks)
    keys = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated"
    assert made.target.query(keys) == [(18,)]
    comment = 'SELECT obj_description(\'"Alt-Daten"."order"\'::regclass)'
    assert made.target.query(comment) == [("Bestellungen, seit 1999",)]
    assert not [table for table in made.status()["targets"][0]["tables"] if table["reason"]]


def pitfall_40_and_42_whoever_writes_next_gets_a_number_of_its_own(made: Scenario) -> None:
    for relation, key, values in (
        ("films.payment", "payment_id", "(customer_id, amount, payment_date) VALUES (1, 1, now())"),
        ("films.film", "film_id", "(title, language_id) VALUES ('new', 1)"),
        ('"Alt-Daten"."order"', "id", "DEFAULT VALUES"),
    ):
        values = values.replace("DEFAULT VALUES", '("when") VALUES (now())')
        ((highest,),) = made.target.query(f"SELECT max({key}) FROM {relation}")
        assert made.target.query(f"INSERT INTO {relation} {values} RETURNING {key}") == [(highest + 1,)]
