"""Reads which of the source's tables a job's rules choose, and what decides about each.

What does not live here: the decision itself (`rules/decided.py`), whether the tables can be replicated (preflight).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.rules.contradictions import contradictions
from anabranch.rules.decided import Decided, decided
from anabranch.view.opened import catalog_of, source_of

if TYPE_CHECKING:
    from anabranch.model.ids import TableId
    from anabranch.view.job_view import JobView


@dataclass(frozen=True, slots=True)
class Choice:
    """Keep what the rules choose of the tables that the source shows this user, by name. `warnings`: rules that contradict
    each other or choose nothing."""

    tables: tuple[Decided, ...]
    warnings: tuple[str, ...]


def chosen_tables(job: JobView) -> Choice:
    """Return what the rules choose. Raises SourceUnavailable."""
    present: list[TableId] = []

    def noted(table: TableId) -> bool:
        present.append(table)
        return False

    with catalog_of(source_of(job)) as catalog:
        catalog.tables(noted, whole=False)
    warnings = [str(one.problem) for one in contradictions(job.config, present)]
    warnings += [str(problem) for problem in job.rules.without_match(present)]
    return Choice(tuple(decided(job.config, table) for table in sorted(present)), tuple(warnings))
