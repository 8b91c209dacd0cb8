"""Closure of a relation, step by step: tables by foreign keys, foreign keys by each other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def closure(start: T, further: Callable[[T], Iterable[T]]) -> set[T]:
    """Return `start` and all that `further` leads to, circles or not."""
    found: set[T] = set()
    open_ = [start]
    while open_:
        one = open_.pop()
        if one not in found:
            found.add(one)
            open_.extend(further(one))
    return found
