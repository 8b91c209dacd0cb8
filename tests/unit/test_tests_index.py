"""The index in tests/README.md: what it names exists, and no rule or pitfall is left out."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
INDEX = (REPOSITORY / "tests" / "README.md").read_text()
RULES = (REPOSITORY / "docs" / "explanation" / "correctness.md").read_text()
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", INDEX)))
PITFALLS = 48


@cache
def functions(file: str) -> set[str]:
    """Of the one file of this name among the tests and the conformance suites."""
    places = (REPOSITORY / "tests", REPOSITORY / "anabranch" / "testing")
    found = [path for place in places for path in place.rglob(Path(file).name) if path.match(f"**/{file}")]
    (path,) = found
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("file", sorted({file for file, _ in NAMED}))
def test_what_the_index_names_exists(file: str) -> None:
    assert {name for named, name in NAMED if named == file} <= functions(file)


def test_every_rule_has_a_row() -> None:
    rows = set(re.findall(r"K\d+", "".join(re.findall(r"^\| (K[^|]*)\|", INDEX, re.MULTILINE))))
    assert set(re.findall(r"^\*\*(K\d+) ", RULES, re.MULTILINE)) <= rows


def test_every_pitfall_has_a_row() -> None:
    first_cells = re.findall(r"^\| (\d[^|]*)\|", INDEX, re.MULTILINE)
    numbers = [int(number) for cell in first_cells for number in re.match(r"[\d, ]+", cell)[0].split(",")]
    assert numbers == list(range(1, PITFALLS + 1))
