"""What a release knows, and which ones a job may use: facts of vendors, asked for without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.connectors.mysql.connection import family, version
from anabranch.connectors.mysql.source.preflight_server import check_version
from anabranch.connectors.mysql.versions import _SINCE, knows

OF_MYSQL = {"binary log status", "a data dictionary", "invisible indexes", "functional indexes"}


def said(greeting: str) -> Any:
    return SimpleNamespace(get_server_info=lambda: greeting)


@pytest.mark.parametrize(
    ("greeting", "known"),
    [
        ("5.5.34-log", set()),
        ("5.6.14-log", {"read-only transactions", "fractions of seconds", "GTIDs"}),
        ("8.0.33", {*_SINCE} - {"binary log status", "ignored indexes"}),
        ("9.7.4-2", {*_SINCE} - {"ignored indexes"}),
        ("5.5.5-10.11.19-MariaDB-log", {*_SINCE} - OF_MYSQL),
    ],
)
def test_what_a_release_knows(greeting: str, known: set[str]) -> None:
    assert {thing for thing in _SINCE if knows(said(greeting), thing)} == known


@pytest.mark.parametrize(
    ("greeting", "verdict", "says"),
    [
        ("5.1.73-community", "failed", "MySQL 5.1.73 is too old"),
        ("5.5.2-m2", "failed", "use MySQL 5.5.3 or later"),
        ("5.5.34-log", "ok", "MySQL 5.5.34"),
        ("5.7.44", "warning", "5.5, 5.6, 8.0, 9.7"),
        ("9.7.4", "ok", "MySQL 9.7.4"),
        ("10.4.34-MariaDB", "failed", "use MariaDB 10.5 or later"),
        ("5.5.5-10.11.19-MariaDB", "ok", "MariaDB 10.11.19"),
    ],
)
def test_releases_are_refused_or_warned_of_by_name(greeting: str, verdict: str, says: str) -> None:
    connection = said(greeting)
    live: Any = SimpleNamespace(
        family=family(connection), version=version(connection), context=SimpleNamespace(job="shop")
    )
    (result,) = check_version(live)
    assert result.verdict == verdict
    assert says in f"{result.message} {result.hint}"
