"""No module imports itself over others, not even where an import is for types only or stands inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from rigs.source_text import statements

REPOSITORY = Path(__file__).parents[2]


def modules() -> dict[str, Path]:
    """Finds every module of the package by its dotted name; a package by its `__init__`."""
    found = {}
    for path in (REPOSITORY / "anabranch").rglob("*.py"):
        parts = path.relative_to(REPOSITORY).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(source: str, known: Set[str]) -> Iterator[str]:
    """Names the modules that a source imports anywhere in it."""
    for node in statements(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if found := next((name for name in (inner, node.module) if name in known), None):
                    yield found


def circles(graph: Mapping[str, Set[str]]) -> list[list[str]]:
    """Finds the modules from which a way leads back, those of one circle together."""
    reach = {name: _reached(name, graph) for name in graph}
    found = {
        tuple(sorted(other for other in reach[name] if name in reach[other])) for name in graph if name in reach[name]
    }
    return sorted(map(list, found))


def _reached(start: str, graph: Mapping[str, Set[str]]) -> set[str]:
    found: set[str] = set()
    left = [start]
    while left:
        new = graph.get(left.pop(), set()) - found
        found |= new
        left += new
    return found


def test_no_import_leads_back_to_where_it_stands() -> None:
    known = modules()
    graph = {name: set(imported(path.read_text(), known.keys())) for name, path in known.items()}
    assert len(graph) > 500 and sum(map(len, graph.values())) > 2500
    assert circles(graph) == []


def test_a_circle_over_types_or_inside_a_function_is_found() -> None:
    sources = {
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from b import B\n",
        "b": "def f():\n    import c.d\n",
        "c.d": "from a import A\n",
        "e": "from a import A\n",
    }
    graph = {name: set(imported(source, sources.keys())) for name, source in sources.items()}
    assert circles(graph) == [["a", "b", "c.d"]]
