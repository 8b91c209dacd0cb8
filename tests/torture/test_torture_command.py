"""`anabranch torture` on a pair that is not its own: what it refuses, and that it leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.ends import version_of
from anabranch.testing.torture.run import save


@pytest.fixture
def pair(mariadb: Server, target_database: Database, tmp_path: Path) -> Iterator[list[str]]:
    yield ["--source", mariadb.url(), "--target", target_database.url]


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "anabranch", "torture", *arguments]
    return subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def ended(process: subprocess.Popen[str], seconds: float = 120) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def left(server: Server, target: Database) -> list[str]:
    databases = [name for (name,) in Database(server, "").query("SHOW DATABASES")]
    schemas = [name for (name,) in target.query("SELECT nspname FROM pg_namespace")]
    return [name for name in (*databases, *schemas) if name.startswith("torture") or name == "anabranch"]


def test_torture_refuses_what_it_could_destroy_and_what_it_cannot_read(
    pair: list[str], mariadb: Server, tmp_path: Path
) -> None:
    database = Database(mariadb, "")
    database.execute("CREATE DATABASE torture_7")
    try:
        code, _, err = ended(start(tmp_path, *pair))
        assert code == 2 and "database torture_7 at mariadb" in err
    finally:
        database.execute("DROP DATABASE torture_7")
    assert ended(start(tmp_path, *pair[:2]))[0] == 2
    code, _, err = ended(start(tmp_path, *pair[:2], "--target", "mysql://a:secret@h"))
    assert code == 2 and "--target" in err and "secret" not in err
    (tmp_path / "no.json").write_text("[]")
    code, _, err = ended(start(tmp_path, "--replay", "no.json"))
    assert code == 2 and "no.json is no history" in err


def test_torture_runs_histories_again_and_leaves_nothing(
    pair: list[str], mariadb: Server, target_database: Database, tmp_path: Path
) -> None:
    code, out, err = ended(start(tmp_path, *pair, "--seed", "2", "--histories", "2", "--results", "kept.json"))
    assert code == 0 and "2 histories passed" in out and (tmp_path / "kept.json").exists(), err
    assert left(mariadb, target_database) == []
    history = draw_history(3, mariadb.name, version_of(mariadb))
    save(tmp_path / "h.json", history, [Fault("kill", "apply", after=3)], None)
    code, out, err = ended(start(tmp_path, *pair, "--replay", "h.json"))
    assert code == 0 and "faults that came about: kill apply" in out and "it passed" in out, err
    assert left(mariadb, target_database) == []


def test_torture_leaves_nothing_when_it_is_interrupted(
    pair: list[str], mariadb: Server, target_database: Database, tmp_path: Path
) -> None:
    process = start(tmp_path, *pair, "--minutes", "5")
    until = time.monotonic() + 60
    while not left(mariadb, target_database) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 130
    assert left(mariadb, target_database) == []
