"""Arguments and options that several verbs share.

What does not live here: a verb's own options.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

LEVELS = ("debug", "info", "warning", "error")
LEVEL_VARIABLE = "ANABRANCH_LOG_LEVEL"  # handed on to the parts that a verb starts

Command = TypeVar("Command", bound=Callable[..., Any])

# Options of every verb: they stand behind a verb's own in its help.
GENERAL = frozenset(("--json", "--log-level", "--help"))
PERCENT, LEAST_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%"), 0.01
RANGE = re.compile(r"; [\d<=]*x[<>=\d]*(?=\])|  \[[\d<=]*x[<>=\d]*\]")  # a wrong number is told its range


class Verb(click.Command):
    """A command whose help has its own options first, then those of every verb."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], "General options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                title = "General options" if GENERAL.intersection(parameter.opts) else "Options"
                groups[title].append((record[0], RANGE.sub("", record[1])))
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class VerbGroup(click.Group):
    """A group of such commands."""

    command_class = Verb


job_argument = click.argument("job", metavar="JOB", type=click.Path(dir_okay=True))
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Write the result to stdout as JSON, and nothing else."
)


target_option = click.option("--target", metavar="NAME", help="The target to use, if the job has several.")
standby = click.option(
    "--standby",
    "stands_by",
    is_flag=True,
    help="Wait while another one writes the trail.",
)
each_target_option = click.option("--target", metavar="NAME", help="Only this target, if the job has several.")


def table_option(help: str) -> Callable[[Command], Command]:
    """Add `--table schema.table`, checked and handed on as text."""
    return click.option("--table", metavar="T", callback=_parsed_table, help=help)


def tables_option(help: str) -> Callable[[Command], Command]:
    """Add `--table schema.table`, once for each table, checked and handed on as texts."""

    def parsed(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(filter(None, (_parsed_table(context, parameter, text) for text in texts)))

    return click.option("--table", "tables", metavar="T", multiple=True, callback=parsed, help=help)


def table_argument(required: bool) -> Callable[[Command], Command]:
    """Add the argument `schema.table`, checked and handed on as text."""
    metavar = "TABLE" if required else "[TABLE]"
    return click.argument("table", metavar=metavar, required=required, callback=_parsed_table)


def _parsed_table(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    from anabranch.model.ids import TableId

    try:
        return None if text is None else str(TableId.parse(text))  # "" is no table: not "all of them"
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def parsed_part(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Parse a part of the rows as '5%' or '0.5%', as a fraction."""
    if text is None:
        return None
    found = PERCENT.fullmatch(text)
    if not found or not LEAST_PERCENT <= float(found[1]) <= 100:
        raise click.BadParameter("a part of the rows is wanted, from 0.01% to 100%", context, parameter)
    return float(found[1]) / 100


def key_option(help: str) -> Callable[[Command], Command]:
    """Add `--key name=value`, once for each column of a key, handed on as a dict."""
    return click.option("--key", "key", multiple=True, metavar="K=V", callback=_parsed_key, help=help)


def _parsed_key(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    found = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if len(found) != len(pairs):
        raise click.BadParameter("a column and its value are wanted, as id=17, each column once", context, parameter)
    return found


def log_level(default: str) -> Callable[[Command], Command]:
    """Add `--log-level`: sets logging up for the verb, and for the processes it starts."""

    def configure(context: click.Context, _: click.Parameter, level: str | None) -> None:
        if context.resilient_parsing:
            return
        from anabranch import log

        if level:
            os.environ[LEVEL_VARIABLE] = level
        log.configure(level or default)

    return click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        metavar="LEVEL",
        envvar=LEVEL_VARIABLE,
        callback=configure,
        expose_value=False,
        help=f"Log debug, info, warning or error  [default: {default}]",
    )


def write_json(value: Any) -> None:
    """Write the one JSON document of a verb with `--json`."""
    import json

    sys.stdout.write(json.dumps(value, indent=2, default=str, ensure_ascii=False) + "\n")
