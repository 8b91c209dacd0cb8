"""`anabranch torture` on a pair that is not its own: what it refuses, and that it leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.errors import ConfigError, PreflightFailed, SourceUnavailable, TargetUnavailable
from anabranch.testing import packages
from anabranch.testing.databases import Database, connect
from anabranch.testing.in_time import in_time
from anabranch.testing.servers import Server
from anabranch.testing.torture.beside import prepared
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.ends import version_of
from anabranch.testing.torture.pair import users_own
from anabranch.testing.torture.run import save

XA = (
    "XA START 'torture_9_0'",
    "INSERT INTO torture_9.t VALUES (1)",
    "XA END 'torture_9_0'",
    "XA PREPARE 'torture_9_0'",
)


@pytest.fixture
def pair(mariadb: Server, target_database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The tool that reads the log has to be on the PATH, with a pair that is not the kit's own."""
    software = packages.find_mariadb()
    places = [str(software.program("mariadb-binlog").parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(places))
    monkeypatch.setenv("LD_LIBRARY_PATH", software.environment().get("LD_LIBRARY_PATH", ""))
    yield ["--source", mariadb.url(), "--target", target_database.url]


def start(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "anabranch", "torture", *arguments]
    return subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


def ended(process: subprocess.Popen[str], seconds: float = 600) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=seconds)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def left(server: Server, target: Database) -> list[str]:
    """Jobs of other tests may have their state at the source's server."""
    databases = [name for (name,) in Database(server, "").query("SHOW DATABASES") if name != "anabranch"]
    schemas = [name for (name,) in target.query("SELECT nspname FROM pg_namespace")]
    beside = [name for (name,) in target.query("SELECT datname FROM pg_database WHERE datname LIKE '%%\\_second'")]
    return [name for name in (*databases, *schemas) if name.startswith("torture") or name == "anabranch"] + beside


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
    code, _, err = ended(start(tmp_path, *pair[:2], "--target", "oracle://a:secret@h"))
    assert code == 2 and "--target" in err and "secret" not in err
    (tmp_path / "no.json").write_text("[]")
    code, _, err = ended(start(tmp_path, "--replay", "no.json"))
    assert code == 2 and "no.json is no history" in err


def test_a_pair_is_looked_at_first(pair: list[str], mariadb: Server, target_database: Database) -> None:
    source, target, port = pair[1], pair[3], f":{target_database.server.port}/"
    with pytest.raises(SourceUnavailable, match=r"--source .*Access denied"):
        users_own(source.replace(":" + mariadb.password, ":wrong"), target)
    with pytest.raises(TargetUnavailable, match=r"--target .*does not exist"):
        users_own(source, target.partition(port)[0] + port + "nowhere")
    with pytest.raises(ConfigError, match="says that it is"):
        users_own(source.replace("mariadb://", "mysql://"), target)
    server, owner = Database(mariadb, ""), f"torture_{os.getpid()}"
    server.execute("SET GLOBAL binlog_format = 'STATEMENT'")
    try:
        with pytest.raises(PreflightFailed, match="binlog_format is STATEMENT"):
            users_own(source, target)
    finally:
        server.execute("SET GLOBAL binlog_format = 'ROW'")
    target_database.execute(f"CREATE ROLE {owner} LOGIN PASSWORD 'x'")
    try:
        with pytest.raises(PreflightFailed, match="may not make schemas"):
            users_own(source, f"postgresql://{owner}:x@127.0.0.1{port}{target_database.name}")
    finally:
        target_database.execute(f"DROP ROLE {owner}")


def test_what_is_left_is_cleared_and_a_job_of_the_same_name_is_not(
    pair: list[str], mariadb: Server, target_database: Database
) -> None:
    """As after SIGKILL: a transaction that is prepared, which DROP DATABASE would wait for, and rows of the job."""
    ground = users_own(pair[1], pair[3])
    ground.require_free()
    target_database.execute(
        "CREATE SCHEMA anabranch",
        "CREATE TABLE anabranch.job (job text)",
        "CREATE TABLE anabranch.checkpoint (job text)",
    )
    target_database.execute("INSERT INTO anabranch.job VALUES ('torture_9'), ('shop')", "CREATE SCHEMA torture_9")
    with closing(connect(mariadb)) as connection, connection.cursor() as cursor:
        for statement in ("CREATE DATABASE torture_9", "CREATE TABLE torture_9.t (n INT PRIMARY KEY)", *XA):
            cursor.execute(statement)
    with pytest.raises(ConfigError, match="what is kept of a job torture_9 at the target"):
        users_own(pair[1], pair[3]).require_free()
    ground.clear([9])
    assert not prepared(mariadb, "torture_9")
    assert left(mariadb, target_database) == ["anabranch"]  # somebody else's job is there by now
    assert target_database.query("SELECT job FROM anabranch.job") == [("shop",)]
    target_database.execute("DELETE FROM anabranch.job")
    ground.clear([])
    assert left(mariadb, target_database) == []


def test_histories_run_again_and_leave_nothing(
    pair: list[str], mariadb: Server, target_database: Database, tmp_path: Path
) -> None:
    code, out, err = ended(start(tmp_path, *pair, "--seed", "1", "--histories", "2", "--results", "kept.json"))
    assert code == 0 and "2 histories passed" in out and (tmp_path / "kept.json").exists(), err
    assert "1 of them with two targets" in out, err
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
    until = time.monotonic() + 240
    while not left(mariadb, target_database):
        assert process.poll() is None
        in_time(until, "it begins nothing")
        time.sleep(0.1)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)  # impatience does not keep it from clearing away
    assert ended(process)[0] == 130
    assert left(mariadb, target_database) == []
