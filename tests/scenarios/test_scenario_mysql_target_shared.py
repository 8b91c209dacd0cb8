"""Two jobs that write into the same tables of a MySQL, with keys of their own: the second takes a word, each moves its own
checkpoint, neither empties what they share, and what one leaves is the other's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.testing.databases import Database, unique_name
from anabranch.testing.servers import Server
from rigs.scenario import Running, wait_until
from rigs.scenario_mysql_target import AtMysql, MysqlToMysql, job_at_mysql

KEEP = '[load]\nexisting = "keep"\ndefer_constraints = true\n[ddl]\nchange_type = "park"\n'
TABLES = ("customer", "sale", "visit")
Shops = tuple[AtMysql, AtMysql]


def shop(first: int) -> tuple[str, ...]:
    return (
        "CREATE TABLE customer (id INT PRIMARY KEY, email VARCHAR(40) UNIQUE)",
        "CREATE TABLE sale (id INT PRIMARY KEY, customer INT, FOREIGN KEY (customer) REFERENCES customer (id))",
        "CREATE TABLE visit (place VARCHAR(10), n INT)",
        f"INSERT INTO customer VALUES ({first}, 'a{first}'), ({first + 1}, 'b{first}')",
        f"INSERT INTO sale VALUES ({first}, {first}), ({first + 1}, {first + 1})",
        "INSERT INTO visit VALUES ('door', 1), ('door', 1)",
    )


@pytest.fixture
def shops(
    request: pytest.FixtureRequest,
    mariadb: Server,
    mysql: Server,
    source_database: Callable[[Server], Database],
    tmp_path: Path,
) -> Iterator[Shops]:
    is_quick = not request.config.getoption("--spark")
    sources = [source_database(mariadb) for _ in range(2)]
    for source, first in zip(sources, (100, 200), strict=True):
        source.execute(*shop(first))
    with job_at_mysql(sources[0], mysql, tmp_path / "berlin", is_quick=is_quick) as berlin:
        bern = MysqlToMysql(sources[1], berlin.target, tmp_path / "bern", name=unique_name("job"), is_quick=is_quick)
        bern._marks = 1000  # they go into one table, too
        yield berlin, bern
        bern.close()
        bern.cli("drop", "--execute", code=None)


@pytest.mark.quick
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_two_shops_into_the_tables_of_a_mysql(shops: Shops) -> None:
    berlin, bern = shops
    berlin.run_until_caught_up()
    beside_others_it_takes_a_word(berlin, bern)
    bern.run_until_caught_up()
    together(berlin, bern)
    runs = [berlin.start("run"), bern.start("run")]
    rule_09_each_moves_its_own_checkpoint(berlin, bern, runs)
    runs[1].kill()
    berlin.source.execute("INSERT INTO customer VALUES (120, 'd')")
    bern.source.execute("INSERT INTO customer VALUES (220, 'd2')")
    berlin.sync(runs[0])
    runs[1] = bern.start("run")
    bern.sync(runs[1])
    together(berlin, bern)
    a_truncate_of_one_stops_it(berlin, bern, runs)
    what_they_share_is_not_loaded_anew(berlin, bern, runs[1])
    runs[1].stop()
    dropped_one_leaves_the_other_all_it_has(berlin, bern)


def rows(made: AtMysql, table: str) -> Counter[Any]:
    return Counter(made.target.query(f"SELECT * FROM {table}"))


def together(*jobs: AtMysql) -> None:
    """The target has what both sources have, as often."""
    for table in TABLES:
        there = sum((Counter(one.source.query(f"SELECT * FROM {table}")) for one in jobs), Counter[Any]())
        assert rows(jobs[0], table) == there, (table, rows(jobs[0], table), there)


def beside_others_it_takes_a_word(berlin: AtMysql, bern: AtMysql) -> None:
    others = f"other jobs write to {bern.there}.customer: {berlin.name}"
    told = bern.cli("run", "--until-caught-up", code=3).stderr
    assert others in told and '[load] existing = "keep"' in told
    bern.write_job('[load]\nexisting = "empty"\ndefer_constraints = true\n')
    assert others in bern.cli("preflight", code=3).stdout
    bern.write_job(KEEP)
    mine = (f"{berlin.schema}.sale", berlin.name)
    built = "UPDATE anabranch.table_state SET facts = {} WHERE source_table = %s AND job = %s"
    bern.target.query(built.format("JSON_REMOVE(facts, '$.built')"), mine)
    told = bern.cli("preflight", code=3).stdout
    assert f"{berlin.name} has not ended its load of {bern.there}.sale" in told
    bern.target.query(built.format("JSON_SET(facts, '$.built', 'yes')"), mine)


def rule_09_each_moves_its_own_checkpoint(berlin: AtMysql, bern: AtMysql, runs: list[Running]) -> None:
    berlin.sync(runs[0])
    bern.sync(runs[1])
    before = berlin.checkpoint()
    bern.source.execute("INSERT INTO customer VALUES (210, 'c')", "INSERT INTO sale VALUES (210, 210)")
    bern.source.execute("DELETE FROM visit LIMIT 1", "UPDATE customer SET email = 'z' WHERE id = 200")
    bern.sync(runs[1])
    owner, _, sequence = bern.checkpoint()
    assert berlin.checkpoint()[0] == before[0] != owner and sequence > 0
    berlin.source.execute("DELETE FROM sale WHERE id = 100", "DELETE FROM customer WHERE id = 100")
    berlin.source.execute("INSERT INTO visit VALUES ('shop', 3)")
    berlin.sync(runs[0])
    together(berlin, bern)


def a_truncate_of_one_stops_it(berlin: AtMysql, bern: AtMysql, runs: list[Running]) -> None:
    """The other goes on. By hand and by `skip` the way on is found."""
    before = rows(bern, "visit")
    berlin.source.execute("TRUNCATE TABLE visit")
    ended = runs[0].wait(240)
    assert ended.code == 6
    assert f"was truncated, and {bern.there}.visit has rows of other jobs ({bern.name})" in ended.stderr
    assert rows(bern, "visit") == before
    bern.source.execute("INSERT INTO visit VALUES ('bern', 1)")
    bern.sync(runs[1])
    bern.target.execute("DELETE FROM visit WHERE place = 'shop'", "DELETE FROM visit WHERE place = 'door' LIMIT 2")
    place = re.findall(r"position (\d+@[^:]+:\d+)", ended.stderr)[-1]
    assert place in berlin.cli("skip", "add", place, "--execute").stdout
    berlin.run_until_caught_up()
    together(berlin, bern)


def what_they_share_is_not_loaded_anew(berlin: AtMysql, bern: AtMysql, run: Running) -> None:
    """Nobody can say whose rows are whose: a person removes one job's, and says that the rest stays."""
    visit = f"{bern.schema}.visit"
    bern.source.execute("ALTER TABLE visit MODIFY n BIGINT")
    wait_until(lambda: bern.states()["visit"] == "parked", 240, "visit is parked at bern", run.tail, run)
    before = rows(bern, "visit")
    for options in ([], ["--recreate"]):
        told = bern.cli("load", "--table", visit, *options, code=None)
        assert told.code in (2, 6) and rows(bern, "visit") == before, told.stderr
    assert "nobody can say which rows of its target are this job's" in told.stderr
    bern.target.execute("ALTER TABLE visit MODIFY n BIGINT", "DELETE FROM visit")  # of berlin's, none is left
    bern.cli("load", "--table", visit, "--keep", seconds=240)
    wait_until(lambda: bern.states()["visit"] == "streaming", 240, "visit streams at bern", run.tail, run)
    bern.source.execute("INSERT INTO visit VALUES ('big', 5000000000)")
    bern.sync(run)
    together(berlin, bern)


def dropped_one_leaves_the_other_all_it_has(berlin: AtMysql, bern: AtMysql) -> None:
    bern.cli("drop", "--execute")
    jobs = "SELECT DISTINCT job FROM anabranch.table_state WHERE job IN (%s, %s)"
    assert bern.target.query(jobs, [berlin.name, bern.name]) == [(berlin.name,)]
    before = rows(bern, "customer")
    berlin.source.execute("INSERT INTO customer VALUES (130, 'e')")
    berlin.run_until_caught_up()
    assert rows(berlin, "customer") == before + Counter([(130, "e")])
