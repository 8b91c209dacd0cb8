"""The demo of a DMZ: the files of its three networks, their certificates, and what it prints."""

from __future__ import annotations

import socket
import ssl
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.config.hop_files import PumpFile, ReceiveFile, RouteFile, load_hop_file
from anabranch.demo.certificates import Authority
from anabranch.demo.latency import Distribution
from anabranch.demo.moving_summary import Cut, MovedSummary
from anabranch.demo.shop import End
from anabranch.demo.sites import Sites
from anabranch.demo.writer import Totals
from anabranch.job import Job
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.transport.tls import Certificates, context, names_of

EQUAL: dict[str, Any] = {"source": "shop.orders", "identical": True, "rows_source": 30_000}
TABLE = {"rows_loaded": 30_000, "changes_applied": 7}


def ends(source: str = "mariadb", target: str = "postgresql") -> tuple[End, End]:
    made = (
        End(Database(Server(family, "1", "127.0.0.1", port, "root", ""), "shop"), secret)
        for family, port, secret in ((source, 4711, "secret-there"), (target, 4712, "secret-here"))
    )
    return next(made), next(made)


def sites(place: Path, source: str = "mariadb", target: str = "postgresql") -> Sites:
    return Sites.write(place, *ends(source, target), {"JAVA_HOME": "/java"})


@pytest.mark.parametrize("source", ["mariadb", "postgresql"])
@pytest.mark.parametrize("target", ["postgresql", "mysql"])
def test_each_file_is_one_that_its_command_takes(
    tmp_path: Path, source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sites(tmp_path, source, target)
    monkeypatch.setenv("DEMO_SOURCE_PASSWORD", "x")
    monkeypatch.setenv("DEMO_TARGET_PASSWORD", "x")
    load_hop_file(PumpFile, made.pump.file)
    load_hop_file(RouteFile, made.router.file)
    load_hop_file(ReceiveFile, made.receiver.file)
    for file in (made.capture.file, made.apply.file, made.both.job_file):
        assert Job.from_file(file).config.rules
    assert Job.from_file(made.both.job_file).config.name == Job.from_file(made.apply.file).config.name


def test_no_network_knows_the_other_ones_database(tmp_path: Path) -> None:
    made = sites(tmp_path)
    hops = (made.capture, made.pump, made.router, made.receiver, made.apply)
    texts = {hop.file: hop.file.read_text() for hop in hops}
    assert not any("secret" in text for text in texts.values())
    assert [file for file, text in texts.items() if "4711" in text] == [made.capture.file]
    assert [file for file, text in texts.items() if "4712" in text] == [made.apply.file]
    assert "secret-here" not in made.capture.variables.values()
    assert "secret-there" not in made.apply.variables.values()
    assert len(list(made.map())) == 3


def test_certificates_are_those_of_one_authority_and_keys_are_their_owners(tmp_path: Path) -> None:
    authority = Authority("demo")
    here, there = (authority.issue(tmp_path, name) for name in ("pump", "dmz"))
    assert here.key.stat().st_mode & 0o077 == 0
    assert peers(here, there) == ("pump", "127.0.0.1")
    (tmp_path / "stranger").mkdir()
    with pytest.raises(ssl.SSLCertVerificationError):
        peers(Authority("demo").issue(tmp_path / "stranger", "pump"), there)


def peers(client: Certificates, server: Certificates) -> tuple[str, ...]:
    """Connect once on a pair of sockets; return what the server calls the client. Raises what ends a handshake."""
    one, other = socket.socketpair()
    found: list[tuple[str, ...]] = []

    def serve() -> None:
        try:
            with context(server, serves=True).wrap_socket(other, server_side=True) as sock:
                found.append(names_of(sock))
        except OSError:
            other.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with context(client, serves=False).wrap_socket(one, server_hostname="127.0.0.1"):
            thread.join()
    finally:
        one.close()
        thread.join()
    return found[0]


def summary() -> MovedSummary:
    latencies = Distribution()
    latencies.add((0.05, 0.06, 0.07, 0.9))
    status = {"targets": [{"tables": [TABLE, TABLE]}]}
    verification = {"identical": True, "tables": [EQUAL, EQUAL], "parked": []}
    legs = [("dmz", 0.0018), ("inner", 0.0009)]
    return MovedSummary(status, verification, Totals(900, 20, 1), latencies, legs, Cut(5.04, 300, 2.0), 40.4, 0)


def test_the_summary_of_a_good_way() -> None:
    good = summary()
    assert good.exit_code == 0
    assert good.lines() == [
        "loaded      60,000 rows of 2 tables through the trail, in 40 s",
        "hops        dmz 1.8 ms, inner 0.9 ms, there and back",
        "streamed    latency p50 60 ms, p99 900 ms before the cut (4 transactions, writer's clock to visible)",
        "the cut     5.0 s without a router, 300 transactions waited; caught up 2.0 s after its start",
        "the writer  900 committed, 20 rolled back, 1 refused (deadlocks and the like)",
        "lost        0",
        "identical:  2 of 2 tables (60,000 rows compared)",
    ]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        ({"lost": 1}, 4),
        ({"verification": {"identical": False, "tables": [EQUAL | {"identical": False}], "parked": []}}, 4),
        ({"verification": {"identical": True, "tables": [], "parked": []}}, 8),
        ({"verification": {"identical": True, "tables": [EQUAL], "parked": [{"source": "a", "reason": "b"}]}}, 8),
    ],
)
def test_what_is_lost_different_or_parked_is_a_failure(bad: dict[str, Any], code: int) -> None:
    found = replace(summary(), **bad)
    assert found.exit_code == code
    assert found.lines()[-1].startswith("identical:  ")


def test_a_short_demo_has_no_latency() -> None:
    assert "streamed    too short to measure a latency" in replace(summary(), latencies=Distribution()).lines()
