"""Two jobs that write to one target database: into one table with keys of their own, and two jobs that read the same tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario, wait_until

Make = Callable[..., Scenario]
KEEP = '[load]\nexisting = "keep"\ndefer_constraints = true\n[ddl]\nchange_type = "park"\n'
SHOP = (
    "CREATE TABLE customer (id INT PRIMARY KEY, email VARCHAR(40) UNIQUE)",
    "CREATE TABLE sale (id INT PRIMARY KEY, customer INT, FOREIGN KEY (customer) REFERENCES customer (id))",
    "CREATE TABLE visit (place VARCHAR(10), n INT)",
)
TABLES = ("customer", "sale", "visit")
pytestmark = [pytest.mark.quick, pytest.mark.timeout(1200)]  # many commands, each a process


def shop(first: int) -> tuple[str, ...]:
    return (
        *SHOP,
        f"INSERT INTO customer VALUES ({first}, 'a{first}'), ({first + 1}, 'b{first}')",
        f"INSERT INTO sale VALUES ({first}, {first}), ({first + 1}, {first + 1})",
        "INSERT INTO visit VALUES ('door', 1), ('door', 1)",
    )


Shops = tuple[Scenario, Scenario]


@pytest.fixture
def shops(mariadb: Server, scenario: Make) -> Shops:
    """One has loaded its rows, the other is about to."""
    berlin = scenario(mariadb, *shop(100), name="berlin")
    bern = scenario(mariadb, *shop(200), name="bern")
    bern._marks = 1000  # they go into one table, too
    berlin.run_until_caught_up()
    return berlin, bern


def test_two_shops_into_one_table(shops: Shops) -> None:
    berlin, bern = shops
    beside_others_it_takes_a_word(bern)
    bern.write_job(KEEP)
    bern.run_until_caught_up()
    together(berlin, bern)
    runs = [berlin.start("run"), bern.start("run")]
    rule_09_each_moves_its_own_checkpoint(berlin, bern)
    runs[1].kill()
    berlin.source.execute("INSERT INTO customer VALUES (120, 'd')")
    bern.source.execute("INSERT INTO customer VALUES (220, 'd2')")
    berlin.sync(runs[0])
    runs[0].stop()
    bern.run_until_caught_up()
    together(berlin, bern)
    dropped_one_leaves_the_other_all_it_has(berlin, bern)


def test_what_two_shops_share_is_not_emptied(shops: Shops) -> None:
    berlin, bern = shops
    bern.write_job(KEEP)
    bern.run_until_caught_up()
    runs = [berlin.start("run"), bern.start("run")]
    by_a_truncate(berlin, bern, runs[0])
    by_a_load(berlin, bern)
    runs[1].stop()


def rows(made: Scenario, table: str) -> Counter[Any]:
    return Counter(made.target.query(f"SELECT * FROM public.{table}"))


def together(*jobs: Scenario) -> None:
    """The target has what both sources have, as often."""
    for table in TABLES:
        there = sum((Counter(one.source_rows(table)) for one in jobs), Counter[Any]())
        assert rows(jobs[0], table) == there, (table, rows(jobs[0], table), there)


def beside_others_it_takes_a_word(bern: Scenario) -> None:
    told = bern.cli("run", "--until-caught-up", code=3).stderr
    assert "other jobs write to public.customer: berlin" in told and '[load] existing = "keep"' in told
    bern.write_job('[load]\nexisting = "empty"\ndefer_constraints = true\n')
    assert "other jobs write to public.customer: berlin" in bern.cli("preflight", code=3).stdout
    bern.write_job(KEEP)
    bern.target.execute("UPDATE anabranch.table_state SET facts = facts - 'built' WHERE source_table LIKE '%.sale'")
    assert "berlin has not ended its load of public.sale" in bern.cli("preflight", code=3).stdout
    bern.target.execute('UPDATE anabranch.table_state SET facts = facts || \'{"built": "yes"}\'')


def rule_09_each_moves_its_own_checkpoint(berlin: Scenario, bern: Scenario) -> None:
    berlin.sync()
    bern.sync()
    before = berlin.checkpoint()
    bern.source.execute("INSERT INTO customer VALUES (210, 'c')", "INSERT INTO sale VALUES (210, 210)")
    bern.source.execute("DELETE FROM visit LIMIT 1", "UPDATE customer SET email = 'z' WHERE id = 200")
    bern.sync()
    owner, _, sequence = bern.checkpoint()
    assert berlin.checkpoint()[0] == before[0] != owner and sequence > 0
    berlin.source.execute("DELETE FROM sale WHERE id = 100", "DELETE FROM customer WHERE id = 100")
    berlin.source.execute("INSERT INTO visit VALUES ('shop', 3)")
    berlin.sync()
    together(berlin, bern)


def by_a_truncate(berlin: Scenario, bern: Scenario, run: Running) -> None:
    """The one job stops with the place; the other goes on. By hand and by `skip` the way on is found."""
    before = rows(bern, "visit")
    berlin.source.execute("TRUNCATE TABLE visit")
    ended = run.wait()
    assert ended.code == 6 and "was truncated, and public.visit has rows of other jobs (bern)" in ended.stderr
    assert rows(bern, "visit") == before
    bern.source.execute("INSERT INTO visit VALUES ('bern', 1)")
    bern.sync()
    mine, others = Counter({("door", 1): 2}), Counter(bern.source_rows("visit"))
    assert rows(bern, "visit") == mine + others
    bern.target.execute("DELETE FROM public.visit WHERE place <> 'bern'")
    put_back = [f"('{place}', {n})" for place, n in others.elements() if place != "bern"]
    bern.target.execute(f"INSERT INTO public.visit VALUES {', '.join(put_back)}")
    place = re.findall(r"position (\d+@[\w.]+:\d+)", ended.stderr)[-1]
    assert place in berlin.cli("skip", "add", place, "--execute").stdout
    berlin.run_until_caught_up()
    together(berlin, bern)


def by_a_load(berlin: Scenario, bern: Scenario) -> None:
    """Nobody can say whose rows are whose: a person removes one job's, and says that the rest stays."""
    visit = f"{bern.source.name}.visit"
    bern.source.execute("ALTER TABLE visit MODIFY n BIGINT")
    wait_until(lambda: bern.states()["visit"] == "parked", 60, "visit is parked at bern")
    before = rows(bern, "visit")
    for options in ([], ["--recreate"]):
        told = bern.cli("load", "--table", visit, *options, code=None)
        assert told.code in (2, 6) and rows(bern, "visit") == before, told.stderr
    assert "nobody can say which rows of its target are this job's" in told.stderr
    bern.target.execute("ALTER TABLE public.visit ALTER n TYPE bigint")
    mine = Counter(berlin.source_rows("visit"))
    bern.target.execute("DELETE FROM public.visit")
    if mine:
        bern.target.execute(f"INSERT INTO public.visit VALUES {', '.join(map(str, mine.elements()))}")
    bern.cli("load", "--table", visit, "--keep")
    wait_until(lambda: bern.states()["visit"] == "streaming", 60, "visit streams at bern")
    bern.source.execute("INSERT INTO visit VALUES ('big', 5000000000)")
    bern.sync()


