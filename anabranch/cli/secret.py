"""`anabranch secret`: what `${NAME}` in the job files of a manager stands for.

What does not live here: how it is kept (`manager/secrets.py`).
"""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from anabranch.cli.managing import caller, opened
from anabranch.cli.options import Verb, VerbGroup, json_option, write_json
from anabranch.errors import ConfigError


@click.group(cls=VerbGroup)
def secret() -> None:
    """Keep what ${NAME} in the job files of the manager stands for, encrypted.

    They stand in the manager's state below $ANABRANCH_HOME/_manager; it need not run. The key is in secret.key there, or
    in the file $ANABRANCH_SECRET_KEY_FILE, or in $ANABRANCH_SECRET_KEY.
    """


@secret.command("set", cls=Verb)
@click.argument("name")
@click.option("--jobs", metavar="PATTERNS", help="Jobs that may use it; default as before, at first *.")
def set_(name: str, jobs: str | None) -> None:
    """Give the secret NAME a value, which is asked for, or is all of stdin but a line end at its end.

    Parts that run keep the former value until they start again.
    """
    from anabranch.manager.callers import patterns_of

    manager, who = opened(), caller()
    found = manager.secrets.set(who, name, _value(), None if jobs is None else patterns_of(jobs))
    for job in found.used_by:
        click.echo(f"{job} gets it at its next start", err=True)


@secret.command(cls=Verb)
@json_option
def ls(as_json: bool) -> None:
    """List secrets, without their values."""
    found = [asdict(one) for one in opened().secrets.all(caller())]
    if as_json:
        write_json(found)
        return
    for one in found:
        jobs, users = " ".join(one["jobs"]), ", ".join(one["used_by"]) or "no job"
        lost = "" if one["is_readable"] else "  CANNOT BE READ: its key is not there"
        click.echo(f"{one['name']:<24}  jobs {jobs}  used by {users}  set {one['at']}, by {one['by']}{lost}")


@secret.command(cls=Verb)
@click.argument("name")
def rm(name: str) -> None:
    """Forget the secret NAME. Parts that run keep it until they start again."""
    opened().secrets.remove(caller(), name)


@secret.command(cls=Verb)
def rotate() -> None:
    """Encrypt all secrets with a new key in the file, or with the first one of $ANABRANCH_SECRET_KEY."""
    number = opened().secrets.rotate(caller())
    click.echo(f"{number} secrets have another key: keep a copy of it where the former one was kept", err=True)


def _value() -> str:
    """Return what somebody types, unseen and twice, or all of stdin where that is no terminal."""
    if sys.stdin.isatty():
        typed: str = click.prompt("Value", hide_input=True, confirmation_prompt=True, err=True)
        return typed
    try:
        return sys.stdin.read().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError("stdin is no UTF-8", hint="write bytes in base64, say") from None
