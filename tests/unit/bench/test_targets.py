"""What a run is called by its ends, which workloads and goals a pair has. No server runs here."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

sys.path += [str(Path(__file__).parents[3]), str(Path(__file__).parents[3] / "docs")]  # bench and docs are no packages

import performance_pages

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from bench import __main__ as command
from bench import catchup, results
from bench.at_target import PostgresTarget, Target
from bench.figures import Figure, Side, compared
from bench.mysql_target import MysqlTarget
from bench.peers import chosen
from bench.postgresql import PostgresStand
from bench.processes import Cost
from bench.stand import Stand


def at(kind: str) -> Target:
    server = Server(kind, "1", "127.0.0.1", 1, "root", "secret")
    return PostgresTarget(server) if kind == "postgresql" else MysqlTarget(server)


def stand(source: str, target: str) -> Stand:
    one = (PostgresStand if source == "postgresql" else Stand)(source, Path("nowhere"), at(target))
    one.source = Server(source, "2", "127.0.0.1", 2, "root", "secret")
    return one


@pytest.mark.parametrize(
    ("source", "target", "pair", "of", "forms", "file"),
    [
        ("mysql", "postgresql", "mysql-pg", "mysql", 1, "W1-mysql.json"),
        ("postgresql", "postgresql", "pg-pg", "postgresql", 2, "W1-postgresql.json"),
        ("postgresql", "mysql", "pg-mysql", "pg-mysql", 1, "W1-postgresql-mysql.json"),
        ("mariadb", "mariadb", "mariadb-mariadb", "mariadb-mariadb", 1, "W1-mariadb-mariadb.json"),
    ],
)
def test_a_run_is_named_by_its_ends(source: str, target: str, pair: str, of: str, forms: int, file: str) -> None:
    one = stand(source, target)
    assert (one.pair, one.of, len(one.forms)) == (pair, of, forms)
    assert results.file_name("W1", source, target) == file


@pytest.mark.parametrize(
    ("target", "url", "place", "table"),
    [
        ("postgresql", "postgresql://root:secret@127.0.0.1:1/shop", "public", "public.orders"),
        ("mysql", "mysql://root:secret@127.0.0.1:1/?ssl_mode=disabled", "shop", "orders"),
    ],
)
def test_a_job_and_statements_say_where_tables_are(target: str, url: str, place: str, table: str) -> None:
    one = at(target)
    database = Database(one.server, "shop")
    assert (one.url(database), one.place(database), one.table("orders")) == (url, place, table)


@dataclass
class Chosen:
    target: str
    workloads: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)


def workloads(source: str, **given: Any) -> list[str]:
    return list(command._of(source, cast(argparse.Namespace, Chosen(**given))))


def test_what_has_goals_runs_where_nothing_is_named() -> None:
    assert workloads("mysql", target="mysql") == ["W1", "W3", "W4", "W5", "W6", "W7"]
    assert workloads("mariadb", target="mysql") == []
    assert workloads("mysql", target="postgresql") == ["W2", "W4"]


def test_what_is_of_a_postgresql_target_runs_at_no_other() -> None:
    assert workloads("postgresql", target="mysql", workloads=["W1", "W2", "W6", "W9", "stage"]) == ["W1"]
    assert workloads("postgresql", target="postgresql", workloads=["W1", "W2", "W6", "W9"]) == ["W1", "W2", "W9"]


@pytest.mark.parametrize(
    ("source", "target", "goals"),
    [
        ("mysql", "postgresql", {"debezium": 3.8, "flink-cdc": 2.7}),
        ("postgresql", "postgresql", {}),
        ("postgresql", "mysql", {"debezium": 4.0}),
        ("mysql", "mysql", {}),
    ],
)
def test_goals_against_peers_are_of_a_pair(source: str, target: str, goals: dict[str, float]) -> None:
    assert chosen.catch_up_goals(stand(source, target)) == goals


@pytest.mark.parametrize(("target", "names"), [("postgresql", ["pg_chameleon", "pgloader"]), ("mysql", ["spark-jdbc"])])
def test_loaders_take_part_at_the_targets_that_they_write_to(target: str, names: list[str]) -> None:
    one = stand("mysql", target)
    assert [peer.name for peer in chosen.LOADERS if not peer.missing(one)] == names


def test_catching_up_has_a_figure_for_each_replica_and_one_where_there_is_none() -> None:
    ours = Side("anabranch", "ours", 1000, [Cost(2.0, 0.5, 100.0)])
    several = catchup.Beside(cast(Any, None), "four workers", "/4-workers", 0.7, None, [Cost(1.0, 0.0, 0.0)])
    [beside] = catchup._figures(stand("mysql", "mysql"), "W3 catch-up", ours, [(several, 0.7, several.whole)], {})
    [alone] = catchup._figures(stand("postgresql", "mysql"), "W3 catch-up", ours, [], {})
    assert str(beside).startswith("W3 catch-up/4-workers mysql-mysql ratio=0.5 goal=0.7 short")
    assert str(alone).startswith("W3 catch-up pg-mysql changes_per_s=500 goal=- shown")


def test_the_page_names_both_ends_where_the_target_is_no_postgresql(tmp_path: Path, monkeypatch: Any) -> None:
    side = Side("anabranch", "ours", 1000, [Cost(2.0, 0.5, 100.0)])
    pipe = Side("pipe", "clients", 1000, [Cost(1.0, 0.5, 100.0)])
    for target in ("mysql", "postgresql"):
        one = stand("mysql", target)
        figures: list[Figure] = [compared("W1 load", one.pair, side, pipe, 0.8)]
        results.keep(tmp_path, "W1", one, "reduced", 1, figures)
    monkeypatch.setattr(performance_pages, "RESULTS", tmp_path)
    page = performance_pages.performance_pages("generated")["performance.md"]
    assert json.loads((tmp_path / "W1-mysql-mysql.json").read_text())["target"] == "mysql"
    assert [line.split(",")[0] for line in page.splitlines() if ", runs of each: 1" in line] == [
        "mysql",
        "mysql to mysql",
    ]
    assert page.index("| W1 load | mysql-pg |") < page.index("| W1 load | mysql-mysql |")


def test_every_workload_has_a_title_on_the_page_of_results() -> None:
    assert set(performance_pages.TITLES) == {*command.WORKLOADS, *command.BY_NAME}
