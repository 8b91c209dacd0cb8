"""`anabranch token`: the tokens with which programs speak to a manager.

What does not live here: what a token is (`manager/tokens.py`).
"""

from __future__ import annotations

from dataclasses import asdict

import click

from anabranch.cli.managing import caller, opened
from anabranch.cli.options import Verb, VerbGroup, json_option, write_json

ROLES = ("viewer", "operator", "administrator")


@click.group(cls=VerbGroup)
def token() -> None:
    """Make, list and revoke tokens of the manager's API.

    They stand in the manager's state below $ANABRANCH_HOME/_manager; it need not run.
    """


@token.command(cls=Verb)
@click.option(
    "--role", type=click.Choice(ROLES), metavar="ROLE", required=True, help="Be a viewer, operator or administrator."
)
@click.option("--name", default="", metavar="NAME", help="What it is for; shown in lists.")
@click.option("--jobs", default="*", metavar="PATTERNS", help="Jobs that it may see; default *.")
@click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), metavar="N", help="End it after N days; default never."
)
def create(role: str, name: str, jobs: str, days: float | None) -> None:
    """Make a token and print it: it is kept nowhere."""
    from anabranch.manager.callers import Role, patterns_of

    manager, who = opened(), caller()
    with manager.audit.together():
        text = manager.tokens.create(Role(role), name, patterns_of(jobs), who.name, days)
        manager.audit.note(who, "token_created", after=f"{name or 'a token'}: {role}, jobs {jobs}")
    click.echo(text)


@token.command(cls=Verb)
@json_option
def ls(as_json: bool) -> None:
    """List tokens, without what only their owners know."""
    found = [asdict(one) for one in opened().tokens.all()]
    if as_json:
        write_json(found)
        return
    for one in found:
        ends = f"revoked {one['revoked']}" if one["revoked"] else f"until {one['expires'] or 'it is revoked'}"
        jobs = " ".join(one["jobs"])
        click.echo(f"{one['id']}  {one['role']:<13}  {one['name']:<20}  jobs {jobs}  {ends}, by {one['created_by']}")


@token.command(cls=Verb)
@click.argument("id")
def revoke(id: str) -> None:
    """Let a token count no longer, by its ID from `token ls`."""
    manager = opened()
    with manager.audit.together():
        manager.tokens.revoke(id)
        manager.audit.note(caller(), "token_revoked", before=id)
