"""Conformance of the roles of a target, on the twin and on real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.testing.conformance import asides, ddl_notes, disagreement, writer


@pytest.mark.parametrize(
    "check",
    (*writer.CHECKS, *disagreement.CHECKS, *asides.CHECKS, *ddl_notes.CHECKS),
    ids=lambda check: check.__name__,
)
def test_writer(check: Callable[[Any], None], target: Any) -> None:
    check(target)
