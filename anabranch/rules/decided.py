"""Tells which pattern of the job file decides about a table, and which others match it.

Asks nothing but the job file. What does not live here: warnings about rules (`contradictions.py`), what becomes of a table's
columns and rows (`rule_set.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from anabranch.config import JobConfig
from anabranch.config.patterns import Pattern, Template
from anabranch.model.ids import TableId
from anabranch.rules.ghosts import KEY, Ghosts


@dataclass(frozen=True, slots=True)
class Match:
    """Keep a pattern that matches a table. `rule` counts from 1, 0 for a pattern of `[ddl]`; `line` is the job file's."""

    rule: int
    key: str  # include | exclude | ghost_tables
    pattern: str
    line: int | None

    def __str__(self) -> str:
        by = f"rule {self.rule}" if self.rule else f"[ddl] {self.key}"
        verb = "includes it" if self.key == "include" else "leaves it out"
        return f"{by} {verb}: {self.pattern!r}" + (f" (line {self.line})" if self.line else "")


@dataclass(frozen=True, slots=True)
class Decided:
    """Keep what the rules say of a table. `target`: None where it is not replicated. `by`: what decides, which is the first
    exclusion of any rule, else `[ddl] ghost_tables`, else the first inclusion; None where no rule matches. `others`: what
    matches, too."""

    table: TableId
    target: TableId | None
    by: Match | None
    others: tuple[Match, ...]

    @property
    def why(self) -> str:
        return str(self.by) if self.by else "no rule includes it"


def decided(config: JobConfig, table: TableId) -> Decided:
    """Return what decides about a table, whether or not the source has it."""
    included, excluded = list(_matching(config, table, "include")), list(_matching(config, table, "exclude"))
    if included and (ghost := Ghosts(config).pattern_of(table)):
        excluded.append(Match(0, KEY, ghost, config.line_of("ddl", KEY)))
    first = next(iter(included), None)
    by = next(iter(excluded), first)
    target = None
    if first and not excluded:
        target = Template.parse(config.rules[first.rule - 1].target).render(table)
    return Decided(table, target, by, tuple(one for one in (*excluded, *included) if one is not by))


def _matching(config: JobConfig, table: TableId, key: str) -> Iterator[Match]:
    for number, rule in enumerate(config.rules):
        for place, text in enumerate(getattr(rule, key)):
            if Pattern.parse(text).matches(table):
                yield Match(number + 1, key, text, config.line_of("rules", number, key, place))
