"""`anabranch demo`: the product on two private servers, from nothing to verified."""

from __future__ import annotations

import sys

import click

from anabranch.cli.options import log_level


@click.command()
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=60, show_default=True, metavar="N", help="How long to stream."
)
@click.option("--forever", is_flag=True, help="Stream until stopped with Ctrl-C.")
@click.option("--keep", is_flag=True, help="Keep databases, job and trail in .anabranch/demo afterwards.")
@click.option(
    "--rate",
    type=click.FloatRange(min=1),
    default=250,
    show_default=True,
    metavar="N",
    help="The writer's transactions per second.",
)
@click.option(
    "--source",
    type=click.Choice(["mariadb", "postgresql"]),
    default="mariadb",
    show_default=True,
    help="The shop's database.",
)
@log_level("warning")
def demo(seconds: float, forever: bool, keep: bool, rate: float, source: str) -> None:
    """Start two databases privately, load and follow a lively shop, verify, and leave nothing running.

    The first Ctrl-C ends the streaming early and verifies; the second stops at once.
    """
    from anabranch.demo import run_demo

    sys.exit(run_demo(None if forever else seconds, keep=keep, rate=rate, source=source))
