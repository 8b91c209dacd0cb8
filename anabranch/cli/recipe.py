"""`anabranch recipe`: what has to be set up for a route between two databases, before there is a job."""

from __future__ import annotations

import click

from anabranch.cli.options import Verb, json_option, log_level, write_json


@click.command(cls=Verb)
@click.option("--from", "source", metavar="DB:RELEASE", required=True, help="The source, as mysql:8.0.")
@click.option("--to", "target", metavar="DB:RELEASE", required=True, help="The target, as postgresql:12.")
@click.option("--user", default="repl", metavar="NAME", help="The job's user.  [default: repl]")
@click.option("--owner", default="owner", metavar="NAME", help="Who owns a PostgreSQL's tables.")
@click.option("--database", default="shop", metavar="NAME", help="A PostgreSQL's database.  [default: shop]")
@click.option(
    "--schema",
    "schemas",
    multiple=True,
    metavar="NAME",
    help="Of the source's tables; may be repeated.",
)
@click.option(
    "--target-schema",
    "target_schemas",
    multiple=True,
    metavar="NAME",
    help="Of the target's; may be repeated.",
)
@click.option("--exbase", is_flag=True, help="Only routes that exBase 3.11 has.")
@json_option
@log_level("warning")
def recipe(
    source: str,
    target: str,
    user: str,
    owner: str,
    database: str,
    schemas: tuple[str, ...],
    target_schemas: tuple[str, ...],
    exbase: bool,
    as_json: bool,
) -> None:
    """Print what has to be set up for a route between two databases.

    Rights as statements, settings with those that need a restart, what anabranch makes, what to look at. No server is
    asked; `preflight` says which step of it mends a finding. Also for databases of exBase's routes whose connector
    comes later, labelled so. Exit code 2 for a pair that is no route, with the nearest ones.
    """
    from anabranch.model.recipe import Asked
    from anabranch.recipe.routes import parse
    from anabranch.recipe.shown import shown
    from anabranch.recipe.written import recipe as written

    ends = parse(source), parse(target)
    at_source = schemas or (("shop",) if ends[0].name in ("mysql", "mariadb") else ("public",))
    asked = Asked((), user, database, at_source, owner)
    found = written(*ends, asked, Asked((), user, database, target_schemas or at_source, owner), exbase)
    if as_json:
        write_json(found.to_json())
        return
    for line in shown(found):
        click.echo(line)
