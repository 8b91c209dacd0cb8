"""Conformance of the reader role, on the twin and on real servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from anabranch.testing.conformance import reader


@pytest.mark.parametrize("check", reader.CHECKS, ids=lambda check: check.__name__)
def test_reader(check: Callable[[Any], None], source: Any) -> None:
    check(source)
