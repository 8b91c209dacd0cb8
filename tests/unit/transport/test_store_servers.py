"""A trail through real stores: a bucket of a server that speaks S3's protocol, over a line that fails on purpose, and FTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.config.store_urls import StoreUrl, parse_store_url
from anabranch.errors import Side
from anabranch.stores.opening import open_store
from anabranch.testing.processes import give_away
from anabranch.transport.store_pump import StorePump
from anabranch.transport.store_source import StoreSource
from rigs import trail_source as samples
from rigs.ftp_server import ftp_server
from rigs.hop_files import wait_for
from rigs.s3_server import Fault, Line, S3Server, line_to, s3_server
from unit.transport.conftest import rows, write


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as made:
        yield made


@pytest.fixture
def line(server: S3Server) -> Iterator[Line]:
    with line_to(server) as made:
        yield made


def pumps(tmp_path: Path, url: StoreUrl) -> tuple[StorePump, StoreSource]:
    options = {"longest_pause": 0.2}
    out = StorePump(
        tmp_path / "a", "out", "shop", lambda: open_store(url, Side.TARGET), interval=0.0, size=20_000, **options
    )
    into = StoreSource(tmp_path / "b", "into", lambda: open_store(url, Side.SOURCE), longest_look=0.05, **options)
    return out, into


FAULTS: list[tuple[str, Fault, str, str]] = [
    ("slowdown-put", "slow_down", "PUT", "/pieces/"),
    ("cut-put", "cut", "PUT", "/pieces/"),
    ("lost-put", "lost", "PUT", "/pieces/"),
    ("twice-put", "twice", "PUT", "/pieces/"),
    ("full-put", "full", "PUT", "/pieces/"),
    ("denied-put", "denied", "PUT", "/pieces/"),
    ("conflict-put", "conflict", "PUT", "/pieces/"),
    ("lost-ack", "lost", "PUT", "/readers/"),
    ("slowdown-get", "slow_down", "GET", "/pieces/"),
    ("half-get", "half_answer", "GET", "/pieces/"),
    ("denied-get", "denied", "GET", "/pieces/"),
    ("slowdown-head", "slow_down", "HEAD", "/pieces/"),
]


@pytest.mark.parametrize(("bucket", "fault", "method", "words"), FAULTS, ids=[name for name, *_ in FAULTS])
def test_a_trail_comes_whole_whatever_the_line_does(
    writer, tmp_path, running, server: S3Server, line: Line, bucket: str, fault: Fault, method: str, words: str
) -> None:
    url = parse_store_url(server.url(server.bucket(bucket), port=line.port), {})
    out, into = pumps(tmp_path, url)
    running(out)
    running(into)
    write(writer, 30)
    wait_for(lambda: into.state.acknowledged == 30)
    for _ in range(3):
        line.plan(fault, method, words)
    write(writer, 120)
    wait_for(lambda: into.state.acknowledged == 150)
    wait_for(lambda: line.is_through or method != "PUT" or words == "/readers/")
    assert rows(tmp_path / "b") == samples.expected_rows(1, 150, with_large=True)


def test_credentials_that_are_withdrawn_are_waited_for_and_never_told(writer, tmp_path, running, server, line) -> None:
    url = parse_store_url(server.url(server.bucket("withdrawn"), port=line.port), {})
    out, into = pumps(tmp_path, url)
    running(out)
    running(into)
    write(writer, 30)
    wait_for(lambda: into.state.acknowledged == 30)
    line.always = "denied"
    write(writer, 30)
    wait_for(lambda: "waiting" in out.state.state and "waiting" in into.state.state)
    assert "hush" not in out.state.state + into.state.state + str(out.state) + str(into.state)
    line.always = None
    wait_for(lambda: into.state.acknowledged == 60)
    assert rows(tmp_path / "b") == samples.expected_rows(1, 60, with_large=True)


def test_a_trail_comes_whole_through_an_ftp_server_that_is_killed(writer, tmp_path, running) -> None:
    """Carry a trail through FTP, which cannot decide between two writers: pieces have their writers in their names."""
    drop = tmp_path / "drop"
    drop.mkdir()
    give_away(drop)
    with ftp_server(tmp_path / "ftp") as ftp:
        out, into = pumps(tmp_path, parse_store_url(ftp.url(drop / "shop"), {}))
        running(out)
        running(into)
        write(writer, 30)
        wait_for(lambda: into.state.acknowledged == 30)
        ftp.daemon.stop(immediate=True)
        write(writer, 30)
        wait_for(lambda: "waiting" in out.state.state and "waiting" in into.state.state)
        assert "hush" not in str(out.state) + str(into.state)
        ftp.daemon.start()
        write(writer, 30)
        wait_for(lambda: into.state.acknowledged == 90)
        assert rows(tmp_path / "b") == samples.expected_rows(1, 90, with_large=True)
        names = [path.name for path in (drop / "shop" / "pieces").iterdir()]
        assert names and all(name[20] == "-" for name in names)
        assert sorted((drop / "shop" / "writers").iterdir())
