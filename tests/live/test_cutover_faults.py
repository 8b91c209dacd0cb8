"""Cut-overs and returns while a server starts again, or a line is cut or away, at every place, and the application writes: they
go on, or are broken off and begun again; nothing is lost, nothing twice, and the way back begins exactly behind the flip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from anabranch.model.cutover import STEPS, Step
from anabranch.testing.databases import unique_name
from anabranch.testing.faults import Proxy
from anabranch.testing.servers import Server, start_mariadb, start_mysql, start_postgresql
from rigs.cutover import job, running, way_back
from rigs.cutover_faults import FAULTS, Drawn, Failing, Fault
from rigs.cutover_kills import CUTOVER, FAILBACK, LIFTED
from rigs.cutover_there_and_back import returned, written
from rigs.postgresql_source import SOURCE_OPTIONS

STARTS: dict[str, Callable[[Path], Server]] = {
    "postgresql": partial(start_postgresql, options=(*SOURCE_OPTIONS, "--fsync=off")),
    "logical_postgresql": partial(start_postgresql, options=(*SOURCE_OPTIONS, "--fsync=off")),
    "mysql": partial(start_mysql, options=("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0")),
    "mariadb": partial(start_mariadb, options=("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0")),
}
PAIRS = [
    ("postgresql", "mysql"),
    ("mysql", "logical_postgresql"),
    ("mariadb", "mysql"),
    ("postgresql", "logical_postgresql"),
]
Own = Callable[[str], Server]
Switched = Callable[[str, str, Drawn, Drawn], tuple[Failing, Failing]]


@pytest.fixture(scope="module")
def own(quick_directory: Path) -> Iterator[Own]:
    """A server of each kind for this file alone: it is started again."""
    servers: dict[str, Server] = {}

    def get(kind: str) -> Server:
        if kind not in servers:
            servers[kind] = STARTS[kind](quick_directory / unique_name("faults"))
        return servers[kind]

    yield get
    for server in servers.values():
        server.stop(immediate=True)


@pytest.fixture
def switched(own: Own, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Switched:
    """Cut over from one kind of server to another one, and return, with these faults. Gives both switches."""

    def there_and_back(source: str, target: str, out: Drawn, home: Drawn) -> tuple[Failing, Failing]:
        at, to = own(source), own(target)
        with Proxy(at.host, at.port) as to_source, Proxy(to.host, to.port) as to_target:
            places = {"source_at": ("127.0.0.1", to_source.port), "target_at": ("127.0.0.1", to_target.port)}
            with (
                job(request, source, target, tmp_path / "job", at, to, **places) as cut,
                way_back(cut, monkeypatch) as back,
                running(cut),
            ):
                lines = {cut.made.source: to_source, cut.made.target: to_target}
                forth = Failing(cut, CUTOVER, monkeypatch, lines=lines, drawn=out)
                home_again = Failing(cut, FAILBACK, monkeypatch, lines=lines, drawn=home)
                there = written(cut, forth, is_taken_back=False)
                with back.running():
                    returned(cut, back, there, home_again, is_taken_back=False)
                return forth, home_again

    return there_and_back


def test_rule_24_pitfall_47_ends_that_fail_there_and_back(switched: Switched) -> None:
    """A PostgreSQL that starts again stays fenced, a MySQL does not, which breaks a return off."""
    out = {
        (Step.FENCE, "cutover.denied"): Fault("source", "restart"),
        (Step.HOLD, "cutover.claimed"): Fault("target", "cut"),
        (Step.REVERSE, "cutover.admitted"): Fault("target", "restart"),
        (Step.FLIP, "cutover.flipped"): Fault("source", "cut"),
    }
    home = {
        (None, LIFTED): Fault("target", "cut"),
        (Step.DRAIN, "cutover.noted"): Fault("target", "away"),
        (Step.COUNTERS, "cutover.noted"): Fault("source", "restart"),
        (Step.FLIP, "cutover.opened"): Fault("target", "cut"),
    }
    there, back = switched("postgresql", "mysql", out.get, home.get)
    assert there.met == out and back.met == home
    assert any("the fence does not hold: read_only is OFF" in error.message for _, error in back.errors), back.errors
    assert not any("the fence does not hold" in error.message for _, error in there.errors), there.errors


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_rule_24_pitfall_47_a_fault_at_every_place_there_and_back(
    source: str, target: str, fault: Fault, switched: Switched
) -> None:
    there, back = switched(source, target, lambda place: fault, lambda place: fault)
    wanted = {(step, "cutover.noted") for step in STEPS if step != Step.REPORT}
    for one in (there, back):
        assert set(one.met) >= wanted, wanted - set(one.met)
        for place, error in one.errors:
            print(one.verb, fault, *place, error, *getattr(error, "__notes__", ()), sep="\n  ")
