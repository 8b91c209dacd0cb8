"""Asking every target of a job, or one, for the verbs that do so.

What does not live here: what they ask.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from anabranch.cli.options import write_json
from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.job import Job

T = TypeVar("T")


@dataclass(frozen=True)
class Answers(Generic[T]):
    """The answers by target. `errors`: of those that could not answer. `is_one`: only one was asked, and it is not named."""

    found: dict[str, T]
    errors: dict[str, AnabranchError]
    is_one: bool

    def show(self, as_json: bool, to_json: Callable[[T], dict[str, Any]], write: Callable[[T], object]) -> None:
        """Show one target as the verb does; several each under its name."""
        if self.is_one:
            for answer in self.found.values():
                write_json(to_json(answer)) if as_json else write(answer)
        elif as_json:
            asked = [{"name": name, **to_json(answer)} for name, answer in self.found.items()]
            away = [{"name": name, "error": str(error)} for name, error in self.errors.items()]
            write_json({"version": 1, "targets": [*asked, *away]})
        else:
            for name, answer in self.found.items():
                click.echo(f"target {name}")
                write(answer)

    def exit(self, codes: list[int]) -> None:
        """Exit with the lowest code that is not 0. Raises the error of a target that has the lowest, the others as notes."""
        errors = sorted(self.errors.values(), key=lambda error: error.exit_code)
        for other in errors[1:]:
            errors[0].add_note(str(other))
        lowest = min(filter(None, codes), default=0)
        if errors and (not lowest or errors[0].exit_code <= lowest):
            raise errors[0]
        for error in errors:
            click.echo(f"error: {error}", err=True)
        if lowest:
            sys.exit(lowest)


def of_each(job: Job, target: str | None, ask: Callable[[Job], T]) -> Answers[T]:
    """Ask one target, or all of them; one that cannot answer does not stop the others."""
    targets = job.targets() if target is None else [job.on(target)]
    if len(targets) == 1:
        return Answers({targets[0].target: ask(targets[0])}, {}, is_one=True)
    found, errors = dict[str, T](), dict[str, AnabranchError]()
    for one in targets:
        try:
            found[one.target] = ask(one)
        except AnabranchError as error:
            error.job = one.label
            errors[one.target] = error
    return Answers(found, errors, is_one=False)
