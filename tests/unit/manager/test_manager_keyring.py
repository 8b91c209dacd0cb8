"""Keep the key of secrets in a keyring: one in a file, spoken to by the `keyring` package in other processes. No server."""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import ConfigError
from anabranch.manager import secret_keys
from anabranch.manager.secret_keys import RING_VARIABLE, VARIABLE, Keys
from rigs import forked_commands

SERVICE, OTHER = "anabranch", "another service"


class Machine:
    """A user of a machine with a keyring, and a manager's home."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in (VARIABLE, RING_VARIABLE)},
            "ANABRANCH_HOME": str(directory / "home"),
            "XDG_DATA_HOME": str(directory / "data"),
            "PYTHON_KEYRING_BACKEND": "keyrings.alt.file.PlaintextKeyring",
            RING_VARIABLE: SERVICE,
        }

    def put(self, text: str, service: str = SERVICE) -> None:
        command = [sys.executable, "-m", "keyring", "set", service, secret_keys.RING_USER]
        subprocess.run(command, env=self.environment, input=text, capture_output=True, text=True, check=True)

    def secret(self, *words: str, given: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return forked_commands.run(["secret", *words], self.environment | more, given)

    @property
    def file(self) -> Path:
        return self.directory / "home" / "_manager" / "secret.key"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def is_readable(machine: Machine, **more: str) -> bool:
    found = machine.secret("ls", "--json", **more)
    return found.returncode == 0 and '"is_readable": true' in found.stdout


def test_the_key_of_a_keyring_seals_and_no_file_is_made(machine: Machine) -> None:
    missing = machine.secret("set", "PW", given="value")
    assert missing.returncode == 2 and "has no key of this manager's secrets" in missing.stderr
    machine.put(new_key(), OTHER)
    assert machine.secret("set", "PW", given="value").returncode == 2
    key = new_key()
    machine.put(key)
    done = machine.secret("set", "PW", given="value")
    assert done.returncode == 0 and not machine.file.exists() and is_readable(machine), done.stderr
    machine.put(new_key())
    assert not is_readable(machine)
    wrong = "no key, but a password"
    machine.put(wrong)
    told = machine.secret("set", "OTHER", given="value")
    assert told.returncode == 2 and "has what is no key" in told.stderr and wrong not in told.stderr
    machine.put(key)
    assert is_readable(machine)


def test_keys_go_from_file_to_keyring_and_on_to_another_one(machine: Machine) -> None:
    assert machine.secret("set", "PW", given="value", **{RING_VARIABLE: ""}).returncode == 0 and machine.file.exists()
    first = new_key()
    machine.put(first)
    assert is_readable(machine), "by the file's key"
    assert machine.secret("rotate").returncode == 0
    machine.file.unlink()
    assert is_readable(machine)
    second = new_key()
    machine.put(f"{second} {first}")
    assert machine.secret("rotate").returncode == 0
    machine.put(second)
    assert is_readable(machine) and not machine.file.exists()
    assert is_readable(machine, **{VARIABLE: new_key()}), "a variable comes first, and hides no other one"


@pytest.mark.parametrize(
    "backend", ["keyring.backends.fail.Keyring", "keyring.backends.null.Keyring", "no.such.Backend"]
)
def test_a_keyring_that_cannot_be_read_is_told_and_makes_no_other_key(machine: Machine, backend: str) -> None:
    done = machine.secret("set", "PW", given="value", PYTHON_KEYRING_BACKEND=backend)
    assert "keyring (anabranch, secret-key)" in done.stderr, done.stderr
    assert done.returncode == 2 and not machine.file.exists()


def test_what_is_not_installed_is_told_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match="not installed") as raised:
        Keys(tmp_path, {RING_VARIABLE: SERVICE}).all()
    assert "keyring" in raised.value.hint
    assert Keys(tmp_path, {}).all() == []
