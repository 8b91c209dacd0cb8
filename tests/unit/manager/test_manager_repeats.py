"""Requests with a key: carried out once, whoever sends them again, also at once or after a kill. SQLite, no server, no HTTP."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from anabranch.errors import ConfigError
from anabranch.manager import Manager, repeats
from anabranch.manager.callers import Role
from tests.unit.manager.test_manager_operations import ADMIN, manager
from tests.unit.manager.test_manager_store import text

__all__ = ["manager"]  # a fixture


def test_the_same_key_returns_the_first_answer_and_changes_nothing(manager: Manager) -> None:
    first = manager.operations.ask_once(ADMIN, "shop", "verify", ["--json"], "k1")
    again = manager.operations.ask_once(ADMIN, "shop", "verify", ["--json"], "k1")
    assert (first[1], again[1]) == (False, True) and first[0] == again[0]
    other = manager.operations.ask_once(ADMIN, "shop", "verify", ["--json"], "k2")
    assert other[0].id != first[0].id and len(manager.operations.all(ADMIN, "shop")) == 2
    assert [one.action for one in manager.audit.entries()].count("operation_asked") == 2


def test_another_request_or_other_rights_with_the_same_key_are_refused(manager: Manager) -> None:
    manager.operations.ask_once(ADMIN, "shop", "verify", [], "k")
    for asked in (
        lambda: manager.operations.ask_once(ADMIN, "shop", "verify", ["--json"], "k"),
        lambda: manager.add_once(ADMIN, text("web"), "", "k"),
        lambda: manager.operations.ask_once(replace(ADMIN, role=Role.OPERATOR), "shop", "verify", [], "k"),
    ):
        with pytest.raises(ConfigError, match="came with another request"):
            asked()
    somebody = replace(ADMIN, name="bob")
    assert not manager.operations.ask_once(somebody, "shop", "verify", ["--json"], "k")[1], "a key is its caller's"
    assert [job.name for job in manager.jobs.all()] == ["shop"]


def test_many_at_once_are_one(manager: Manager) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: manager.add_once(ADMIN, text("web"), "", "k"), range(16)))
    assert [is_repeat for _, is_repeat in found].count(False) == 1 and len({job for job, _ in found}) == 1
    assert manager.jobs.job("web").version == 1 and manager.jobs.file("web").read_text() == text("web")


def test_what_failed_is_tried_again_and_leaves_nothing(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError):
        manager.add_once(ADMIN, text("web").replace("[target]", "[targt]"), "", "k")
    with monkeypatch.context() as patched:

        def killed(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        patched.setattr(manager.audit, "note", killed)  # between the job and the answer
        with pytest.raises(KeyboardInterrupt):
            manager.add_once(ADMIN, text("web"), "", "k")
    assert [job.name for job in manager.jobs.all()] == ["shop"]
    assert manager.add_once(ADMIN, text("web"), "", "k")[1] is False


def test_after_a_day_a_key_is_a_new_one(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = manager.operations.ask_once(ADMIN, "shop", "verify", [], "k")
    now = repeats.time.time()
    monkeypatch.setattr(repeats.time, "time", lambda: now + repeats.KEPT_S + 1)
    again, is_repeat = manager.operations.ask_once(ADMIN, "shop", "verify", [], "k")
    assert not is_repeat and again.id != first.id
