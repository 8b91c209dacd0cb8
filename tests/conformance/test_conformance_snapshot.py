"""Conformance of the snapshot role, on the twin and on real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.testing.conformance import snapshot


@pytest.mark.parametrize("check", snapshot.CHECKS, ids=lambda check: check.__name__)
def test_snapshot(check: Callable[[Any], None], source: Any) -> None:
    check(source)
