"""`anabranch demo`: the product on two private servers, from nothing to verified."""

from __future__ import annotations

import sys

import click

from anabranch.cli.options import Verb, log_level


@click.command(cls=Verb)
@click.option(
    "--scenario",
    type=click.Choice(["follow", "cutover", "dmz"]),
    default="follow",
    metavar="NAME",
    help="follow (the default); cutover: there and back; dmz: over hops",
)
@click.option(
    "--seconds", type=click.FloatRange(min=1), default=60, show_default=True, metavar="N", help="How long to stream."
)
@click.option("--forever", is_flag=True, help="Stream until stopped with Ctrl-C.")
@click.option("--keep", is_flag=True, help="Keep databases, job and trail in .anabranch/demo.")
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
    metavar="NAME",
    default="mariadb",
    help="The shop's: mariadb (the default), postgresql",
)
@click.option(
    "--target",
    type=click.Choice(["postgresql", "mysql", "mariadb"]),
    metavar="NAME",
    default="postgresql",
    help="The target: postgresql (the default), mysql, mariadb",
)
@log_level("warning")
def demo(scenario: str, seconds: float, forever: bool, keep: bool, rate: float, source: str, target: str) -> None:
    """Show it all on two private servers: load, follow, verify; or cut over, and return; or over a DMZ.

    Starts them, loads and follows a lively shop, verifies, and leaves nothing running. With --scenario cutover the shop's
    writer is led to the target and back, which takes some minutes; --seconds and --forever have no meaning there. With
    --scenario dmz the shop goes through capture, pump, router, receiver and apply, and the router is killed in the middle.

    The first Ctrl-C ends the streaming early and verifies; the second stops at once.
    """
    from anabranch.demo import run_demo

    ends = {"source": source, "target": target}
    sys.exit(run_demo(None if forever else seconds, keep=keep, rate=rate, scenario=scenario, **ends))
