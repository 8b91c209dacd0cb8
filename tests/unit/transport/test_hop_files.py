"""Files of pumps, receivers and routers: what is wrong is told with its key, before anything is opened."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from anabranch.config.hop_files import is_pump_file
from anabranch.errors import ConfigError, StateError, TargetUnavailable
from anabranch.job.hopping import PumpJob, _make, receive, route
from anabranch.testing.servers import free_port
from anabranch.transport.server import listening
from rigs.certificates import Authority
from rigs.hop_files import pump_file, receive_file, route_file


def test_files_that_are_good(tmp_path: Path) -> None:
    port, other, shown = free_port(), free_port(), list[str]()
    tls = Authority(tmp_path / "ca").files("everybody")
    receive(receive_file(tmp_path, port, tls, 'min_free = "1 GB"\nretain_hours = 1'), check=True, show=shown.append)
    assert "is good" in shown[0]
    with pytest.raises(TargetUnavailable, match=f"127.0.0.1:{other} cannot be reached"):
        route(route_file(tmp_path, port, other, tls), check=True)
    limits = '[trail]\nbandwidth = [{ from = "08:00", to = "18:00", limit = "2 MB/s" }]'
    file = pump_file(tmp_path, tmp_path / "a", "trail+tcp://127.0.0.1:7420/shop", limits)
    assert is_pump_file(file) and PumpJob(file).check() == [
        f"there is no trail in {tmp_path}/a: start what writes it first",
        "127.0.0.1:7420 cannot be reached: Connection refused",
    ]
    assert not is_pump_file(tmp_path / "nothing") and not is_pump_file(receive_file(tmp_path, port))


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ('address = "127.0.0.1:', 'address = "0.0.0.0:', "reached by other machines"),
        ('name = "in"', 'nam = "in"', "did you mean name"),
        ("trail+file://", "trail+tls://", "expected trail\\+file:///DIRECTORY/NAME"),
        ("[[allow]]", "[[allowed]]", "did you mean allow"),
        ('[[allow]]\ntrail = "*"', "", "allow: is missing"),
        ("[store]", '[store]\nmin_free = "much"', 'a number with a unit, like "20 MB/s"'),
        ("[store]", "[store]\nretain = 3", "one of url, min_free, retain_hours"),
        ("[listen]", '[listen]\ntls_ca = "ca.pem"', "tls_ca, tls_cert and tls_key together"),
        ("[listen]", "[listen", "is not TOML"),
    ],
)
def test_a_receivers_file_that_is_wrong(tmp_path: Path, was: str, now: str, said: str) -> None:
    file = receive_file(tmp_path, free_port())
    file.write_text(file.read_text().replace(was, now))
    with pytest.raises(ConfigError, match=said):
        receive(file, check=True)


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    one, other = Authority(tmp_path / "ca").files("one"), Authority(tmp_path / "ca").files("other")
    port = free_port()
    with pytest.raises(ConfigError, match=r"one\.pem with the key .*other\.key cannot be used: key values mismatch"):
        receive(receive_file(tmp_path, port, type(one)(one.ca, one.cert, other.key)), check=True)
    with pytest.raises(ConfigError, match=r"the certificate authority .*missing cannot be used: No such file"):
        receive(receive_file(tmp_path, port, type(one)(tmp_path / "missing", one.cert, one.key)), check=True)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("trail+tcp://example.org:7420/shop", "trail\\+tls://, since others could read"),
        ("trail+tls://example.org:7420/shop", "ssl_ca, ssl_cert, ssl_key"),
        ("trail+tcp://127.0.0.1:7420", "trail\\+tcp://127.0.0.1:PORT/NAME"),
        ("trail+tcp://127.0.0.1:7420/a/b", "where NAME has"),
        ("trail+tcp://127.0.0.1:99999/a", "PORT"),
        ("trail+file:///a/../b", "an absolute path"),
        ("trail+tls://${HOST_OF_NOBODY}:7420/shop", "HOST_OF_NOBODY"),
    ],
)
def test_a_pumps_target_that_is_wrong(tmp_path: Path, target: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        PumpJob(pump_file(tmp_path, tmp_path / "a", target))


def test_other_mistakes_of_a_pump(tmp_path: Path) -> None:
    target = "trail+tcp://127.0.0.1:7420/shop"
    with pytest.raises(ConfigError, match="one directory"):
        PumpJob(pump_file(tmp_path, tmp_path / "a", f"trail+file://{tmp_path}/a"))
    with pytest.raises(ConfigError, match="did you mean bandwidth"):
        PumpJob(pump_file(tmp_path, tmp_path / "a", target, "[trail]\nbandwith = 1"))
    with pytest.raises(ConfigError, match="'8:00' is no time of the day"):
        PumpJob(pump_file(tmp_path, tmp_path / "a", target, '[trail]\nbandwidth = [{ from = "8:00", to = "18:00" }]'))
    with pytest.raises(StateError, match="there is no trail in"):
        PumpJob(pump_file(tmp_path, tmp_path / "a", target)).run()


@pytest.mark.parametrize("problem", [errno.EADDRNOTAVAIL, errno.EADDRINUSE, errno.EMFILE])
def test_an_address_that_may_come_is_no_wrong_file(monkeypatch, problem):
    def fails(*_: object) -> None:
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(socket.socket, "bind", fails)
    with pytest.raises(StateError, match="cannot be used") as raised:
        listening("127.0.0.1", 0)
    assert raised.value.exit_code == 7


def test_an_address_of_another_machine_and_a_name_without_a_server_may_come_and_a_wrong_name_does_not(monkeypatch):
    with pytest.raises(StateError, match=r"203\.0\.113\.7:0 cannot be used"):
        listening("203.0.113.7", 0)  # of documents: no machine has it
    for code, kind in ((socket.EAI_AGAIN, StateError), (socket.EAI_NONAME, ConfigError)):

        def fails(*_: object, code: int = code, **__: object) -> None:
            raise socket.gaierror(code, "no answer")

        monkeypatch.setattr(socket, "getaddrinfo", fails)
        with pytest.raises(kind, match="no answer"):
            listening("shop.example", 0)


def test_a_store_that_cannot_be_made_now_is_no_wrong_file_and_a_file_in_its_way_is(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be made"):
        _make(tmp_path / "file" / "store", "in.toml")

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(Path, "mkdir", fails)
    with pytest.raises(StateError, match="cannot be made: Stale"):
        _make(tmp_path / "away" / "store", "in.toml")
