"""Failpoints: each name of the table stands once in the code, and nowhere another; what is asked for happens there, once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from anabranch import failpoints
from anabranch.errors import ConfigError, TargetUnavailable
from anabranch.failpoints import LOG_VARIABLE, POINTS, VARIABLE, FailpointReached, arm, reach

PACKAGE = Path(failpoints.__file__).parent
PLACE = re.compile(r'\breach\("([^"]+)"\)')


@pytest.fixture(autouse=True)
def unarmed() -> Iterator[None]:
    yield
    arm({})


def test_every_name_is_placed_once_and_every_place_is_named() -> None:
    """Once in each connector: what is done there is the same for all."""
    placed = Counter(
        (name, room(path))
        for path in PACKAGE.rglob("*.py")
        if path.name != "failpoints.py"
        for name in PLACE.findall(path.read_text())
    )
    assert {name for name, _ in placed} == set(POINTS)
    assert {place for place, times in placed.items() if times > 1} == set()
    assert {
        name: rooms for name in POINTS if "" in (rooms := [r for n, r in placed if n == name]) and len(rooms) > 1
    } == {}


def room(path: Path) -> str:
    """Its connector, "" for whatever is in none."""
    parts = path.relative_to(PACKAGE).parts
    return parts[1] if parts[0] == "connectors" else ""


def test_nothing_happens_where_nothing_is_armed() -> None:
    arm({})
    reach("no such name is even looked up")


def test_an_error_at_the_second_reach_and_never_again() -> None:
    arm({VARIABLE: "trail.synced=raise@2; trail.published=raise:TargetUnavailable"})
    reach("trail.synced")
    with pytest.raises(FailpointReached, match=r"trail\.synced"):
        reach("trail.synced")
    reach("trail.synced")
    with pytest.raises(TargetUnavailable):
        reach("trail.published")
    reach("apply.begin")


def test_no_room_for_a_while_and_then_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(failpoints, "time", clock)
    arm({VARIABLE: "trail.frame=full:0.05"})
    with pytest.raises(OSError, match="No space left"):
        reach("trail.frame")
    with pytest.raises(OSError, match="No space left"):
        reach("trail.frame")
    clock.monotonic = lambda: 100.06
    reach("trail.frame")


def test_a_delay_takes_its_time() -> None:
    arm({VARIABLE: "state.write=delay:0.05"})
    begun = time.monotonic()
    reach("state.write")
    assert time.monotonic() - begun >= 0.05


def test_an_exit_ends_the_process_and_acts_once_for_all_that_share_a_log(tmp_path: Path) -> None:
    log = tmp_path / "reached"
    program = "from anabranch.failpoints import reach\nreach('apply.begin')\nreach('apply.begun')\nprint('alive')"
    environment = os.environ | {VARIABLE: "apply.begun=exit:7", LOG_VARIABLE: str(log)}
    ended = [
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [(one.returncode, one.stdout) for one in ended] == [(7, ""), (0, "alive\n")]
    lines = [line.split()[0] for line in log.read_text().splitlines()]
    assert lines == ["apply.begin", "apply.begun", "apply.begun=exit:7", "apply.begin", "apply.begun"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("apply.comitted=exit", "did you mean apply.committed"),
        ("apply.committed=explode", "one of exit, raise, delay, full"),
        ("apply.committed=raise:Surprise", "a class of anabranch.errors"),
        ("apply.committed=delay", "seconds"),
        ("apply.committed", "name=action"),
        ("apply.committed=exit@0", "name=action"),
    ],
)
def test_what_cannot_be_understood_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        arm({VARIABLE: text})
    assert says in str(refused.value) and VARIABLE in str(refused.value)


def test_a_command_refuses_them_with_exit_code_2(tmp_path: Path) -> None:
    ends = '[source]\nurl = "mysql://a:b@127.0.0.1:9"\n[target]\nurl = "postgresql://a:b@127.0.0.1:9/c"\n'
    (tmp_path / "shop.toml").write_text(f'name = "shop"\n{ends}[[rules]]\ninclude = ["shop.*"]\n')
    environment = os.environ | {VARIABLE: "nowhere=exit", "ANABRANCH_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "anabranch", "status", str(tmp_path / "shop.toml")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 2 and "there is no failpoint 'nowhere'" in ended.stderr
    assert "Traceback" not in ended.stderr
