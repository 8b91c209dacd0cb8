"""A way between two databases whose sites have nothing in common but a store of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from anabranch.testing.databases import unique_name
from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from rigs.hop_files import Process, fetch_file, pump_file
from rigs.hops import hops, moved
from rigs.kafka_trail import kafka_url
from rigs.s3_server import s3_server
from rigs.scenario import Scenario

Make = Callable[..., Scenario]


@pytest.fixture(params=["directory", "s3", "kafka"])
def store(request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a trail in a store."""
    if request.param == "directory":
        (tmp_path / "store").mkdir()
        yield f"trail+objects://{tmp_path}/store/shop"
        return
    if request.param == "kafka":
        yield kafka_url(request.getfixturevalue("kafka"), unique_name("trail"))
        return
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server.url(server.bucket("moved"))


@pytest.mark.quick
def test_a_database_is_copied_through_a_store_of_objects(
    mariadb: Server, scenario: Make, tmp_path: Path, store: str
) -> None:
    """The rows of the load go that way, too; each of the two pumps is killed while the source is written to."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    replica = tmp_path / "in" / "shop"
    way = hops(made, trail=replica)
    files = (
        pump_file(tmp_path, way.trail, store, "[trail]\ncompress = true\ninterval_s = 0.2"),
        fetch_file(tmp_path, store, replica),
    )
    moving = [Process("run", file, folder=tmp_path) for file in files]
    with moved(way, moving) as (run, applied):
        with Writer(made.source, seed=3, rate=50):
            for one in moving:
                way.there.sync(applied)
                one.kill()
                one.start()
        way.there.sync(applied)
        made.assert_identical()
        assert run.stop().code == applied.stop().code == 0
