"""What `anabranch torture` refuses before anything is started, and what it says where nothing counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.main import exit_code
from anabranch.errors import ConfigError
from anabranch.testing.torture import command, order, report
from anabranch.testing.torture.campaign import NothingCounted, Told
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.ground import NAME, Ground
from anabranch.testing.torture.one import One
from anabranch.testing.torture.run import save

PAIR = ("--source", "mariadb://a:b@127.0.0.1:9/", "--target", "postgresql://a:b@127.0.0.1:9/c")


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    assert exit_code(["torture", *arguments]) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("minutes", ["nan", "inf", "0", "-1"])
def test_minutes_are_a_number(capsys: pytest.CaptureFixture[str], minutes: str) -> None:
    assert "--minutes" in refused(capsys, "--minutes", minutes)


def test_results_that_cannot_be_kept_are_said_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "No such file" in refused(capsys, "--results", str(tmp_path / "none" / "r.json"))
    for text in ("no json", "[1]"):
        (tmp_path / "r.json").write_text(text)
        assert "holds something else" in refused(capsys, "--results", str(tmp_path / "r.json"))
        assert (tmp_path / "r.json").read_text() == text
    report.require_writable(tmp_path / "new.json")
    assert not (tmp_path / "new.json").exists()


def test_a_file_runs_again_only_where_it_is_what_it_was(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file, history = tmp_path / "h.json", draw_history(3, "mariadb", (10, 11))
    save(file, history, [], None, servers={"source": "mysql 8.0.33"}, spark=False)
    assert "is of a mysql, --source is a mariadb" in refused(capsys, *PAIR, "--replay", str(file))
    assert "without --spark" in refused(capsys, "--spark", "--replay", str(file))
    save(file, history, [Fault("restart", "target")], None, servers={"source": "mariadb 10.11"})
    assert "restart servers" in refused(capsys, *PAIR, "--replay", str(file))
    assert "--results" in refused(capsys, "--replay", str(file), "--results", str(tmp_path / "r.json"))
    save(file, history, [], None, servers={"source": "mariadb 10.11"}, spark=True)
    assert command._read(file).with_spark is True


def test_a_file_runs_again_at_the_kind_of_target_that_it_failed_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file, history = tmp_path / "h.json", draw_history(3, "mariadb", (10, 11))
    save(file, history, [], None, servers={"source": "mariadb 10.11", "target": "mysql 8.0.33"})
    assert command._read(file).target == "mysql"
    assert "is of a target mysql, --target is a postgresql" in refused(capsys, *PAIR, "--replay", str(file))
    save(file, history, [], None, servers={"source": "mariadb 10.11", "target": "18.4"})
    assert command._read(file).target == ""


def test_a_kind_of_target_goes_with_private_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert "go together" in refused(capsys, *PAIR[:2], "--target", "mysql")
    assert "leave --target out" in refused(capsys, "--source", "mysql", *PAIR[2:])
    assert not command.Asked("mysql", "mariadb").is_users_own and command.Asked(PAIR[1], PAIR[3]).is_users_own


def test_servers_that_are_away_have_their_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, *PAIR, code=5)
    assert "--source 127.0.0.1:9" in said and "ANABRANCH_TEST" not in said


def test_names_of_ours_in_any_case() -> None:
    assert NAME.fullmatch("Torture_7") and not NAME.fullmatch("torture_7_old")


def test_the_tool_is_the_family_s_own_and_nothing_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Debian's mariadb-client has a mysqlbinlog too, which does not read MySQL's log."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for family in ("mysql", "mariadb"):
        with pytest.raises(ConfigError, match="on the PATH"):
            order.tool_on_path(family)
    program(tmp_path / "mysqlbinlog", "mysqlbinlog from 11.8.3-MariaDB, client 3.5")
    with pytest.raises(ConfigError, match="no mysqlbinlog of MySQL"):
        order.tool_on_path("mysql")
    assert order.tool_on_path("mariadb") == str(tmp_path / "mysqlbinlog")
    program(tmp_path / "mysqlbinlog", "mysqlbinlog  Ver 8.0.33 for Linux on x86_64 (MySQL Community Server - GPL)")
    assert order.tool_on_path("mysql") == str(tmp_path / "mysqlbinlog")


def program(path: Path, says: str) -> None:
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)


def test_where_nothing_counts_nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calm = Told(4, "mariadb", "", 40, 90, 11, 1.0, (), frozenset())

    class Calm:
        def __init__(self, *_: Any) -> None: ...

        def run(self, *_: Any) -> Iterator[Told]:
            yield calm

    monkeypatch.setattr(command, "Campaign", Calm)
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"bugs": []}))
    with pytest.raises(NothingCounted) as said:
        command._campaign(command.Asked(results=file), One(Ground([], None), tmp_path))
    assert said.value.exit_code == 1 and json.loads(file.read_text()) == {"bugs": []}


def test_a_decoder_is_of_a_private_postgresql(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--decoder is of" in refused(capsys, "--source", "mysql", "--decoder", "wal2json")
    assert "--decoder is of" in refused(capsys, *PAIR, "--decoder", "drawn")
    assert "other" in refused(capsys, "--source", "postgresql", "--decoder", "other")
    asked = command.Asked("postgresql", decoder="drawn")
    assert asked.decoders == ("pgoutput", "wal2json", "decoderbufs")
    assert command.Asked("postgresql").decoders == ("",) and command.Asked(decoder="wal2json").decoders == ("wal2json",)
