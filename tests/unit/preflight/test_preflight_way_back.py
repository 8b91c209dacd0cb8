"""The checks of both servers in their other roles: whose they are called, what is left out, and whose error it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.config import load_job
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.errors import NOT_ADMITTED, SourceError, SourceUnavailable, TargetError, TargetUnavailable
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.preflight.way_back import OtherRoles
from anabranch.rules.rule_set import RuleSet
from rigs.preflight import End, table

TEXT = """
name = "shop-reverse"
[source]
url = "mysql://u:p@h"
[target]
url = "postgresql://u:p@h/d"
[load]
existing = "take_over"
[[rules]]
include = ["there.items", "there.later"]
target = "here.{table}"
"""
ITEMS, LATER = table("there.items"), table("there.later")
OK, FAILED = CheckVerdict.OK, CheckVerdict.FAILED


def roles(tmp_path: Path, read: Any, written: Any) -> OtherRoles:
    (tmp_path / "back.toml").write_text(TEXT)
    config = load_job(tmp_path / "back.toml", {})
    rules = RuleSet(config, PostgresTypes())
    return OtherRoles(config, rules, read, written, {ITEMS.id: ITEMS}, {ITEMS.id: ITEMS, LATER.id: LATER})


def test_findings_say_which_server_and_name_the_job_s_own_tables(tmp_path: Path) -> None:
    read = End(
        results=[CheckResult("source.log_bin", FAILED, "no log", "restart it"), CheckResult("source.x", OK, "fine")]
    )
    written = End(
        results=[
            CheckResult("target.columns", FAILED, "column n is missing", "ALTER", "there.items"),
            CheckResult("target.indexes", FAILED, "would not be built", "", "there.items"),
        ]
    )
    found = [(one.check, one.message, one.table) for one in roles(tmp_path, read, written).results()]
    assert found == [
        ("reverse.source.log_bin", "the target, as the source of the way back: no log", ""),
        ("reverse.target.columns", "the source, as the target of the way back: column n is missing", "here.items"),
    ]
    assert (read.open, written.open) == (0, 0)


def test_a_log_is_asked_for_tables_that_stand_and_the_old_source_for_all(tmp_path: Path) -> None:
    """None of them is loaded: rows that they hold are no finding."""
    read, written = End(), End()
    found = list(roles(tmp_path, read, written).results())
    assert [(one.check, one.verdict) for one in found] == [("reverse.source", OK), ("reverse.target", OK)]
    assert read.seen[0].tables == {ITEMS.id: ITEMS}
    assert written.seen[0].tables.keys() == written.seen[0].loaded == {ITEMS.id, LATER.id}
    assert written.seen[0].user_choices["load.existing"] == "take_over"


@pytest.mark.parametrize(
    ("is_read", "error", "expected"),
    [
        (True, SourceUnavailable("cannot be reached"), TargetUnavailable),
        (True, SourceError("refused"), TargetError),
        (False, TargetUnavailable("cannot be reached"), SourceUnavailable),
        (False, TargetError("refused"), SourceError),
    ],
)
def test_an_end_that_cannot_be_asked_is_the_job_s_own(
    tmp_path: Path, is_read: bool, error: Exception, expected: type[Exception]
) -> None:
    ends = (End(error=error), End()) if is_read else (End(), End(error=error))
    with pytest.raises(expected, match=str(error.args[0])) as raised:
        list(roles(tmp_path, *ends).results())
    assert type(raised.value) is expected


def test_who_is_not_let_in_is_told_how(tmp_path: Path) -> None:
    error = SourceError("not let in", hint="GRANT CONNECT")
    error.code = NOT_ADMITTED

    class Shut(End):
        def run(self, context: Any) -> list[CheckResult]:
            raise error

    found = next(roles(tmp_path, Shut(), End()).results())
    assert (found.check, found.verdict, found.hint) == ("reverse.source.rights", FAILED, "GRANT CONNECT")
