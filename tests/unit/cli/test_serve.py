"""`anabranch serve` where its address is taken or not its own, and where it is free. No server of a database."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from anabranch.cli import main as shell
from anabranch.cli.serve import bound
from anabranch.errors import ConfigError
from anabranch.testing.in_time import PATIENCE, until

SERVE = (sys.executable, "-m", "anabranch", "serve", "--listen")


def test_a_port_that_is_taken_is_said_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path / "home"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert shell.exit_code(["serve", "--listen", f"127.0.0.1:{port}"]) == 2
    told = capsys.readouterr().err
    assert f"port {port} is taken" in told and "--listen" in told and "serves" not in told
    assert not (tmp_path / "home").exists(), "nothing was begun"


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])  # https://www.rfc-editor.org/rfc/rfc5737
def test_a_host_that_is_not_this_machine_is_a_wrong_setting(host: str) -> None:
    with pytest.raises(ConfigError, match="cannot be listened at"):
        bound(host, 8420)


def test_what_is_bound_takes_connections_at_once() -> None:
    for one in bound("localhost", 0):
        with one, socket.create_connection(one.getsockname()[:2]):
            pass


def test_a_manager_answers_another_one_there_is_refused_and_one_elsewhere_takes_over(tmp_path: Path) -> None:
    with serving(tmp_path, "anabranch serves") as (first, address):
        assert health(address) == (200, b"ok\n")
        again = [*SERVE, address]
        second = subprocess.run(again, env=environment(tmp_path), capture_output=True, text=True, check=False)
        assert second.returncode == 2 and "is taken" in second.stderr and "stands by" not in second.stderr
        with serving(tmp_path, "anabranch stands by") as (other, elsewhere):
            until(lambda: health(elsewhere) == (503, b"standby\n"), "it stands by")
            first.send_signal(signal.SIGTERM)
            assert first.wait(PATIENCE) == 0
            until(lambda: health(elsewhere) == (200, b"ok\n"), "it has taken over")
            other.send_signal(signal.SIGTERM)
            assert other.wait(PATIENCE) == 0


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "ANABRANCH_HOME": str(home)}


def health(address: str) -> tuple[int, bytes]:
    try:
        with urlopen(f"http://{address}/healthz", timeout=PATIENCE) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, error.read()


@contextmanager
def serving(home: Path, word: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start one at a free port, and wait until it has said `word`. Yields the process and its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with subprocess.Popen(
        [*SERVE, address, *arguments], env=environment(home), stderr=subprocess.PIPE, text=True
    ) as process:
        lines: list[str] = []
        reading = threading.Thread(target=lines.extend, args=(process.stderr,), daemon=True)
        reading.start()
        try:
            until(lambda: any(word in line for line in lines), word)
            yield process, address
        finally:
            process.kill()
            process.wait()
            reading.join()
