"""`anabranch promote`: what was tried in one job of a manager goes into another one, or becomes a new one with other ends.

What does not live here: what a file becomes (`manager/promoting.py`), who may (`manager/manager.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote

import click

from anabranch.cli.options import Verb, json_option, log_level, write_json
from anabranch.errors import ConfigError


@click.command(cls=Verb)
@click.argument("tried", metavar="JOB")
@click.option("--to", "into", required=True, metavar="NAME", help="The job that gets it; made where there is none.")
@click.option(
    "--version", type=click.IntRange(min=1), metavar="N", help="Take this version of JOB; default the present."
)
@click.option(
    "--end", "ends", multiple=True, metavar="END=URL", help="Of a new job: source, target, or a target's name."
)
@click.option("--secret", "secrets", multiple=True, metavar="NAME=NEW", help="Write ${NEW} where JOB has ${NAME}.")
@click.option("--section", "sections", multiple=True, metavar="NAME", help="Move this one; default those of the rules.")
@click.option(
    "--of-version", type=click.IntRange(min=1), metavar="N", help="Refuse it unless the job that gets it is at N."
)
@click.option("--note", default="", metavar="TEXT", help="Keep with the version why it is so.")
@click.option("--execute", is_flag=True, help="Keep it; without this, only show the difference.")
@json_option
@log_level("warning")
def promote(
    tried: str,
    into: str,
    version: int | None,
    ends: tuple[str, ...],
    secrets: tuple[str, ...],
    sections: tuple[str, ...],
    of_version: int | None,
    note: str,
    execute: bool,
    as_json: bool,
) -> None:
    """Put what was tried in JOB into another job.

    With --server: JOB is a job of that manager, or the path of a file, which another manager may have given. A job that is
    there keeps its ends and gets the rules as its next version; a new one is a copy with other ends. It counts from that job's
    next start on.
    """
    body: dict[str, Any] = {
        **_what(tried, version),
        "ends": _pairs("--end", "END=URL", ends),
        "secrets": _pairs("--secret", "NAME=NEW", secrets),
        "note": note,
        "of_version": of_version,
        "is_tried": not execute,
        **({"sections": list(sections)} if sections else {}),
    }
    found = _asked(into, body)
    if as_json:
        write_json({"schema": 1, **found})
        return
    click.echo(found["difference"], nl=False)
    for effect in _effects(found):
        click.echo(effect, err=True)
    click.echo(_outcome(found, execute), err=True)


def _what(tried: str, version: int | None) -> dict[str, Any]:
    """Return what is promoted: a job by its name, or the text of a file. Raises ConfigError."""
    if "/" not in tried and not tried.endswith(".toml"):
        return {"job": tried, "version": version}
    if version is not None:
        raise ConfigError("--version is of a job of the manager", hint="leave it out beside a file")
    try:
        return {"text": Path(tried).read_bytes().decode("utf-8-sig")}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{tried} cannot be read: {error}") from None


def _pairs(option: str, form: str, given: tuple[str, ...]) -> dict[str, str]:
    from anabranch.config.promoted_text import pairs

    return pairs(given, option, f"{option} {form}, once for each")


def _asked(into: str, body: dict[str, Any]) -> dict[str, Any]:
    from anabranch.cli.remote import Server

    given = click.get_current_context().find_root().params
    if not given.get("server"):
        raise ConfigError("a manager promotes jobs", hint="anabranch --server URL promote …, or $ANABRANCH_SERVER")
    server = Server.at(given["server"], given.get("token_file"))
    try:
        return server.ask("POST", f"/jobs/{quote(into, safe='')}/promotion", body)
    except (URLError, OSError) as error:
        why = error.reason if isinstance(error, URLError) else error
        message = f"the manager does not answer: {why}"
        raise ConfigError(
            message, hint="look at that job before you ask again" if body["is_tried"] is False else ""
        ) from None


def _effects(found: dict[str, Any]) -> list[str]:
    """Return what the changes take before they hold; nothing, of a manager of a former release."""
    from anabranch.config.effects import Effect, When

    return [str(Effect(one["key"], When(one["when"]), tuple(one["parts"]))) for one in found.get("effects", ())]


def _outcome(found: dict[str, Any], execute: bool) -> str:
    what = f"the new job {found['name']}" if found["is_new"] else f"the job {found['name']}"
    if not execute:
        seen = f" --of-version {found['of_version']}" if found["of_version"] else ""
        return (
            f"nothing was changed: {what} would have this; add --execute{seen}"
            if found["difference"]
            else f"{what} has it"
        )
    started = "anabranch starts it when somebody asks" if found["is_new"] else "it counts from its next start on"
    return f"{what} has it as version {found['version']}: {started}"
