"""The columns that a table had at a place of the log, by their numbers: the log has names and types there, the catalogue
what became of them.

A column keeps its number under any name and type, and no other one ever gets it: who was there before and is there now was
there in between. Of columns that went since, or came and went, the log says how many were still there and not which. So every
set of numbers is looked at that has as many columns as the log; only where one alone is possible is it certain.
https://www.postgresql.org/docs/current/catalog-pg-attribute.html

What does not live here: what those columns are (redefined_columns.py), what rows had in them (added_columns.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence


def readings(
    before: Collection[int], highest: int, numbered: Sequence[tuple[int, bool]], count: int
) -> list[tuple[int, ...]]:
    """Return the sets of numbers, each rising, that `count` columns of the log may have: all of them, or two at least.

    `before`: the numbers of columns that were there before the place, `highest`: the highest that any has had by then;
    `numbered`: each number of now, rising, and whether its column is there."""
    there = {number for number, is_there in numbered if is_there}
    found: set[tuple[int, ...]] = set()
    for numbers in _by_what_had_come(there, before, [one for one in numbered if one[0] > highest], count):
        found.update(numbers)
    return sorted(found)


def _by_what_had_come(
    there: Collection[int], before: Collection[int], later: Sequence[tuple[int, bool]], count: int
) -> Iterator[list[tuple[int, ...]]]:
    """Yield what is possible where the first 0, 1, 2, … of the later columns had come by that place."""
    kept, gone = [number for number in before if number in there], [number for number in before if number not in there]
    for come in range(len(later) + 1):
        sure = kept + [number for number, is_there in later[:come] if is_there]
        unsure = gone + [number for number, is_there in later[:come] if not is_there]
        left = count - len(sure)
        if left == 0:
            yield [tuple(sorted(sure))]
        elif left == len(unsure):
            yield [tuple(sorted(sure + unsure))]
        elif 0 < left < len(unsure):  # any so many of them
            yield [tuple(sorted(sure + unsure[:left])), tuple(sorted(sure + unsure[-left:]))]
