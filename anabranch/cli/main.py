"""`anabranch`: the group of all verbs, and the outermost handler: every error becomes a message and an exit code.

What does not live here: what a verb does.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType

import click
from click.core import ParameterSource

from anabranch.cli import options
from anabranch.errors import AnabranchError
from anabranch.version import __version__

# Groups of the help -> their verbs.
GROUPS = {
    "Run": ("run", "capture", "load", "apply", "receive", "route", "cutover", "failback"),
    "Prepare and change": (
        "recipe",
        "preflight",
        "types",
        "setup",
        "rules",
        "schema",
        "plan",
        "reverse",
        "drill",
        "arm",
    ),
    "Look": ("status", "metrics", "trace", "bundle", "verify", "trail", "conflicts", "ddl"),
    "Manage many jobs": ("serve", "promote", "secret", "token", "user"),
    "Repair and remove": ("parked", "skip", "rewind", "drop"),
    "Try out": ("demo", "torture"),
}
VERBS = tuple(verb for verbs in GROUPS.values() for verb in verbs)
FILES = {"types": "certify"}  # of verbs that are in a file of another name
LOGGING = {"run", "capture", "load", "apply", "receive", "route"}  # an error of theirs is a line of their log
INTERRUPTED, TERMINATED, UNEXPECTED = 130, 143, 1
# Of Arrow's allocators the one that keeps least behind a large transaction (10 to 20 MB less). Children take it over.
ALLOCATOR = ("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")


class Verbs(click.Group):
    """The group of all verbs: imports a verb's file when it is asked for, in the order of `VERBS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(import_module(f"anabranch.cli.{FILES.get(cmd_name, cmd_name)}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, VERBS))
        limit = formatter.width - 4 - longest
        for title, verbs in GROUPS.items():
            found = [(verb, command) for verb in verbs if (command := self.get_command(ctx, verb)) is not None]
            with formatter.section(title):
                formatter.write_dl([(verb.ljust(longest), one.get_short_help_str(limit)) for verb, one in found])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        self.commands = dict.fromkeys(VERBS, click.Command(None))  # names, for click's "did you mean"
        if ctx.params.get("server") and not HELP & set(args):
            from anabranch.cli.remote import elsewhere

            is_said = ctx.get_parameter_source("server") is ParameterSource.COMMANDLINE
            if (command := elsewhere(self, ctx.params["server"], ctx.params["token_file"], args, is_said)) is not None:
                return args[0], command, []
        return super().resolve_command(ctx, args)


HELP = frozenset(("-h", "--help"))
EXIT_CODES = """\b
Exit codes:
  0  done                             5  the source
  1  unexpected: a bug                6  the target
  2  configuration or command line    7  trail or state
  3  preflight found something        8  done, but tables are parked or rows set aside
  4  both ends differ                 9  not caught up in time
  130 and 143: interrupted"""


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=EXIT_CODES
)
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=lambda *given: _show_version(*given),
    help="Show the version and the log decoder, and exit.",
)  # fmt: skip
@click.option(
    "--log-level",
    type=click.Choice(options.LEVELS),
    metavar="LEVEL",
    help="Log debug, info, warning or error; also per command.",
)
@click.option(
    "--server",
    metavar="URL",
    envvar="ANABRANCH_SERVER",
    help="Have the manager at URL carry it out; JOB is then a name.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="With --server: FILE has the token; else $ANABRANCH_TOKEN.",
)
def cli(log_level: str | None, server: str | None, token_file: str | None) -> None:
    """Copy databases while they are in use: load them, then follow the source's own transaction log.

    JOB is the path of a job file. `anabranch VERB --help` has each verb's options.
    """
    if log_level:
        os.environ[options.LEVEL_VARIABLE] = log_level


