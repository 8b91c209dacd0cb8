"""Tests that `make test` also runs as where the compiled code is not installed: they exist, and no file of them is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MAKEFILE = (REPOSITORY / "Makefile").read_text().replace("\\\n", " ")
FOUND = re.search(r"^WITHOUT = (.+)$", MAKEFILE, re.MULTILINE)
LISTED = FOUND[1].split() if FOUND else []
IMPORT = re.compile(
    r"^\s*(from anabranch\.rows\.(compiled|installed) import|from anabranch\.rows import .*\b(compiled|installed)\b)",
    re.M,
)


@pytest.mark.parametrize("entry", LISTED)
def test_what_is_listed_exists(entry: str) -> None:
    file, _, name = entry.partition("::")
    assert re.search(rf"^def {name or 'test_'}", (REPOSITORY / file).read_text(), re.MULTILINE)


def test_unit_tests_that_use_the_compiled_code_are_listed() -> None:
    """By file; whether each test of it can say anything new without the compiled code is its author's to decide."""
    using = {
        str(file.relative_to(REPOSITORY))
        for file in (REPOSITORY / "tests" / "unit").rglob("test_*.py")
        if IMPORT.search(file.read_text())
    }
    assert len(using) > 3 and not using - {entry.partition("::")[0] for entry in LISTED}
