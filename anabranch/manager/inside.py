"""Looks into one job: its tables at each target, its trail, definitions, cut-over; without values that are not for everybody.

What does not live here: asking few things at a time (`asked.py`), doing anything about it (`operations.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from anabranch.cutover.report import CutoverReport
from anabranch.errors import SchemaError, TrailError, UnknownName
from anabranch.job import Job
from anabranch.manager.asked import Asked
from anabranch.manager.audit import Audit
from anabranch.manager.callers import Caller, Role
from anabranch.manager.jobs import Jobs
from anabranch.manager.trail_rows import TrailPage, Wanted, read_page
from anabranch.model.ddl_changes import DdlChange
from anabranch.model.ids import TableId
from anabranch.rows.aside import AsideChange
from anabranch.rows.conflict import NotedConflict
from anabranch.view.schema_history import TableVersion

if TYPE_CHECKING:
    from anabranch.lifecycle.parking import ParkedTable

MOST = 100  # conflicts and rows set aside of one table, and changes of definitions, that are shown
SHOWN = "rows_shown"  # in the audit: somebody has seen values


@dataclass(frozen=True)
class TableThere:
    """A table at one target, by its name, "" of the only one. `conflicts`, `aside`: the last of each; without keys and values
    for who may not see them."""

    target: str
    parked: ParkedTable | None
    aside: Sequence[AsideChange]
    conflicts: Sequence[NotedConflict]
    changes: Sequence[DdlChange]


@dataclass(frozen=True)
class TableInside:
    """A table of a job. `versions`: of its definition at the source, the newest first; `has_values`: whether those of rows are
    here."""

    table: str
    versions: Sequence[TableVersion]
    there: Sequence[TableThere]
    has_values: bool


@dataclass(frozen=True)
class Definitions:
    """Definitions of a job's tables. `latest`: the newest version of each, by the table's name; `changes`: by target, the
    newest first, the last MOST of them."""

    latest: Sequence[TableVersion]
    changes: Sequence[tuple[str, Sequence[DdlChange]]]


class Inside:
    """Look inside the jobs of one manager. Each method asks what the caller may see; it raises UnknownName for a job that is
    not there for it."""

    def __init__(self, jobs: Jobs, asked: Asked, audit: Audit) -> None:
        self._jobs, self._asked, self._audit = jobs, asked, audit

    def table(self, caller: Caller, name: str, table: str) -> TableInside:
        """Return what is known of a table, by its name at the source; asks the targets. Values of rows are for operators, and
        that they were shown is noted. Raises TooBusy, UnknownName for what is no name of a table."""
        version = self._version(caller, name)
        wanted = parsed(table)
        found = self._asked.ask(name, version, f"table {wanted}", lambda: _table(self._job(name), wanted))
        if not caller.role_at(name).includes(Role.OPERATOR):
            return replace(found, there=[_without_values(one) for one in found.there], has_values=False)
        if any(one.aside or one.conflicts for one in found.there):
            self._audit.note(caller, SHOWN, name, after=f"{wanted}: rows set aside, conflicts")
        return found

    def definitions(self, caller: Caller, name: str) -> Definitions:
        """Return the definitions of a job's tables, and what became of their changes at every target. Raises TooBusy."""
        return self._asked.ask(name, self._version(caller, name), "definitions", lambda: _definitions(self._job(name)))

    def cutover(self, caller: Caller, name: str) -> list[tuple[str, CutoverReport]]:
        """Return how far the latest cut-over to each target is, by its name, "" of the only one. Raises TooBusy."""

        def find() -> list[tuple[str, CutoverReport]]:
            views = self._job(name).targets()
            return [(view.target if len(views) > 1 else "", view.cutover_status(looks=True)) for view in views]

        return self._asked.ask(name, self._version(caller, name), "cutover", find)

    def trail(self, caller: Caller, name: str, wanted: Wanted) -> TrailPage:
        """Return a page of a job's trail. Values of rows are for operators, and that they were shown is noted; who may not see
        them may not look for them. Raises TooBusy, TrailError."""
        version = self._version(caller, name)
        if wanted.key:
            caller.require(Role.OPERATOR, name)
        found = self._asked.ask(name, version, f"trail {wanted}", lambda: read_page(self._job(name).trail, wanted))
        if not caller.role_at(name).includes(Role.OPERATOR):
            return replace(found, rows=[replace(row, values={}) for row in found.rows])
        if found.rows:
            seen = f"{found.rows[0].position.sequence} to {found.rows[-1].position.sequence}"
            self._audit.note(
                caller, SHOWN, name, after=f"trail, {seen}" + (f", {wanted.table}" if wanted.table else "")
            )
        return found

    def _version(self, caller: Caller, name: str) -> int:
        caller.require(Role.VIEWER, name)
        self._jobs.require_job(name)
        return self._jobs.job(name).version

    def _job(self, name: str) -> Job:
        return Job.from_file(self._jobs.file(name), self._jobs.environment(name))


def parsed(table: str) -> TableId:
    """Return a table by its name as pages have it. Raises UnknownName."""
    try:
        return TableId.parse(table)
    except ValueError:
        raise UnknownName(f"{table!r} is no name of a table", hint="as schema.table") from None


def _definitions(job: Job) -> Definitions:
    views = job.targets()
    versions: list[TableVersion] = []
    with suppress(TrailError):  # no trail yet
        versions = job.schema_versions()
    latest = {one.table: one for one in versions}  # the last of each is the newest
    changes = [(view.target if len(views) > 1 else "", view.ddl_changes()[-MOST:][::-1]) for view in views]
    return Definitions(list(latest.values()), changes)


def _table(job: Job, table: TableId) -> TableInside:
    views = job.targets()
    versions: list[TableVersion] = []
    with suppress(SchemaError, TrailError):  # no trail yet, or none of this table
        versions = job.schema_versions(str(table))[::-1]
    there = [_there(view, view.target if len(views) > 1 else "", table) for view in views]
    return TableInside(str(table), versions, there, has_values=True)


def _there(view: Job, target: str, table: TableId) -> TableThere:
    return TableThere(
        target,
        next((one for one in view.parked() if one.source == table), None),
        view.set_aside(str(table))[:MOST],
        view.conflicts(str(table))[-MOST:][::-1],
        view.ddl_changes(str(table))[::-1],
    )


def _without_values(there: TableThere) -> TableThere:
    return replace(
        there,
        aside=[replace(one, key={}, before=None, after=None) for one in there.aside],
        conflicts=[replace(one, key={}, before=None, after=None, found=None) for one in there.conflicts],
    )
