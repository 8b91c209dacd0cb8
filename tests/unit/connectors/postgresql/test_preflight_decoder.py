"""Preflight of a PostgreSQL refuses settings of `[ddl]` that its log cannot serve, whatever the decoder is."""

from __future__ import annotations

import pytest

from anabranch.connectors.postgresql.source.preflight_decoder import indexes, swaps
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckVerdict


@pytest.mark.parametrize(("said", "is_refused"), [("", False), ("park", False), ("apply", True)])
def test_swaps_that_nothing_follows_are_refused(said: str, is_refused: bool) -> None:
    """Tables would be left out for them."""
    found = list(swaps(PreflightContext("job", {"ddl.online_swap": said}, {}, {})))
    assert [one.verdict for one in found] == [CheckVerdict.FAILED] * is_refused
    assert all("online_swap" in one.message and "ghost_tables" in one.hint for one in found)


@pytest.mark.parametrize(("said", "is_refused"), [("", False), ("ignore", False), ("apply", True), ("ask", True)])
def test_indexes_that_nothing_tells_of_are_refused(said: str, is_refused: bool) -> None:
    found = list(indexes(PreflightContext("job", {"ddl.indexes": said, "ddl.unique_keys": "ignore"}, {}, {})))
    assert [one.verdict for one in found] == [CheckVerdict.FAILED] * is_refused
    assert all("[ddl] indexes" in one.message for one in found)
