"""Secrets of a manager: sealed in the store, opened for the jobs that may use them, shown to nobody. No server, no HTTP."""

from __future__ import annotations

import base64
import json
import pickle
import stat
import sys
from pathlib import Path

import pytest

from anabranch.config import parse_job
from anabranch.connectors.kafka.target.formats import registry_of
from anabranch.connectors.kafka.target.options import KafkaTargetOptions
from anabranch.errors import ConfigError, NotAllowed, UnknownName
from anabranch.manager import Manager, secret_keys
from anabranch.manager.callers import Caller, Role
from anabranch.manager.environment import named_in
from anabranch.manager.secret_keys import FILE_VARIABLE, VARIABLE, Key
from anabranch.model.way_back_names import name_of
from tests.unit.manager.test_manager_operations import ADMIN
from tests.unit.manager.test_manager_store import text

KAFKA = text().replace("postgresql://u:${PW}@127.0.0.1:1/db", "kafka://127.0.0.1:1")
VALUE = "S3cret@ with ünicode\nand two lines"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    monkeypatch.delenv("PW", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    return Manager(tmp_path)


def new_key() -> str:
    return base64.b64encode(Key.made().value).decode()


def password_of(manager: Manager, name: str = "shop") -> str:
    return manager.jobs.checked(text(name)).source.endpoint.password


def test_a_secret_stands_for_a_variable_and_comes_before_the_environment(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigError, match="PW is not set"):
        manager.add(ADMIN, text())
    monkeypatch.setenv("PW", "of the environment")
    assert password_of(manager) == "of the environment"
    manager.secrets.set(ADMIN, "PW", VALUE)
    assert password_of(manager) == VALUE
    manager.secrets.remove(ADMIN, "PW")
    assert password_of(manager) == "of the environment"
    with pytest.raises(UnknownName):
        manager.secrets.remove(ADMIN, "PW")


def test_no_byte_of_a_value_is_in_the_store_its_lists_or_the_audit(manager: Manager) -> None:
    manager.secrets.set(ADMIN, "PW", VALUE)
    manager.secrets.set(ADMIN, "PW", VALUE, ("shop",))
    manager.add(ADMIN, text())
    (listed,) = manager.secrets.all(ADMIN)
    assert (listed.jobs, listed.used_by, listed.by, listed.is_readable) == (("shop",), ("shop",), "ann", True)
    assert VALUE not in repr(listed) and not any(VALUE in str(one) for one in manager.audit.entries())
    assert {"secret_set", "job_added"} == {one.action for one in manager.audit.entries()}
    for file in manager.store.path.parent.iterdir():
        assert not file.is_file() or VALUE.encode() not in file.read_bytes(), file


def test_the_key_is_made_once_for_this_user_alone(manager: Manager) -> None:
    key = manager.store.path.with_name("secret.key")
    assert not key.exists(), "nothing is sealed yet"
    manager.secrets.set(ADMIN, "PW", VALUE)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(base64.b64decode(key.read_text())) == secret_keys.SIZE
    before = key.read_text()
    manager.secrets.set(ADMIN, "OTHER", VALUE)
    assert key.read_text() == before and sorted(one.name for one in key.parent.glob("*.key*")) == ["secret.key"]
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="others may read"):
        password_of(manager)


def test_a_secret_is_for_the_jobs_that_may_use_it(manager: Manager) -> None:
    manager.secrets.set(ADMIN, "PW", VALUE, ("web-*", "shop"))
    assert password_of(manager, "web-1") == password_of(manager) == VALUE
    with pytest.raises(ConfigError, match="PW is not set"):
        password_of(manager, "other")
    manager.secrets.set(ADMIN, "PW", "another")
    assert manager.secrets.secret(ADMIN, "PW").jobs == ("web-*", "shop"), "a new value leaves the jobs as they are"


def test_a_process_gets_the_secrets_that_its_file_names_and_no_key(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, new_key())
    for name in ("PW", "OTHER", "BACK"):
        manager.secrets.set(ADMIN, name, f"value of {name}")
    manager.add(ADMIN, text())
    below = {"PATH": "/bin", VARIABLE: "x"}
    assert manager.jobs.environment_of_process("shop", below) == {"PATH": "/bin", "PW": "value of PW"}
    manager.add(ADMIN, text(name_of("shop")).replace("${PW}", "${BACK}"))
    found = manager.jobs.environment_of_process("shop", below)
    assert found == {"PATH": "/bin", "PW": "value of PW", "BACK": "value of BACK"}, "a cut-over reads both files"
    with pytest.raises(ConfigError, match="is not set"):
        manager.jobs.checked(text().replace("${PW}", f"${{{VARIABLE}}}"))


