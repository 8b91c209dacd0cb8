"""`one_case("mariadb to postgresql")`: of the cases that a test has by its parameters those with these ids run in `make test`;
the others are `long` (make test-faults). An id may be a pattern: `one_case("*-few")`. For tests whose cases differ in what
other tests show of each of them: a server, a decoder, a pair of both ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import pytest

MARK = "one_case"


def pytest_itemcollected(item: pytest.Item) -> None:
    if not is_chosen(item):
        item.add_marker(pytest.mark.long)


@pytest.hookimpl(tryfirst=True)  # before any of them is deselected
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Raises UsageError where none of a test's cases is chosen: an id has changed. One that is asked for alone may run."""
    marked: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker(MARK):
            marked.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in marked.items():
        if len(cases) > 1 and not any(map(is_chosen, cases)):
            raise pytest.UsageError(f"{name}: no case has an id that its mark {MARK} names")


def is_chosen(item: pytest.Item) -> bool:
    """Say whether it has no such mark, or is one of those that the mark names."""
    mark, call = item.get_closest_marker(MARK), getattr(item, "callspec", None)
    return mark is None or call is None or any(fnmatchcase(call.id, one) for one in mark.args)
