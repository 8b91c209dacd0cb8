"""Show a recipe on a terminal: numbered steps, statements as they are run, what is not in force before a restart.

What does not live here: the steps, and the form for programs (`written.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.model.recipe import Item, ItemKind, Step
from anabranch.recipe.written import Recipe

# A line that is not to be run is a comment of SQL, so that what is printed can be handed to a client.
BEFORE = {ItemKind.STATEMENT: "", ItemKind.SETTING: "-- configuration: ", ItemKind.LINE: "-- line: ",
          ItemKind.MADE: "-- made by anabranch: ", ItemKind.CHECK: "-- see to it: "}  # fmt: skip


def shown(recipe: Recipe) -> Iterator[str]:
    """Yield the lines of a recipe."""
    source, target = recipe.source, recipe.target
    yield f"-- Recipe: {source.title} to {target.title}"
    if recipe.exbase:
        yield f"-- A route of exBase 3.11{', the way back after a cut-over' * (recipe.exbase == 'back')}."
    else:
        yield "-- Not a route of exBase 3.11; this release runs it."
    number = 0
    for end in (source, target):
        yield from ("", f"-- === {end.role}: {end.title} ===")
        if end.lacking:
            yield f"-- NOT YET: {end.lacking}."
        for step in end.steps:
            number += 1
            yield from _step(number, step)
    yield from ("", *_check(recipe))


def _step(number: int, step: Step) -> Iterator[str]:
    yield from ("", f"-- {number}. {step.title} ({step.name})")
    for item in step.items:
        yield from _item(item)


def _item(item: Item) -> Iterator[str]:
    marks = "[RESTART] " * item.needs_restart + "[optional] " * item.is_optional
    why = (marks + item.why).rstrip()
    end = ";" if item.kind is ItemKind.STATEMENT else ""
    if item.kind is ItemKind.STATEMENT and item.is_optional:
        yield f"-- {item.text}{end}" + (f"  -- {why}" if why else "")
    else:
        yield f"{BEFORE[item.kind]}{item.text}{end}" + (f"  -- {why}" if why else "")


def _check(recipe: Recipe) -> Iterator[str]:
    yield "-- === check ==="
    if recipe.runs:
        yield "-- anabranch preflight JOB: each finding says which step of these mends it"
    else:
        yield "-- this release cannot run such a job yet"
