"""`anabranch user`: the users of a manager's console.

What does not live here: what a user is (`manager/accounts.py`).
"""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from anabranch.cli.managing import caller, opened
from anabranch.cli.options import Verb, VerbGroup, json_option, write_json
from anabranch.errors import ConfigError

ROLES = ("viewer", "operator", "administrator")
role_option = click.option(
    "--role", type=click.Choice(ROLES), metavar="ROLE", required=True, help="Be a viewer, operator or administrator."
)
jobs_option = click.option("--jobs", default="*", metavar="PATTERNS", help="Jobs that it may see; default *.")


@click.group(cls=VerbGroup)
def user() -> None:
    """Add, list, change and remove users of the manager's console.

    They stand in the manager's state below $ANABRANCH_HOME/_manager; it need not run.
    """


@user.command(cls=Verb)
@click.argument("name")
@role_option
@jobs_option
def add(name: str, role: str, jobs: str) -> None:
    """Add a user NAME, with a password that is asked for, or is the first line of stdin.

    The user chooses another one at the first login.
    """
    from anabranch.manager.callers import Role, patterns_of

    manager, password = opened(), secret_of("password")
    with manager.audit.together():
        manager.accounts.create(name, password, Role(role), patterns_of(jobs), must_change=True)
        manager.audit.note(caller(), "user_added", after=f"{name}: {role}, jobs {jobs}")


@user.command(cls=Verb)
@json_option
def ls(as_json: bool) -> None:
    """List users."""
    found = [asdict(one) for one in opened().accounts.all()]
    if as_json:
        write_json(found)
        return
    for one in found:
        click.echo(f"{one['name']:<20}  {one['role']:<13}  jobs {' '.join(one['jobs'])}  since {one['created']}")


@user.command(cls=Verb)
@click.argument("name")
@role_option
@jobs_option
def change(name: str, role: str, jobs: str) -> None:
    """Give the user NAME another role and other jobs; its logins end."""
    from anabranch.manager.callers import Role, patterns_of

    manager = opened()
    with manager.audit.together():
        before = manager.accounts.user(name)
        manager.accounts.change(name, Role(role), patterns_of(jobs))
        told = f"{name}: {before.role}, jobs {' '.join(before.jobs)}"
        manager.audit.note(caller(), "user_changed", before=told, after=f"{name}: {role}, jobs {jobs}")


@user.command(cls=Verb)
@click.argument("name")
def passwd(name: str) -> None:
    """Give the user NAME another password, which is asked for, or is the first line of stdin; its logins end.

    The user chooses another one at the next login.
    """
    manager = opened()
    manager.accounts.user(name)  # before anything is asked for
    password = secret_of("password")
    with manager.audit.together():
        manager.accounts.set_password(name, password, must_change=True)
        manager.audit.note(caller(), "password_set", after=name)


@user.command(cls=Verb)
@click.argument("name")
def rm(name: str) -> None:
    """Remove the user NAME; its logins end."""
    manager = opened()
    with manager.audit.together():
        manager.accounts.remove(name)
        manager.audit.note(caller(), "user_removed", before=name)


def secret_of(what: str) -> str:
    """Return what somebody types, unseen and twice, or the first line of stdin where that is no terminal."""
    if sys.stdin.isatty():
        typed: str = click.prompt(what.capitalize(), hide_input=True, confirmation_prompt=True, err=True)
        return typed
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise ConfigError(
            f"stdin has no {what}", hint=f"type it at a terminal, or write the {what} to stdin as one line"
        )
    return line
