"""`anabranch route`: trails that reach this machine, on to the next one."""

from __future__ import annotations

from contextlib import nullcontext

import click

from anabranch.cli.options import Verb, log_level


@click.command(cls=Verb)
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@click.option("--check", is_flag=True, help="Check FILE and certificates, connect once to each next hop, and end.")
@log_level("info")
def route(file: str, check: bool) -> None:
    """Pass trails on to the next hop that FILE names for them, until stopped, without a store.

    What passes is not looked at, and nothing is acknowledged here: that comes from the receiver at the end of the way. So a
    router may be killed at any moment.
    """
    from anabranch.job.hop_process import noted
    from anabranch.job.hopping import route

    with nullcontext() if check else noted():
        route(file, check=check, show=lambda text: click.echo(text, err=not check))
