"""Refuse changes of what runs programs or names files of the machine, but to administrators of all jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import ConfigError, NotAllowed, OutOfDate, UnknownName
from anabranch.manager import Manager
from anabranch.manager.callers import Caller, Role
from anabranch.manager.reach import reach_of
from tests.unit.manager.test_manager_store import text

ADMIN = Caller("ann", "token", Role.ADMINISTRATOR)
SOME = Caller("bob", "token", Role.ADMINISTRATOR, ("shop", "web-*"))
SOURCE, TARGET = '127.0.0.1:1"\n[target]', "127.0.0.1:1/db"
FLIP = '[cutover]\nflip = ["sh", "-c", "id"]\n'
REACHES = [
    text(more=FLIP),
    text(more='[spark.conf]\n"spark.plugins" = "a.B"\n'),
    text(more='[spark]\nconf.spark.jars = "/tmp/a.jar"\n'),
    text(more='[spark]\nmaster = "spark://elsewhere:7077"\n'),
    text(more='[spark]\narchive = "/tmp/a.tar.gz"\n'),
    text().replace(SOURCE, SOURCE.replace('"', '?ssl_ca=/etc/a.pem"', 1)),
    text().replace(TARGET, f"{TARGET}?ssl_mode=required&ssl_cert=/a&ssl_key=/b"),
    text().replace(TARGET, f"{TARGET}?unix_socket=/run/x"),
    text(more='[observe]\ntraces = "http://127.0.0.1:4318/v1/traces"\n'),
    text().replace('url = "mysql://u:${PW}@127.0.0.1:1"', 'url = "trail+file:///home/other/trail"'),
    text().replace('url = "postgresql://u:${PW}@127.0.0.1:1/db"', 'url = "trail+file:///home/other/trail"'),
    text(more='[trail]\nencrypt = { key_command = ["/bin/sh"] }\n'),
]


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    made = Manager(tmp_path)
    made.add(ADMIN, text())
    return made


@pytest.mark.parametrize("reaching", REACHES)
def test_what_runs_programs_or_names_files_is_for_administrators_of_all_jobs(manager: Manager, reaching: str) -> None:
    assert reach_of(text()) == {} != reach_of(reaching)
    for deed in (manager.change, lambda who, name, said: manager.checked(who, said, name)):
        with pytest.raises(NotAllowed, match="only an administrator of all jobs"):
            deed(SOME, "shop", reaching)
    assert manager.jobs.job("shop").version == 1
    manager.change(ADMIN, "shop", reaching)
    assert manager.change(SOME, "shop", f"{reaching}\n# the same, and a note\n").version == 3
    with pytest.raises(NotAllowed):
        manager.restore(SOME, "shop", 1)
    manager.change(ADMIN, "shop", text())
    with pytest.raises(NotAllowed):
        manager.restore(SOME, "shop", 2)


def test_an_administrator_of_some_jobs_changes_the_rest_of_their_files(manager: Manager) -> None:
    changed = text(more='[spark]\nmaster = "local[2]"\n[cutover]\ngrace = 5\n').replace(
        TARGET, f"{TARGET}?ssl_mode=required"
    )
    assert manager.checked(SOME, changed, "shop").cutover.grace == 5
    assert manager.change(SOME, "shop", changed).version == 2
    with pytest.raises(ConfigError, match="not TOML"):
        manager.change(SOME, "shop", "name =")
    for expected, refusal in ((1, OutOfDate), (3, UnknownName)):
        with pytest.raises(refusal):
            manager.change(SOME, "shop", changed, expected=expected)
    assert manager.change(SOME, "shop", changed, expected=2).version == 3
    with pytest.raises(NotAllowed):
        manager.checked(SOME, text("web-1"))
    with pytest.raises(NotAllowed):
        manager.add(SOME, text("web-1"))
    with pytest.raises(UnknownName):
        manager.checked(SOME, text("other"), "other")


def test_a_trail_as_one_of_several_targets_reaches_the_machine_and_which_one_counts() -> None:
    several = '[[targets]]\nname = "a"\nurl = "postgresql://h/a"\n[[targets]]\nname = "b"\nurl = "trail+file:///%s"\n'
    assert list(reach_of(several % "b")) == ["[[targets]] 2 url"]
    assert reach_of(several % "b") != reach_of(several % "c")
