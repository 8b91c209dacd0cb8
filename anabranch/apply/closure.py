"""Closure of a relation, step by step: for tables connected by foreign keys, and for foreign keys that follow from each
other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def closure(start: T, further: Callable[[T], Iterable[T]]) -> set[T]:
    """Return `start` and everything that `further` leads to. Circles are allowed."""
    found: set[T] = set()
    open_ = [start]
    while open_:
        one = open_.pop()
        if one not in found:
            found.add(one)
            open_.extend(further(one))
    return found
