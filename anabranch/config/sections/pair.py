"""`[pair]` of the job file: two sites that both write the same tables, with a job each way.

What does not live here: whether the tables fit (`rules/rule_set.py`), what the twin's file says (`lifecycle/pairing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self

from pydantic import Field, model_validator

from anabranch.config.section import Section, refuse
from anabranch.config.sections.apply import Apply
from anabranch.config.sections.ddl import Ddl
from anabranch.config.sections.load import Load
from anabranch.config.sections.source import Source
from anabranch.config.sections.tables import TableEntry
from anabranch.config.values import JobName
from anabranch.errors import Problem
from anabranch.model.column_changes import APPLY, STOP, UNSAID, ColumnChange
from anabranch.model.markers import origin_of


class Pair(Section):
    """Two active sites: users write the same tables at both ends, and this job has a twin that goes the other way
    ([two active sites](../howto/two-active-sites.md)). Of two versions of a row the newer one stays at both ends."""

    site: str = Field(min_length=1, max_length=63)
    """The name of this job's source as a site."""
    other: str = Field(min_length=1, max_length=63)
    """The name of its target as a site: the twin's `site`."""
    winner: str = Field(min_length=1, max_length=63)
    """The site whose row stays where two are equally new. The twin's file names the same. `wins` of a table names a site whose
    row stays in any case."""
    twin: JobName
    """The name of the job that goes the other way. `[source] leave_out` has to name it, too."""
    newest_by: str = Field(min_length=1)
    """The column, NOT NULL at both ends, that each write of a row makes greater: a number, a date or a time. By it the newer of
    two versions of a row is told. `newest_by` in a table's own entry takes precedence."""

    deletes: Literal["newest", "refuse"] = "newest"
    """Decide about a delete: a row goes at both ends unless it is newer than the one that was deleted, or the job stops at it.
    Both files say the same. In tables with `delta` it goes however new it is."""

    on_unique_conflict: Literal["stop", "park"] = "stop"
    """Decide about a row that comes with a unique value which another row of this end has by now: stop the job with the row's
    key, or park the table, while the others go on. `[apply] on_error = "park"` parks it in any case."""

    ddl_from: str | None = None
    """The site at which columns are added to tables of the pair: its job adds them at the other one, too, while users go on
    writing at both. Both files name the same ([how](../howto/two-active-sites.md#columns-that-are-added)). Absent: every change
    of a definition parks its table in the job that reads it."""

    @model_validator(mode="after")
    def _names_two_sites(self) -> Self:
        if self.site == self.other:
            raise refuse(Problem(f"site and other are both {self.site!r}", expected="two names, one for each end"))
        if self.winner not in (self.site, self.other):
            expected = f"{self.site!r} or {self.other!r}"
            raise refuse(Problem(f"winner {self.winner!r} is neither site nor other", expected=expected))
        if self.ddl_from not in (None, self.site, self.other):
            expected = f"{self.site!r} or {self.other!r}"
            raise refuse(Problem(f"ddl_from {self.ddl_from!r} is neither site nor other", expected=expected))
        return self

    @property
    def is_altered_first(self) -> bool:
        """Return whether columns are added first at the site that this job writes to: what comes here has come there."""
        return self.ddl_from == self.other


def refuse_changes(pair: Pair, ddl: Ddl) -> None:
    """Raise for changes of definitions that a pair does not follow: rows by the former definition are under way at both
    sites, and have to fit the next one."""
    for said in ddl.every(usual={}):
        for kind in sorted(said.followed):
            if pair.ddl_from and (said.of(kind) == STOP or (kind, said.of(kind)) == (ColumnChange.ADD, APPLY)):
                continue
            expected = f'"{UNSAID[kind]}": both sites have to be altered before either of them writes such rows'
            if not pair.ddl_from and kind is ColumnChange.ADD:
                expected += ', or [pair] ddl_from = "SITE"'
            raise refuse(Problem(f"{said.line(kind)} beside [pair]", expected=expected))


def refuse_misfits(
    pair: Pair,
    name: str,
    source: Source,
    has_several_targets: bool,
    apply: Apply,
    load: Load,
    tables: Sequence[TableEntry],
) -> None:
    """Raise for settings of a job that do not go with a pair: it could not be shown that both ends become equal."""
    problems = []
    if pair.twin == name:
        problems.append(
            Problem("[pair] twin is the job itself", expected="the name of the job that goes the other way")
        )
    if origin_of(pair.twin) not in source.leave_out:
        line = f'leave_out = ["{origin_of(pair.twin)}"]'
        problems.append(Problem("[source] leave_out lacks the twin of [pair]", expected=line))
    if has_several_targets:
        problems.append(Problem("[pair] and [[targets]]", expected="one [target]: a pair has two sites"))
    if apply.on_conflict != "stop":
        problems.append(Problem("[apply] on_conflict beside [pair]", expected="it left out: [pair] decides"))
    if apply.on_error == "set_aside":
        expected = '"stop" or "park": a row that waits is not there for the other site'
        problems.append(Problem('[apply] on_error = "set_aside" beside [pair]', expected=expected))
    if apply.triggers == "fire":
        expected = "it left out: a trigger at the target would change what the other site has written"
        problems.append(Problem('[apply] triggers = "fire" beside [pair]', expected=expected))
    if apply.appliers > 1:
        expected = "it left out: what wins between two sites is decided row by row, by one session"
        problems.append(Problem("[apply] appliers beside [pair]", expected=expected))
    if load.existing in ("empty", "keep"):
        expected = (
            "it left out: rows of the other site would be removed, or written over without a look at which is newer"
        )
        problems.append(Problem(f'[load] existing = "{load.existing}" beside [pair]', expected=expected))
    for entry in tables:
        if entry.on_conflict not in (None, "newest"):
            expected = '"newest", which is what [pair] does; wins = "SITE" in both files lets one site win in the table'
            problems.append(
                Problem(f'on_conflict = "{entry.on_conflict}" of {entry.name} beside [pair]', expected=expected)
            )
        if entry.where is not None:
            expected = "whole tables: a row that moves out of a filter would be removed at the other site alone"
            problems.append(Problem(f"where of {entry.name} beside [pair]", expected=expected))
        if entry.wins not in (None, pair.site, pair.other):
            expected = f'"{pair.site}" or "{pair.other}", the sites of [pair]'
            problems.append(Problem(f'wins = "{entry.wins}" of {entry.name} is no site', expected=expected))
        if entry.wins is not None and entry.delta:
            expected = "one of the two: what is added up is added whichever row stays"
            problems.append(Problem(f"wins and delta of {entry.name}", expected=expected))
        if entry.columns.drop:
            expected = "all columns: a newer row has to bring the whole of it"
            problems.append(Problem(f"columns.drop of {entry.name} beside [pair]", expected=expected))
    if problems:
        raise refuse(*problems)


def refuse_sums(tables: Sequence[TableEntry]) -> None:
    """Raise for columns that are added up, and sites that win, in a job without a twin: there is nobody else who writes."""
    expected = "it only where two sites write the table"
    for what, names in (
        ("delta", [entry.name for entry in tables if entry.delta]),
        ("wins", [entry.name for entry in tables if entry.wins is not None]),
    ):
        if names:
            raise refuse(Problem(f"{what} of {', '.join(names)} without [pair]", expected=expected))
