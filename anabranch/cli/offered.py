"""The commands of one job as plain tables, for the manager that carries them out, and for whoever asks it to.

What does not live here: which of them a manager offers, and to whom (`manager/verbs.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import click

from anabranch.model.commands import Command, Option, Place


def commands(verbs: click.Group) -> dict[str, Command]:
    """Return every command of a group, and of those below it, whose first argument is a job, by its verb."""
    return {command.verb: command for command in _below(verbs, ()) if command.is_of_a_job}


def _below(group: click.Group, words: tuple[str, ...]) -> Iterator[Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from _below(found, (*words, name))
        elif found is not None:
            yield _table(found, " ".join((*words, name)))


def _table(command: click.Command, verb: str) -> Command:
    options = [
        Option((*one.opts, *one.secondary_opts), not (one.is_flag or one.count), _is_path(one))
        for one in command.params
        if isinstance(one, click.Option)
    ]
    places = [
        Place(one.name or "", one.required, _is_path(one)) for one in command.params if isinstance(one, click.Argument)
    ]
    return Command(verb, tuple(options), tuple(places))


def _is_path(parameter: click.Parameter) -> bool:
    return isinstance(parameter.type, click.Path | click.File)
