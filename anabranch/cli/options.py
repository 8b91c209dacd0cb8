"""Arguments and options that several verbs share.

What does not live here: a verb's own options.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

LEVELS = ("debug", "info", "warning", "error")
LEVEL_VARIABLE = "ANABRANCH_LOG_LEVEL"  # handed on to the parts that a verb starts

Command = TypeVar("Command", bound=Callable[..., Any])

job_argument = click.argument("job", metavar="JOB", type=click.Path(dir_okay=True))
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Write the result as JSON, and nothing else, to stdout."
)


target_option = click.option("--target", metavar="NAME", help="Which of several targets.")
each_target_option = click.option("--target", metavar="NAME", help="Only this one of several targets.")


def table_option(help: str) -> Callable[[Command], Command]:
    """Add `--table schema.table`, checked and handed on as text."""
    return click.option("--table", metavar="T", callback=_parsed_table, help=help)


def table_argument(required: bool) -> Callable[[Command], Command]:
    """Add the argument `schema.table`, checked and handed on as text."""
    metavar = "TABLE" if required else "[TABLE]"
    return click.argument("table", metavar=metavar, required=required, callback=_parsed_table)


def _parsed_table(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    from anabranch.model.ids import TableId

    try:
        return str(TableId.parse(text)) if text else None
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


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
        envvar=LEVEL_VARIABLE,
        callback=configure,
        expose_value=False,
        help=f"Least important log lines to show on stderr.  [default: {default}]",
    )


def write_json(value: Any) -> None:
    """Write the one JSON document of a verb with `--json`."""
    import json

    sys.stdout.write(json.dumps(value, indent=2, default=str, ensure_ascii=False) + "\n")
