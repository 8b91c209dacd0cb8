"""Contradictions between rules: exclusions that hold for all rules, and rules that come too late to give a target.

These are the warnings of a rule set for the tables that the source has. What does not live here: the result of the
rules (`rule_set.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from anabranch.config import JobConfig
from anabranch.config.patterns import Pattern
from anabranch.errors import Problem
from anabranch.model.ids import TableId

SHOWN = 10  # tables that a warning lists by name
ALIKE = 0.85  # of a name that was perhaps meant
EXCLUDE, INCLUDE = "[[rules]] exclude", "[[rules]] include"


@dataclass(frozen=True)
class Contradiction:
    problem: Problem
    hint: str


def contradictions(config: JobConfig, tables: Collection[TableId]) -> list[Contradiction]:
    """Return the contradictions for all tables that the source shows, replicated or not."""
    rules = [_Matches.of(config, number, tables) for number in range(len(config.rules))]
    return [*_taken(config, rules), *_emptied(config, rules), *_too_late(config, rules), *_misspelt(config, rules)]


@dataclass(frozen=True)
class _Matches:
    """The tables that each pattern of a rule matches."""

    number: int
    include: tuple[tuple[str, frozenset[TableId]], ...]
    exclude: tuple[tuple[str, frozenset[TableId]], ...]

    @classmethod
    def of(cls, config: JobConfig, number: int, tables: Collection[TableId]) -> _Matches:
        rule = config.rules[number]
        return cls(number, _matched(rule.include, tables), _matched(rule.exclude, tables))

    @property
    def included(self) -> frozenset[TableId]:
        return frozenset[TableId]().union(*(tables for _, tables in self.include))

    @property
    def excluded(self) -> frozenset[TableId]:
        return frozenset[TableId]().union(*(tables for _, tables in self.exclude))

    @property
    def name(self) -> str:
        return f"rule {self.number + 1}"


def _matched(texts: Iterable[str], tables: Collection[TableId]) -> tuple[tuple[str, frozenset[TableId]], ...]:
    patterns = [(text, Pattern.parse(text)) for text in texts]
    return tuple((text, frozenset(filter(pattern.matches, tables))) for text, pattern in patterns)


def _taken(config: JobConfig, rules: Sequence[_Matches]) -> Iterator[Contradiction]:
    """Find tables that one rule excludes and another one includes without excluding them itself."""
    for rule in rules:
        for place, (text, excluded) in enumerate(rule.exclude):
            for other in rules:
                lost = (excluded & other.included) - other.excluded
                if lost:
                    where = config.line_of("rules", other.number)
                    message = f"{text!r} of {rule.name} leaves out {_listed(lost)}, which {other.name} (line {where}) includes"
                    hint = (
                        f"an exclusion holds for all rules: make {text!r} of {rule.name} narrower if the tables are to be"
                        f" replicated; if not, exclude them in {other.name} as well"
                    )
                    line = config.line_of("rules", rule.number, "exclude", place)
                    yield Contradiction(Problem(message, line=line, key=EXCLUDE), hint)


def _emptied(config: JobConfig, rules: Sequence[_Matches]) -> Iterator[Contradiction]:
    """Find includes that the same rule's exclusions leave empty."""
    for rule in rules:
        for place, (text, included) in enumerate(rule.include):
            if included and included <= rule.excluded:
                message = f"{text!r} selects nothing: {rule.name} itself excludes {_listed(included)}"
                line = config.line_of("rules", rule.number, "include", place)
                yield Contradiction(Problem(message, line=line, key=INCLUDE), "take one of the two patterns out")


def _too_late(config: JobConfig, rules: Sequence[_Matches]) -> Iterator[Contradiction]:
    """Find rules all of whose tables get their target from earlier ones."""
    everywhere = frozenset[TableId]().union(*(rule.excluded for rule in rules))
    before: frozenset[TableId] = frozenset()
    for rule in rules:
        selected = rule.included - everywhere
        if selected and selected <= before:
            earlier = [other for other in rules[: rule.number] if other.included & selected]
            names = ", ".join(f"{other.name} (line {config.line_of('rules', other.number)})" for other in earlier)
            verb = "include" if len(earlier) > 1 else "includes"
            message = (
                f"{rule.name} has no effect: of several rules the first gives the target, and {names} {verb} before it"
            )
            problem = Problem(
                f"{message}: {_listed(selected)}", line=config.line_of("rules", rule.number), key="[[rules]]"
            )
            yield Contradiction(problem, "put the narrower rule before the wider one, or take it out")
        before |= selected


def _misspelt(config: JobConfig, rules: Sequence[_Matches]) -> Iterator[Contradiction]:
    """Find exclusions of one table that does not exist, where a table with nearly that name is replicated."""
    everywhere = frozenset[TableId]().union(*(rule.excluded for rule in rules))
    names = {str(table) for rule in rules for table in rule.included - everywhere}
    for rule in rules:
        for place, (text, excluded) in enumerate(rule.exclude):
            nearest = "" if excluded or set(text) & set("*?[") else _nearest(text, names)
            if nearest:
                line = config.line_of("rules", rule.number, "exclude", place)
                problem = Problem(f"{text!r} matches no table", line=line, key=EXCLUDE)
                yield Contradiction(problem, f"did you mean {nearest}? It is replicated")


def _nearest(text: str, names: Iterable[str]) -> str:
    by_case = {name.casefold(): name for name in names}
    return "".join(by_case[found] for found in get_close_matches(text.casefold(), by_case, 1, ALIKE))


def _listed(tables: Iterable[TableId]) -> str:
    names = sorted(map(str, tables))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
