"""Ask every store of objects what a trail in it relies on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.errors import Side
from anabranch.stores.directory import UPLOADS, DirectoryStore
from anabranch.testing.conformance import objects
from anabranch.testing.conformance.objects import Place


@pytest.fixture(params=["directory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Make an empty place in a store of each kind."""
    return directory(tmp_path)


def directory(tmp_path: Path) -> Place:
    root = tmp_path / "shop"

    def half(name: str, content: bytes) -> None:
        (root / UPLOADS).mkdir(parents=True, exist_ok=True)
        (root / UPLOADS / "cut.tmp").write_bytes(content)

    return Place(lambda: DirectoryStore(root, Side.TARGET), half)


@pytest.mark.parametrize("check", objects.CHECKS, ids=lambda check: check.__name__)
def test_objects(check: Callable[[Place], None], place: Place) -> None:
    check(place)
