"""`anabranch receive`: trails that reach this machine, into a directory."""

from __future__ import annotations

from contextlib import nullcontext

import click

from anabranch.cli.options import Verb, log_level


@click.command(cls=Verb)
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@click.option("--check", is_flag=True, help="Check FILE, certificates and directory, and end.")
@log_level("info")
def receive(file: str, check: bool) -> None:
    """Write the trails that reach this machine, each below the directory that FILE names, until stopped.

    Who sends is told that something is there when it is on the disk. Any number of trails and senders at once; a certificate
    writes only the names that FILE allows to it.
    """
    from anabranch.job.hop_process import noted
    from anabranch.job.hopping import receive

    with nullcontext() if check else noted():
        receive(file, check=check, show=lambda text: click.echo(text, err=not check))
