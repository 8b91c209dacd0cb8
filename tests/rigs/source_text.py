"""Statements of Python's source text, for tests that read the package. What they look for: those tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def statements(text: str) -> Iterator[ast.Module | ast.stmt]:
    """Yield the module and each statement in it, wherever it stands. Expressions, which are most of a tree, are not walked."""
    left: list[ast.AST] = [tree := ast.parse(text)]
    yield tree
    while left:
        node = left.pop()
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            for inner in getattr(node, field, ()):
                left.append(inner)
                if isinstance(inner, ast.stmt):
                    yield inner
