"""The index in tests/README.md: what it names exists, no rule or pitfall is left out, and no test that is named after one.

An entry is `file.py::name`, or `file.py::pattern_*` for several. A test's name may carry more than one: `rule_12_and_30_…`,
`pitfall_18_19_…`, `rule_03_pitfall_03_…`.
"""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
INDEX = (REPOSITORY / "tests" / "README.md").read_text()
RULES = (REPOSITORY / "docs" / "explanation" / "correctness.md").read_text()
ENTRY = re.compile(r"`([\w/]+\.py)::([\w*]+)`")
TAG = re.compile(r"(rule|pitfall)_(\d+(?:_(?:and_)?\d+)*)(?=_)")
PLACES = (REPOSITORY / "tests", REPOSITORY / "anabranch" / "testing")
PITFALLS = 48


@cache
def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def file_of(name: str) -> Path:
    """The one file of this name among the tests and the conformance suites."""
    (path,) = (path for place in PLACES for path in place.rglob(Path(name).name) if path.match(f"**/{name}"))
    return path


@cache
def rows() -> dict[tuple[str, int], list[tuple[Path, str]]]:
    """Of every rule and pitfall: where and by which names it is shown."""
    found = {}
    for letter, numbers, rest in re.findall(r"^\| (K?)(\d+(?:, K?\d+)*)([^\n]*)", INDEX, re.MULTILINE):
        entries = [(file_of(file), name) for file, name in ENTRY.findall(rest)]
        for number in re.findall(r"\d+", numbers):
            found["rule" if letter else "pitfall", int(number)] = entries
    return found


def tagged() -> list[tuple[str, int, Path, str]]:
    """Tests and steps outside unit/ that are named after a rule or a pitfall."""
    files = [path for place in PLACES for path in sorted(place.rglob("*.py")) if "unit" not in path.parts]
    return [
        (kind, int(number), path, name)
        for path in files
        for name in sorted(functions(path))
        for kind, numbers in TAG.findall(name)
        for number in re.findall(r"\d+", numbers)
    ]


@pytest.mark.parametrize(("file", "name"), sorted(set(ENTRY.findall(INDEX))))
def test_what_the_index_names_exists(file: str, name: str) -> None:
    assert any(fnmatchcase(one, name) for one in functions(file_of(file)))


def test_what_is_named_after_a_rule_or_a_pitfall_stands_in_its_row() -> None:
    absent = [
        f"{kind} {number}: {path.name}::{name}"
        for kind, number, path, name in tagged()
        if not any(path == file and fnmatchcase(name, entry) for file, entry in rows().get((kind, number), ()))
    ]
    assert not absent, "\n".join(absent)


def test_every_rule_has_a_row() -> None:
    assert {int(number) for number in re.findall(r"^\*\*K(\d+) ", RULES, re.MULTILINE)} <= {
        number for kind, number in rows() if kind == "rule"
    }


def test_every_pitfall_has_a_row() -> None:
    assert [number for kind, number in rows() if kind == "pitfall"] == list(range(1, PITFALLS + 1))
