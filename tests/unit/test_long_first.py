"""Long tests are dealt out over the workers, each at the beginning of its part, and no test is lost."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from long_first import LONGEST, dealt, seconds_by_name

REPOSITORY = Path(__file__).parents[2]
SECONDS = {"t.py::a": 300.0, "t.py::b": 60.0, "t.py::c": 20.0}


def parts(order: list[int], workers: int) -> list[list[int]]:
    """As pytest-xdist cuts a collection with `--dist worksteal`."""
    found, rest = [], list(order)
    for number in range(workers):
        size = len(rest) // (workers - number)
        found.append(rest[:size])
        rest = rest[size:]
    return found


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
@pytest.mark.parametrize("others", [0, 1, 2, 5, 40])
def test_each_part_begins_with_its_long_tests(workers: int, others: int) -> None:
    names = [f"t.py::short{number}" for number in range(others)] + ["t.py::c", "t.py::b[x]", "t.py::a", "t.py::b[y]"]
    order = dealt(names, SECONDS, workers)
    assert sorted(order) == list(range(len(names)))
    if others >= workers * 4:
        for number, part in enumerate(parts(order, workers)):
            mine = [SECONDS[name] for place in part if (name := names[place].partition("[")[0]) in SECONDS]
            assert mine == sorted(mine, reverse=True)
            assert [names[place].partition("[")[0] in SECONDS for place in part[: len(mine)]] == [True] * len(mine)
            assert abs(len(mine) - 4 / workers) < 1, number


@pytest.mark.parametrize("workers", [2, 3, 7])
def test_what_stands_together_begins_the_last_part(workers: int) -> None:
    names = [f"t.py::short{number}" for number in range(40)] + ["t.py::b[x]", "t.py::a", "t.py::b[y]"]
    together = {3, 17, 39, 40}
    order = dealt(names, SECONDS, workers, together)
    assert sorted(order) == list(range(len(names)))
    assert parts(order, workers)[-1][:4] == [3, 17, 39, 40]


def test_the_others_keep_their_order() -> None:
    names = [f"t.py::short{number}" for number in range(9)]
    assert dealt(names, SECONDS, 2) == list(range(9))


@pytest.mark.parametrize("name", seconds_by_name(LONGEST.read_text()))
def test_what_is_called_long_exists(name: str) -> None:
    path, _, test = name.partition("::")
    tree = ast.parse((REPOSITORY / path).read_text())
    assert test in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