def _show_version(context: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if not is_asked or context.resilient_parsing:
        return
    from anabranch.rows import installed  # loads the compiled code, which no other start without a verb needs

    click.echo(f"anabranch {__version__}")
    click.echo(f"decoder: {installed.described()}")
    context.exit()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `anabranch` command, and end the process."""
    os.environ.setdefault(*ALLOCATOR)
    signal.signal(signal.SIGTERM, _terminated)  # verbs that run a pipeline put their own in its place
    code = exit_code(list(sys.argv[1:] if arguments is None else arguments))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends already; what is cleared away at the end is not cut short
    if code == INTERRUPTED:  # a second Ctrl-C would end the interpreter by the signal, half-way out, with another code
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)


def exit_code(arguments: list[str]) -> int:
    """Run a command line; every way it can end is an exit code."""
    try:
        result = cli.main(arguments, prog_name="anabranch", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except AnabranchError as error:
        return _tell([error], arguments)
    except ExceptionGroup as group:
        ours, others = group.split(AnabranchError)
        return _tell(_leaves(ours), arguments) if ours and not others else _unexpected(group, arguments)
    except Exception as error:  # noqa: BLE001 - the outermost handler
        return _unexpected(error, arguments)


def _terminated(_: int, __: FrameType | None) -> None:
    sys.exit(TERMINATED)


def _leaves(group: ExceptionGroup[AnabranchError]) -> list[AnabranchError]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, ExceptionGroup) else [error])
    ]


def _tell(errors: list[AnabranchError], arguments: list[str]) -> int:
    """Write every error once, with the line of the job file that decides: as text, or as JSON where the output is that.
    Returns the lowest of the codes.
    """
    from anabranch.cli.deciding import deciding_line  # with the models of the job file, which are slow to import

    for error in errors:
        decided, notes = deciding_line(error, arguments), getattr(error, "__notes__", [])
        if _is_json(arguments):
            _tell_machines(error, arguments, decided, notes)
            continue
        for text in (_text(error) + decided, *notes):
            click.echo(click.style("error: ", fg="red", bold=True) + text, err=True)
    return min(error.exit_code for error in errors)


def _is_json(arguments: list[str]) -> bool:
    """Return whether errors of a command line are JSON, where logs are: of verbs that log, unless people read what they say
    as it comes, or that were asked for JSON."""
    from anabranch import log

    is_logging = _verb(arguments) in LOGGING and log.AS_TEXT not in os.environ
    return log.is_json() and (is_logging or "--json" in arguments)


def _verb(arguments: list[str]) -> str:
    return next((word for word in arguments if word in VERBS), "")


def _tell_machines(error: AnabranchError, arguments: list[str], decided: str = "", notes: Sequence[str] = ()) -> None:
    """Log one line with everything that is known of an error."""
    from anabranch import log

    job = (error.job or "").partition(",")[0]
    task = error.task or "/".join(filter(None, (job, _verb(arguments))))
    facts = error.facts() | {"job": job or None, "task": task, "retried": False}
    more = {"notes": list(notes)} if notes else {}
    log.get().error("error", message=error.message, hint=error.hint + decided, **facts, **more)


def _text(error: AnabranchError) -> str:
    """Write a message; one of several lines has its hint on a line of its own."""
    text = str(error)
    if "\n" not in error.message or not error.hint:
        return text
    return text.removesuffix(f" — {error.hint}") + f"\n  -> {error.hint}"


def _unexpected(error: BaseException, arguments: list[str]) -> int:
    text = "".join(traceback.format_exception(error))
    kind = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    try:
        place = f"in {_write(text, arguments)}"
    except OSError as full:  # nowhere is room
        place = f"above: {full.strerror}"
        click.echo(text, err=True)
    if _is_json(arguments):
        _tell_machines(_bug(error, place), arguments)
    else:
        click.echo(f"unexpected error: {kind} (this is a bug; traceback {place})", err=True)
    return UNEXPECTED


def _bug(error: BaseException, place: str) -> AnabranchError:
    found = AnabranchError(f"unexpected error: {type(error).__name__}", hint=f"this is a bug; traceback {place}")
    found.code = "unexpected"
    return found


def _write(text: str, arguments: list[str]) -> Path:
    """Write a traceback into the job's logs where there is a job with a home, else into a temporary file."""
    name = time.strftime("traceback-%Y%m%d-%H%M%S")
    home = _home(arguments)
    try:
        logs = home / "logs" if home and home.is_dir() else Path(tempfile.gettempdir())
        logs.mkdir(exist_ok=True)
        handle, file = tempfile.mkstemp(prefix=f"{name}-", suffix=".txt", dir=logs)
    except OSError:
        handle, file = tempfile.mkstemp(prefix=f"anabranch-{name}-", suffix=".txt")
    with open(handle, "w") as stream:
        stream.write(text)
    return Path(file)


def _home(arguments: list[str]) -> Path | None:
    from anabranch.config import load_job

    for argument in arguments:
        if argument.endswith(".toml"):
            try:
                return load_job(argument).home
            except AnabranchError:
                return None
    return None


if __name__ == "__main__":
    main()