def dropped_one_leaves_the_other_all_it_has(berlin: Scenario, bern: Scenario) -> None:
    bern.cli("drop", "--execute")
    assert bern.target.query("SELECT DISTINCT job FROM anabranch.table_state") == [("berlin",)]
    before = rows(bern, "customer")
    berlin.source.execute("INSERT INTO customer VALUES (130, 'e')")
    berlin.run_until_caught_up()
    assert rows(berlin, "customer") == before + Counter([(130, "e")])


def test_two_jobs_read_the_same_tables(mariadb: Server, scenario: Make, tmp_path: Path) -> None:
    """Each has its trail, its number as a replica, and its state; what one leaves at the source is not what the other needs."""
    one = scenario(mariadb, *shop(100), name="one")
    other = Scenario(one.source, one.target, tmp_path / "other", name="other", is_quick=one.is_quick)
    other.write_job(rules=f'[[rules]]\ninclude = ["{one.source.name}.*"]\ntarget = "copy.{{table}}"\n')
    runs = [one.start("run"), other.start("run")]
    for made, run in zip((one, other), runs, strict=True):
        made.wait_streaming(run)
    one.source.execute("INSERT INTO customer VALUES (150, 'x')", "DELETE FROM visit LIMIT 1")
    runs[0].stop()
    one.cli("drop", "--execute")
    one.source.execute("UPDATE customer SET email = 'y' WHERE id = 150")
    query = "SELECT count(*) FROM copy.customer WHERE id = 150 AND email = 'y'"
    wait_until(lambda: other.target.query(query)[0][0] == 1, 60, "the other goes on", runs[1].tail, runs[1])
    runs[1].stop()
    for table in TABLES:
        there = Counter(one.source_rows(table))
        assert Counter(other.target.query(f"SELECT * FROM copy.{table}")) == there
