"""The deployment script for a SQL Server, of what real sources define, by the command line; held against a parser of T-SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.change_readers import changes_between, keep_changes
from rigs.job_here import JobHere

WAYS = [("mysql", "postgresql"), ("logical_postgresql", "postgresql")]


@pytest.fixture(params=WAYS, ids=lambda way: "-".join(way))
def here(
    request: pytest.FixtureRequest, source_database: Callable[[Server], Database], tmp_path: Path
) -> Iterator[JobHere]:
    with changes_between(request.param, request, source_database, tmp_path) as made:
        yield made


def test_the_script_has_what_the_source_defines(here: JobHere) -> None:
    made = here.made
    schema = made.schema if made.source.server.name == "mysql" else "public"
    raw, clock = ("VARBINARY(9)", "DATETIME(3)") if made.source.server.name == "mysql" else ("BYTEA", "TIMESTAMP(3)")
    made.source.execute(f"CREATE TABLE felt (b {raw}, c {clock} NOT NULL, d NUMERIC(12, 3), id BIGINT PRIMARY KEY)")
    text = made.cli("schema", "print", "--dialect", "tsql", "--login", "svc").stdout
    batches = text.replace("DENY INSERT", "GRANT INSERT").split(
        "\nGO\n"
    )  # the parser has no DENY, which has the same words
    trees = [one for batch in batches for one in sqlglot.parse(batch, dialect="tsql") if isinstance(one, exp.Create)]
    tables = {f"[{one.this.this.db}].[{one.this.this.name}]": one for one in trees if one.kind == "TABLE"}
    found = {one.name: one.kind.sql("tsql") for one in tables[f"[{schema}].[felt]"].find_all(exp.ColumnDef) if one.kind}
    types = {"b": "VARBINARY(9)", "c": "DATETIME2(3)", "d": "NUMERIC(12, 3)", "id": "BIGINT"}
    if made.source.server.name == "postgresql":  # whose numbers and times may be NaN or infinity, which are texts there
        types |= {"b": "VARBINARY(MAX)", "c": "NVARCHAR(MAX)", "d": "NVARCHAR(MAX)"}
    assert found == types
    assert f"[{schema}].[item]" in tables and "FOR LOGIN [svc]" in text
    assert "@capture_instance = N'public_felt'," in text
    facts = made.cli("schema", "print", "--dialect", "tsql", "--table", f"{schema}.felt", "--json").json
    assert facts["dialect"] == "tsql" and not any("[item]" in line for line in facts["lines"])


def test_jobs_that_keep_rows_and_what_cannot_be_captured_are_refused(here: JobHere) -> None:
    made = here.made
    keep_changes(made, f'[[tables]]\nname = "{made.schema}.item"\ninstances = [{{ name = "{"i" * 101}" }}]\n')
    result = made.cli("schema", "print", "--dialect", "tsql", code=2)
    assert "longer than 100 characters" in result.stderr
    made.write_job()
    result = made.cli("schema", "print", "--dialect", "tsql", code=2)
    assert "layout is there for change tables" in result.stderr