def test_variables_are_found_however_a_file_writes_them() -> None:
    assert named_in('a = "\\u0024{ONE}"\n# ${NONE}\n[[b]]\nc = ["x${TWO}${THREE}"]\n') == {"ONE", "TWO", "THREE"}
    assert named_in("no = toml = at all") == set()


def test_a_lost_or_wrong_key_is_said_and_no_other_one_is_made(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.secrets.set(ADMIN, "PW", VALUE)
    manager.add(ADMIN, text())
    key = manager.store.path.with_name("secret.key")
    kept = key.rename(key.with_name("elsewhere"))
    for refused in (lambda: password_of(manager), lambda: manager.secrets.rotate(ADMIN)):
        with pytest.raises(
            ConfigError, match=r"the secret PW was sealed with the key [0-9a-f]{12}, which is not there"
        ):
            refused()
    with pytest.raises(ConfigError, match="other secrets were sealed with one"):
        manager.secrets.set(ADMIN, "OTHER", VALUE)
    assert not key.exists() and not manager.secrets.secret(ADMIN, "PW").is_readable
    assert "PW was sealed with the key" in manager.glances.of("shop").problem
    manager.supervision.look()
    monkeypatch.setenv(VARIABLE, new_key())
    with pytest.raises(ConfigError, match="is not there"):
        password_of(manager)
    monkeypatch.setenv(FILE_VARIABLE, str(kept))
    assert password_of(manager) == VALUE
    for wrong in ("short", "ä", "=" * 44):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(ConfigError, match="what is no key") as told:
            password_of(manager)
        assert wrong not in str(told.value)


def test_a_job_whose_secret_cannot_be_read_waits_and_says_why(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.secrets.set(ADMIN, "PW", VALUE)
    manager.add(ADMIN, text())
    manager.start(ADMIN, "shop")
    manager.store.path.with_name("secret.key").unlink()
    manager.supervision.look()
    state = manager.supervision.state("shop")
    assert (state.state, state.pid) == ("waiting", None) and "the secret PW was sealed with the key" in state.problem
    manager.stop(ADMIN, "shop")


def test_a_started_job_has_its_secret_and_its_command_line_does_not(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = "import json, os, sys; print(json.dumps([os.environ.get('PW'), sys.argv]))"
    monkeypatch.setattr("anabranch.manager.processes.COMMAND", (sys.executable, "-S", "-c", says))
    manager.secrets.set(ADMIN, "PW", VALUE)
    manager.add(ADMIN, text())
    manager.start(ADMIN, "shop")
    manager.supervision.look()
    process = manager.supervision._watched["shop"].process
    assert process is not None and process.child is not None and process.child.wait() == 0
    manager.stop(ADMIN, "shop")
    value, words = json.loads((manager.home / "shop" / "run.log").read_text())
    assert value == VALUE and VALUE not in str(words)


def test_what_was_moved_in_the_store_does_not_open(manager: Manager) -> None:
    manager.secrets.set(ADMIN, "PW", VALUE, ("web",))
    with manager.store.writing() as connection:
        connection.execute("UPDATE secret SET jobs = '*'")
    with pytest.raises(ConfigError, match="was changed in the manager's state"):
        password_of(manager)


def test_another_key_takes_over_and_the_former_one_goes(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    key = manager.store.path.with_name("secret.key")
    for name in ("PW", "OTHER"):
        manager.secrets.set(ADMIN, name, f"{VALUE} of {name}")
    before = key.read_text()
    assert manager.secrets.rotate(ADMIN) == 2
    after = key.read_text()
    assert len(after.split()) == 1 and after != before and password_of(manager) == f"{VALUE} of PW"
    given = new_key()
    monkeypatch.setenv(VARIABLE, given)
    assert manager.secrets.rotate(ADMIN) == 2, "from the file's key to that of the environment"
    key.unlink()
    assert manager.secrets.find("OTHER", "x") == f"{VALUE} of OTHER"
    monkeypatch.setenv(VARIABLE, f"{new_key()} {given}")
    assert manager.secrets.rotate(ADMIN) == 2 and not key.exists()


@pytest.mark.parametrize("last", [1, 2])
def test_killed_while_the_key_is_replaced_every_secret_can_be_read(
    manager: Manager, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    manager.secrets.set(ADMIN, "PW", VALUE)
    writes = 0

    def cut(keys: secret_keys.Keys, wanted: list[Key]) -> None:
        nonlocal writes
        writes += 1
        if writes == last:
            if last == 1:
                write(keys, wanted)  # the file is written, the transaction is not
            raise KeyboardInterrupt
        write(keys, wanted)

    write = secret_keys.Keys.write
    with monkeypatch.context() as patched:
        patched.setattr(secret_keys.Keys, "write", cut)
        with pytest.raises(KeyboardInterrupt):
            manager.secrets.rotate(ADMIN)
    assert password_of(manager) == VALUE
    manager.secrets.set(ADMIN, "OTHER", VALUE)
    manager.secrets.rotate(ADMIN)
    assert password_of(manager) == manager.secrets.find("OTHER", "x") == VALUE
    assert len(manager.store.path.with_name("secret.key").read_text().split()) == 1


@pytest.mark.parametrize(
    "name", ["", "1A", "A-B", "A B", "PATH", "ANABRANCH_HOME", "LD_PRELOAD", "python_path", "A" * 129]
)
def test_names_that_are_none_or_that_programs_read_are_refused(manager: Manager, name: str) -> None:
    with pytest.raises(ConfigError):
        manager.secrets.set(ADMIN, name, VALUE)
    assert manager.secrets.all(ADMIN) == [] and list(manager.audit.entries()) == []


@pytest.mark.parametrize("value", ["", "a\0b", "a" * 32_769, "\ud800"])
def test_values_that_no_variable_can_have_are_refused(manager: Manager, value: str) -> None:
    with pytest.raises(ConfigError):
        manager.secrets.set(ADMIN, "PW", value)


def test_only_administrators_of_all_jobs_may(manager: Manager) -> None:
    manager.secrets.set(ADMIN, "PW", VALUE)
    for who in (
        Caller("o", "token", Role.OPERATOR),
        Caller("a", "token", Role.ADMINISTRATOR, ("shop",)),
    ):
        for refused in (
            lambda who=who: manager.secrets.all(who),
            lambda who=who: manager.secrets.set(who, "X", "y"),
            lambda who=who: manager.secrets.remove(who, "PW"),
            lambda who=who: manager.secrets.rotate(who),
        ):
            with pytest.raises(NotAllowed):
                refused()


def test_a_secret_that_comes_lets_the_watch_open_the_job_again(manager: Manager) -> None:
    manager.secrets.set(ADMIN, "PW", VALUE)
    manager.add(ADMIN, text())
    manager.secrets.remove(ADMIN, "PW")
    assert manager.monitor.look(0.0, 0)["shop"].detail == "its file cannot be read"
    marks = {manager.jobs.mark("shop")}
    for value in ("a", "b"):
        manager.secrets.set(ADMIN, "PW", value)
        marks.add(manager.jobs.mark("shop"))
    assert len(marks) == 3
    assert manager.monitor.look(1.0, 1)["shop"].detail != "its file cannot be read"
    manager.monitor.end()


def test_options_of_an_end_find_secrets_too(manager: Manager) -> None:
    manager.secrets.set(ADMIN, "REGISTRY_PASSWORD", VALUE, ("shop",))
    file = KAFKA.replace("PW", "REGISTRY_PASSWORD")
    config = manager.jobs.checked(file)
    options = KafkaTargetOptions(registry="http://u:${REGISTRY_PASSWORD}@127.0.0.1:1")
    found = registry_of(options, config.target.endpoint)
    assert found is not None and VALUE not in repr(found)
    assert found._headers["Authorization"] == f"Basic {base64.b64encode(f'u:{VALUE}'.encode()).decode()}"
    assert pickle.loads(pickle.dumps(parse_job(file, Path("x"), {"REGISTRY_PASSWORD": "x"}))).name == "shop"
