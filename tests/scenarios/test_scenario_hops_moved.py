"""A way between two databases whose sites do not see each other: the trail, with the rows of the load, is moved over networks
or carried by files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from rigs.hop_files import asked
from rigs.hops import hops, moved, over_three
from rigs.scenario import Scenario, wait_until

Make = Callable[..., Scenario]


@pytest.mark.quick
def test_a_database_is_copied_through_a_pump_a_router_and_a_receiver(
    mariadb: Server, scenario: Make, tmp_path: Path
) -> None:
    """Each of the three is killed while the source is written to. Files of the load go at both ends behind the target."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    way = hops(made, trail=tmp_path / "in" / "shop")
    moving = over_three(way, tmp_path)
    with moved(way, moving) as (run, applied):
        with Writer(made.source, seed=3, rate=50):
            for one in moving:
                way.there.sync(applied)
                one.kill()
                one.start()
        way.there.sync(applied)
        made.assert_identical()
        for trail in (way.trail, tmp_path / "in" / "shop"):
            wait_until(
                lambda trail=trail: not rows(trail), 120, f"files of the load are gone in {trail}", run.tail, run
            )
            assert list((trail / "load").rglob("manifest.json"))
        made.target.execute("DELETE FROM public.cell WHERE x % 2 = 0")
        made.source.execute("UPDATE cell SET value = 13 WHERE x % 2 = 1")
        way.there.cli("load", "--table", f"{made.schema}.cell")  # the request goes back, and its rows come
        way.there.wait_streaming(applied)
        way.there.sync(applied)
        made.assert_identical()
        assert run.stop().code == applied.stop().code == 0


@pytest.mark.quick
def test_a_database_is_copied_by_parcels(mariadb: Server, scenario: Make, tmp_path: Path) -> None:
    """Parcels go two times; between them the source is written to."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    out, medium, replica = tmp_path / "out", tmp_path / "medium", tmp_path / "replica"
    way = hops(made, trail=replica)
    for change in ("UPDATE cell SET value = 1", "DELETE FROM cell WHERE x % 2 = 0"):
        way.here.run_until_caught_up()
        way.here.cli("trail", "export", str(out))
        shutil.copytree(out, medium, dirs_exist_ok=True)
        taken = asked("trail", "import", medium, "--into", replica)
        assert taken.returncode == 0, taken.stderr
        way.there.run_until_caught_up()
        made.assert_identical()
        assert not rows(replica)
        made.source.execute(change)
    assert rows(out) and not rows(way.trail)


def rows(folder: Path) -> list[Path]:
    """Return the files of a load below a folder."""
    return list(folder.rglob("*.arrow"))
