"""A recipe: what has to be set up at an end before a job can run, as steps that preflight names.

What does not live here: the steps (`connectors/<db>/<role>/recipe.py`), which ends go together (`recipe/routes.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

NEWEST = (99,)  # a version that has everything that any release has
Version = tuple[int, ...]


class ItemKind(StrEnum):
    """A way in which one item of a step is carried out."""

    STATEMENT = "statement"  # an administrator runs it
    SETTING = "setting"  # a line of the server's configuration
    LINE = "line"  # a line of another file of the server
    MADE = "made"  # the product makes it by itself
    CHECK = "check"  # somebody looks


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to do: `text` is the statement, the line or the sentence, whole as it stands."""

    text: str
    kind: ItemKind
    why: str = ""
    needs_restart: bool = False
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """Items that are done together. `checks`: the checks of preflight whose findings this step mends, "source.log_bin"."""

    name: str
    title: str
    items: tuple[Item, ...]
    checks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """The end whose recipe is wanted. `schemas`: where the job's tables are at this end. `owner`: who owns them there.
    `database`: the one of the connection, where a server keeps its databases apart."""

    version: Version = NEWEST
    user: str = "repl"
    database: str = "shop"
    schemas: tuple[str, ...] = ("shop",)
    owner: str = "owner"


@dataclass(frozen=True, slots=True)
class EndRecipe:
    """The steps of one end, and the oldest release that can be it."""

    steps: tuple[Step, ...]
    oldest: Version


def step_names(steps: Iterable[Step]) -> Mapping[str, str]:
    """Return for each check of preflight the name of its step."""
    return {check: step.name for step in steps for check in step.checks}


def statement(text: str, why: str = "", is_optional: bool = False) -> Item:
    return Item(text, ItemKind.STATEMENT, why, is_optional=is_optional)


def setting(text: str, why: str = "", needs_restart: bool = False, is_optional: bool = False) -> Item:
    return Item(text, ItemKind.SETTING, why, needs_restart, is_optional)


def made(text: str, why: str = "") -> Item:
    return Item(text, ItemKind.MADE, why)


def check(text: str, why: str = "") -> Item:
    return Item(text, ItemKind.CHECK, why)
