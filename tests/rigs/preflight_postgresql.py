"""A preflight of a PostgreSQL source, for the tests of its checks."""

from __future__ import annotations

from contextlib import closing

from anabranch.connectors.postgresql.source import connector as source
from anabranch.connectors.postgresql.source.options import PostgresSourceOptions
from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult
from anabranch.model.endpoint import Endpoint


def results_of(endpoint: Endpoint, administrator: Endpoint, **known: str) -> list[CheckResult]:
    """All that a preflight finds; the administrator sees the definitions. Settings of the job: `decoder`, `source_name`."""
    with closing(source(administrator).catalog()) as catalog:
        tables = catalog.tables(lambda table: True)
    options = PostgresSourceOptions(decoder=known.get("decoder", "pgoutput"))
    with closing(source(endpoint, options).checks()) as checks:
        return checks.run(PreflightContext("job", {}, tables, {}, source_name=known.get("source_name", "")))
