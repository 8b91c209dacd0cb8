"""Ask a keyring that prompts somebody or hangs: nobody waits for long, and nobody else waits at all. No server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend

from anabranch.errors import ConfigError
from anabranch.manager import Manager, keyring_asked
from anabranch.manager.secret_keys import RING_VARIABLE, Keys
from anabranch.testing.in_time import until
from tests.unit.manager.test_manager_operations import ADMIN
from tests.unit.manager.test_manager_secrets import new_key

SERVICE = "a service of this test"


class Slow(KeyringBackend):
    """A keyring that answers when it is let. `meanwhile`: what is done before."""

    priority = 1.0  # type: ignore[assignment]  # the base has a property of the class there

    def __init__(self) -> None:
        super().__init__()
        self.text, self.asked, self.answers = new_key(), 0, threading.Event()
        self.meanwhile: Callable[[], None] = lambda: None

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        self.meanwhile()
        self.answers.wait()
        return self.text

    def set_password(self, service: str, username: str, password: str) -> None:
        self.text = password


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    former, made = keyring.get_keyring(), Slow()
    keyring.set_keyring(made)
    monkeypatch.setenv(RING_VARIABLE, SERVICE)
    monkeypatch.setattr(keyring_asked, "_kept", {})
    try:
        yield made
    finally:
        made.answers.set()
        until(lambda: not keyring_asked._under_way, "the keyring has answered")
        keyring.set_keyring(former)


def test_a_keyring_that_hangs_is_told_and_asked_once(
    slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring_asked, "WAIT_S", 0.1)
    keys = Keys(tmp_path, {RING_VARIABLE: SERVICE})
    for _ in range(3):
        with pytest.raises(ConfigError, match="has not answered within"):
            keys.all()
    assert slow.asked == 1
    slow.answers.set()
    until(lambda: not keyring_asked._under_way, "the keyring has answered")
    monkeypatch.setattr(keyring_asked, "KEPT_S", 600.0)
    assert len(keys.all()) == 1 and slow.asked == 1, "the answer that came late counts"
    slow.text = new_key()
    assert keys.of_ring(is_anew=True) != keys.all()[:0] and slow.asked == 2
    assert keys.all() == keys.of_ring(is_anew=True)


def test_nobody_waits_for_the_store_while_a_keyring_is_asked(slow: Slow, tmp_path: Path) -> None:
    manager, written = Manager(tmp_path), []

    def write() -> None:
        with manager.store.writing() as connection:
            connection.execute("DELETE FROM attempt")
        written.append(True)

    def another() -> None:
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        thread.join(60)

    slow.answers.set()
    slow.meanwhile = another
    manager.secrets.set(ADMIN, "PW", "value")
    count = len(written)
    assert count >= 1 and count == slow.asked
    manager.secrets.rotate(ADMIN)
    assert len(written) == slow.asked > count
