"""A test that begins a manager leaves its home to no test behind it."""

from __future__ import annotations

import os

import pytest


@pytest.mark.parametrize("turn", [1, 2])
def test_the_home_that_a_manager_has_set_is_gone_with_its_test(turn: int) -> None:
    del turn  # of a worker that has both, the second sees what the first has left
    assert os.environ.get("ANABRANCH_HOME") != "/left"
    os.environ["ANABRANCH_HOME"] = "/left"  # as Manager does
