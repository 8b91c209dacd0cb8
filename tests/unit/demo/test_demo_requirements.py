"""What the demo needs and nobody can fetch is one message."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from anabranch.demo import run
from anabranch.errors import ConfigError
from anabranch.testing.cache import ServerUnavailable


def absent(what: str) -> Any:
    def find() -> None:
        raise ServerUnavailable(f"no {what}", hint=f"install {what}")

    return find


def test_all_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "DRIVERS", ("pymysql", "no_such_driver"))
    monkeypatch.setattr(run.packages, "find_postgresql", lambda: None)
    monkeypatch.setattr(run.packages, "find_mariadb", absent("MariaDB"))
    monkeypatch.setattr(run.packages, "find_java", absent("Java"))
    with pytest.raises(ConfigError) as refused:
        run.requirements()
    assert refused.value.message == "missing for the demo: no_such_driver, no MariaDB, no Java"
    assert refused.value.hint == "pip install '.[all]' in a checkout of anabranch; install MariaDB; install Java"


def test_java_home_when_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(run.packages, "find_postgresql", lambda: None)
    monkeypatch.setattr(run.packages, "find_mariadb", lambda: None)
    monkeypatch.setattr(run.packages, "find_java", lambda: Path("/java/home/bin/java"))
    assert run.requirements() == Path("/java/home")
