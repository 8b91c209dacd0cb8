"""The slice of `anabranch torture --target mysql` and `mariadb` that every run does: every source, servers of their own, two
histories at a time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.testing.databases import Database, unique_name
from anabranch.testing.torture.campaign import Campaign
from anabranch.testing.torture.emptying import draw_emptying
from anabranch.testing.torture.exempt import INTRUDER
from anabranch.testing.torture.ground import Ground, private
from anabranch.testing.torture.report import Tally, summary
from anabranch.testing.torture.sources import NAMES
from anabranch.testing.torture.tables import LEDGER, LEDGER_COLUMNS, Column, Schema, Table
from anabranch.testing.torture.targets import Refuses, tables_at
from anabranch.testing.torture.values import KINDS, kinds
from anabranch.testing.torture.worst import USER
from rigs.torture_seeds import various

DRAWN_FROM = {"mysql": range(1, 4_001), "mariadb": range(4_001, 8_001)}  # by kind of target
HISTORIES = 4  # of each: they meet more than the first eight


@pytest.fixture(scope="module", params=DRAWN_FROM)
def ground(request: pytest.FixtureRequest, quick_directory: Path, servers_directory: Path) -> Iterator[Ground]:
    """A MariaDB takes /dev/shm for memory that outlives it, and its log is written there at once: it would lose no commit."""
    directory = (servers_directory if request.param == "mariadb" else quick_directory) / unique_name("torture")
    directory.mkdir()
    directory.chmod(0o755)
    try:
        with private(directory, NAMES, target=request.param) as made:
            yield made
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def namespace(ground: Ground) -> Iterator[str]:
    name = "torture_0"
    ground.target.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    yield name
    ground.family.drop(ground.target, name)


def test_what_is_written_at_a_mysql_target_is_read_as_the_checker_has_it(ground: Ground, namespace: str) -> None:
    """Every value of every kind, by the literals that somebody else's writing takes."""
    server, at = ground.target.server, Database(ground.target.server, namespace)
    version = tuple(int(part) for part in server.version.split("."))
    known = kinds(server.name, version)
    columns = {f"c{i}": kind for i, kind in enumerate(known)}
    exact = {"mysql": "utf8mb4_0900_bin", "mariadb": "utf8mb4_nopad_bin"}[server.name]
    at.execute(f"CREATE TABLE {LEDGER} (n INT PRIMARY KEY)", f"INSERT INTO {LEDGER} VALUES (1)")
    tables = tables_at(ground.target, namespace)
    for name, kind in columns.items():
        native = kind.native.replace("{exact}", exact).removesuffix(" null")
        at.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v {native} NULL)")
        table = Table(name, (Column("id", "int", nullable=False), Column("v", kind.name)), ("id",))
        texts = [*dict.fromkeys(kind.text(one, server.name) for one in kind.texts), None]
        tables.show(INTRUDER, Schema((table,)))
        with tables.intrude([table]) as session:
            for number, text in enumerate(texts):
                session.insert(table, {"id": str(number), "v": text})
            found = {row["id"]: row["v"] for _, row in session.rows(table)}
            assert found == {str(number): text for number, text in enumerate(texts)}, kind.name
            session.note(table, ["0"], "updated")
        assert kind.name in KINDS
    with closing(tables.snapshots({LEDGER: LEDGER_COLUMNS}, (INTRUDER,))) as snapshots:
        seen = snapshots.read()
        assert seen.tables[LEDGER] == b"1\n" and len(seen.beside[INTRUDER].splitlines()) == len(known)
        assert snapshots.streams() is False and seen.away == frozenset()


def test_a_table_that_refuses_rows_takes_the_others_and_all_of_them_afterwards(ground: Ground, namespace: str) -> None:
    at, tables = Database(ground.target.server, namespace), tables_at(ground.target, namespace)
    at.execute("CREATE TABLE t (id INT PRIMARY KEY, b VARBINARY(10))")
    for how, part in ((Refuses(("id", "b"), 2, 0), (4, 36)), (Refuses(), (0, 0))):
        tables.disturb("t", how)
        tables.disturb("t", how)
        at.execute("DELETE FROM t")
        assert part[0] <= sum(_is_taken(at, number) for number in range(40)) <= part[1]
        tables.calm("t", how)
        tables.calm("t", how)
        at.execute("DELETE FROM t")
        assert all(_is_taken(at, number) for number in range(4))


def _is_taken(at: Database, number: int) -> bool:
    import pymysql

    try:
        at.execute(f"INSERT INTO t VALUES ({number}, 'x')")
    except pymysql.err.MySQLError as error:
        assert "deed" in str(error)
        return False
    return True


@pytest.mark.timeout(1800)
def test_histories_to_a_mysql_target_with_faults(ground: Ground, tmp_path: Path) -> None:
    tally, begun = Tally(), time.monotonic()
    campaign, kind = Campaign(ground, tmp_path, 2, False), ground.target.server.name
    with closing(campaign.run(various(ground, DRAWN_FROM[kind], HISTORIES))) as results:
        for told in results:
            again = f"anabranch torture --source {told.source} --target {kind}"
            assert not told.failure, f"{told.failure}\n{again} --seed {told.seed} --histories 1"
            tally.add(told)
    print("\n".join(summary(tally, time.monotonic() - begun)))
    assert tally.counted and set(tally.sources) == set(NAMES), tally  # a fault is a matter of time
    assert tally.with_two, tally
    assert any(draw_emptying(seed, ground.target) for seed in tally.seeds)
    users = {user for seed in tally.seeds for user in ground.users_of(seed).values()}
    assert USER in users
