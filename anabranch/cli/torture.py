"""`anabranch torture`: histories with faults on a pair of servers, and a verdict on each.

What does not live here: all of it (`testing/torture`).
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import click

from anabranch.cli.options import Verb, log_level

FILE = click.Path(dir_okay=False, path_type=Path)
FILE_THERE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(cls=Verb)
@click.option(
    "--source",
    metavar="URL|NAME",
    help="Your server, or one private kind alone; see above.",
)
@click.option(
    "--decoder",
    type=click.Choice(("pgoutput", "wal2json", "decoderbufs", "drawn")),
    metavar="NAME",
    help="Decoder of a private PostgreSQL's log; see above.",
)
@click.option("--target", metavar="URL|NAME", help="Your target, or one private kind; see above.")
@click.option("--seed", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="The first history.")
@click.option("--histories", type=click.IntRange(1), metavar="K", help="How many  [default: 20; no end with --minutes]")
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), metavar="M", help="Begin no history after so many minutes."
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    metavar="W",
    help="How many at the same time.",
)
@click.option("--spark", "with_spark", is_flag=True, help="Run each job with Spark: half a minute each.")
@click.option("--replay", type=FILE_THERE, metavar="FILE", help="Run this history again.")
@click.option("--keep-going", "keeps_going", is_flag=True, help="Go on after a history that failed.")
@click.option("--results", type=FILE, metavar="FILE", help="Keep counts as JSON; the next run adds to them.")
@log_level("warning")
def torture(
    source: str | None,
    decoder: str | None,
    target: str | None,
    seed: int,
    histories: int | None,
    minutes: float | None,
    workers: int,
    with_spark: bool,
    replay: Path | None,
    results: Path | None,
    keeps_going: bool,
) -> None:
    """Run random histories with faults, and check every state.

    Random transactions go through whole jobs while things go wrong, and every state that the target shows is checked.
    Without --source both ends are private servers. --source is the URL of a MySQL or MariaDB, whose user may create
    databases, or one private kind alone: mysql, mariadb or postgresql. --target is the URL of a PostgreSQL's database, of a
    MySQL or of a MariaDB, with a --source that is one, too; or one private kind: postgresql (the default), mysql, mariadb,
    kafka; or change tables: postgresql-changes, mysql-changes, mariadb-changes.
    --decoder: pgoutput, wal2json, decoderbufs (the private PostgreSQL is then release 15), or drawn: another one for each
    history.

    Works in databases and schemas called torture_N, which it makes and removes; refuses to start where there are any. A
    history that fails is made small and written to a file (exit 4).
    """
    from anabranch.testing.torture.sources import NAMES
    from anabranch.testing.torture.targets import NAMES as TARGETS

    own = source if source not in NAMES else None, target if target not in TARGETS else None
    if source in NAMES and own[1]:
        raise click.UsageError(
            f"a private source has a private target: leave --target out, or name {', '.join(TARGETS)}"
        )
    if bool(own[0]) != bool(own[1]):
        raise click.UsageError("--source and --target go together")
    if decoder and source != "postgresql":
        raise click.UsageError("--decoder is of --source postgresql")
    if replay and (histories or minutes):
        raise click.UsageError("--replay runs one history")
    if replay and keeps_going:
        raise click.UsageError("--replay runs one history: leave --keep-going out")
    if replay and results:
        raise click.UsageError("--replay keeps no counts: leave --results out")
    if minutes is not None and not math.isfinite(minutes):
        raise click.BadParameter(f"{minutes} is no number of minutes", param_hint="--minutes")
    from anabranch.testing.torture.command import Asked, run_torture

    asked = Asked(
        source, target, seed, histories, minutes, workers, with_spark, replay, results, keeps_going, decoder or ""
    )
    sys.exit(run_torture(asked))
