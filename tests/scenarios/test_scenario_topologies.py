"""One way through each topology of trails: one to many, many to one, many to many, a cascade, several hops, both ways.

Each moves small tables over pumps and receivers that are processes. Other shapes of these topologies, and their failures, are
named in docs/explanation/topologies.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server, free_port
from anabranch.trail import identity
from anabranch.trail.reader import has_begun
from anabranch.trail.replica import hops_of
from anabranch.trail.storage import LocalStorage
from anabranch.transport.names import reader_name
from rigs.hop_files import Process, pump_file, receive_file, route_file, url
from rigs.hops import applying, capturing
from rigs.scenario import Running, Scenario, wait_until

Make = Callable[..., Scenario]
Databases = Callable[[Server], Database]
SOON, LATER = 120.0, 240.0
KEEP = '[load]\nexisting = "keep"\n'
pytestmark = [pytest.mark.quick, pytest.mark.timeout(1200)]  # many processes, each of which starts


def item(*ids: int) -> tuple[str, ...]:
    rows = ", ".join(f"({number}, 'item {number}')" for number in ids)
    return "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(40))", f"INSERT INTO item VALUES {rows}"


@dataclass
class Site:
    """A machine with a receiver, below a directory of its own."""

    folder: Path
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    def replica(self, name: str = "shop") -> Path:
        return self.folder / "in" / name

    def receiver(self) -> Process:
        return Process("receive", receive_file(self.folder, self.port), folder=self.folder)


class World:
    """All processes of a test; they end with it."""

    def __init__(self, folder: Path, ended: ExitStack) -> None:
        self.folder, self._ended = folder, ended

    def site(self, name: str) -> Site:
        """Make a machine whose receiver runs."""
        made = Site(self.folder / name)
        self.begun(made.receiver())
        return made

    def begun(self, process: Process) -> Process:
        process.start()
        self._ended.callback(process.end)
        return process

    def pump(self, trail: Path, port: int, name: str = "shop") -> Process:
        """Send a trail, once it is there, to a port under a name; return once the trail knows that it is sent."""
        wait_until(lambda: has_begun(trail), SOON, f"a trail in {trail}")
        folder = self.folder / f"pump{port}-{name}"
        folder.mkdir()
        file = pump_file(folder, trail, url(port, name, None), name=folder.name)
        begun = self.begun(Process("run", file, folder=folder))
        # From then on files of a load stay for it: whoever comes behind the last reader finds none.
        registered = trail / "readers" / f"{quote(reader_name(folder.name))}.json"
        wait_until(registered.exists, SOON, f"the pump is registered with {trail}")
        return begun

    def router(self, name: str, to: int) -> int:
        """Begin a router to another port; return its own."""
        folder, port = self.folder / name, free_port()
        folder.mkdir()
        self.begun(Process("route", route_file(folder, port, to, name=name), folder=folder))
        return port


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as ended:
        yield World(tmp_path / "world", ended)


def streaming(*jobs: Scenario) -> list[Running]:
    """Start jobs that apply, and wait until their tables stream."""
    runs = [job.start("run") for job in jobs]
    for job, run in zip(jobs, runs, strict=True):
        job.wait_streaming(run, seconds=LATER)
    return runs


def stopped(*runs: Running) -> None:
    assert [run.stop().code for run in runs] == [0] * len(runs)


def rows(database: Database, table: str = "item", what: str = "*") -> list[tuple[object, ...]]:
    return sorted(database.query(f"SELECT {what} FROM {table}"))


def test_one_to_many(
    mariadb: Server, postgresql: Server, scenario: Make, source_database: Databases, world: World
) -> None:
    """A source is captured once; two sites have a replica each. What one of them is away for is no matter to the other."""
    made = scenario(mariadb, *item(1, 2, 3))
    out, trail = capturing(made)
    captures = out.start("capture")
    sites = [world.site("north"), world.site("south")]
    for site in sites:
        world.pump(trail, site.port)
    out.cli("load")  # behind both pumps: its files go once those have them that are registered by then
    other = replace(made, name="other", directory=made.directory / "other", target=source_database(postgresql))
    jobs = [applying(one, site.replica()) for one, site in zip((made, other), sites, strict=True)]
    runs = streaming(*jobs)
    runs[1].kill()
    made.source.execute("UPDATE item SET name = 'changed' WHERE id = 2", "DELETE FROM item WHERE id = 1")
    jobs[0].sync(runs[0])
    made.assert_identical()
    assert rows(other.target) == [(1, "item 1"), (2, "item 2"), (3, "item 3")]
    runs[1] = jobs[1].start("run")
    jobs[1]._marks = jobs[0]._marks
    jobs[1].sync(runs[1], seconds=LATER)
    assert rows(other.target) == rows(made.target) == [(2, "changed"), (3, "item 3")]
    stopped(captures, *runs)


ROLES = (
    "CREATE ROLE {owner} SUPERUSER",
    "CREATE ROLE {north} LOGIN PASSWORD 'p' IN ROLE {owner}",
    "CREATE ROLE {south} LOGIN PASSWORD 'p' IN ROLE {owner}",
    "ALTER ROLE {north} SET role = {owner}",
    "ALTER ROLE {south} SET role = {owner}",
)


@pytest.fixture
def users(target_database: Database) -> Iterator[tuple[str, str]]:
    """A login for the job of each site; what they make belongs to the role that both are in."""
    owner, *logins = (f"{target_database.name}_{who}" for who in ("owner", "north", "south"))
    names = {"owner": owner, "north": logins[0], "south": logins[1]}
    target_database.execute(*(statement.format(**names) for statement in ROLES))
    yield logins[0], logins[1]
    target_database.execute(f"DROP OWNED BY {owner} CASCADE", *(f"DROP ROLE {one}" for one in (*logins, owner)))


def test_many_to_one_with_the_source_of_each_row(
    mariadb: Server,
    logical_postgresql: Server,
    target_database: Database,
    scenario: Make,
    users: tuple[str, str],
    world: World,
) -> None:
    """Two sources send their trails to one receiver; two jobs apply them to one table, which notes whose session has put a row
    in. Changes of a row leave that as it is."""
    site = world.site("centre")
    target_database.execute(
        "CREATE TABLE item (id int PRIMARY KEY, name varchar(40), came_from text NOT NULL DEFAULT session_user)",
    )
    north, south = users
    made = [
        scenario(mariadb, *item(1, 3), name="north", target_user=(north, "p")),
        scenario(logical_postgresql, *item(2, 4), name="south", target_user=(south, "p")),
    ]
    made[1]._marks = 1000  # marks of both go into one table
    captured = [capturing(one) for one in made]
    captures = [out.start("run") for out, _ in captured]
    for one, (_, trail) in zip(made, captured, strict=True):
        world.pump(trail, site.port, one.name)
    jobs = [applying(one, site.replica(one.name), KEEP) for one in made]
    for job in jobs:  # two loads of one table do not run side by side
        wait_until(lambda job=job: has_begun(site.replica(job.name.removesuffix("_in"))), SOON, "a replica")  # type: ignore[misc]  # binds it
        job.run_until_caught_up()
    runs = streaming(*jobs)
    made[0].source.execute("INSERT INTO item VALUES (5, 'new')", "UPDATE item SET name = 'a' WHERE id = 1")
    made[1].source.execute(
        "INSERT INTO item VALUES (6, 'new')",
        "UPDATE item SET id = 8 WHERE id = 2",
        "DELETE FROM item WHERE id = 4",
        "INSERT INTO item VALUES (4, 'again')",
    )
    for job, run in zip(jobs, runs, strict=True):
        job.sync(run, seconds=LATER)
    assert rows(target_database, what="id, name, came_from") == [
        (1, "a", north),
        (3, "item 3", north),
        (4, "again", south),
        (5, "new", north),
        (6, "new", south),
        (8, "item 2", south),
    ]
    whose = [identity.load(LocalStorage(site.replica(one.name))) for one in made]
    assert [one.job if one else "" for one in whose] == ["north_out", "south_out"]
    stopped(*captures, *runs)


def test_many_to_many(
    mariadb: Server, postgresql: Server, scenario: Make, source_database: Databases, world: World
) -> None:
    """Two sources whose keys are the same go to two targets, each source to tables of its own, which a view brings together."""
    made = [scenario(mariadb, *item(1, 2), name="north"), scenario(mariadb, *item(1, 2), name="south")]
    targets = [made[0].target, source_database(postgresql)]
    sites = [world.site("east"), world.site("west")]
    captured = [capturing(one) for one in made]
    captures = [out.start("capture") for out, _ in captured]
    jobs = []
    for number, (site, target) in enumerate(zip(sites, targets, strict=True)):
        for one, (_, trail) in zip(made, captured, strict=True):
            world.pump(trail, site.port, one.name)
            there = replace(one, name=f"{one.name}_{number}", directory=one.directory / f"to{number}", target=target)
            jobs.append(applying(there, site.replica(one.name), to=f"{{table}}_{one.name}"))
    for out, _ in captured:
        out.cli("load")  # behind all pumps: its files go once those have them that are registered by then
    runs = streaming(*jobs)
    made[0].source.execute("UPDATE item SET name = 'of the north' WHERE id = 1")
    made[1].source.execute("DELETE FROM item WHERE id = 1", "INSERT INTO item VALUES (7, 'of the south')")
    wanted = [
        ("north", 1, "of the north"),
        ("north", 2, "item 2"),
        ("south", 2, "item 2"),
        ("south", 7, "of the south"),
    ]
    for target in targets:
        target.execute(
            "CREATE VIEW item AS SELECT 'north' AS came_from, * FROM item_north"
            " UNION ALL SELECT 'south', * FROM item_south"
        )
        wait_until(lambda target=target: rows(target) == wanted, LATER, "all of it is there", str)  # type: ignore[misc]  # binds it
    stopped(*captures, *runs)


def test_a_cascade_of_trails_over_several_hops(
    mariadb: Server, postgresql: Server, scenario: Make, source_database: Databases, world: World
) -> None:
    """Two routers in a row lead to the first site, which applies, and sends its replica on to the second one, which applies."""
    made = scenario(mariadb, *item(1, 2, 3))
    out, trail = capturing(made)
    captures = out.start("capture")
    first, second = world.site("first"), world.site("second")
    world.pump(trail, world.router("outer", world.router("inner", first.port)))
    world.pump(first.replica(), second.port)
    out.cli("load")  # behind both pumps: its files go once those have them that are registered by then
    other = replace(made, name="other", directory=made.directory / "other", target=source_database(postgresql))
    jobs = [applying(made, first.replica()), applying(other, second.replica())]
    runs = streaming(*jobs)
    made.source.execute("UPDATE item SET name = 'changed' WHERE id = 2", "DELETE FROM item WHERE id = 1")
    jobs[1].sync(runs[1], seconds=LATER)
    assert rows(other.target) == [(2, "changed"), (3, "item 3")]
    wait_until(lambda: rows(made.target) == rows(other.target), LATER, "the first site has it, too")
    names = hops_of(LocalStorage(second.replica())) or ()
    assert [one for one in names if not one.startswith("pump")] == ["outer", "inner", "in", "in"], names
    stopped(captures, *runs)


def test_a_cascade_of_databases(
    mariadb: Server, logical_postgresql: Server, scenario: Make, source_database: Databases, world: World
) -> None:
    """Capture in the second database what the first job writes there, and send it on by a trail of its own."""
    middle = source_database(logical_postgresql)
    first = scenario(mariadb, *item(1, 2))
    first = replace(first, name="first", target=middle)
    out, trail = capturing(first)
    site, beyond = world.site("middle"), world.site("end")
    captures = [out.start("run")]
    world.pump(trail, site.port)
    into = applying(first, site.replica())
    runs = streaming(into)
    second = scenario(logical_postgresql)
    second = replace(second, name="second", source=middle)
    out, trail = capturing(second)
    captures.append(out.start("run"))
    world.pump(trail, beyond.port)
    last = applying(second, beyond.replica())
    runs += streaming(last)
    first.source.execute("INSERT INTO item VALUES (3, 'new')", "DELETE FROM item WHERE id = 1")
    wanted = [(2, "item 2"), (3, "new")]
    wait_until(lambda: rows(second.target) == wanted, LATER, "all of it is at the end", runs[1].tail, runs[1])
    assert rows(middle) == wanted
    stopped(*captures, *runs)


def test_both_ways_over_hops(
    logical_postgresql: Server, scenario: Make, source_database: Databases, world: World
) -> None:
    """Each site captures what its own users write, and applies what the other's have written. The rows of both loads are in the
    trails before either is applied, so neither brings back what the other one has brought."""
    a, b = scenario(logical_postgresql, *item(1, 3)), scenario(logical_postgresql, *item(2, 4))
    b._marks = 1000  # each end writes keys of its own
    forth = replace(a, name="forth", directory=a.directory / "forth", target=b.source)
    back = replace(b, name="back", directory=b.directory / "back", target=a.source)
    captured = [
        capturing(one, at_source=f'leave_out = ["anabranch:{other}_in"]')
        for one, other in ((forth, "back"), (back, "forth"))
    ]
    sites = [world.site("b"), world.site("a")]
    captures = [out.start("run") for out, _ in captured]
    for (_, trail), site in zip(captured, sites, strict=True):
        world.pump(trail, site.port)
    for site in sites:
        wait_until(lambda site=site: (site.replica() / "load" / "complete.json").exists(), LATER, "a load has come")  # type: ignore[misc]  # binds it
    jobs = [applying(one, site.replica(), KEEP) for one, site in zip((forth, back), sites, strict=True)]
    runs = streaming(*jobs)
    a.source.execute("INSERT INTO item VALUES (5, 'of a')", "UPDATE item SET name = 'changed at a' WHERE id = 2")
    for job, run in zip(jobs, runs, strict=True):
        job.sync(run, seconds=LATER)
    b.source.execute("INSERT INTO item VALUES (6, 'of b')", "DELETE FROM item WHERE id = 3")
    for job, run in zip(jobs, runs, strict=True):
        job.sync(run, seconds=LATER)
    assert (
        rows(a.source)
        == rows(b.source)
        == [
            (1, "item 1"),
            (2, "changed at a"),
            (4, "item 4"),
            (5, "of a"),
            (6, "of b"),
        ]
    )
    stopped(*captures, *runs)
